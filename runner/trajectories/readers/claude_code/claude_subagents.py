"""Sub-agents in Claude Code's logs: which call started each of them, and the thread of that call."""

from __future__ import annotations

from runner.base.text import storable
from runner.trajectories.log_records import Record, read_object, read_objects, read_text
from runner.trajectories.readers import ReadTrajectory, Thread

MAX_SUBAGENTS = 1_000
STARTING = ("Task", "Agent")  # the tool's name, before and since 2.1
_ABOUT = ("subagent_type", "description")


class Subagents:
    """Feed it every line of the file; then it adds the sub-agents to the trajectory."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, dict[str, str]]] = {}  # call id -> its thread, and its description
        self._started: dict[str, str] = {}  # thread -> id of the call that started it, "" while unknown
        self._answered: dict[str, str] = {}  # thread -> id of the call whose result names it
        self._beyond = 0

    def see(self, event: Record, thread: str, call: str = "") -> None:
        """Read a line of `thread`, "" for the conversation itself. `call` started the thread, if the line names it."""
        if thread in self._started or thread and len(self._started) < MAX_SUBAGENTS:
            self._started[thread] = self._started.get(thread) or call
        elif thread:
            self._beyond += 1
        for block in read_objects(read_object(event.get("message")).get("content")):
            self._see_block(block, thread, event.get("toolUseResult"))

    def _see_block(self, block: Record, thread: str, result: object) -> None:
        kind = block.get("type")
        if kind == "tool_use" and block.get("name") in STARTING:
            given = read_object(block.get("input"))
            about = {key: storable(str(given[key])) for key in _ABOUT if key in given}
            self._calls[str(block.get("id"))] = (thread, about)
        elif kind == "tool_result" and (agent := read_text(read_object(result).get("agentId"))) is not None:
            self._answered[agent] = str(block.get("tool_use_id"))

    def add_to(self, result: ReadTrajectory, **named: str) -> None:
        """Add the sub-agents. `named`: names in the head's extra for a thread's key, next to its call's id."""
        names = {key: f"subagent-{index}" for index, key in enumerate(self._started, start=1)}
        for key, name in names.items():
            call = self._started[key] or self._answered.get(key, "")
            above, about = self._calls.get(call, ("", {}))
            found = {"tool_call_id": storable(call)} if call else {}
            found |= dict.fromkeys(named.values(), key)
            result.subagent(name, names.get(above, result.head.name), Thread(key=key), **found, **about)
        calls = self._answered | {key: call for key, call in self._started.items() if call}
        if named and calls:  # also of sub-agents whose lines are in a file of their own
            result.facts["subagent_calls"] = {storable(key): storable(call) for key, call in calls.items()}
        if self._beyond:
            result.problems.add(
                "whole file", f"at most {MAX_SUBAGENTS:,} sub-agents", f"left out: {self._beyond:,} lines of others"
            )
