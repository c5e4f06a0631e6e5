"""`/runs/<id>/library/author/`, what the author saw: its prompt and reply, and the evidence with what was cut greyed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from benchapp.models import Blob, ModelCall, Run
from inspector.author_call import MAX_SECTION, AuthorCall, SeenStep, open_author_call, prompt_of
from inspector.pages import absolute, choose, render_page
from inspector.talk import Turn
from inspector.views.review.closed import closed_to, of_open_run
from runner.author_calls import PURPOSES

JSON_CHARS = 400_000  # of one text in the twin; the whole is at the text's own address


@require_safe
@of_open_run
def author_call(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    episodes = list(run.episodes.annotate(decisions_total=Count("decisions")))
    episode = choose(episodes, request.GET.get("episode", ""), lambda one: one.decisions_total)
    this = open_author_call(episode, request.GET) if episode else None
    if this and this.chosen and (closed := closed_to(request, trial=this.chosen.evidence.trial, as_json=as_json)):
        return closed
    data = {
        "run": {"id": run.public_id, "condition": run.condition, "scripted": run.scripted},
        "episode": episode.public_id if episode else None,
        **(_as_json(request, run, this) if this else {"decision": None}),
        "next": None,
    }
    context = {"section": "run", "this_run": run, "this_episode": episode, "this": this, "max_section": MAX_SECTION}
    return render_page(request, "inspector/author_call.html", data=data, context=context, as_json=as_json)


@require_safe
@of_open_run
def author_text(request: HttpRequest, run: Run, call_id: UUID, part: str) -> HttpResponse:
    """One text of a call, whole and exactly as recorded: `reply`, or the number of a message from 1 on."""
    readable = Q(decisions__isnull=False) | Q(purpose__in=PURPOSES)
    call = get_object_or_404(ModelCall.objects.filter(readable, episode__run=run).distinct(), public_id=call_id)
    return HttpResponse(_text(call, part), "text/plain; charset=utf-8")


def _text(call: ModelCall, part: str) -> str:
    if part == "reply" and call.reply_id:
        return str(orjson.loads(Blob.objects.read(call.reply_id)).get("text") or "")
    texts = prompt_of(orjson.loads(Blob.objects.read(call.request_id))).texts
    if part.isdecimal() and 1 <= int(part[:6]) <= len(texts):
        return texts[int(part) - 1]
    raise Http404("no such text")


def _as_json(request: HttpRequest, run: Run, this: AuthorCall) -> dict[str, Any]:
    decision, call = this.decision, this.decision.call
    texts = this.prompt.texts if this.prompt else ()
    messages = this.prompt.messages if this.prompt else ()
    return {
        "decision": decision.number,
        "status": decision.status,
        "call": _call_as_json(call) if call else None,
        "prompt": [
            {
                "role": message.role,
                "length": message.length,
                "text": text[:JSON_CHARS],
                "whole": absolute(request, "author-text", run.public_id, call.public_id, str(place)) if call else None,
            }
            for place, (message, text) in enumerate(zip(messages, texts, strict=True), start=1)
        ],
        "reply": this.reply.text[:JSON_CHARS] if this.reply else None,
        "talk": [_turn_as_json(turn) for turn in this.talk],
        "evidence": [
            {
                "trial": row.trial.public_id,
                "compaction": row.compaction.kind if row.compaction else None,
                "steps_kept": row.compaction.steps_kept if row.compaction else None,
                "steps_total": row.compaction.steps_total if row.compaction else None,
            }
            for row in this.evidence
        ],
        "steps": [_step_as_json(step) for step in this.chosen.steps] if this.chosen else [],
    }


def _call_as_json(call: ModelCall) -> dict[str, Any]:
    names = ("key", "model", "scripted", "status", "input_tokens", "cached_tokens", "output_tokens", "cost_usd")
    found = {name: getattr(call, name) for name in (*names, "started_at", "finished_at")}
    return {"id": call.public_id, **found, "price_table": call.price_table or None, "error": call.error or None}


def _turn_as_json(turn: Turn) -> dict[str, Any]:
    told = {"purpose": turn.call.purpose, "said": turn.said[:JSON_CHARS], "held_back": turn.is_held_back}
    return {**told, "call": _call_as_json(turn.call)}


def _step_as_json(step: SeenStep) -> dict[str, Any]:
    return {
        "number": step.number,
        "shown": step.is_seen,
        "reasons": step.reasons,
        "characters_shown": step.seen,
        "characters": step.length,
    }
