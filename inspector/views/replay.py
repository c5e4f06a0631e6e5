"""`/compare/replay/`: replay against acquisition as a 2x2 per group, beside the noise that a second try alone brings."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.comparing.groups import Group
from benchapp.metrics.noise import Flips, Noise
from benchapp.metrics.replay import Pairs, Replay
from inspector.charts.asking import sheet_of
from inspector.charts.sheet import Sheet
from inspector.pages import next_url, paginate, render_page
from inspector.pinning import pin_of

GROUPS_PER_PAGE = 30
CELLS = ("fail_fail", "fail_pass", "pass_fail", "pass_pass")
SOURCES = {
    "samples": "samples of one run",
    "phases": "a replay and its first try, the library unchanged between",
    "replicates": "replicates of one cell",
    "conditions": "two conditions, before anything set them apart",
}


@dataclass(frozen=True, slots=True)
class Square:
    """One cell of a 2x2: how many tasks, and where they are listed."""

    count: int
    url: str


@dataclass(frozen=True, slots=True)
class Shown:
    group: Group
    replay: Replay
    squares: dict[str, Square]


@require_safe
def replay(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison = sheet.comparison
    replayed = [group for group in comparison.groups.all if comparison.replay(group) is not None]
    page = paginate(request, replayed, per_page=GROUPS_PER_PAGE)
    shown = [_shown(sheet, group) for group in page]
    noise = comparison.noise
    pin = pin_of(request, comparison)
    data = {
        "choices": comparison.choices.pairs(),
        "problems": sheet.problems,
        "pin": pin.as_json(),
        "scripted": comparison.scripted,
        "noise": asdict(noise),
        "groups": [_as_json(each) for each in shown],
        "next": next_url(request, page),
    }
    context = {
        "pin": pin,
        "page": page,
        "shown": shown,
        "flips": noise,
        "sources": _sources(noise),
        "query": comparison.choices.query(),
        "baseline": comparison.choices.baseline,
        "not_replayed": len(comparison.groups.all) - len(replayed),
    }
    return render_page(request, "inspector/compare_replay.html", data=data, context=context, as_json=as_json)


def _shown(sheet: Sheet, group: Group) -> Shown:
    found = sheet.comparison.replay(group)
    assert found is not None  # only groups that replayed something are asked for
    squares = {cell: Square(len(getattr(found.own, cell)), sheet.trials_url(group, replay=cell)) for cell in CELLS}
    return Shown(group, found, squares)


def _sources(noise: Noise) -> list[tuple[str, Flips]]:
    return [(said, flips) for name, said in SOURCES.items() if (flips := getattr(noise, name)).pairs]


def _as_json(shown: Shown) -> dict[str, Any]:
    found = shown.replay
    return {
        "label": shown.group.label,
        "runs": [run.public_id for run in shown.group.runs],
        "own": _pairs(found.own),
        "placebo": _pairs(found.placebo) if found.placebo else None,
        "minus": found.label,
        "net_recovery": found.net_recovery,
        "net_regression": found.net_regression,
        "net_lift": found.net_lift,
    }


def _pairs(pairs: Pairs) -> dict[str, Any]:
    counts = {cell: len(getattr(pairs, cell)) for cell in CELLS}
    rates = {"recovery": pairs.recovery, "regression": pairs.regression, "lift": pairs.lift}
    return {**counts, "unpaired": pairs.unpaired, **rates}
