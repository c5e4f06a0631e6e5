"""`/review/queues/<id>/results/`: the taxonomy one can publish, its figures, and everything as files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from uuid import UUID

import orjson
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import reverse

from benchapp.exports.formats import csv_pieces
from benchapp.models import Label, Queue, QueueItem, Review, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.blinding import (
    AskedElsewhere,
    ReviewAccess,
    asked_elsewhere,
    open_to,
    reviews_alone,
    still_to_code,
)
from benchapp.review.coding.queue_agreement import report_to_publish
from benchapp.review.queues.populations import FACETS
from benchapp.review.results.code_counts import count_together
from benchapp.review.results.queue_results import Basis, NotTogether, TaxonomyRow
from benchapp.review.results.review_exports import (
    LABELS_AS,
    TAXONOMY,
    LabelExport,
    number,
    taxonomy_rows,
    taxonomy_table,
)
from benchapp.review.seeing import note_seen
from benchapp.stats.inference.shares import MIN_FOR_INTERVAL, half_up, wilson
from inspector.charts.chart_request import ChartCard
from inspector.charts.chart_table import csv_text
from inspector.charts.drawing.palette import twins
from inspector.charts.drawn_chart import figure_json
from inspector.pages.review.queues.queues import load_queue, may_manage
from inspector.pages.review.results.agreement_view import SURE
from inspector.pages.review.results.causes import RankedCauses, answer_of, cell_text, count_text, ends_text
from inspector.pages.review.results.results import (
    ATTRIBUTIONS,
    COUNTS,
    COVERS,
    MAX_GROUPS,
    NOT_REPORTED,
    Example,
    Results,
    parse_choices,
)
from inspector.pages.review.results.results_charts import FIGURES, PER_SAID, choose_rows, most_used
from inspector.web.access import user_of
from inspector.web.responses import PageLink, attach, render_page
from runner.base.text import plural

TEX = "application/x-tex; charset=utf-8"
CSV = "text/csv; charset=utf-8"
PAIRED = 7  # causes of the table that says which come together
SHARED = 20  # items that two people reviewed, before agreement on single causes says anything


class ResultsRefused(Exception):
    """No results for this address or this person: the status and what to say."""

    def __init__(self, status: int, sentences: list[str], queue: Queue) -> None:
        super().__init__(" ".join(sentences))
        self.status, self.sentences, self.queue = status, sentences, queue


def results(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    try:
        found = _load_results(request, public_id)
    except ResultsRefused as refused:
        return _render_refusal(request, refused, as_json=as_json)
    data = _read_twin(found)
    context = {} if as_json else _read_context(found, user_of(request))
    return render_page(request, "review/results.html", data=data, context=context, as_json=as_json)


def results_chart(request: HttpRequest, public_id: UUID, key: str, form: str) -> HttpResponse:
    """Return one figure with its numbers, as JSON that the page draws, or its table as CSV."""
    if key not in FIGURES or form not in {"json", "csv"}:
        raise Http404(f"There are {', '.join(FIGURES)}, each as json and csv.")
    try:
        found = _load_results(request, public_id)
    except ResultsRefused as refused:
        return _render_refusal(request, refused, as_json=True)
    figure = FIGURES[key]
    drawing = figure.draw(found)
    if form == "csv":
        text = csv_text(drawing.table, request.build_absolute_uri)
        return HttpResponse(text, CSV, headers=attach(f"taxonomy-{key}.csv"))
    records = drawing.table.records()
    data = {
        "key": key,
        "title": f"{figure.title}: {found.heading.codebook} v{found.heading.version}",
        "question": found.heading.one_line,  # under the title of a picture that is saved
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


def results_export(request: HttpRequest, public_id: UUID, form: str) -> HttpResponseBase:
    """Export the taxonomy as CSV or as a LaTeX table; its JSON is the twin of the page."""
    if form not in {"csv", "tex"}:
        raise Http404("There are results.csv, results.tex and results.json.")
    try:
        found = _load_results(request, public_id)
    except ResultsRefused as refused:
        return _render_refusal(request, refused, as_json=True)
    if form == "tex":
        return HttpResponse(taxonomy_table(found.taxonomy, found.heading), TEX, headers=attach("taxonomy.tex"))
    rows = csv_pieces(TAXONOMY, taxonomy_rows(found.taxonomy, found.heading))
    return HttpResponse(b"".join(rows), CSV, headers=attach("taxonomy.csv"))


def labels_export(request: HttpRequest, public_id: UUID, form: str) -> HttpResponseBase:
    """Export every label. Quotes and memos leave only when asked for: `?quotes=1`, `?memos=1`."""
    if form not in LABELS_AS:
        raise Http404(f"There are labels as {', '.join(LABELS_AS)}.")
    queue = load_queue(public_id)
    try:
        _check_open([queue], user_of(request))
    except ResultsRefused as refused:
        return _render_refusal(request, refused, as_json=True)
    asked = {name: request.GET.get(name) == "1" for name in ("quotes", "memos")}
    export = LabelExport(queue, user_of(request), **asked)
    return StreamingHttpResponse(export.pieces(form), content_type=LABELS_AS[form], headers=attach(f"labels.{form}"))


# --- who may see results --------------------------------------------------------------------------------------------


def _load_results(request: HttpRequest, public_id: UUID) -> Results:
    queue, user = load_queue(public_id), user_of(request)
    _check_open([queue], user)  # first: a refusal must not depend on what there is
    asked, problems = parse_choices(request.GET)
    others = {
        each.public_id: each
        for each in Queue.objects.select_related("version__codebook").filter(public_id__in=asked.also)
    }
    problems += [f"also: there is no queue {each}" for each in asked.also if each not in others]
    if problems:
        raise ResultsRefused(400, problems, queue)
    queues = [queue, *(others[each] for each in asked.also if each != public_id)]
    if queues[1:]:
        _check_open(queues[1:], user)
    try:
        return Results(queues, asked)
    except NotTogether as error:
        raise ResultsRefused(400, [str(error)], queue) from error


def _check_open(queues: list[Queue], user: User) -> None:
    """Refuse anyone who has still to answer in these queues, or elsewhere about the same."""
    if left := still_to_code(queues, user):
        items = f"You still have {plural(left, 'item')} to code here"
        if all(reviews_alone(queue, user) for queue in queues):
            sentence = f"{items}. Results open when these are done, or when the queue is closed."
        else:
            sentence = f"{items} before you see what others said. Results open after that."
        raise ResultsRefused(403, [sentence], queues[0])
    if asked_elsewhere(queues, user):
        raise ResultsRefused(403, [str(AskedElsewhere(queues, user))], queues[0])
    for queue in queues:
        note_seen(user, queue)


def _render_refusal(request: HttpRequest, refused: ResultsRefused, *, as_json: bool) -> HttpResponse:
    is_closed, user = refused.status == 403, user_of(request)
    total, own = _count_own(refused.queue, user) if is_closed else (0, [])
    data = {"problems": refused.sentences, "own_items": total, "own": own}
    may_close = is_closed and refused.queue.is_open and may_manage(refused.queue, user)
    context = {"queue": refused.queue, "is_closed": is_closed, "may_close": may_close}
    return render_page(
        request, "review/results_refused.html", data=data, context=context, as_json=as_json, status=refused.status
    )


class OwnCount(Shaped):
    """How many of a reviewer's items carry a code; no interval where they are too few for one. `percents`: the
    interval in whole percent."""

    json_shape = JsonShape("code items of interval")

    def __init__(self, code: str, items: int, of: int) -> None:
        self.code, self.items, self.of = code, items, of
        self.interval = wilson(items, of) if of >= MIN_FOR_INTERVAL else None
        self.percents = [int(half_up(100 * end)) for end in self.interval or ()]


def _count_own(queue: Queue, user: User) -> tuple[int, list[OwnCount]]:
    """Return (items that this person submitted, their codes, the most frequent first). Two queries. Their own labels
    give nothing away: no condition is named, and nobody else's answer is counted."""
    own = Review.objects.filter(item__queue=queue, reviewer=user, state=Review.State.SUBMITTED)
    total = own.count()
    labels = Label.objects.filter(mark__review__in=own).order_by().values_list("code__name")
    counted = labels.annotate(items=Count("mark__review", distinct=True)).order_by("-items", "code__name")
    return total, [OwnCount(name, items, total) for name, items in counted]


# --- the page -------------------------------------------------------------------------------------------------------


def _read_context(results: Results, user: User) -> dict[str, object]:
    examples = results.examples(user)
    asked, pers = results.asked, results.taxonomy.pers
    causes = RankedCauses(results, examples)
    heads = causes.heads()
    return {
        "section": "review",
        "results": results,
        "queue": results.queues[0],
        "heading": results.heading,
        "causes": causes,
        "answer": answer_of(results, causes),
        "examples_missing": _explain_missing(causes, user),
        "group_heads": heads,
        "group_rows": causes.group_rows(heads),
        "groups_left": max(0, len(results.taxonomy.values(asked.by)) - MAX_GROUPS),
        "together": _read_pairs(results),
        "agreed": _read_agreed(results, causes),
        "reviewers": len({review.reviewer for review in results.coding.reviews}),
        "may_go_on": user.may(User.Level.REVIEWER) and open_to(user).filter(queue=results.queues[0]).exists(),
        "taxonomy_rows": [_read_row(results, row, examples) for row in results.rows],
        "one_share": all(row.shares[per].shown == row.shares[pers[0]].shown for row in results.rows for per in pers),
        "undrawn": len(results.rows) - len(choose_rows(results.rows)),
        "pers": [(per, PER_SAID[per], f"?{asked.query(per=per)}") for per in pers],
        "per": results.per,
        "asked": asked,
        "controls": any(row.controls for row in results.rows),
        "facets": _read_facets(results),
        "by": [(name, title, f"?{asked.query(by=name)}#by") for name, title in FACETS.items()],
        "by_title": FACETS[asked.by],
        "attributions": [
            (row, [number(round(blamed[value], 1)) if blamed.get(value) else "" for value, _ in ATTRIBUTIONS])
            for row, blamed in results.attributions
        ],
        "attribution_heads": [title for _, title in ATTRIBUTIONS],
        "covers": list(COVERS.items()),
        "covered": COVERS[asked.covers],
        "counts": list(COUNTS.items()),
        "unresolved": results.heading.counted[Basis.SPLIT],
        "guesses": results.guesses,
        "seconds": results.seconds,
        "export_query": asked.query(),
        "cards": {key: _draw_card(results, key) for key in FIGURES},
    }


def _draw_card(results: Results, key: str) -> ChartCard:
    place, query = results.queues[0].public_id, results.asked.query()
    twin, table = (
        reverse("results-chart", args=[place, key, form]) + (f"?{query}" if query else "") for form in ("json", "csv")
    )
    return ChartCard(FIGURES[key].titled(results), results.url, twin, table, large=key == "taxonomy")


def _explain_missing(causes: RankedCauses, user: User) -> str:
    """Say why a cause has no example; only trials have any. Two queries, none if every cause has one."""
    found = causes.results
    if found.coding.unit != Queue.Unit.TRIAL or all(cause.examples for cause in causes.top):
        return ""
    closed = ReviewAccess(user).closed_trials().values("pk")
    if QueueItem.objects.filter(queue__in=found.queues, trial__in=closed).exists():
        return "You cannot see examples yet: another queue still asks you about these trials."
    return "No review holds an example."


def _read_pairs(results: Results) -> dict[str, object]:
    """Return which causes come together. rows: name, and a (text, strength from 0 to 3) for each cause up to its own,
    whose strength is null. most: the two names that come together most."""
    codes = most_used(results)[:PAIRED]
    names = [code.name for code in codes]
    pairs = count_together(results.chosen_items, [results.coding.within(code) for code in codes])
    top = max((pair.both for (row, column), pair in pairs.items() if row != column), default=0.0)
    rows = []
    for row, name in enumerate(names):
        cells: list[tuple[str, int | None]] = []
        for column in range(row):
            both = pairs[row, column].both
            cells.append((count_text(both), int(-(-3 * both // top)) if both else 0))
        rows.append((name, [*cells, (count_text(pairs[row, row].both), None)]))
    most = max(pairs, key=lambda pair: pairs[pair].both if pair[0] < pair[1] else -1, default=None)
    return {"names": names, "rows": rows, "most": (names[most[0]], names[most[1]]) if most and top else None}


def _read_agreed(results: Results, causes: RankedCauses) -> list[dict[str, object]]:
    """Return the agreement on the used causes at the top, from the report before discussion; best first. Empty below
    SHARED items. place: percent of the way from chance to always."""
    is_one = len(results.queues) == 1 and results.heading.overlap >= SHARED
    report = report_to_publish(results.queues[0]) if is_one else None
    if report is None or report.items_total < SHARED:
        return []
    values = {row["code"]: row["value"] for row in report.values["by_code"] if row["value"] is not None}
    agreed = [(cause.code.name, values[key]) for cause in causes.top if (key := str(cause.code.public_id)) in values]
    return [
        {
            "name": name,
            "place": f"{100 * min(max(value, 0.0), 1.0):.1f}",
            "value": f"{value:.2f}".replace("-", "−"),
            "is_low": value < SURE,
        }
        for name, value in sorted(agreed, key=lambda each: -each[1])
    ]


def _read_row(results: Results, row: TaxonomyRow, examples: Mapping[int, list[Example]]) -> dict[str, object]:
    """Return the row of one cause. whole: the other interval."""
    share = row.shares[results.per]
    return {
        "row": row,
        "cells": [cell_text(row.shares[per], results.interval(row.shares[per])) for per in results.taxonomy.pers],
        "whole": ends_text(share.sampling if results.asked.covers == "clusters" else share.interval, "–", digits=1),
        "estimated": "" if row.shown_total is None else f"{row.shown_total:,.0f}",
        "controls": f"{number(row.controls[0])}/{row.controls[1]}" if row.controls else "",
        "examples": examples.get(row.code.pk, []),
    }


def _read_facets(results: Results) -> list[tuple[str, str, list[tuple[str, str, bool]]]]:
    """Return (name, title, (value in the address, label, is chosen)) for the form, without facets that have one
    value."""
    facets = []
    for name, title in FACETS.items():
        values = sorted({getattr(item.facts, name) for item in results.coding.drawn})
        if len(values) > 1 or name in results.asked.chosen:
            chosen = results.asked.chosen.get(name, ())
            options = [(value or NOT_REPORTED, value or "not reported", value in chosen) for value in values]
            facets.append((name, title, options))
    return facets


# --- the twin -------------------------------------------------------------------------------------------------------


SHARE = JsonShape("k n clusters value interval sampling note?")
ROW = JsonShape(
    "code=code.name id=code.public_id depth definition=code.definition?",
    ("shares", lambda row: {per.value: SHARE.read(share) for per, share in row.shares.items()}),
    "estimated_total=estimated",
    ("controls", lambda row: dict(zip(("k", "n"), row.controls, strict=True)) if row.controls else None),
)
GUESSES = JsonShape("right named unsure chance p")
FIRST_FAILURES = JsonShape("shares_by_tenth=shares marks_by_tenth=counts items")
SATURATION = JsonShape(
    "codes_after_each_item=found",
    ("says", lambda found: found.sentence()),
    "items_with_a_code_of_their_own=lone next_brings_a_new_one=chance at_most",
)
SELECTION = JsonShape("attempted failed population")


def _read_twin(results: Results) -> dict[str, object]:
    asked, cell = results.asked, results.taxonomy.counts
    seconds, timed = results.seconds
    page = reverse("results", args=[results.queues[0].public_id])
    names = [code.name for code, _ in results.taxonomy.tree]
    groups = [
        {
            "value": value or None,
            "codes": {name: SHARE.read(share) for name, share in zip(names, shares, strict=True)},
        }
        for value, shares in results.groups.items()
    ]
    return {
        **results.heading.as_json(),
        "queue_urls": [PageLink("queue-json", queue.public_id) for queue in results.queues],
        "problems": results.problems,
        "reviews": dict(zip(("submitted", "needed"), results.reviews, strict=True)),
        "items_shared": results.coding.shared,
        "choices": {
            "chosen": {name: sorted(values) for name, values in asked.chosen.items()},
            "unresolved": asked.counts,
            "per": results.per,
            "covers": asked.covers,
        },
        "selection": SELECTION.read(cell) if cell else None,
        "codes": [
            {**ROW.read(row), "keys": results.keys[row.code.pk], "label_url": f"{page}#code-{row.code.public_id}"}
            for row in results.rows
        ],
        "groups": {"facet": asked.by, "per": results.per, "values": groups},
        "attributions": [{"code": row.code.name, "items": blamed} for row, blamed in results.attributions],
        "saturation": SATURATION.read(results.saturation),
        "first_failures": FIRST_FAILURES.read(results.first_failures),
        "guesses": GUESSES.read(results.guesses),
        "seconds_per_item": {"median": seconds, "reviews": timed},
        "notes": list(results.notes()),
    }
