"""Rules that explain why a trial failed: how the agent worked, what ended the attempt, what the verifier reported.

They see commands and messages, never intent. Pages show each docstring, split at "Cannot see:"; a rule that changes
needs a new RULES_VERSION.

They look at facts read from the trial's rows. The steps are read once, chunk by chunk, keeping only what the
rules ask for: memory does not grow with the number of steps.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from benchapp.analysis.failures.classification import (
    ASSERTED,
    EXPECTED_GOT,
    CheckMessage,
    FailureClass,
    Missing,
    VerifierRefusal,
    classify,
    cut_quote,
    find_answers,
    keep_answers,
    parse_number,
    quote_around,
)
from benchapp.analysis.trial_rules.agent_acts import read_acts
from benchapp.models import Attempt, Trial
from benchapp.record.trajectory_store import iterate_steps
from benchapp.stats.metrics.agent_ends import HARNESS_TYPES, AgentEnd, end_of
from runner.base.types import CheckStatus, Observation, Source, Step, UseKind

BLIND = "Cannot see:"  # begins the blind spot in a rule's docstring
Place = tuple[int | None, str]  # the step's number (None: in the verdict, not in a step) and the words seen there
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


@dataclass(frozen=True, slots=True)
class TrialFinding:
    """Why a rule matches and where. attribution: a value of Attribution, or "" if the facts do not show who failed."""

    reason: str
    attribution: str = ""
    place: Place = (None, "")

    @property
    def quote(self) -> str:
        return cut_quote(self.place[1])


@dataclass(frozen=True, slots=True)
class TrialRule:
    """`judge` is a pure function of facts. Its docstring documents it. `codes`: names that a finding may go by, the
    first one ours."""

    key: str
    codes: tuple[str, ...]
    judge: Callable[..., TrialFinding | None]

    @property
    def documentation(self) -> str:
        return " ".join((self.judge.__doc__ or "").split())

    @property
    def sees(self) -> str:
        """Return when it matches."""
        return self.documentation.partition(BLIND)[0].strip()

    @property
    def cannot_see(self) -> str:
        return self.documentation.partition(BLIND)[2].strip()


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
    main, family = attempt.trajectories.main(), trial.task.family
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


def silent_bypass(facts: TrialFacts) -> TrialFinding | None:
    """Failed; skills were mounted, and no step reads, invokes or executes one.

    Cannot see: a skill whose text is in the prompt; whether reading would have helped; trials without a record of
    what was mounted, as in most imports.
    """
    if not (facts.failed and facts.mounted and facts.course) or facts.read:
        return None
    names = ", ".join(sorted(facts.mounted)[:5])
    return TrialFinding(
        f"{len(facts.mounted)} mounted ({names}), none read in {facts.course.steps_total} steps.", "agent"
    )


def read_and_failed(facts: TrialFacts) -> TrialFinding | None:
    """Failed after reading, invoking or executing a skill.

    Cannot see: whether the advice was followed, misapplied or wrong, so it blames nobody; whether the skill has
    anything to do with the failure.
    """
    if not (facts.failed and facts.read):
        return None
    skill, step = facts.read[0]
    more = f" and {len(facts.read) - 1} more" if len(facts.read) > 1 else ""
    return TrialFinding(f"Read {skill}{more}, and failed.", "", (step or None, ""))


def skill_missing(facts: TrialFacts) -> TrialFinding | None:
    """Failed after asking the harness for a skill that does not exist.

    Cannot see: a search by listing folders; whether the skill has another name.
    """
    if not (facts.failed and facts.course and facts.course.skill_missing):
        return None
    return TrialFinding("Asked for a skill that does not exist.", "", facts.course.skill_missing)


MIN_REPEATS = 3

_CLAIMS = re.compile(
    r"\b(?:success(?:ful(?:ly)?)?|(?:is|are|been|now) (?:complete|done|finished|ready)|completed|finished"
    r"|done(?=[.!])|all (?:tests|checks) pass(?:ed)?|verified|as (?:required|requested))\b",
    re.IGNORECASE,
)
_DOUBTS = re.compile(
    r"\b(?:could ?n[o']t|was not able|unable to|did ?n[o']t (?:manage|finish|complete)|not (?:complete|finished|done)"
    r"|incomplete|unverified|ran out of|still fail|remains? (?:unsolved|open)|partial(?:ly)?)\b",
    re.IGNORECASE,
)


def repeated_error(facts: TrialFacts) -> TrialFinding | None:
    """Failed; at least three results end with the same error, ignoring numbers.

    Cannot see: errors with different wording; whether the repetition made progress.
    """
    course = facts.course
    if not (facts.failed and course and course.errors):
        return None
    key, times = course.errors.most_common(1)[0]
    if times < MIN_REPEATS:
        return None
    first, last, words = course.error_places[key]
    return TrialFinding(f"The same error {times} times, from step {first} to step {last}.", "agent", (first, words))


def incomplete_verification(facts: TrialFacts) -> TrialFinding | None:
    """Failed; after its last change, read no file, listed no folder and ran no test or check.

    Cannot see: a program that checks and prints its own result; a look that showed nothing useful; it still counts as
    a look.
    """
    course = facts.course
    if not (facts.failed and course and course.changed) or max(course.looked, course.tested) >= course.changed:
        return None
    return TrialFinding("Checked nothing after the last change.", "agent", course.change_place)


def premature_success(facts: TrialFacts) -> TrialFinding | None:
    """Failed; the agent's last words claim success, and it ran no test or check after its last change.

    Cannot see: checking by eye; a program that tests itself under another name.
    """
    course = facts.course
    if not (facts.failed and course and course.closing) or (course.tested and course.tested >= course.changed):
        return None
    ran = "no test after the last change" if course.changed else "no test"
    words = cut_edges(course.closing[1])
    claim = _CLAIMS.search(words)
    if (claim is None and not course.declared_done) or _DOUBTS.search(words):
        return None
    quote = quote_around(claim) if claim else cut_quote(words)
    return TrialFinding(f"Claimed to be done; ran {ran}.", "agent", (course.closing[0], quote))


_CONTEXT = re.compile(r"context[ _]?(?:window|length)|prompt is too long|maximum context|token limit exceeded", re.I)
_VERIFIER_TOOL = re.compile(
    r"(?:CalledProcessError|Unknown option|unrecognized (?:option|arguments?)|INTERNALERROR"
    r"|[Ee]rror collecting|ERROR collecting|fixture '[^'\n]{1,80}' not found|errors? during collection)"
)
_VERIFIER_SETUP = re.compile(
    r"(?:Could not find a version|No matching distribution|Failed to (?:fetch|download)"
    r"|Could not resolve host|Temporary failure in name resolution)"
)
_PATH = re.compile(r"(?:/[^\s/:,;]+){2,}/?")  # gives away the machine, and often the condition


def agent_timeout(facts: TrialFacts) -> TrialFinding | None:
    """Not passed; the agent's time limit ended the attempt.

    Cannot see: whether more time would have helped; what took the time.
    """
    if facts.success or end_of(facts.exception_type) is not AgentEnd.TIME:
        return None
    return TrialFinding(_render_exception(facts), "", _find_last_step(facts))


def context_exhausted(facts: TrialFacts) -> TrialFinding | None:
    """Not passed; the exception or the last results report a full context.

    Cannot see: contexts that the harness shortened silently.
    """
    if facts.success:
        return None
    if _CONTEXT.search(f"{facts.exception_type} {facts.exception_message}"):
        return TrialFinding(_render_exception(facts), "agent", _find_last_step(facts))
    course = facts.course
    if course and course.context_full and (course.context_full[0] or 0) >= course.steps_total - 2:
        return TrialFinding("The context was full at the end.", "agent", course.context_full)
    return None


def harness_failure(facts: TrialFacts) -> TrialFinding | None:
    """Not passed; a machine failure ended the attempt: reward file, container or provider.

    Cannot see: failures that a harness hides; an agent that caused the failure itself.
    """
    if facts.success or not HARNESS_TYPES.search(facts.exception_type):
        return None
    return TrialFinding(_render_exception(facts), "harness")


def verifier_toolchain(facts: TrialFacts) -> TrialFinding | None:
    """Not passed; the verifier's own tools failed: an unknown option, tests that could not be collected, a failed
    download, or its own time limit.

    Cannot see: a verifier that is wrong without an error; a tool that failed because of the agent's output.
    """
    if facts.success:
        return None
    if facts.exception_type.startswith("Verifier"):
        return TrialFinding(_render_exception(facts), "verifier")
    for text in (*facts.verifier_texts, facts.output):
        if match := _VERIFIER_TOOL.search(text) or _VERIFIER_SETUP.search(text):
            return TrialFinding("The verifier's own tool failed.", "verifier", (None, quote_around(match)))
    errors = [check for check in facts.checks if check.status == CheckStatus.ERROR]
    if errors and len(errors) == facts.checks_total:
        return TrialFinding(f"All {len(errors)} checks ended in an error; none gave a result.", "verifier")
    return None


def _render_exception(facts: TrialFacts) -> str:
    message = _PATH.sub("(a path)", " ".join(facts.exception_message.split()))[:200]
    return f"{facts.exception_type}: {message}" if message else facts.exception_type


def _find_last_step(facts: TrialFacts) -> Place:
    return (facts.course.steps_total or None, "") if facts.course else (None, "")


_UNCALCULATED = re.compile(r"(?:cached value|not (?:been )?recalculated|formula (?:has|with) no value|data_only)", re.I)
_CELL = re.compile(r"\b(?:[A-Z]{1,3}\d{1,5}\b|[Cc]ell\b|xlsx|[Ss]heet)")


def numeric_mismatch(facts: TrialFacts) -> TrialFinding | None:
    """Failed; a check expected one number and got another, or reports wrong numbers. Names a power of ten or a wrong
    sign.

    Cannot see: numbers that are compared but not printed; whether formula, input or rounding is wrong; a count that is
    off because rows are missing.
    """
    if not facts.failed:
        return None
    for match in _find_matches(facts, EXPECTED_GOT, ASSERTED):
        expected, got = parse_number(match["expected"]), parse_number(match["got"] or "")
        if expected is None or got is None or expected == got:
            continue
        return TrialFinding(
            f"Expected {expected:g}, got {got:g}{_describe_relation(expected, got)}.", "", (None, quote_around(match))
        )
    return _explain_class(facts, FailureClass.NUMERIC, "A computed value is wrong")


def missing_recalculation(facts: TrialFacts) -> TrialFinding | None:
    """Failed; a spreadsheet check found None or nan instead of a number, or mentions cached values.

    Cannot see: a cell that was never filled, which looks the same to a reader of cached values.
    """
    if not facts.failed:
        return None
    for match in _find_matches(facts, _UNCALCULATED, EXPECTED_GOT):
        empty = match.re is _UNCALCULATED or match["none"] is not None
        if empty and _CELL.search(match.string):
            return TrialFinding(
                "A cell has no value until its formula is calculated.", "agent", (None, quote_around(match))
            )
    return None


def missing_artifact(facts: TrialFacts) -> TrialFinding | None:
    """Failed; a check did not find a required output, or cannot use it.

    Cannot see: whether it was never made, made elsewhere, or made under another name.
    """
    return _explain_class(facts, FailureClass.ASSET, "A required output is missing or unusable")


def interface_schema(facts: TrialFacts) -> TrialFinding | None:
    """Failed; a check broke on the output's format: a missing key or column, text that is not JSON, a function with
    other arguments, the right words written differently.

    Cannot see: an output in the wrong format that the verifier can still read, and rejects for its values.
    """
    return _explain_class(facts, FailureClass.INTERFACE, "The output has another format than the check expects")


def runtime_dependency(facts: TrialFacts) -> TrialFinding | None:
    """Failed; a check names a missing module or program or a crash, or the submitted command failed, or the trial
    reported the same module or program as missing at least twice, the last time in the last third of its steps.

    Cannot see: a bad workaround for a missing package; whether the missing thing explains the failure.
    """
    return _explain_class(facts, FailureClass.RUNTIME, "The output does not run in the verifier")


def state_rule(facts: TrialFacts) -> TrialFinding | None:
    """Failed; a check expected one word or truth value and got another, or names a broken rule, state or order; or a
    comparison of content, not of numbers, failed.

    Cannot see: which rule; a correct rule applied to wrong input; rules whose result is a number.
    """
    return _explain_class(facts, FailureClass.STATE, "The answer does not follow the procedure")


def _explain_class(facts: TrialFacts, failure: FailureClass, headline: str) -> TrialFinding | None:
    """Return a finding if the failure classifier sees signs of this class."""
    if not facts.failed:
        return None
    found = classify(facts.refusal)
    sign = found.sign_of(failure)
    if sign is None:
        return None
    note = "; the main class of this failure" if found.primary is failure else ""
    return TrialFinding(f"{headline}: {sign.why}{note}.", "", (sign.step, sign.quote))


def _find_matches(facts: TrialFacts, *patterns: re.Pattern[str]) -> Iterator[re.Match[str]]:
    for text in facts.verifier_texts:
        for pattern in patterns:
            yield from find_answers(pattern, text)


def _describe_relation(expected: float, got: float) -> str:
    if not expected or not got:
        return ""
    if math.isclose(expected, -got, rel_tol=1e-3):
        return ": the sign is wrong"
    power = math.log10(abs(expected / got))
    if abs(power) >= 0.9 and abs(power - round(power)) < 0.002:
        return f": off by a factor of 10^{round(abs(power))}, perhaps a unit"
    return ""
