"""`/review/queues/<id>/results/`: the taxonomy one can publish, its figures, and everything as files."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from uuid import UUID

import orjson
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.exports.formats import csv_pieces
from benchapp.models import Queue, User
from benchapp.review.results.queue_results import NotTogether
from benchapp.review.results.review_exports import LABELS_AS, TAXONOMY, LabelExport, taxonomy_rows, taxonomy_table
from benchapp.review.review_access import ELSEWHERE, asked_elsewhere, reviews_alone, still_to_code
from benchapp.review.seeing import note_seen
from inspector.charts.cards import ChartCard
from inspector.charts.chart_table import csv_text
from inspector.charts.drawing.palette import twins
from inspector.charts.drawn_chart import figure_json
from inspector.pages.review.queues.queues import load_queue, may_manage
from inspector.pages.review.results.own_counts import count_own
from inspector.pages.review.results.results import Results, parse_choices, results_of
from inspector.pages.review.results.results_charts import FIGURES, Figure
from inspector.pages.review.results.results_page import context_of, read_twin
from inspector.web.access import user_of
from inspector.web.responses import render_page

TEX = "application/x-tex; charset=utf-8"
CSV = "text/csv; charset=utf-8"


class ResultsRefused(Exception):
    """No results for this address or this person: the status and what to say."""

    def __init__(self, status: int, sentences: list[str], queue: Queue) -> None:
        super().__init__(" ".join(sentences))
        self.status, self.sentences, self.queue = status, sentences, queue


@require_safe
def results(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    try:
        found = _results(request, public_id)
    except ResultsRefused as refused:
        return _render_refusal(request, refused, as_json=as_json)
    data = read_twin(found)
    cards = {key: _card(found, figure) for key, figure in FIGURES.items()}
    context = {} if as_json else {**context_of(request, found), "cards": cards}
    return render_page(request, "review/results.html", data=data, context=context, as_json=as_json)


@require_safe
def results_chart(request: HttpRequest, public_id: UUID, key: str, form: str) -> HttpResponse:
    """One figure with its numbers, as JSON that the page draws, or its table as CSV."""
    if key not in FIGURES or form not in {"json", "csv"}:
        raise Http404(f"There are {', '.join(FIGURES)}, each as json and csv.")
    try:
        found = _results(request, public_id)
    except ResultsRefused as refused:
        return _render_refusal(request, refused, as_json=True)
    figure = FIGURES[key]
    drawing = figure.draw(found)
    if form == "csv":
        return _file(csv_text(drawing.table, request.build_absolute_uri), CSV, f"taxonomy-{key}.csv")
    records = drawing.table.records()
    data = {
        "key": key,
        "title": f"{figure.title}: {found.heading.codebook} v{found.heading.version}",
        "question": found.heading.one_line,  # stands under the title of a picture that is taken away
        "figure": None if drawing.figure is None else orjson.Fragment(figure_json(drawing.figure)),
        "dark": twins(),
        "table": {"columns": [column.key for column in drawing.table.columns], "rows": records},
        "notes": drawing.notes,
        "absent": drawing.absent,
        "heading": found.heading.as_json(),
        "fingerprint": sha256(orjson.dumps(records)).hexdigest()[:12],
        "as_of": datetime.now(UTC).strftime("%Y-%m-%d"),
        "permalink": request.build_absolute_uri(found.url),
    }
    return HttpResponse(orjson.dumps(data, default=str), "application/json")


@require_safe
def results_export(request: HttpRequest, public_id: UUID, form: str) -> HttpResponseBase:
    """The taxonomy as CSV or as a LaTeX table; its JSON is the twin of the page."""
    if form not in {"csv", "tex"}:
        raise Http404("There are results.csv, results.tex and results.json.")
    try:
        found = _results(request, public_id)
    except ResultsRefused as refused:
        return _render_refusal(request, refused, as_json=True)
    if form == "tex":
        return _file(taxonomy_table(found.taxonomy, found.heading), TEX, "taxonomy.tex")
    rows = taxonomy_rows(found.taxonomy, found.heading)
    return _file(b"".join(csv_pieces(TAXONOMY, rows)), CSV, "taxonomy.csv")


@require_safe
def labels_export(request: HttpRequest, public_id: UUID, form: str) -> HttpResponseBase:
    """Every label. Quotes and memos leave only when asked for: `?quotes=1`, `?memos=1`."""
    if form not in LABELS_AS:
        raise Http404(f"There are labels as {', '.join(LABELS_AS)}.")
    queue = load_queue(public_id)
    try:
        _check_open(request, [queue])
    except ResultsRefused as refused:
        return _render_refusal(request, refused, as_json=True)
    asked = {name: request.GET.get(name) == "1" for name in ("quotes", "memos")}
    export = LabelExport(queue, user_of(request), **asked)
    disposition = {"Content-Disposition": f'attachment; filename="labels.{form}"'}
    return StreamingHttpResponse(export.pieces(form), content_type=LABELS_AS[form], headers=disposition)


def _results(request: HttpRequest, public_id: UUID) -> Results:
    queue = load_queue(public_id)
    _check_open(request, [queue])  # first: a refusal must not depend on what there is
    asked, problems = parse_choices(request.GET)
    others = {
        each.public_id: each
        for each in Queue.objects.select_related("version__codebook").filter(public_id__in=asked.also)
    }
    problems += [f"also: there is no queue {each}" for each in asked.also if each not in others]
    if problems:
        raise ResultsRefused(400, problems, queue)
    queues = [queue, *(others[each] for each in asked.also if each != public_id)]
    _check_open(request, queues[1:])
    try:
        return results_of(queues, asked)
    except NotTogether as error:
        raise ResultsRefused(400, [str(error)], queue) from error


def _check_open(request: HttpRequest, queues: list[Queue]) -> None:
    left = still_to_code(queues, user_of(request)) if queues else 0
    if left:
        raise ResultsRefused(403, [_say_left(left, queues, user_of(request))], queues[0])
    if queues and asked_elsewhere(queues, user_of(request)):
        raise ResultsRefused(403, [ELSEWHERE], queues[0])
    for queue in queues:
        note_seen(user_of(request), queue)


def _say_left(left: int, queues: list[Queue], user: User) -> str:
    items = f"You still have {left} item{'' if left == 1 else 's'} to code here"
    if all(reviews_alone(queue, user) for queue in queues):
        return f"{items}. Results open when these are done, or when the queue is closed."
    return f"{items} before you see what others said. Results open after that."


def _render_refusal(request: HttpRequest, refused: ResultsRefused, *, as_json: bool) -> HttpResponse:
    is_closed, user = refused.status == 403, user_of(request)
    total, own = count_own(refused.queue, user) if is_closed else (0, [])
    data = {"problems": refused.sentences, "own_items": total, "own": own, "next": None}
    context = {"queue": refused.queue, "is_closed": is_closed, "own": own, "total": total}
    context |= {"may_close": is_closed and refused.queue.is_open and may_manage(refused.queue, user)}
    return render_page(
        request, "review/results_refused.html", data=data, context=context, as_json=as_json, status=refused.status
    )


def _card(found: Results, figure: Figure) -> ChartCard:
    tail = f"?{query}" if (query := found.asked.query()) else ""
    place = found.queues[0].public_id
    twin, table = (reverse("results-chart", args=[place, figure.key, form]) + tail for form in ("json", "csv"))
    return ChartCard(figure.titled(found), found.url, twin, table, large=figure.key == "taxonomy")


def _file(content: str | bytes, kind: str, name: str) -> HttpResponse:
    return HttpResponse(content, kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
