"""`/runs/<id>/library/author/`, what the author saw: its prompt and reply, and the evidence with what was cut greyed."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import orjson
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from benchapp.models import Blob, ModelCall, Run
from benchapp.record.json_shape import JsonShape
from inspector.pages.library.author_call import MAX_SECTION, AuthorCall, open_author_call, parse_prompt
from inspector.pages.library.library_view import choose_episode
from inspector.web.closed_pages import refuse_closed
from inspector.web.responses import PageLink, render_page
from inspector.web.subject import of_run
from inspector.web.text.row_shapes import RUN_HEAD
from runner.engine.author_calls import PURPOSES

JSON_CHARS = 400_000  # of one text in the twin; the whole is at the text's own address


@require_safe
@of_run
def author_call(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    _, episode = choose_episode(run, request.GET.get("episode", ""))
    this = open_author_call(episode, request.GET) if episode else None
    if this and this.chosen and (closed := refuse_closed(request, trial=this.chosen.evidence.trial, as_json=as_json)):
        return closed
    data = {
        "run": RUN_HEAD.read(run),
        "episode": episode,
        **(_twin(run, this) if this else {"decision": None}),
        "next": None,
    }
    context = {"section": "run", "this_run": run, "this_episode": episode, "this": this, "max_section": MAX_SECTION}
    return render_page(request, "library/author_call.html", data=data, context=context, as_json=as_json)


@require_safe
@of_run
def author_text(request: HttpRequest, run: Run, call_id: UUID, part: str) -> HttpResponse:
    """One text of a call, whole and exactly as recorded: `reply`, or the number of a message from 1 on."""
    readable = Q(decisions__isnull=False) | Q(purpose__in=PURPOSES)
    call = get_object_or_404(ModelCall.objects.filter(readable, episode__run=run).distinct(), public_id=call_id)
    return HttpResponse(_read_text(call, part), "text/plain; charset=utf-8")


def _read_text(call: ModelCall, part: str) -> str:
    if part == "reply" and call.reply_id:
        return str(orjson.loads(Blob.objects.read(call.reply_id)).get("text") or "")
    texts = parse_prompt(Blob.objects.read(call.request_id)).texts
    if part.isdecimal() and 1 <= int(part[:6]) <= len(texts):
        return texts[int(part) - 1]
    raise Http404("no such text")


def _prompt_twin(run: Run, this: AuthorCall) -> Iterator[dict[str, object]]:
    prompt, call = this.prompt, this.decision.call
    if prompt is None or call is None:
        return
    for place, (message, text) in enumerate(zip(prompt.messages, prompt.texts, strict=True), start=1):
        whole = PageLink("author-text", run.public_id, call.public_id, str(place))
        yield {**MESSAGE.read(message), "text": text[:JSON_CHARS], "whole": whole}


CALL = JsonShape(
    *("id=public_id", "key", "model", "scripted", "status", "input_tokens", "cached_tokens", "output_tokens"),
    *("cost_usd", "started_at", "finished_at", "price_table?", "error?"),
)
MESSAGE = JsonShape("role", "length")
TURN = JsonShape(
    *("purpose=call.purpose", ("said", lambda turn: turn.said[:JSON_CHARS]), "held_back=is_held_back"),
    ("call", lambda turn: CALL.read(turn.call)),
)
CHANGED = JsonShape("message=path", "added", "removed")
DIFFERENCE = JsonShape(
    *("role", "occasion"),
    ("messages", lambda found: CHANGED.read_all(diff for _, diff in found.diffs)),
)
PACK = JsonShape("packs", "missing?", ("differences", lambda pack: DIFFERENCE.read_all(pack.differences)))
EVIDENCE = JsonShape(
    *("trial", "compaction=compaction.kind", "steps_kept=compaction.steps_kept"),
    "steps_total=compaction.steps_total",
)
STEP = JsonShape("number", "shown=is_seen", "reasons", "characters_shown=seen", "characters=length")
DECISION = JsonShape(
    *("decision=decision.number", "status=decision.status"),
    ("call", lambda this: this.decision.call and CALL.read(this.decision.call)),
)
SESSION_STEP = JsonShape(
    "number", "source", ("texts", lambda step: [[field.kind, field.label] for field in step.fields]), "is_error"
)
SESSION = JsonShape(
    *("agent=trajectory.agent_name", "version=trajectory.agent_version", "turns", "seconds"),
    *("trajectory=trajectory.public_id", "steps_total=trajectory.steps_total"),
    ("steps", lambda session: [SESSION_STEP.read(card.step) for card in session.reading.cards]),
)
SHOWN = JsonShape(
    ("reply", lambda this: this.reply.text[:JSON_CHARS] if this.reply else None),
    ("talk", lambda this: TURN.read_all(this.talk)),
    ("evidence", lambda this: EVIDENCE.read_all(this.evidence)),
    ("steps", lambda this: STEP.read_all(this.chosen.steps) if this.chosen else []),
    "session_steps",
    ("session", lambda this: this.session and SESSION.read(this.session)),
)


def _twin(run: Run, this: AuthorCall) -> dict[str, object]:
    pack = {"pack": PACK.read(this.pack)} if this.pack else {}
    return {**DECISION.read(this), "prompt": list(_prompt_twin(run, this)), **pack, **SHOWN.read(this)}
