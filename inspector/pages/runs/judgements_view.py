"""`/runs/<id>/judgements/`: what a judging model said of a run, level by level; each score opens its prompt and reply."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from benchapp.models import Blob, JudgedUnit, Judging, JudgingTry, Run
from benchapp.record.json_shape import JsonShape
from inspector.pages.runs.judgements import HEADS, MAX_REASON, PER_PAGE, STATUS_WORDS, TABLES, JudgementsPage
from inspector.web.closed_pages import refuse_closed, words_of
from inspector.web.responses import PageLink, next_url, paginate, render_page
from inspector.web.subject import choose_row, of_run
from inspector.web.text.row_shapes import RUN_HEAD

MAX_SHOWN = 60_000  # characters of one text on the page; the twin has the whole


@require_safe
@of_run
def judgements(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    passes = list(Judging.objects.of_run(run).select_related("run"))
    judging = choose_row(passes, request.GET.get("judging", ""))
    this = JudgementsPage(run, judging, request.GET, words_of(request).closed_trials()) if judging else None
    page = paginate(request, this.units, per_page=PER_PAGE) if this else None
    data = {
        "run": RUN_HEAD.read(run),
        "passes": JUDGED_BY.read_all(passes),
        "judging": judging,
        **(TABLES.read(this) if this else {}),
        "questions": QUESTION.read_all(page or ()),
        "next": next_url(request, page) if page is not None else None,
    }
    context = {
        "section": "run",
        "this_run": run,
        "all_passes": passes,
        "this_pass": judging,
        "this": this,
        "page": page,
        "heads": HEADS,
        "status_words": STATUS_WORDS,
        "max_reason": MAX_REASON,
    }
    return render_page(request, "runs/judgements.html", data=data, context=context, as_json=as_json)


@require_safe
def judged_unit(request: HttpRequest, public_id: UUID, unit_id: UUID, *, as_json: bool = False) -> HttpResponse:
    """One question with every prompt and reply, exactly as they were sent and came."""
    run = get_object_or_404(Run.objects.for_detail(), public_id=public_id)
    related = ("judging__run", "task__family", "attempt__trial", "source__judging__run")
    unit = get_object_or_404(JudgedUnit.objects.select_related(*related), public_id=unit_id, judging__run=run)
    trial = unit.attempt.trial if unit.attempt else None
    if closed := refuse_closed(request, run=run, as_json=as_json):
        return closed
    if trial is not None and words_of(request).closing(trial=trial):
        raise Http404("closed to a blind reviewer")
    tries = [_build_try(row) for row in unit.tries.select_related("request", "reply")]
    data = {
        "run": RUN_HEAD.read(run),
        "judging": JUDGED_BY.read(unit.judging),
        "question": QUESTION.read(unit),
        "points": unit.points,
        "tries": tries,
        "next": None,
    }
    context = {
        "section": "run",
        "this_run": run,
        "this_pass": unit.judging,
        "unit": unit,
        "trial": trial,
        "shown_tries": tries,
        "status_words": STATUS_WORDS,
        "max_shown": MAX_SHOWN,
    }
    return render_page(request, "runs/judged_unit.html", data=data, context=context, as_json=as_json)


def _build_try(row: JudgingTry) -> dict[str, object]:
    request, reply = _read_content(row.request), _read_content(row.reply)
    messages = [message for message in request.get("messages", []) if isinstance(message, dict)]
    return {
        "number": row.number,
        "asked_at": row.asked_at,
        "messages": [{"role": str(each.get("role")), "text": str(each.get("content"))} for each in messages],
        "seed": request.get("seed"),
        "temperature": request.get("temperature"),
        "reply": str(reply.get("text") or "") if row.reply_id else None,
        "finish_reason": str(reply.get("finish_reason") or ""),
        "not_sent": [str(each) for each in reply.get("not_sent") or ()],
        "error": row.error,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "cost_usd": row.cost_usd,
    }


def _read_content(blob: Blob | None) -> dict[str, Any]:
    value = orjson.loads(blob.content()) if blob else {}
    return value if isinstance(value, dict) else {}


JUDGED_BY = JsonShape(
    *("id=public_id", "model", "scripted", "prompt_version", "repeat", "metrics", "started_at", "finished_at"),
    "stopped",
)
JUDGEMENT = JsonShape("item", "raw", "label?", "value", "reason")
QUESTION = JsonShape(
    *("id=public_id", "metric", "task=task.key", "skill?", "trial=attempt.trial", "key_point=point?", "status"),
    *("problem?", ("items", lambda unit: JUDGEMENT.read_all(unit.judgements.all()))),
    ("url", lambda unit: PageLink("judged-unit-json", unit.judging.run.public_id, unit.public_id)),
)
