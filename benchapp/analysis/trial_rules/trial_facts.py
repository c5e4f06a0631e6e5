"""What the rules of a trial look at, read from its rows. The steps are read once, chunk by chunk, keeping only what the
rules ask for: memory does not grow with the number of steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from benchapp.analysis.failures.classification import CheckMessage, Missing, VerifierRefusal
from benchapp.analysis.failures.failure_patterns import cut_quote, keep_answers, quote_around
from benchapp.analysis.trial_rules.agent_acts import read_acts
from benchapp.analysis.trial_rules.rule_finding import Place
from benchapp.models import Attempt, Trial
from benchapp.record.trajectory_store import iterate_steps
from runner.base.types import CheckStatus, Observation, Source, Step, UseKind

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
    change_place: Place = (None, "")
    closing: Place | None = None  # the agent's last words
    declared_done: bool = False  # its last call was the harness' own "task complete"
    skill_missing: Place | None = None
    context_full: Place | None = None
    errors: Counter[str] = field(default_factory=Counter)
    error_places: dict[str, tuple[int, int, str]] = field(default_factory=dict)  # first step, last step, words
    missing: Counter[str] = field(default_factory=Counter)  # module or program -> times
    missing_places: dict[str, Place] = field(default_factory=dict)  # the last time

    @property
    def most_missing(self) -> tuple[Missing, ...]:
        """Return the five names that were missing most often, each with the place where it was last missing."""
        places = self.missing_places
        return tuple(
            Missing(name, times, places[name][0] or 0, places[name][1]) for name, times in self.missing.most_common(5)
        )

    def take(self, step: Step) -> None:
        self.steps_total += 1
        if step.is_copied_context:
            return
        if step.source is Source.AGENT:
            if step.message.strip():
                self.closing = (step.number, step.message)
            for call in step.tool_calls:
                self.calls_total += 1
                rank, acts = self.calls_total, read_acts(call)
                self.declared_done = acts.declares_done
                if acts.changes:
                    self.changed, self.change_place = rank, (step.number, acts.changes)
                if acts.looks_after_change or (acts.looks and not acts.changes):
                    self.looked = rank
                if acts.tests:
                    self.tested = rank
        for observation in step.observations:
            self._take_result(step, observation)

    def _take_result(self, step: Step, observation: Observation) -> None:
        text = cut_edges(observation.content)
        if match := _CONTEXT_FULL.search(text):
            self.context_full = (step.number, quote_around(match))
        if match := _SKILL_MISSING.search(text):
            self.skill_missing = self.skill_missing or (step.number, quote_around(match))
        # Only results that failed: a page of documentation also says ModuleNotFoundError.
        # A shell's message about a missing program is short, and may not be called an error.
        is_short_miss = len(text) < 4_000 and _MISSING_PROGRAM.search(text) is not None
        if not (observation.is_error or "Traceback (most recent call last)" in text or is_short_miss):
            return
        for match in _MISSING_PROGRAM.finditer(text):
            name = match["module"] or match["program"]
            self.missing[name] += 1
            self.missing_places[name] = (step.number, quote_around(match))
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


def find_last_error(text: str) -> str:
    """Return the last line that is an error, without the text around it; empty if there is none."""
    found = ""
    for match in _ERROR_LINES.finditer(text):
        found = match.group()
    return cut_quote(found)


CHECKS = 200  # failed checks looked at
MESSAGE_CHARS = 4_000  # of a check's message, from its end: that is where a test runner says what was wrong
BEGINNING_CHARS = 200  # of a longer one: that is where a declared evaluation says what kind of failure it is
OUTPUT_CHARS = 20_000  # of the verifier's output, from its end


@dataclass(frozen=True, slots=True)
class TrialFacts:
    """success None: no verdict. course None: no trajectory was recorded. mounted None: unknown."""

    success: bool | None
    exception_type: str = ""
    exception_message: str = ""
    checks: tuple[CheckMessage, ...] = ()  # those that did not pass
    checks_total: int | None = None
    output: str = ""
    mounted: frozenset[str] | None = None
    read: tuple[tuple[str, int | None], ...] = ()  # skill, step
    course: Course | None = None
    source: str = ""  # kind of the corpus its task is from; empty: it has none

    @property
    def failed(self) -> bool:
        return self.success is False

    @property
    def verifier_texts(self) -> tuple[str, ...]:
        """Return messages of failed checks, else the end of the verifier's output; for pytest only the answers."""
        messages = [check.message for check in self.checks if check.message] or [self.output] * bool(self.output)
        return tuple(map(keep_answers, messages))

    @property
    def refusal(self) -> VerifierRefusal:
        """Return what the classifier of failures looks at."""
        output = "" if any(check.message for check in self.checks) else keep_answers(self.output)
        course = self.course
        return VerifierRefusal(
            source=self.source,
            checks=tuple(replace(check, message=keep_answers(check.message)) for check in self.checks),
            output=output,
            exception=f"{self.exception_type}: {self.exception_message}" if self.exception_type else "",
            missing=course.most_missing if course else (),
            steps_total=course.steps_total if course else 0,
        )


def cut_both_ends(message: str) -> str:
    if len(message) <= MESSAGE_CHARS:
        return message
    return f"{message[:BEGINNING_CHARS]}\n{message[-MESSAGE_CHARS:]}"


def read_trial_facts(trial: Trial) -> TrialFacts:
    """Read the facts of the counting attempt. Five queries, and one for each chunk of steps."""
    attempt = trial.counting_attempt()
    if attempt is None:
        return TrialFacts(success=trial.success)
    verdict = attempt.verdicts.filter(is_primary=True).select_related("output").first()
    checks = verdict.checks.exclude(status=CheckStatus.PASSED).exclude(status=CheckStatus.SKIPPED) if verdict else ()
    mounted, read = _read_skills(attempt, knows_mounted=trial.skills_mounted is not None)
    main, family = attempt.trajectories.filter(is_superseded=False, kind="main").first(), trial.task.family
    return TrialFacts(
        success=trial.success,
        exception_type=attempt.exception_type,
        exception_message=attempt.exception_message[-MESSAGE_CHARS:],
        checks=tuple(CheckMessage(check.name, cut_both_ends(check.message), check.status) for check in checks[:CHECKS]),
        checks_total=trial.checks_total,
        output=verdict.output.content()[-OUTPUT_CHARS:].decode("utf-8", "replace")
        if verdict and verdict.output
        else "",
        mounted=mounted,
        read=read,
        course=read_course(iterate_steps(main)) if main else None,
        source=family.environment.kind if family and family.environment else "",
    )


def _read_skills(
    attempt: Attempt, *, knows_mounted: bool
) -> tuple[frozenset[str] | None, tuple[tuple[str, int | None], ...]]:
    """Return the skills mounted, and each skill used with its first step."""
    mounted: set[str] = set()
    first: dict[str, int | None] = {}
    for skill, kind, step in attempt.skill_uses.order_by("step", "id").values_list("skill", "kind", "step"):
        if kind == UseKind.MOUNTED:
            mounted.add(skill)
        else:
            first.setdefault(skill, step)
    return (frozenset(mounted) if knows_mounted else None), tuple(first.items())
