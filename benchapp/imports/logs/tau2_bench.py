"""Results of tau2-bench: a file with info, tasks and simulations, or results.json next to simulations/ID.json.

A simulation is a conversation of an agent with a simulated user, who may have tools as well. The reward is the product
of the components that a task names; other checks are diagnostics, and are only named in the verdict's output.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchapp.imports.reading.documents import Document, aware, read_object, read_parts, read_time, zoneless_text
from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    ExceptionSource,
    ExperimentSource,
    FoundExperiment,
    RunSource,
    SourceChoice,
    TaskSource,
    Timing,
    TrialSource,
)
from benchapp.imports.reading.found_trials import MAX_OUTPUT, FoundRow, of_messages
from benchapp.imports.reading.walking import FolderEntry, Root, name_of, tail_of
from runner.base.text import clean
from runner.base.types import Check, CheckGroup, CheckStatus, JsonValue, Usage, Verdict
from runner.trajectories.log_records import read_objects
from runner.trajectories.readers.messages import NO_MODEL

NAME, TITLE = "tau2-bench", "tau2-bench"
SUFFIXES = frozenset({".json"})
RESULTS, SIMULATIONS = "results.json", "simulations"
_HEAD_BYTES = 64 * 1024
_RESULTS_MARKS = (b'"agent_info"', b'"user_info"', b'"implementation"')
_SIMULATION_MARKS = (b'"task_id"', b'"termination_reason"', b'"start_time"')  # costs come after the ticks of a call
_KEPT_OF_MESSAGE = ("role", "content", "tool_calls", "timestamp", "usage", "id", "requestor", "error", "tool_messages")
_ENDED_WELL = frozenset({"user_stop", "agent_stop"})
_CHECKS = {  # by component of the reward: (key, what was asked for, was it met?)
    "DB": ("db_check", "", "db_match"),
    "ACTION": ("action_checks", "action", "action_match"),
    "ENV_ASSERTION": ("env_assertions", "env_assertion", "met"),
    "NL_ASSERTION": ("nl_assertions", "nl_assertion", "met"),
    "COMMUNICATE": ("communicate_checks", "info", "met"),
}
_CONFIG = (
    "trial",
    "seed",
    "mode",
    "termination_reason",
    "user_cost",
    "agent_usage",
    "review",
    "user_only_review",
    "info",
)


def claims_file(root: Root, entry: FolderEntry) -> bool:
    return any(_has(root, entry.path, marks) for marks in (_RESULTS_MARKS, _SIMULATION_MARKS))


def _has(root: Root, path: Path, marks: Sequence[bytes]) -> bool:
    with root.open(path) as stream:
        head = stream.read(_HEAD_BYTES)
    return all(mark in head for mark in marks)


def find_files(root: Root, entries: Sequence[FolderEntry]) -> Iterator[FoundExperiment]:
    files = dict[Path, ResultsFile]()
    for entry in entries:
        if _has(root, entry.path, _RESULTS_MARKS):
            files.setdefault(entry.path, ResultsFile(entry.path)).read(root)
        elif (simulation := read_object(root, entry.path)) is not None:
            path = entry.path.parent.parent / RESULTS
            if path not in files and not root.is_file(path):
                root.report(path, "", "the agent and the tasks of the simulations", "no such file: unknown")
            files.setdefault(path, ResultsFile(path)).add(root, entry.path, simulation.raw, "")
    for found in files.values():
        if not found.simulations:
            root.report(found.path, SIMULATIONS, "simulations", "none")
        if voiced := sum(bool(each.raw["ticks"] and not each.raw["messages"]) for each in found.simulations):
            root.report(
                found.path, "ticks", "conversations in messages", f"{voiced:,} in ticks, of voice runs; not read"
            )
        source = ExperimentSource.of_folder(root, found.path.parent, format=NAME, title=TITLE)
        trials = [_find_trial(root, found, simulation) for simulation in found.simulations]
        yield FoundExperiment(source, trials=tuple(sorted(trials, key=lambda trial: trial.order)))


@dataclass
class ResultsFile:
    """What a results file has. `top`: its values except the simulations."""

    path: Path
    top: dict[str, JsonValue] = field(default_factory=dict)
    simulations: list[Document] = field(default_factory=list)

    def read(self, root: Root) -> None:
        for number, (key, value) in enumerate(read_parts(root, self.path, frozenset({SIMULATIONS}))):
            if key != SIMULATIONS:
                self.top[key] = value
            elif isinstance(value, Mapping):
                self.add(root, self.path, value, f"{SIMULATIONS}[{len(self.simulations)}]")
            elif value is not None:
                root.report(self.path, f"{SIMULATIONS}, {number}", "an object", f"found {value!r:.40}; left out")

    def add(self, root: Root, path: Path, simulation: Mapping[str, JsonValue], place: str) -> None:
        """Keep only what is read of its messages: raw answers of providers are far larger than the rest."""
        messages = simulation.get("messages")
        kept: list[JsonValue] = [
            {key: message[key] for key in _KEPT_OF_MESSAGE if message.get(key) is not None}
            for message in (messages if isinstance(messages, list) else ())
            if isinstance(message, Mapping)
        ]
        row = {**simulation, "messages": kept, "ticks": bool(simulation.get("ticks"))}
        self.simulations.append(Document(root, path, row, place))


def _find_trial(root: Root, results: ResultsFile, row: Document) -> FoundRow:
    info = Document(root, results.path, results.top).object("info")
    trial = row.raw.get("trial")
    number = f"{trial:06}" if isinstance(trial, int) and not isinstance(trial, bool) else ""
    task = str(row.raw.get("task_id") or UNKNOWN)[:200]
    ident = row.text("id", 200) or f"{tail_of(results.path, 2)}/{task}/{number or row.place}"
    about: JsonValue = [dict(row.raw), dict(info.raw)]
    place = f"{root.label(row.path)}{', ' if row.place else ''}{row.place}"
    build = partial(_build, info, results, row, task)
    return FoundRow(root, place, (f"{NAME}:{ident}",), (name_of(results.path), task, number), build, about)


def _build(info: Document, results: ResultsFile, row: Document, task: str) -> TrialSource:
    agent, user, environment = info.object("agent_info"), info.object("user_info"), info.object("environment_info")
    domain = environment.text("domain_name", 100) or UNKNOWN
    ended = row.text("termination_reason", 100) or ""
    began, finished = (read_time(row, key) for key in ("start_time", "end_time"))
    policy = row.text("policy", 1_000_000) or environment.text("policy", 1_000_000)
    messages: list[dict[str, JsonValue]] = [{"role": "system", "content": policy}] if policy else []
    for place, message in enumerate(row.objects("messages")):
        made = list(_convert(message))
        if place == 0 and message.raw.get("role") == "assistant" and "usage" not in message.raw:
            made = [{**each, "model": NO_MODEL} for each in made]  # the program's greeting, not an answer of the agent
        messages += made
    return TrialSource(
        run=RunSource(
            harness=agent.text("implementation", 100) or UNKNOWN,
            agent_model=agent.text("llm", 200) or UNKNOWN,
            author_model="",
            variant=name_of(results.path.parent if results.path.name == RESULTS else results.path.with_suffix("")),
            setup={"source": NAME, "domain": domain}
            | {"user": user.raw.get("implementation"), "user_model": user.raw.get("llm")}
            | {key: info.raw.get(key) for key in ("git_commit", "num_trials", "max_steps", "max_errors", "seed")}
            | {key: agent.object("llm_args").raw.get(key) for key in ("temperature", "reasoning_effort")},
        ),
        task=TaskSource(NAME, f"{domain}/{task}", _title(results.top, task) or task, family=domain),
        timing=Timing(
            *(aware(began), aware(finished)),
            *(zoneless_text(row, "start_time", began), zoneless_text(row, "end_time", finished)),
            row.amount("duration"),
        ),
        verdict=_verdict(row.object("reward_info")),
        config={key: row.raw[key] for key in _CONFIG if row.raw.get(key) is not None},
        choices=(SourceChoice((of_messages("messages", messages),)),) if row.raw["messages"] else (),
        exception=ExceptionSource(ended, "") if ended and ended not in _ENDED_WELL else None,
        usage=Usage(cost_usd=row.amount("agent_cost")),
    )


def _title(top: Mapping[str, JsonValue], task: str) -> str:
    """Return why the user calls, as the task says."""
    tasks = read_objects(top.get("tasks"))
    found = next((each for each in tasks if str(each.get("id")) == task), {})
    scenario = found.get("user_scenario")
    asked = scenario.get("instructions") if isinstance(scenario, dict) else ""
    text = asked.get("reason_for_call") if isinstance(asked, dict) else asked
    return f"{task}: {clean(text).strip().splitlines()[0][:150]}" if isinstance(text, str) and text.strip() else ""


def _verdict(info: Document) -> Verdict | None:
    reward = info.number("reward")
    if reward is None:
        return None
    basis = info.texts("reward_basis") or list(_CHECKS)
    checks, asides = list[Check](), list[str]()
    for component, (key, asked, met) in _CHECKS.items():
        is_list = isinstance(info.raw.get(key), list)
        for item in info.objects(key) if is_list else filter(None, [info.object(key)]):
            status = CheckStatus.PASSED if item.raw.get(met) is True else CheckStatus.FAILED
            named, why = item.raw.get(asked, ""), item.text("justification") or ""
            name = f"{component} {_name(named)}".strip()[:500]
            if component in basis:
                checks.append(Check(CheckGroup.TEST, name, status, why))
            else:
                asides.append(f"{name}: {status}. {why}".strip())
    output = "Not part of the reward:\n" + "\n".join(asides) if asides else ""
    rewards = {
        key: value
        for key in info.object("reward_breakdown").raw
        if (value := info.object("reward_breakdown").number(key)) is not None
    }
    return Verdict(
        "evaluator", abs(reward - 1) <= 1e-6, reward, checks=tuple(checks), rewards=rewards, output=output[:MAX_OUTPUT]
    )


def _name(asked: JsonValue) -> str:
    """Return what a check asks for: a text, or a call with its arguments."""
    if not isinstance(asked, dict):
        return clean(str(asked))
    name = asked.get("name") or asked.get("func_name") or asked.get("action_id") or ""
    return clean(f"{name}({json.dumps(asked.get('arguments') or {}, ensure_ascii=False)})")


def _convert(message: Document) -> Iterator[dict[str, JsonValue]]:
    """Yield it as chat messages. The user's own calls and their results are part of what the user says."""
    role, content = message.text("role") or "", message.raw.get("content")
    shared = {"timestamp": message.raw.get("timestamp")}
    if role == "tool" and "tool_messages" in message.raw:
        for each in message.objects("tool_messages"):
            yield from _convert(Document(each.root, each.path, {"role": "tool", **each.raw}, each.place))
    elif role == "tool" and message.raw.get("requestor") == "user":
        yield {"role": "user", "content": f"[result of the user's tool]\n{content}", **shared}
    elif role == "tool":
        failed = message.raw.get("error") is True
        yield {"role": "tool", "tool_call_id": message.raw.get("id"), "content": content, "is_error": failed, **shared}
    elif role == "user":
        calls = [f"[the user calls {_name(dict(call.raw))}]" for call in message.objects("tool_calls")]
        yield {"role": "user", "content": "\n".join([str(content or ""), *calls]).strip(), **shared}
    else:
        kept = {key: message.raw[key] for key in ("content", "tool_calls", "usage") if message.raw.get(key) is not None}
        yield {"role": role, **kept, **shared}
