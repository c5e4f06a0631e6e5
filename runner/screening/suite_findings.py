"""The result of screening a suite: findings with their quotes. A person judges them; nothing is refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from runner.base.text import replace_unprintable

MAX_QUOTE = 240  # characters
MAX_TASKS = 60  # named in one finding
# kind -> its meaning, in the order of pages
KINDS: dict[str, str] = {
    "same-task": "Two tasks are the same",
    "same-answer": "Tasks share answers",
    "other-tests": "The same solution and environment, other tests",
    "answer-in-instruction": "An instruction gives an answer away",
    "answer-in-skill": "A reference skill holds an answer",
    "quoted-check": "Hidden checks are quoted",
    "given-tests": "Tests or solutions lie among the inputs",
    "named-skill": "The instruction names the skill",
    "trap": "Traps that nothing shows to work",
    "roles": "Roles of a family do not hold",
    "shared-input": "Tasks share an input",
    "near-input": "Inputs are nearly equal",
}


class Weight(StrEnum):
    """LEAK: an answer or a check is given away, or a role is empty. LOOK: a person must decide."""

    LEAK = "leak"
    LOOK = "look"


@dataclass(frozen=True, slots=True)
class SuiteQuote:
    """The place of a finding. `task` is "" for a reference skill; `line` counts from 1, 0 for the whole file."""

    task: str
    path: str
    line: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class SuiteFinding:
    """One certain or possible fault. `tasks`: keys of the tasks concerned, the first MAX_TASKS."""

    kind: str
    weight: Weight
    tasks: tuple[str, ...]
    says: str
    quotes: tuple[SuiteQuote, ...] = ()


@dataclass(frozen=True, slots=True)
class Screening:
    """Findings, leaks first. `more`: number of findings before the cap; `skipped`: files not read for their text."""

    findings: tuple[SuiteFinding, ...]
    more: int = 0
    skipped: tuple[str, ...] = ()

    def count(self, weight: Weight) -> int:
        return sum(finding.weight == weight for finding in self.findings)


def quote(task: str, path: str, text: str, start: int, end: int) -> SuiteQuote:
    """Quote the line where [start, end) begins, and the rest of the place, cut so that the place stays visible."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    line = text[first : last if last >= 0 else len(text)]
    if len(line) > MAX_QUOTE:
        begin = max(0, min(start - first - MAX_QUOTE // 4, len(line) - MAX_QUOTE))
        line = f"{'...' if begin else ''}{line[begin : begin + MAX_QUOTE]}..."
    number = text.count("\n", 0, start) + 1
    return SuiteQuote(task, replace_unprintable(path), number, flatten(line))


def flatten(text: str) -> str:
    """Put it on one line, fit for a page."""
    return replace_unprintable(" ".join(text.split()))
