"""One pass over a trajectory, keeping only what the rules ask for: memory does not grow with the number of steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from benchapp.analysis.failures.classification import Missing
from benchapp.analysis.failures.quotes import cut_quote, quote_around
from benchapp.analysis.trial_rules.agent_acts import read_acts
from benchapp.analysis.trial_rules.rule_finding import FindingPlace
from runner.base.types import Observation, Source, Step

EDGE_CHARS = 20_000  # of a result, searched from either end
KINDS_OF_ERROR = 300  # different errors counted; a trajectory with more is not analysed further

_ERROR_LINES = re.compile(
    r"^(?:E {1,8})?(?:"
    r"[A-Za-z_][\w.]{0,80}(?:Error|Exception|Warning: error)\b[^\n]{0,400}"
    r"|[^\n]{0,200}: (?:command )?not found\b[^\n]{0,100}"
    r"|[^\n]{0,300}: (?:No such file or directory|Permission denied)\b[^\n]{0,100}"
    r"|(?:[Ee]rror|ERROR|[Ff]atal|FATAL)\b[:\[][^\n]{0,400}"
    r")",
    re.MULTILINE,
)
_SKILL_MISSING = re.compile(r"(?:Skill not found|Unknown skill|[Nn]o such skill)\b[^\n]{0,200}")
_MISSING_PROGRAM = re.compile(
    r"(?:ModuleNotFoundError: No module named ['\"]?(?P<module>[\w.]{1,100})"
    r"|(?P<program>[\w.+-]{1,60}): (?:command )?not found\b)"
)
_CONTEXT_FULL = re.compile(
    r"(?:maximum context length|context[ _](?:window|length)[ _]exceed|exceeds? the (?:maximum )?context"
    r"|prompt is too long|input is too long|ContextWindowExceeded)",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Course:
    """What happened in a trial, in order. Ranks count tool calls, so that two acts of one step are also in order."""

    steps_total: int = 0
    calls_total: int = 0
    changed: int = 0  # rank of the last call that wrote something or ran a program of its own
    looked: int = 0  # rank of the last call that read a file or listed a folder
    tested: int = 0  # rank of the last call that ran tests or a check
    change_place: FindingPlace | None = None
    closing: FindingPlace | None = None  # the agent's last words
    declared_done: bool = False  # its last call was the harness' own "task complete"
    skill_missing: FindingPlace | None = None
    context_full: FindingPlace | None = None
    errors: Counter[str] = field(default_factory=Counter)
    error_places: dict[str, tuple[int, int, str]] = field(default_factory=dict)  # first step, last step, words
    missing: Counter[str] = field(default_factory=Counter)  # module or program -> times
    missing_places: dict[str, FindingPlace] = field(default_factory=dict)  # the last time

    @property
    def most_missing(self) -> tuple[Missing, ...]:
        """Return the five names that were missing most often, each with the place where it was last missing."""
        places = self.missing_places
        return tuple(
            Missing(name, times, places[name].step or 0, places[name].quote)
            for name, times in self.missing.most_common(5)
        )

    def take(self, step: Step) -> None:
        self.steps_total += 1
        if step.is_copied_context:
            return
        if step.source is Source.AGENT:
            if step.message.strip():
                self.closing = FindingPlace(step.number, step.message)
            self._take_acts(step)
        for observation in step.observations:
            self._take_result(step, observation)

    def _take_acts(self, step: Step) -> None:
        for call in step.tool_calls:
            self.calls_total += 1
            rank, acts = self.calls_total, read_acts(call)
            self.declared_done = acts.declares_done
            if acts.changes:
                self.changed, self.change_place = rank, FindingPlace(step.number, acts.changes)
            if acts.looks_after_change or (acts.looks and not acts.changes):
                self.looked = rank
            if acts.tests:
                self.tested = rank

    def _take_result(self, step: Step, observation: Observation) -> None:
        text = cut_edges(observation.content)
        if match := _CONTEXT_FULL.search(text):
            self.context_full = FindingPlace(step.number, quote_around(match))
        if match := _SKILL_MISSING.search(text):
            self.skill_missing = self.skill_missing or FindingPlace(step.number, quote_around(match))
        # Only results that failed: a page of documentation also says ModuleNotFoundError.
        if not (observation.is_error or "Traceback (most recent call last)" in text or looks_failed(text)):
            return
        for match in _MISSING_PROGRAM.finditer(text):
            name = match["module"] or match["program"]
            self.missing[name] += 1
            self.missing_places[name] = FindingPlace(step.number, quote_around(match))
        if line := find_last_error(text):
            self._count_error(step.number, line)

    def _count_error(self, number: int, line: str) -> None:
        key = re.sub(r"0x[0-9a-fA-F]+|\d+", "#", line)
        if key not in self.errors and len(self.errors) >= KINDS_OF_ERROR:
            return
        self.errors[key] += 1
        first, _, words = self.error_places.get(key, (number, number, line))
        self.error_places[key] = (first, number, words)


def read_course(steps: Iterable[Step]) -> Course:
    course = Course()
    for step in steps:
        course.take(step)
    return course


def cut_edges(text: str) -> str:
    return text if len(text) <= 2 * EDGE_CHARS else f"{text[:EDGE_CHARS]}\n{text[-EDGE_CHARS:]}"


def looks_failed(text: str) -> bool:
    """Does it look failed? A shell's message about a missing program is short, and may not be called an error."""
    return len(text) < 4_000 and _MISSING_PROGRAM.search(text) is not None


def find_last_error(text: str) -> str:
    """Return the last line that is an error, without the text around it; empty if there is none."""
    found = ""
    for match in _ERROR_LINES.finditer(text):
        found = match.group()
    return cut_quote(found)
