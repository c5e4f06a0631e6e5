"""Marks of a failed command that programs add to the text of a result. The command's own output decides nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from runner.base.types import Observation, Step
from runner.trajectories.log_records import read_object

GEMINI_SHELL = "run_shell_command"  # of Qwen Code too

# Codex writes a head before "Output:"; the command's output comes after it.
_CODEX_HEAD = re.compile(
    r"(?:(?:Chunk ID|Wall time|Original token count|Total output lines): [^\n]*\n)*"
    r"(?:Process exited with code|Exit code:) (-?\d{1,9})[ \t]*(?:\n|\Z)"
)
# Codex's answers for a tool that could not be run.
_CODEX_REFUSALS = (
    "failed to parse function arguments:",
    "exec_command failed for ",
    "write_stdin failed:",
    "apply_patch verification failed:",
    "unsupported call:",
    "execution error:",
    "aborted by user after ",
)
# Gemini CLI's shell tool succeeds even if the command fails; its report ends with these lines.
_GEMINI_TAIL = re.compile(
    r"\nExit Code: ([^\n]{1,20})\nSignal: [^\n]*(?:\nBackground PIDs: [^\n]*)?(?:\nProcess Group PGID: [^\n]*)?\s*\Z"
)
# mini-swe-agent begins every result with these tags.
_MINI_HEAD = re.compile(
    r"\s*(?P<exception><exception>.{0,20000}?</exception>\s*)?<returncode>\s*(?P<code>-?\d{1,9})\s*</returncode>",
    re.DOTALL,
)


def has_mini_swe_agent_failed(text: str) -> bool:
    head = _MINI_HEAD.match(text)
    return head is not None and (bool(head["exception"]) or int(head["code"]) != 0)


def has_codex_failed(text: str) -> bool:
    head = _CODEX_HEAD.match(text)
    return int(head[1]) != 0 if head else text.startswith(_CODEX_REFUSALS)


def has_gemini_failed(text: str, tool: str) -> bool:
    found = _GEMINI_TAIL.search(text) if tool == GEMINI_SHELL else None
    return found is not None and found[1] not in ("0", "(none)")


def with_failures(step: Step, agent: str | None) -> Step:
    """Mark failures in a step of Harbor's ATIF: its converters of other logs leave the exit code in text and extra."""
    has_failed = _CHECKS.get(agent or "")
    if has_failed is None or not step.observations:
        return step
    names = {call.id: call.name for call in step.tool_calls}
    observations = tuple(
        replace(item, is_error=True) if has_failed(step, item, names.get(item.source_call_id or "", "")) else item
        for item in step.observations
    )
    return step if observations == step.observations else replace(step, observations=observations)


def _has_codex_step_failed(step: Step, item: Observation, tool: str) -> bool:
    extra = step.extra or {}
    details = extra.get("tool_call_details")
    call = details.get(item.source_call_id) if isinstance(details, dict) else None
    metadata = call.get("metadata") if isinstance(call, dict) else extra.get("tool_metadata")
    return read_object(metadata).get("exit_code") not in (0, None) or has_codex_failed(item.content)


def _has_gemini_step_failed(step: Step, item: Observation, tool: str) -> bool:
    return has_gemini_failed(item.content, tool)


_CHECKS: dict[str, Callable[[Step, Observation, str], bool]] = {
    "codex": _has_codex_step_failed,
    "gemini-cli": _has_gemini_step_failed,
    "mini-swe-agent": lambda step, item, tool: has_mini_swe_agent_failed(item.content),
    "qwen-coder": _has_gemini_step_failed,
}
