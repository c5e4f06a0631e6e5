"""`/`: what there is, what is running, and whether it helped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.experiments.work.progress import AtWork, at_work
from benchapp.models import Experiment, Run
from benchapp.review.review_access import still_to_code
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.metrics.tally import TrialTally
from inspector.pages.overview.overview import SORTS, ExperimentRow, ListFilter, build_rows, count_tabs
from inspector.pages.overview.tour import Tour, find_story
from inspector.web.access import user_of
from inspector.web.closed_pages import words_of
from inspector.web.responses import PageLink, next_url, paginate, render_page, wants_fragment
from inspector.web.text.live_step import without_closed
from inspector.web.text.row_shapes import AT_WORK

PER_PAGE = 50
MAX_RUNNING = 12  # cells shown as running now
TOUR_COOKIE, HIDDEN, YEAR = "tour", "hidden", 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class LiveCell:
    """A running attempt, with how far its run has come; None for a run that is on no row of this page."""

    at: AtWork
    tally: TrialTally | None


@require_safe
def index(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    """Probes are found where their line stands, qualifications on their suite's page; here they would push the experiments off the page, so they are counted
    and listed on demand."""
    if request.GET.get("tour") in ("hide", "show") and not as_json:
        return _remember_tour(request.GET["tour"] == "show")
    asked = ListFilter.read(request.GET)
    found = asked.select()
    tabs = count_tabs(found)
    page = paginate(request, asked.order_by_tab(found), per_page=PER_PAGE)
    rows = build_rows(list(page))
    extra = Experiment.objects.standing().count_extra()
    probes = sum(count for (is_probe, _), count in extra.items() if is_probe)
    qualifications = extra.total() - probes
    live = any(Experiment.Status(status).is_open for _, status in extra) or any(row.experiment.is_open for row in rows)
    working = without_closed(words_of(request), at_work(limit=MAX_RUNNING)) if live else []
    fragment = wants_fragment(request)
    tour, pausing = (None, None) if fragment else find_story(user_of(request))
    data = {
        "experiments": rows,
        "running": [
            {**AT_WORK.read(row), "url": PageLink("run-json", row.attempt.trial.episode.run.public_id)}
            for row in working
        ],
        "tour": tour,
        "total": page.paginator.count,
        "probes": probes,
        "qualifications": qualifications,
        "next": next_url(request, page),
    }
    counts = {"probe": probes, "qualification": qualifications}
    context = {
        "extra": " and ".join(f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items() if n),
        "extra_words": " and ".join(f"{word}s" for word, n in counts.items() if n),
        **{"rows": rows, "page": page, "live": live, "asked": asked, "tabs": tabs, "sorts": SORTS.items()},
        **{"cells": _build_cells(working, rows), "open_rows": [row for row in rows if row.progress]},
        **{"is_fragment": fragment, "is_tour_shown": _is_tour_shown(request, tour), "tour_paused_by": pausing},
        "left_to_code": still_to_code([pausing], user_of(request)) if pausing else 0,
    }
    ways = {way.condition for row in rows if row.verdict for way in row.verdict.ways}
    context["drawn"] = sorted(ways, key=lambda code: (name_condition(code).order, code))
    context["without_condition"] = sum(
        all(run.condition == Run.UNKNOWN for run in row.runs) for row in rows if row.runs
    )
    template = "overview/_overview_live.html" if fragment else "overview/overview.html"
    return render_page(request, template, data=data, context=context, as_json=as_json)


def _remember_tour(show: bool) -> HttpResponse:
    """Per browser: whether somebody has seen enough of it is nothing to keep on record."""
    response = HttpResponseRedirect(reverse("index"))
    if show:
        response.delete_cookie(TOUR_COOKIE)
    else:
        response.set_cookie(TOUR_COOKIE, HIDDEN, max_age=YEAR, httponly=True, samesite="Lax")
    return response


def _is_tour_shown(request: HttpRequest, tour: Tour | None) -> bool:
    return tour is not None and request.COOKIES.get(TOUR_COOKIE) != HIDDEN


def _build_cells(working: Sequence[AtWork], rows: Sequence[ExperimentRow]) -> list[LiveCell]:
    tallies: Mapping[int, TrialTally] = {pk: tally for row in rows for pk, tally in row.of_runs.items()}
    return [LiveCell(each, tallies.get(each.attempt.trial.episode.run_id)) for each in working]
