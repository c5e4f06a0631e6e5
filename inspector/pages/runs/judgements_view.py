"""`/runs/<id>/judgements/`: how a judging model scored a run, level by level; each score opens its prompt and reply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from benchapp.judges.judge_scores import (
    COLUMNS,
    LEVEL_1,
    LEVEL_2,
    MEASURES,
    PARTS,
    MeasuredOutcome,
    contradictions,
    count_retried,
    endings,
    outcome_rows,
    outcomes_by_family,
)
from benchapp.judges.robustness import Spread, over_replicates, over_samples, replicates_of
from benchapp.models import Blob, Family, JudgedUnit, Judging, JudgingTry, Run
from benchapp.models.judgements import UNUSABLE
from benchapp.record.json_shape import JsonShape
from benchapp.stats.judged import JudgedRow, Mean, by_measure, mean_over_tasks, read_judged_rows
from inspector.web.responses import PageLink, paginate, render_page
from inspector.web.subject import choose_row, of_run, refuse_closed, review_access
from inspector.web.text.row_shapes import RUN_HEAD
from runner.base.text import parse_count
from runner.judging.metrics import REFERENCES, SCORED, Metric

PER_PAGE = 40
MAX_REASON = 600
NO_FAMILY = "tasks without a family"
ASKED_METRICS = (*SCORED, *REFERENCES)
STATUS_WORDS = {
    "asked": "not answered yet",
    "ok": "ok",
    "partial": "partial",
    "malformed": "no JSON",
    "prose": "words around the JSON",
    "wrong-type": "wrong type",
    "out-of-range": "outside the scale",
    "empty": "empty",
    "refused": "refused",
    "failed": "no reply",
    "no-points": "no key points",
    "no-reference": "nothing to compare it with",
    "no-trajectory": "no trajectory",
}
MAX_SHOWN = 60_000  # characters of one text on the page; the twin has the whole
# Of the measured ones the first is of level 2, the others are of level 3.
HEADS = {"level_1": LEVEL_1, "level_2": LEVEL_2, "measured": COLUMNS}


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A row of the table: the measures of levels 1 and 2 in their order, then what needs no judge.
    family -1: of none."""

    name: str
    family: int | None
    means: tuple[Mean | None, ...]
    outcomes: tuple[MeasuredOutcome, ...]


class Ending:
    """How the questions of one metric ended. `counts`: status, its words, units."""

    def __init__(self, metric: Metric, found: Counter[str], contradictions: int) -> None:
        self.metric, self.total, self.contradictions = metric, found.total(), contradictions
        self.counts = [(status, words, found[status]) for status, words in STATUS_WORDS.items() if found[status]]
        self.unusable = sum(count for status, _, count in self.counts if status in UNUSABLE)


@of_run
def judgements(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    """Show one pass: a table by task, the parts, how questions ended, how far it spreads, and its questions."""
    passes = list(Judging.objects.of_run(run).select_related("run"))
    judging = choose_row(passes, request.GET.get("judging", ""))
    data: dict[str, object] = {"run": RUN_HEAD.read(run), "passes": JUDGED_BY.read_all(passes), "judging": judging}
    context = {
        "section": "run",
        "this_run": run,
        "all_passes": passes,
        "this_pass": judging,
        "heads": HEADS,
        "status_words": STATUS_WORDS,
        "max_reason": MAX_REASON,
    }
    if judging is None:
        data["questions"] = []
        return render_page(request, "runs/judgements.html", data=data, context=context, as_json=as_json)
    rows = read_judged_rows([judging])[judging.pk]
    by_family, of_all = outcomes_by_family(run)
    lines = _list_lines(rows, by_family)
    whole = TaskLine("mean over tasks", None, _find_means(rows), tuple(of_all))
    measured = by_measure(rows)
    parts = [(measure, mean_over_tasks(measured.get(measure.key, ()))) for measure in PARTS]
    found, against = endings(judging), contradictions(judging)
    ended = [Ending(each, found[each], against.get(each, 0)) for each in ASKED_METRICS if each in found]
    retried, spreads = count_retried(judging), _list_spreads(run, judging, rows)

    # The questions, without trials that are closed to this person.
    metric, status, family = (request.GET.get(name, "") for name in ("metric", "status", "family"))
    units = judging.units.exclude(attempt__trial__in=review_access(request).closed_trials())
    metric = metric if metric in set(ASKED_METRICS) else ""
    status = status if status in STATUS_WORDS else ""
    asked_family = parse_count(family, 2**63 - 1)
    if metric:
        units = units.filter(metric=metric)
    if status:
        units = units.filter(status=status)
    if asked_family is not None:
        units = units.filter(task__family=asked_family)
    units = units.select_related("task__family", "attempt__trial", "source__judging__run")
    units = units.prefetch_related("judgements").annotate(tries_total=Count("tries")).order_by("pk")
    page = paginate(request, units, per_page=PER_PAGE)
    data |= {
        "tasks": [_line_twin(line) for line in lines],
        "mean_over_tasks": _line_twin(whole),
        "parts": {str(measure.key): mean and MEAN.read(mean) for measure, mean in parts},
        "endings": [
            {**ENDING.read(ending), **{status: count for status, _, count in ending.counts}} for ending in ended
        ],
        "asked_again": retried,
        "spread": [
            {"measure": name, **{of: found and SPREAD.read(found) for of, found in both.items()}}
            for name, both in spreads
        ],
        "questions": QUESTION.read_all(page),
    }
    context["this"] = {
        "lines": lines,
        "whole": whole,
        "parts": parts,
        "endings": ended,
        "unusable": sum(ending.unusable for ending in ended),
        "retried": retried,
        "spreads": spreads,
        "metric": metric,
        "status": status,
        "family": asked_family,
    }
    return render_page(request, "runs/judgements.html", data=data, context=context, page=page, as_json=as_json)


def _list_lines(rows: Sequence[JudgedRow], by_family: Mapping[int, Sequence[MeasuredOutcome]]) -> list[TaskLine]:
    """Return task by task in the order of the suite."""
    by_task: dict[int, list[JudgedRow]] = {pk: [] for pk in by_family}
    for row in rows:
        by_task.setdefault(-1 if row.family is None else row.family, []).append(row)
    families = {family.pk: family for family in Family.objects.filter(pk__in=list(by_task))}
    order = sorted(by_task, key=lambda pk: (families[pk].ordinal, families[pk].key) if pk in families else (10**9, ""))
    return [
        TaskLine(
            families[pk].name if pk in families else NO_FAMILY,
            pk,
            _find_means(by_task[pk]),
            tuple(by_family.get(pk, ())),
        )
        for pk in order
    ]


def _find_means(rows: Sequence[JudgedRow]) -> tuple[Mean | None, ...]:
    found = by_measure(rows)
    return tuple(mean_over_tasks(found.get(measure.key, ())) for measure in MEASURES)


def _list_spreads(run: Run, judging: Judging, rows: Sequence[JudgedRow]) -> list[tuple[str, dict[str, Spread | None]]]:
    """Return each measure that was sampled or rerun more than once, with its spread over samples and replicates."""
    samples = over_samples([*rows, *outcome_rows(run)])
    alike = read_judged_rows(replicates_of(judging))
    replicates = over_replicates(alike) if len(alike) > 1 else {}
    lines = []
    for key, name in [*((str(measure.key), measure.name) for measure in MEASURES), ("accuracy", "accuracy")]:
        found = {"samples": samples.get(key), "replicates": replicates.get(key)}
        both = {of: spread if spread and spread.n > 1 else None for of, spread in found.items()}
        if any(both.values()):
            lines.append((name, both))
    return lines


def _line_twin(line: TaskLine) -> dict[str, object]:
    judged = {str(measure.key): mean and MEAN.read(mean) for measure, mean in zip(MEASURES, line.means, strict=True)}
    outcomes = {each.metric.key: OUTCOME.read(each) for each in line.outcomes}
    return {"task": line.name, **judged, **outcomes}


def judged_unit(request: HttpRequest, public_id: UUID, unit_id: UUID, *, as_json: bool = False) -> HttpResponse:
    """Show one question with every prompt and reply, exactly as they were sent and came."""
    run = get_object_or_404(Run.objects.for_detail(), public_id=public_id)
    related = ("judging__run", "task__family", "attempt__trial", "source__judging__run")
    unit = get_object_or_404(JudgedUnit.objects.select_related(*related), public_id=unit_id, judging__run=run)
    trial = unit.attempt.trial if unit.attempt else None
    if closed := refuse_closed(request, run=run, as_json=as_json):
        return closed
    if trial is not None and review_access(request).closing(trial=trial):
        raise Http404("closed to a blind reviewer")
    tries = [_build_try(row) for row in unit.tries.select_related("request", "reply")]
    data = {
        "run": RUN_HEAD.read(run),
        "judging": JUDGED_BY.read(unit.judging),
        "question": QUESTION.read(unit),
        "points": unit.points,
        "tries": tries,
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


# --- the twins --------------------------------------------------------------------------------------------------------


MEAN = JsonShape("value rows tasks")
OUTCOME = JsonShape("mean *rate")
ENDING = JsonShape("metric questions=total contradictions")
SPREAD = JsonShape("n mean sd")
JUDGED_BY = JsonShape("id=public_id model scripted prompt_version repeat metrics started_at finished_at stopped")
JUDGEMENT = JsonShape("item raw label? value reason")
QUESTION = JsonShape(
    "id=public_id metric task=task.key skill? trial=attempt.trial key_point=point? status problem?",
    ("items", lambda unit: JUDGEMENT.read_all(unit.judgements.all())),
    ("url", lambda unit: PageLink("judged-unit-json", unit.judging.run.public_id, unit.public_id)),
)
