"""`/runs/<id>/library/author/`, what the author saw: its prompt and reply, what its agent did,
and the evidence with what was cut greyed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from urllib.parse import urlencode
from uuid import UUID

import orjson
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from benchapp.models import Blob, Decision, DecisionEvidence, ModelCall, Run, Trajectory
from benchapp.record.json_shape import JsonShape
from benchapp.record.recorded import slot_of
from benchapp.record.trajectory_store import StoredStep, read_page
from benchapp.record.visible import visible
from inspector.pages.library.author_call import MAX_SECTION, Prompt, Reply
from inspector.pages.library.rail import choose_episode
from inspector.reader.reading import StepReading, choose_trajectory, parse_window
from inspector.reader.steps import reading_order
from inspector.web.responses import PageLink, render_page
from inspector.web.subject import find_neighbours, of_run, refuse_closed
from inspector.web.text.diff import FileDiff, diff_file
from inspector.web.text.row_shapes import RUN_HEAD
from runner.agents import agent_title
from runner.authoring.author import mark, own_template
from runner.authoring.chosen_prompts import ADVICE, QUESTIONS
from runner.authoring.teaching import RULE, list_teaching_keys
from runner.base.errors import SetupError
from runner.base.text import parse_count
from runner.base.types import AuthorMode
from runner.prompts.prompt_pack import MARK, PackMessage, PackPrompt
from runner.prompts.roles import Asked
from runner.protocols.conditions import find_condition
from runner.protocols.prompt_choice import choose_prompts, describe_prompts, list_asked
from runner.protocols.recorder import AUTHORING
from runner.trajectories.fields import fields

TEMPLATE = "library/author_call.html"
SHOWS = ("call", "session", "evidence")
JSON_CHARS = 400_000  # of one text in the twin; the whole is at the text's own address
MAX_SAID = 200_000  # characters of one turn on the page
MAX_UNSEEN = 500  # characters of one cut passage that are drawn
STRIP = 1_000  # width of the strip
MAX_RUNS = 300  # on it
LONG_LINE = 200  # a print can run a prompt's lines together; such a line is compared by its sentences
_SENTENCE = re.compile(r"(?<=[.:;?!]) +(?=\S)")


@of_run
def author_call(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    """Show the decision that the address names, else the last one."""
    query = request.GET
    _, episode = choose_episode(run, query.get("episode", ""))
    data: dict[str, object] = {"run": RUN_HEAD.read(run), "episode": episode}
    context: dict[str, object] = {
        "section": "run",
        "this_run": run,
        "this_episode": episode,
        "max_section": MAX_SECTION,
    }
    numbers = list(episode.decisions.order_by("number").values_list("number", flat=True)) if episode else []
    if episode is None or not numbers:
        data["decision"] = None
        return render_page(request, TEMPLATE, data=data, context=context, as_json=as_json)

    number = next((found for found in numbers if str(found) == query.get("decision")), numbers[-1])
    previous, following = find_neighbours(numbers, number)
    rows = episode.decisions.select_related("call", "family", "after_trial__task")
    near = {row.number: row for row in rows.filter(number__in=[number, previous, following])}
    decision = near[number]
    call, patch = decision.call, decision.read_patch()
    show = query["show"] if query.get("show") in SHOWS else "call"
    evidence = list(
        decision.evidence.select_related("trial__task", "compaction__trajectory__attempt").order_by("ordinal")
    )
    shown = _choose_evidence(evidence, query.get("evidence", "")) if show == "evidence" else None
    if shown and (closed := refuse_closed(request, trial=shown.trial, as_json=as_json)):
        return closed
    chosen = SeenTrial(shown, query) if shown else None
    prompt = reply = None
    if call:
        contents = Blob.objects.read_many([digest for digest in (call.request_id, call.reply_id) if digest])
        prompt = Prompt(contents[call.request_id], {str(slot_of(row.trial)): row.trial.task.title for row in evidence})
        reply = Reply(contents[call.reply_id]) if call.reply_id else None
    worked = list(call.trajectories.order_by("ordinal", "id")) if call else []
    session_steps = sum(each.steps_total for each in worked) if worked else None  # None: the model was asked once
    session = session_twin = pack = pack_twin = None
    session_query = ""
    if call and worked and show == "session":
        read = choose_trajectory(worked, query.get("trajectory", "")) or worked[0]
        session, session_twin = _read_session(call, worked, read, query)
        place = {"episode": episode.public_id, "decision": number, "show": show, "trajectory": read.public_id}
        session_query = "&" + urlencode(place)
    if show == "call" and (compared := _compare_prompts(decision)):
        pack, pack_twin = compared
    talk = _read_talk(decision) if show == "call" else []

    if as_json:
        data |= {
            "decision": number,
            "status": decision.status,
            "call": CALL.read(call) if call else None,
            "prompt": [
                {**MESSAGE.read(each), "whole": PageLink("author-text", run.public_id, call.public_id, str(place))}
                for place, each in enumerate(prompt.messages, start=1)
            ]
            if call and prompt
            else [],
            **({"pack": pack_twin} if pack else {}),
            "reply": reply.text[:JSON_CHARS] if reply else None,
            "talk": TURN.read_all(talk),
            "evidence": EVIDENCE.read_all(evidence),
            "steps": STEP.read_all(chosen.steps) if chosen else [],
            "session_steps": session_steps,
            "session": session_twin,
        }
        return render_page(request, TEMPLATE, data=data, as_json=True)
    written = sorted(patch.upsert_files.items()) if patch else []
    context["this"] = {
        "decision": decision,
        "show": show,
        "prompt": prompt,
        "reply": reply,
        "patch": patch,
        "files": [(visible(path), visible(text[:MAX_SECTION]), len(text)) for path, text in written],
        "evidence": evidence,
        "chosen": chosen,
        "previous": near.get(previous or 0),
        "following": near.get(following or 0),
        "talk": talk,
        "pack": pack,
        "session_steps": session_steps,
        "session": session,
        "session_query": session_query,
    }
    return render_page(request, TEMPLATE, context=context)


def _choose_evidence(evidence: Sequence[DecisionEvidence], asked: str) -> DecisionEvidence | None:
    """Return the one asked for, counted from 1; else the trial that the decision answers; else the last."""
    found = (row for place, row in enumerate(evidence, start=1) if str(place) == asked)
    answered = (row for row in evidence if row.trial_id == row.decision.after_trial_id)
    return next(found, None) or next(answered, None) or (evidence[-1] if evidence else None)


@of_run
def author_text(request: HttpRequest, run: Run, call_id: UUID, part: str) -> HttpResponse:
    """Send one text of a call, whole and exactly as recorded: `reply`, or the number of a message from 1 on."""
    readable = Q(decisions__isnull=False) | Q(purpose__in=AUTHORING)
    call = get_object_or_404(ModelCall.objects.filter(readable, episode__run=run).distinct(), public_id=call_id)
    if part == "reply" and call.reply_id:
        text = str(orjson.loads(Blob.objects.read(call.reply_id)).get("text") or "")
    else:
        sent = Prompt(Blob.objects.read(call.request_id)).messages
        number = parse_count(part, len(sent))
        if not number:
            raise Http404("no such text")
        text = sent[number - 1].text
    return HttpResponse(text, "text/plain; charset=utf-8")


# --- what an agent did that worked for the answer ---------------------------------------------------------------------


def _read_session(
    call: ModelCall, worked: Sequence[Trajectory], read: Trajectory, query: Mapping[str, str]
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the session in the reader of trials, for the page and for the twin.
    `read`: the one of `worked` that is shown."""
    reading, turns = StepReading(read, query), worked[0].extra.get("turns")
    facts = {
        "turns": turns if isinstance(turns, int) else None,
        "seconds": (call.finished_at - call.started_at).total_seconds() if call.finished_at else None,
    }
    twin: dict[str, object] = {
        "agent": read.agent_name,
        "version": read.agent_version,
        **facts,
        "trajectory": read.public_id,
        "steps_total": read.steps_total,
        "steps": [SESSION_STEP.read(card.step) for card in reading.cards],
    }
    title = visible(agent_title(read.agent_name))
    return {"title": title, "trajectories": worked, "trajectory": read, "reading": reading, **facts}, twin


# --- what student and teacher wrote before it -----------------------------------------------------------------------


class TalkTurn:
    """One answered call, with its text exactly. `places`: of the messages of its prompt; each is a text of its own, as
    the reply is."""

    def __init__(self, call: ModelCall, request: bytes, reply: bytes | None, *, is_held_back: bool) -> None:
        self.call, self.is_held_back = call, is_held_back
        self.text = str(orjson.loads(reply).get("text") or "") if reply else ""
        self.shown, self.left_out = visible(self.text[:MAX_SAID]), max(0, len(self.text) - MAX_SAID)
        self.places = range(1, len(orjson.loads(request).get("messages") or ()) + 1)


def _read_talk(decision: Decision) -> list[TalkTurn]:
    """Return the turns in the order of the calls; none where nobody taught.
    Needs the decision's family and trial with its task."""
    if decision.after_trial is None:
        return []
    keys = list_teaching_keys(decision.family.key, slot_of(decision.after_trial))
    answered = ModelCall.objects.filter(key__in=keys, status=ModelCall.Status.ANSWERED)
    calls = list(answered.filter(episode=decision.episode_id).order_by("id"))
    held_back = sum(finding.get("rule") == RULE for finding in decision.findings)
    refused = set(keys[1 : 1 + held_back])  # the first is the student's; the teacher's tries follow
    contents = Blob.objects.read_many(
        [digest for call in calls for digest in (call.request_id, call.reply_id) if digest]
    )
    return [
        TalkTurn(call, contents[call.request_id], contents.get(call.reply_id or ""), is_held_back=call.key in refused)
        for call in calls
    ]


# --- what a pack has the author asked, next to what Skillglass would ask --------------------------------------------


def _compare_prompts(decision: Decision) -> tuple[dict[str, object], dict[str, object]] | None:
    """Return the prompts of a decision that came from packs, each against ours before the values, for the page and
    for the twin. `missing` says why they cannot be compared. None where everything was asked in our words."""
    run, protocol = decision.episode.run, decision.episode.protocol
    described = run.setup.get("prompts") if isinstance(run.setup, dict) else None
    if not isinstance(described, dict) or not described:
        return None
    packs = tuple(dict.fromkeys(str(each.get("pack")) for each in described.values() if isinstance(each, dict)))
    missing, found = "", list[tuple[Asked, list[tuple[int, FileDiff]]]]()
    try:
        condition = find_condition(run.condition, protocol)
        if describe_prompts(condition, protocol) == described:
            chosen, numbers = choose_prompts(condition, protocol).prompts, count()
            asked = [each for each in list_asked(condition, protocol) if each in chosen and _belongs(each, decision)]
            found = [
                (each, [(next(numbers), diff) for diff in _compare_messages(chosen[each], each)]) for each in asked
            ]
        else:
            missing = "The pack on this machine is not the one that was sent."
    except SetupError as error:
        missing = f"The pack cannot be read here: {error}"
    shown = [{"role": each.role, "occasion": each.occasion, "diffs": diffs} for each, diffs in found]
    twins = [
        {"role": each.role, "occasion": each.occasion, "messages": CHANGED.read_all(diff for _, diff in diffs)}
        for each, diffs in found
    ]
    return (
        {"packs": packs, "missing": missing, "differences": shown},
        {"packs": packs, "missing": missing or None, "differences": twins},
    )


def _belongs(asked: Asked, decision: Decision) -> bool:
    """Is it the decision's own question, or the talk before a correction?"""
    if asked in (QUESTIONS, ADVICE):
        return decision.mode == AuthorMode.CORRECT
    return asked.occasion.removesuffix("-tier3") == decision.mode


def _compare_messages(prompt: PackPrompt, asked: Asked) -> list[FileDiff]:
    ours = [(each["role"], each["content"]) for each in own_template(asked)]
    theirs = [(each.role, _name_values(each)) for each in prompt.messages]
    roles: dict[str, None] = dict.fromkeys(role for role, _ in (*ours, *theirs))
    return [diff_file(f"{role} message", _text_of(role, ours), _text_of(role, theirs)) for role in roles]


def _text_of(role: str, messages: Sequence[tuple[str, str]]) -> bytes:
    """Return the text of this role; a long line is compared by its sentences."""
    text = "\n\n".join(text for each, text in messages if each == role)
    lines = (_SENTENCE.sub("\n", line) if len(line) > LONG_LINE else line for line in text.strip("\n").split("\n"))
    return ("\n".join(lines) + "\n").encode("utf-8", "replace") if text else b""


def _name_values(message: PackMessage) -> str:
    """Return it with our names for the values, so that equal ones read alike."""
    return MARK.sub(
        lambda found: found[0] if found[1] in message.literal else mark(message.value_of(found[1])), message.text
    )


# --- the evidence: what compaction kept of a trial ------------------------------------------------------------------


class SeenPassage:
    """A piece of a field. Of one that the author did not see,
    `left_out` characters from `start` to `end` are not drawn."""

    def __init__(self, seen: bool, head: str, tail: str = "", start: int = 0, end: int = 0) -> None:
        self.seen, self.head, self.tail, self.start, self.end = seen, head, tail, start, end
        self.left_out = end - start


class SeenStep:
    """`seen` and `length`: characters. A step without text can be seen although both are 0. `fields`: name, kind, label
    and passages, in reading order."""

    def __init__(
        self, stored: StoredStep, spans: Mapping[str, Sequence[tuple[int, int]]] | None, reasons: Iterable[str]
    ) -> None:
        step, texts = stored.step, dict(fields(stored.step))
        self.number, self.source, self.reasons = step.number, step.source.value, list(reasons)
        self.is_seen, self.seen, self.length, self.fields = spans is not None, 0, 0, list[dict[str, object]]()
        for name in reading_order(step):
            text, whole = texts[name], stored.long.get(name, len(texts[name]))
            kept = sorted((spans or {}).get(name, ()))
            self.length += whole
            self.seen += sum(end - start for start, end in kept)
            group, _, index = name.partition("/")
            kind = {"tool_calls": "call", "observations": "result"}.get(group, group)
            label = step.tool_calls[int(index)].name if kind == "call" else kind
            passages = list(_split_passages(text, whole, kept))
            self.fields.append({"name": name, "kind": kind, "label": visible(label[:80]), "passages": passages})

    @property
    def word(self) -> str:
        if not self.is_seen:
            return "not shown"
        return "shown" if self.seen >= self.length else "shown in part"


class SeenTrial:
    """One trial of the evidence. Without a compaction it is unknown what was shown. `runs`: of shown steps, on the
    strip."""

    def __init__(self, evidence: DecisionEvidence, query: Mapping[str, str]) -> None:
        self.evidence, self.window = evidence, None
        self.steps, self.runs = list[SeenStep](), list[dict[str, object]]()
        if evidence.compaction is None:
            return
        trajectory = evidence.compaction.trajectory
        self.window = window = parse_window(trajectory.steps_total, query)
        spans: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
        reasons: dict[int, dict[str, None]] = defaultdict(dict)
        for step, name, start, end, _length, reason in orjson.loads(Blob.objects.read(evidence.compaction.spans_id)):
            spans[step][name].append((start, end))
            reasons[step][reason] = None
        for stored in read_page(trajectory, window.first, window.count):
            number = stored.step.number
            self.steps.append(SeenStep(stored, spans.get(number), reasons[number]))
        ends: list[list[int]] = []  # neighbouring kept steps as one run
        for number in sorted(spans):
            if ends and number == ends[-1][1] + 1:
                ends[-1][1] = number
            else:
                ends.append([number, number])
        scale = STRIP / max(trajectory.steps_total, 1)
        for first, last in ends[:MAX_RUNS]:
            word, width = f"{first}" if first == last else f"{first}–{last}", max((last - first + 1) * scale, 2.0)
            self.runs.append({"first": first, "word": word, "x": (first - 1) * scale, "width": width})


def _split_passages(text: str, whole: int, kept: Sequence[tuple[int, int]]) -> Iterator[SeenPassage]:
    """Split the field from its beginning to its end.
    `text` may be cut short of `whole`: only a beginning was loaded."""
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


# --- the twin -------------------------------------------------------------------------------------------------------


CALL = JsonShape(
    "id=public_id key model scripted status input_tokens cached_tokens output_tokens cost_usd started_at finished_at",
    "price_table? error?",
)
MESSAGE = JsonShape("role length", ("text", lambda message: message.text[:JSON_CHARS]))
TURN = JsonShape(
    "purpose=call.purpose",
    ("said", lambda turn: turn.text[:JSON_CHARS]),
    "held_back=is_held_back",
    ("call", lambda turn: CALL.read(turn.call)),
)
CHANGED = JsonShape("message=path added removed")
EVIDENCE = JsonShape(
    "trial compaction=compaction.kind steps_kept=compaction.steps_kept steps_total=compaction.steps_total"
)
STEP = JsonShape("number shown=is_seen reasons characters_shown=seen characters=length")
SESSION_STEP = JsonShape(
    "number source", ("texts", lambda step: [[field.kind, field.label] for field in step.fields]), "is_error"
)
