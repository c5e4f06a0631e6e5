"""What the author saw: the exact prompt and reply of one call, and its evidence beside what compaction kept from it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

import orjson

from benchapp.models import Blob, Compaction, Decision, DecisionEvidence, Episode, ModelCall, Trajectory
from benchapp.record.recorded import slot_of
from benchapp.record.trajectory_store import StoredStep, read_page
from inspector.pages.library.prompt_diff import PackSeen, compare_prompts
from inspector.pages.trials.step_reading import StepReading, read_trajectory
from inspector.pages.trials.step_window import StepWindow, parse_window
from inspector.pages.trials.trial import choose_trajectory
from inspector.web.subject import find_neighbours
from inspector.web.text.drawn_steps import read_reasons, reading_order
from inspector.web.text.visible import one_line, visible
from runner.agents import agent_title
from runner.authoring.teaching import RULE, list_teaching_keys
from runner.base.types import Patch
from runner.trajectories.compaction import CHARS_PER_TOKEN
from runner.trajectories.fields import fields

MAX_SECTION = 200_000  # characters of one section on the page; the whole has an address of its own
MAX_SECTIONS = 80  # of one message; the last takes the rest
OPEN_SECTION = 1_200  # a section of no more is open from the start
SHOWS = ("call", "session", "evidence")
MAX_UNSEEN = 500  # characters of one cut passage that are drawn
STRIP = 1_000  # width of the strip
MAX_RUNS = 300

_HEADING = re.compile(r"#{1,3} +\S")
_FENCE = re.compile(r"(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class PromptSection:
    """A part of a message under one of its own headings; offsets in characters of the message."""

    title: str
    text: str
    length: int
    share: float  # of all characters of the prompt, 0..1
    is_open: bool
    about: str = ""  # the task of the trial that its title names

    @property
    def left_out(self) -> int:
        return max(0, self.length - MAX_SECTION)

    @property
    def tokens(self) -> int:
        """By the rule of the compactions: a quarter of the characters."""
        return -(-self.length // CHARS_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt; `length` in characters."""

    role: str
    length: int
    sections: tuple[PromptSection, ...]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A recorded request: its messages, and how the model was asked."""

    messages: tuple[Message, ...]
    texts: tuple[str, ...]  # of the messages, exactly
    settings: tuple[tuple[str, str], ...]
    length: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answered."""

    text: str  # exactly
    shown: str
    reasoning: str
    finish_reason: str
    model: str
    failed_tries: tuple[str, ...] = ()  # why it had to be asked again
    not_sent: tuple[str, ...] = ()  # of what was asked for, with the reason


@dataclass(frozen=True, slots=True)
class SeenPassage:
    """A piece of a field. Of one that the author did not see, `left_out` characters from `start` to `end` are not drawn."""

    seen: bool
    head: str
    tail: str = ""
    start: int = 0
    end: int = 0

    @property
    def left_out(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class SeenField:
    """One field of a step, as a sequence of seen and unseen passages."""

    name: str
    kind: str  # message, reasoning, call, result
    label: str
    passages: tuple[SeenPassage, ...]


@dataclass(frozen=True, slots=True)
class SeenStep:
    """`seen` and `length`: characters. A step without text can be seen although both are 0."""

    number: int
    source: str
    is_seen: bool
    reasons: tuple[str, ...]
    seen: int
    length: int
    fields: tuple[SeenField, ...]

    @property
    def word(self) -> str:
        if not self.is_seen:
            return "not shown"
        return "shown" if self.seen >= self.length else "shown in part"


@dataclass(frozen=True, slots=True)
class StepRun:
    """Steps `first` to `last` that were shown; x and width on the strip."""

    first: int
    last: int
    x: float
    width: float

    @property
    def word(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}–{self.last}"


@dataclass(frozen=True, slots=True)
class SeenTrajectory:
    """One trial of the evidence. Without a compaction nothing is known of what was shown."""

    evidence: DecisionEvidence
    window: StepWindow | None
    steps: tuple[SeenStep, ...]
    runs: tuple[StepRun, ...]

    @property
    def compaction(self) -> Compaction | None:
        return self.evidence.compaction


@dataclass(frozen=True, slots=True)
class AuthorSession:
    """What an agent did that worked for the answer, in the reader of trials. `query`: what a link inside it adds."""

    call: ModelCall
    trajectories: tuple[Trajectory, ...]
    trajectory: Trajectory  # the one that is read
    reading: StepReading
    query: str

    @property
    def title(self) -> str:
        return visible(agent_title(self.trajectory.agent_name))

    @property
    def turns(self) -> int | None:
        found = self.trajectories[0].extra.get("turns")
        return found if isinstance(found, int) else None

    @property
    def seconds(self) -> float | None:
        ended = self.call.finished_at
        return (ended - self.call.started_at).total_seconds() if ended else None


@dataclass(frozen=True, slots=True)
class AuthorCall:
    """The page: one decision, the call that made it, and the evidence before it."""

    decision: Decision
    show: str
    prompt: Prompt | None
    reply: Reply | None
    patch: Patch | None
    evidence: tuple[DecisionEvidence, ...]
    chosen: SeenTrajectory | None
    previous: Decision | None
    following: Decision | None
    talk: tuple[TalkTurn, ...] = ()  # what student and teacher said before it
    pack: PackSeen | None = None  # where prompts of a pack were sent
    session_steps: int | None = None  # of the agent that worked for it; None: the model was asked once
    session: AuthorSession | None = None

    @property
    def files(self) -> list[tuple[str, str, int]]:
        """(path, text, characters) that the reply asked to write."""
        wanted = self.patch.upsert_files if self.patch else {}
        return [(visible(path), visible(text[:MAX_SECTION]), len(text)) for path, text in sorted(wanted.items())]


def open_author_call(episode: Episode, query: Mapping[str, str]) -> AuthorCall | None:
    """The page for a query string, None where the episode has no decision. Nonsense falls back to the last decision."""
    rows = episode.decisions.select_related("call", "family", "after_trial__task").order_by("number")
    numbers = list(episode.decisions.order_by("number").values_list("number", flat=True))
    if not numbers:
        return None
    asked = query.get("decision", "")
    number = next((found for found in numbers if str(found) == asked), numbers[-1])
    previous, following = find_neighbours(numbers, number)
    near = {row.number: row for row in rows.filter(number__in=[number, previous, following])}
    decision = near[number]
    evidence = tuple(
        decision.evidence.select_related("trial__task", "compaction__trajectory__attempt").order_by("ordinal")
    )
    show = query.get("show") if query.get("show") in SHOWS else "call"
    call = decision.call
    contents = Blob.objects.read_many([digest for digest in (call.request_id, call.reply_id) if digest]) if call else {}
    chosen = _choose_evidence(evidence, query.get("evidence", "")) if show == "evidence" else None
    worked = tuple(call.trajectories.order_by("ordinal", "id")) if call else ()
    return AuthorCall(
        decision=decision,
        show=show or "call",
        prompt=_name_sections(parse_prompt(contents[call.request_id]), evidence) if call else None,
        reply=parse_reply(contents[call.reply_id]) if call and call.reply_id else None,
        patch=decision.read_patch(),
        evidence=evidence,
        chosen=_read_trajectory(chosen, query) if chosen else None,
        previous=near.get(previous or 0),
        following=near.get(following or 0),
        talk=read_talk(decision) if show == "call" else (),
        pack=compare_prompts(decision) if show == "call" else None,
        session_steps=sum(each.steps_total for each in worked) if worked else None,
        session=_read_session(call, worked, episode, decision, query)
        if call and worked and show == "session"
        else None,
    )


def _read_session(
    call: ModelCall,
    worked: tuple[Trajectory, ...],
    episode: Episode,
    decision: Decision,
    query: Mapping[str, str],
) -> AuthorSession:
    trajectory = choose_trajectory(worked, query.get("trajectory", "")) or worked[0]
    reading = read_trajectory(trajectory, uses=(), verdict=None, compactions={}, query=query)
    place = {"episode": episode.public_id, "decision": decision.number, "show": "session"}
    kept = urlencode({**place, "trajectory": trajectory.public_id})
    return AuthorSession(call, worked, trajectory, reading, f"&{kept}")


def _choose_evidence(evidence: Sequence[DecisionEvidence], asked: str) -> DecisionEvidence | None:
    """The one asked for, counted from 1; else the trial that the decision answers; else the last."""
    found = (row for place, row in enumerate(evidence, start=1) if str(place) == asked)
    answered = (row for row in evidence if row.trial_id == row.decision.after_trial_id)
    return next(found, None) or next(answered, None) or (evidence[-1] if evidence else None)


# --- the call -----------------------------------------------------------------------------------------------------


def parse_prompt(request: bytes) -> Prompt:
    """`request`: a ModelRequest as JSON. Whatever a message holds besides text is shown as JSON."""
    raw = orjson.loads(request)
    texts = tuple(_read_content(message.get("content")) for message in raw.get("messages") or ())
    length = sum(map(len, texts))
    messages = tuple(
        Message(str(message.get("role", "?")), len(text), tuple(_split_sections(text, length)))
        for message, text in zip(raw.get("messages") or (), texts, strict=True)
    )
    names = ("temperature", "max_tokens", "seed")
    settings = [(name.replace("_", " "), str(raw[name])) for name in names if raw.get(name) is not None]
    settings += [("reply format", "JSON")] if raw.get("json_object") else []
    tools = [str((tool.get("function") or tool).get("name", "?")) for tool in raw.get("tools") or ()]
    return Prompt(messages, texts, tuple(settings + ([("tools", ", ".join(tools))] if tools else [])), length)


def _read_content(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str) for part in content
    ):
        return "\n".join(part["text"] for part in content)
    return "" if content is None else orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()


def _split_sections(text: str, whole: int) -> Iterator[PromptSection]:
    starts = list(_find_starts(text))[:MAX_SECTIONS]
    if not starts or starts[0] > 0:
        starts.insert(0, 0)
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        part = text[start:end]
        if part.strip() or len(starts) == 1:
            title = one_line(part, 110) if _HEADING.match(part) else ""
            shown = visible(part[:MAX_SECTION].strip("\n"))
            yield PromptSection(title.lstrip("# "), shown, len(part), len(part) / (whole or 1), _is_short(part))


def _is_short(part: str) -> bool:
    """Something to read, and not long: a heading with nothing below says all while it is closed."""
    heading, _, below = part.strip().partition("\n")
    return len(part) <= OPEN_SECTION and (bool(below.strip()) or not _HEADING.match(heading))


def _name_sections(prompt: Prompt, evidence: Iterable[DecisionEvidence]) -> Prompt:
    """A trial's section with the title of its task, for the prompt names it by its key."""
    trials = [row.trial for row in evidence]
    messages = tuple(
        replace(
            message,
            sections=tuple(
                replace(
                    each, about=next((found.task.title for found in trials if str(slot_of(found)) in each.title), "")
                )
                for each in message.sections
            ),
        )
        for message in prompt.messages
    )
    return replace(prompt, messages=messages)


def _find_starts(text: str) -> Iterator[int]:
    """Where a heading begins that is the message's own: none inside a fence, where the trials' texts stand."""
    at, fence = 0, ""
    for line in text.split("\n"):
        if match := _FENCE.match(line):
            if not fence:
                fence = match[1]
            elif line.strip() == fence:
                fence = ""
        elif not fence and _HEADING.match(line):
            yield at
        at += len(line) + 1


def parse_reply(reply: bytes) -> Reply:
    raw = orjson.loads(reply)
    text = str(raw.get("text") or "")
    return Reply(
        text,
        visible(text[:MAX_SECTION]),
        visible(str(raw.get("reasoning") or "")[:MAX_SECTION]),
        str(raw.get("finish_reason") or ""),
        str(raw.get("model") or ""),
        tuple(read_reasons(raw.get("failed_tries"))),
        tuple(str(each) for each in raw.get("not_sent") or ()),
    )


# --- the evidence -------------------------------------------------------------------------------------------------


def _read_trajectory(evidence: DecisionEvidence, query: Mapping[str, str]) -> SeenTrajectory:
    compaction = evidence.compaction
    if compaction is None:
        return SeenTrajectory(evidence, None, (), ())
    trajectory = compaction.trajectory
    window = parse_window(trajectory.steps_total, query)
    spans: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    reasons: dict[int, dict[str, None]] = defaultdict(dict)
    for step, name, start, end, _length, reason in orjson.loads(Blob.objects.read(compaction.spans_id)):
        spans[step][name].append((start, end))
        reasons[step][reason] = None
    stored = read_page(trajectory, window.first, window.count)
    steps = tuple(_draw_step(found, spans.get(found.step.number), reasons[found.step.number]) for found in stored)
    return SeenTrajectory(evidence, window, steps, tuple(_join_runs(sorted(spans), trajectory.steps_total)))


def _draw_step(
    stored: StoredStep, spans: Mapping[str, Sequence[tuple[int, int]]] | None, reasons: Iterable[str]
) -> SeenStep:
    step, texts = stored.step, dict(fields(stored.step))
    drawn, seen, length = [], 0, 0
    for name in reading_order(step):
        text, whole = texts[name], stored.long.get(name, len(texts[name]))
        kept = sorted((spans or {}).get(name, ()))
        length += whole
        seen += sum(end - start for start, end in kept)
        group, _, index = name.partition("/")
        kind = {"tool_calls": "call", "observations": "result"}.get(group, group)
        label = step.tool_calls[int(index)].name if kind == "call" else "result" if kind == "result" else group
        drawn.append(SeenField(name, kind, visible(label[:80]), tuple(_split_passages(text, whole, kept))))
    return SeenStep(step.number, step.source.value, spans is not None, tuple(reasons), seen, length, tuple(drawn))


def _split_passages(text: str, whole: int, kept: Sequence[tuple[int, int]]) -> Iterator[SeenPassage]:
    """The field from its beginning to its end. `text` may be cut short of `whole`: only a beginning was loaded."""
    at = 0
    for start, end in kept:
        if start > at:
            yield _cut_passage(text, at, start)
        if end > start:
            yield SeenPassage(True, visible(text[start:end]))
        at = max(at, end)
    if at < whole:
        yield _cut_passage(text, at, whole)


def _cut_passage(text: str, start: int, end: int) -> SeenPassage:
    if end - start <= MAX_UNSEEN:
        return SeenPassage(False, visible(text[start:end]))
    head, tail = text[start : start + MAX_UNSEEN // 2], text[end - MAX_UNSEEN // 4 : end]
    return SeenPassage(False, visible(head), visible(tail), start + len(head), end - len(tail))


def _join_runs(steps: Sequence[int], total: int) -> list[StepRun]:
    """Neighbouring kept steps as one."""
    ends: list[list[int]] = []
    for step in steps:
        if ends and step == ends[-1][1] + 1:
            ends[-1][1] = step
        else:
            ends.append([step, step])
    scale = STRIP / max(total, 1)
    return [
        StepRun(first, last, (first - 1) * scale, max((last - first + 1) * scale, 2.0))
        for first, last in ends[:MAX_RUNS]
    ]


# --- the talk before ---------------------------------------------------------------------------------------------------


MAX_SAID = 200_000  # characters of one turn on the page


@dataclass(frozen=True, slots=True)
class TalkTurn:
    """One answered call. `messages`: how many its prompt has; each is a text of its own, as the reply is."""

    call: ModelCall
    said: str  # exactly
    messages: int
    is_held_back: bool

    @property
    def shown(self) -> str:
        return visible(self.said[:MAX_SAID])

    @property
    def left_out(self) -> int:
        return max(0, len(self.said) - MAX_SAID)

    @property
    def places(self) -> range:
        return range(1, self.messages + 1)


def read_talk(decision: Decision) -> tuple[TalkTurn, ...]:
    """In the order of the calls; empty where nobody taught. Needs the decision's family and trial with its task."""
    if decision.after_trial is None:
        return ()
    keys = list_teaching_keys(decision.family.key, slot_of(decision.after_trial))
    calls = list(
        ModelCall.objects.filter(episode=decision.episode_id, key__in=keys, status=ModelCall.Status.ANSWERED).order_by(
            "id"
        )
    )
    held_back = sum(finding.get("rule") == RULE for finding in decision.findings)
    refused = set(keys[1 : 1 + held_back])  # the first is the student's; the teacher's tries follow
    contents = Blob.objects.read_many(
        [digest for call in calls for digest in (call.request_id, call.reply_id) if digest]
    )
    return tuple(_read_turn(call, contents, call.key in refused) for call in calls)


def _read_turn(call: ModelCall, contents: Mapping[str, bytes], is_held_back: bool) -> TalkTurn:
    request = orjson.loads(contents[call.request_id])
    reply = orjson.loads(contents[call.reply_id]) if call.reply_id else {}
    return TalkTurn(call, str(reply.get("text") or ""), len(request.get("messages") or ()), is_held_back)
