"""A bounded, deterministic rendering of a trajectory: rich for the skill author, rough for raw-trajectory.

Parameters are table 8 of the SkillEvolBench paper (appendix C.2). What the paper leaves open is decided here:

- Selected are the first `head` steps, the last `tail` steps, and every step between them with a signal in its text.
- A field over its limit keeps its beginning and its end, half each; one that is over it by less than a mark takes
  stays whole. A step over `event_chars` cuts its longest fields first, all to the same length. Of more than
  MAX_OBSERVATIONS results the first and the last stay, half each.
- Of a user message that begins with the task's instruction only the instruction stays.
- System steps before the first other step are the harness's prompt. The agent did not make them, so they are neither
  kept nor marked.
- tokens = ceil(characters / 4), of the whole text with header and marks. Over budget the oldest signal steps go first,
  then head steps from the last back to the first, then tail steps from the oldest on; the last step always stays.
- Everything left out leaves a mark with its size, in the text and in the spans: `render` rebuilds the text from both.

The trajectory is read once; what is held never exceeds the head, the tail and the budget.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

from runner.base.text import cut, mark_left_out, plural
from runner.base.types import Check, CheckStatus, Compaction, CompactionKind, Failure, Source, Span, Step, Verdict
from runner.trajectories.fields import fields

COMPACTION_VERSION = "compaction/3"
CHARS_PER_TOKEN = 4
VERDICT_NOT_SHOWN = "verdict not shown"  # neither the verdict nor whether there was one
MAX_TOOL_CALLS = 3
MAX_OBSERVATIONS = 8
MAX_TITLE_CHARS = 300
MAX_ENDING_CHARS = 500
MAX_CHECK_CHARS = 500
MAX_CHECKS_CHARS = 6_000
_LABELS = {"message": "", "reasoning": "Reasoning: ", "tool_calls": "Tool call", "observations": "Result"}
_MARK_ROOM = len(mark_left_out(10**12)) + 2
_LABEL_ROOM = 40  # more than any heading, and any label with its line's end


@dataclass(frozen=True, slots=True)
class ShownVerdict:
    """What the reader of a trajectory is shown of its verdict. The raw-trajectory condition must not list checks: an
    agent that reads the messages of hidden checks has seen the answer."""

    verdict: Verdict | None = None
    with_checks: bool = False  # the failed ones, with their messages
    is_hidden: bool = False  # also whether there is one

    @property
    def failed_checks(self) -> list[Check]:
        checks = self.verdict.checks if self.verdict and self.with_checks and not self.is_hidden else ()
        return [check for check in checks if check.status in (CheckStatus.FAILED, CheckStatus.ERROR)]


UNKNOWN_VERDICT = ShownVerdict()


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """Table 8. Characters except for `total_tokens`; None: no limit of its own."""

    head: int
    tail: int
    reasoning_chars: int | None
    tool_args_chars: int
    event_chars: int = 8_000
    total_tokens: int = 8_000
    message_chars: int | None = None
    observation_chars: int = 3_000
    instruction: str = ""  # keep only this much of a user message that begins with it


SETTINGS = {
    CompactionKind.RICH: CompactionSettings(head=8, tail=12, reasoning_chars=None, tool_args_chars=200),
    CompactionKind.ROUGH: CompactionSettings(head=4, tail=8, reasoning_chars=0, tool_args_chars=100),
}

# Table 8 names the kinds: tracebacks, marks of errors, exceptions and failures, paths of skills, the reward file, the
# verifier. Their patterns are decided here. Every repetition is bounded, so the search is linear in the text.
SIGNALS = (
    r"[Tt]raceback \(most recent call last\)",
    r"(?:Error|Exception|error|exception):",
    r"\b[Ff]ail(?:ed|ure):",
    r"\b(?:ERROR|FAIL|FAILED|FAILURE|FATAL)\b",
    r"\b[1-9][0-9]{0,8} (?:failed|failures?|errors?)\b",  # counts of test runners; 0 is not a signal
    r"(?m:^)(?:E {1,8})?[A-Za-z_][\w.]{0,100}(?:Error|Exception)\b",  # without a message there is no colon
    r"\bException in thread\b",
    r"\bnpm (?:ERR!|error)",
    r"/skills/",
    r"reward\.txt",
    r"\b[Vv]erifier\b",
)
_SIGNAL = re.compile("|".join(SIGNALS))
# A text without any of these has no signal. Plain search is some twenty times faster than the pattern.
_TRIGGERS = (
    "raceback (",
    "rror",
    "xception",
    "ERROR",
    "ERR!",
    "FAIL",
    "FATAL",
    "ailed",
    "ailure",
    "/skills/",
    "reward.txt",
    "erifier",
)


class StepTexts:
    """A step with the texts of its fields, computed once for all compactions of its trajectory."""

    __slots__ = ("_has_signal", "_keepable", "fields", "step")

    def __init__(self, step: Step) -> None:
        self.step = step
        self.fields = tuple(fields(step))
        self._keepable: list[tuple[str, str]] | None = None
        self._has_signal: bool | None = None

    @property
    def keepable(self) -> list[tuple[str, str]]:
        """The fields that have a text and are not too many."""
        if self._keepable is None:  # a cached_property of Python 3.11 takes a lock, which costs more than the list
            self._keepable = [field for field in self.fields if field[1] and _is_among_first(field[0], self.step)]
        return self._keepable

    @property
    def has_signal(self) -> bool:
        if self._has_signal is None:
            self._has_signal = self._find_signal()
        return self._has_signal

    def _find_signal(self) -> bool:
        if any(observation.is_error for observation in self.step.observations):
            return True
        together = "\0".join([text for _, text in self.fields])
        for trigger in _TRIGGERS:  # a plain loop: this runs for every step
            if trigger in together:
                return any(_SIGNAL.search(text) for _, text in self.fields)
        return False


@dataclass(slots=True)
class _Event:
    """One kept step: its text and the spans it consists of."""

    number: int
    text: str
    spans: tuple[Span, ...]


def compact(
    steps: Iterable[Step | StepTexts],
    kind: CompactionKind,
    *,
    title: str,
    shown: ShownVerdict = UNKNOWN_VERDICT,
    instruction: str = "",
    ending: Failure | None = None,
) -> Compaction:
    """Compact `steps` under a header with the verdict and its reward. To make several of one trajectory, pass
    `StepTexts`.

    instruction: the task's own text. The rest of a user message that begins with it, added by a condition, is left out:
    a trace must not contain the library's notice, or the traces that were shown. ending: what ended the agent early.
    It is not a verdict: a stopped agent knows that it was stopped.
    """
    settings = replace(SETTINGS[kind], instruction=instruction)
    trace = _Trace(steps)
    head, signals, tail = _select(trace, settings)
    header = _header(shown, title, ending)
    events = _within_budget(head, signals, tail, header, trace, settings)
    text = _join(header, events, trace)
    return Compaction(
        kind=kind,
        version=COMPACTION_VERSION,
        text=text,
        tokens=tokens(text),
        spans=tuple(span for event in events for span in event.spans),
        steps_total=trace.total,
        steps_kept=len(events),
    )


def render(
    spans: Sequence[Span],
    steps: Iterable[Step],
    *,
    title: str,
    shown: ShownVerdict = UNKNOWN_VERDICT,
    ending: Failure | None = None,
) -> str:
    """Rebuild the text of a compaction from its spans and its trajectory."""
    by_step = {number: tuple(group) for number, group in groupby(spans, key=lambda span: span.step)}
    trace = _Trace(steps)
    events = [
        _Event(texts.step.number, _event_text(texts, kept), kept)
        for texts in trace
        if (kept := by_step.get(texts.step.number))
    ]
    return _join(_header(shown, title, ending), events, trace)


def tokens(text: str) -> int:
    """Approximate tokens: ceil(characters / 4)."""
    return -(-len(text) // CHARS_PER_TOKEN)


# --- which steps ------------------------------------------------------------------------------------------------


class _Trace:
    """The steps of a trajectory after the harness's prompt, counted while they are read."""

    def __init__(self, steps: Iterable[Step | StepTexts]) -> None:
        self._steps = steps
        self.prompt = 0  # system steps before the first other one
        self.total = 0

    def __iter__(self) -> Iterator[StepTexts]:
        for found in self._steps:
            step = found.step if isinstance(found, StepTexts) else found
            if step.source is Source.SYSTEM and self.prompt == self.total:
                self.prompt += 1
                self.total += 1
                continue
            self.total += 1
            yield found if isinstance(found, StepTexts) else StepTexts(found)


def _select(trace: _Trace, settings: CompactionSettings) -> tuple[list[_Event], deque[_Event], list[_Event]]:
    """(head, signals between head and tail, tail). Signals beyond the budget are dropped at once."""
    head: list[_Event] = []
    signals: deque[_Event] = deque()
    tail: deque[StepTexts] = deque()
    budget, held = settings.total_tokens * CHARS_PER_TOKEN, 0
    for texts in trace:
        if len(head) < settings.head:
            head.append(_event(texts, "head", settings))
            continue
        tail.append(texts)
        if len(tail) <= settings.tail:
            continue
        passed = tail.popleft()
        if passed.has_signal:
            event = _event(passed, "signal", settings)
            signals.append(event)
            held += len(event.text)
            while held > budget:
                held -= len(signals.popleft().text)
    return head, signals, [_event(texts, "tail", settings) for texts in tail]


def _within_budget(
    head: list[_Event],
    signals: deque[_Event],
    tail: list[_Event],
    header: str,
    trace: _Trace,
    settings: CompactionSettings,
) -> list[_Event]:
    """The events that fit, in order. The last one always does: header and one event are far below the budget."""
    while True:
        events = [*head, *signals, *tail]
        if len(events) < 2 or tokens(_join(header, events, trace)) <= settings.total_tokens:
            return events
        if signals:
            signals.popleft()
        elif head and tail:
            head.pop()
        elif head:  # a trajectory no longer than its head: its last step stays
            head.pop(-2)
        else:
            tail.pop(0)


# --- one step ---------------------------------------------------------------------------------------------------


def _event(texts: StepTexts, reason: str, settings: CompactionSettings) -> _Event:
    spans = tuple(_spans(texts, reason, settings))
    return _Event(texts.step.number, _event_text(texts, spans), spans)


def _spans(texts: StepTexts, reason: str, settings: CompactionSettings) -> list[Span]:
    """The kept part of each field. A step without any text has one empty span, so that it counts as kept."""
    step, spans = texts.step, list[Span]()
    shown = [field for field in texts.keepable if settings.reasoning_chars != 0 or field[0] != "reasoning"]
    ends = [_end(name, text, step, settings) for name, text in shown]
    limits = [min(end, _limit(*field, settings)) for end, field in zip(ends, shown, strict=True)]
    allowance = _allowance(texts, limits, settings)
    if not shown:
        spans.append(Span(step.number, "message", 0, 0, len(step.message), reason))
    for (name, text), end, limit in zip(shown, ends, limits, strict=True):
        limit = min(limit, allowance)
        if end <= limit + _MARK_ROOM:  # a mark would need more room than it saves
            spans.append(Span(step.number, name, 0, end, len(text), reason))
            continue
        spans.append(Span(step.number, name, 0, limit - limit // 2, len(text), reason))
        spans.append(Span(step.number, name, end - limit // 2, end, len(text), reason))
    return spans


def _end(name: str, text: str, step: Step, settings: CompactionSettings) -> int:
    """Where the part of a field ends that may be kept at all."""
    may_hold = settings.instruction and name == "message" and step.source is Source.USER
    return len(settings.instruction) if may_hold and text.startswith(settings.instruction) else len(text)


def _is_among_first(name: str, step: Step) -> bool:
    """Is the field among those kept of many tool calls or results? Of the results the last count as well."""
    group, _, index = name.partition("/")
    if group == "tool_calls":
        return int(index) < MAX_TOOL_CALLS
    if group == "observations":
        half, count = MAX_OBSERVATIONS // 2, len(step.observations)
        return count <= MAX_OBSERVATIONS or not half <= int(index) < count - half
    return True


def _limit(name: str, text: str, settings: CompactionSettings) -> int:
    if name == "message":
        limit = settings.message_chars
    elif name == "reasoning":
        limit = settings.reasoning_chars
    elif name.startswith("tool_calls/"):
        limit = text.find("\n") + 1 + settings.tool_args_chars  # the limit is for the arguments, not the name
    else:
        limit = settings.observation_chars
    return len(text) if limit is None else limit


def _allowance(texts: StepTexts, limits: Sequence[int], settings: CompactionSettings) -> int:
    """The common length to cut the longest fields to, so that the event with labels and marks fits `event_chars`."""
    room = settings.event_chars - _MARK_ROOM * (len(limits) + 4)
    if sum(limits) + _LABEL_ROOM * (len(texts.fields) + 1) <= room:  # true of most steps
        return max(limits, default=0)
    room -= len(_heading(texts.step)) + sum(len(_label(name)) + 2 for name in _labelled(texts, settings))
    lengths = sorted(limits)
    for index, length in enumerate(lengths):
        share = room // (len(lengths) - index)
        if length > share:
            return max(share, 2)
        room -= length
    return max(lengths, default=0)


def _labelled(texts: StepTexts, settings: CompactionSettings) -> Iterator[str]:
    """Names of the fields that may have a label of their own, even if empty."""
    for name, _ in texts.fields:
        if _is_among_first(name, texts.step) and (name != "reasoning" or settings.reasoning_chars != 0):
            yield name


def _event_text(texts: StepTexts, spans: Iterable[Span]) -> str:
    """Render the step: a heading, then each field below its label, with a mark for any part without a span."""
    kept: dict[str, list[Span]] = {}
    for span in spans:
        kept.setdefault(span.field, []).append(span)
    lines, left = [_heading(texts.step)], list[tuple[str, str]]()
    for name, text in texts.fields:
        own = kept.get(name)
        if own is None and name not in ("message", "reasoning"):  # a step has one of these
            left.append((name, text))
            continue
        if left:
            lines += _mark_left_out(left)
            left = []
        lines.append(_label(name) + (mark_left_out(len(text)) if own is None else _join_spans(text, own)))
    return "\n".join([*lines, *_mark_left_out(left)] if left else lines)


def _mark_left_out(fields: Sequence[tuple[str, str]]) -> list[str]:
    """One mark for a series of tool calls, and one of results, without spans. Empty results get none."""
    marks = []
    for group, items in groupby(fields, key=lambda field: field[0].partition("/")[0]):
        all_texts = [text for _, text in items]
        texts, noun = [text for text in all_texts if text], "tool calls" if group == "tool_calls" else "results"
        if texts:
            marks.append(f"[... {len(texts):,} {noun} left out, {sum(map(len, texts)):,} characters ...]")
        if empty := len(all_texts) - len(texts):
            marks.append(f"[{noun} without text: {empty:,}]")
    return marks


def _join_spans(text: str, spans: Sequence[Span]) -> str:
    if len(spans) == 1 and spans[0].end - spans[0].start == len(text):  # nearly all
        return text
    pieces, at = [], 0
    for span in spans:
        if span.start > at:
            pieces.append(_mark(text, span.start - at))
        pieces.append(text[span.start : span.end])
        at = span.end
    if at < len(text):
        pieces.append(_mark(text, len(text) - at))
    return "".join(pieces)


def _mark(text: str, characters: int) -> str:
    """Put the mark on a line of its own if the text has lines."""
    return f"\n{mark_left_out(characters)}\n" if "\n" in text else mark_left_out(characters)


def _heading(step: Step) -> str:
    return f"## Step {step.number}, {step.source}"


@lru_cache(maxsize=256)
def _label(name: str) -> str:
    group, _, index = name.partition("/")
    return f"{_LABELS[group]} {int(index) + 1}: " if index else _LABELS[group]


# --- the whole text ---------------------------------------------------------------------------------------------


def _join(header: str, events: Sequence[_Event], trace: _Trace) -> str:
    parts, after = [header], trace.prompt
    for event in events:
        if event.number > after + 1:
            parts.append(_gap(event.number - after - 1))
        parts.append(event.text)
        after = event.number
    if trace.total == trace.prompt:
        parts.append("[no steps recorded]")
    elif after < trace.total:
        parts.append(_gap(trace.total - after))
    return "\n\n".join(parts)


def _gap(count: int) -> str:
    return f"[... {plural(count, 'step')} left out ...]"


def _header(shown: ShownVerdict, title: str, ending: Failure | None) -> str:
    result = VERDICT_NOT_SHOWN if shown.is_hidden else _verdict_text(shown.verdict)
    lines = [f"# Trajectory of {cut(' '.join(title.split()), MAX_TITLE_CHARS)}: {result}"]
    if ending is not None:
        message = cut(" ".join(ending.message.split()), MAX_ENDING_CHARS)
        lines.append(f"The agent did not finish: {ending.type}. {message}".rstrip())
    if failed := shown.failed_checks:
        lines += ["", "Failed checks:"]
    size, left = 0, len(failed)
    for check in failed:
        line = f"- {check.group} {cut(check.name, 200)}: {cut(check.message or check.status, MAX_CHECK_CHARS)}"
        if size + len(line) > MAX_CHECKS_CHARS:
            lines.append(f"[... {left:,} failed checks left out ...]")
            break
        lines.append(line)
        size, left = size + len(line), left - 1
    return "\n".join(lines)


def _verdict_text(verdict: Verdict | None) -> str:
    if verdict is None:
        return "no verdict"
    word = {True: "PASSED", False: "FAILED", None: "verdict unknown"}[verdict.success]
    return word if verdict.reward is None else f"{word}, reward {verdict.reward:g}"
