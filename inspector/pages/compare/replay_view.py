"""`/compare/replay/`: replay against acquisition as a 2x2 per group, next to the noise that a second try alone brings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.choices import NO_SKILL
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import half_up
from benchapp.stats.learning.replay_gains import ReplayPairs, ReplayResult
from benchapp.stats.metrics.noise import Flips, Noise
from inspector.charts.chart_request import sheet_of
from inspector.charts.sheet import WITHOUT_LIBRARY, ChartSheet
from inspector.pages.compare.bar_lanes import BarAxis, TwoSided, draw_two_sided
from inspector.pages.compare.results import begin_page, begin_twin
from inspector.web.responses import next_url, paginate, render_page

GROUPS_PER_PAGE = 30
CELLS = ("fail_fail", "fail_pass", "pass_fail", "pass_pass")
SOURCES = {
    "samples": "samples of one run",
    "phases": "a replay and its first try, with the same library",
    "replicates": "replicates of one cell",
    "conditions": "two conditions, before they differ",
}


@dataclass(frozen=True, slots=True)
class ReplayCell:
    """One cell of a 2x2: how many tasks, and where they are listed."""

    count: int
    url: str


@dataclass(frozen=True, slots=True)
class ReplayedGroup(Shaped):
    """A group that replayed something: its 2x2 against acquisition, and each cell's list of trials in `squares`."""

    group: Group
    replay: ReplayResult
    squares: dict[str, ReplayCell]
    drawn: SafeString = SafeString("")

    json_shape = JsonShape(
        *("label=group.label", "runs=group.runs"),
        ("own", lambda shown: _rates(shown.replay.own)),
        ("placebo", lambda shown: _rates(shown.replay.placebo)),
        *("minus=replay.label", "net_recovery=replay.net_recovery", "net_regression=replay.net_regression"),
        "net_lift=replay.net_lift",
    )


@require_safe
def replay(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison = sheet.comparison
    replayed = [group for group in sheet.groups if comparison.replay(group) is not None]
    page = paginate(request, replayed, per_page=GROUPS_PER_PAGE)
    axis = _choose_axis([comparison.replay(group) for group in page])
    shown = [_build_replayed(sheet, group, axis) for group in page]
    noise = comparison.noise
    data = {
        **begin_twin(request, sheet),
        "noise": noise,
        "groups": shown,
        "next": next_url(request, page),
    }
    context = {
        **begin_page(comparison, "compare-replay"),
        "pin": data["pin"],
        "page": page,
        "shown": shown,
        "placebo": any(each.replay.placebo for each in shown),
        "answer": _answer(sheet, replayed),
        "flips": noise,
        "swatch": (name_condition(shown[0].group.condition).colour if shown else "")
        or "ink",  # bars have their condition's
        "sources": _sources(noise),
        "baseline": comparison.groups.baseline,
        "not_replayed": len(comparison.groups.all) - len(replayed),
    }
    return render_page(request, "compare/compare_replay.html", data=data, context=context, as_json=as_json)


def _build_replayed(sheet: ChartSheet, group: Group, axis: BarAxis) -> ReplayedGroup:
    found = sheet.comparison.replay(group)
    assert found is not None  # only groups that replayed something are asked for
    squares = {cell: ReplayCell(len(getattr(found.own, cell)), sheet.trials_url(group, replay=cell)) for cell in CELLS}
    says = f"{squares['fail_pass'].count} fixed, {squares['pass_fail'].count} broken, of {found.own.total}"
    luck = _sides(found.placebo) if found.placebo else None
    return ReplayedGroup(group, found, squares, draw_two_sided(axis, group.condition, _sides(found.own), luck, says))


def _choose_axis(found: Iterable[ReplayResult | None]) -> BarAxis:
    sides = [_sides(pairs) for each in found if each for pairs in (each.own, each.placebo) if pairs]
    return BarAxis.of([side.worse for side in sides], [side.better for side in sides])


def _sides(pairs: ReplayPairs) -> TwoSided:
    whole = pairs.total or 1
    return TwoSided(len(pairs.pass_fail) / whole, len(pairs.fail_pass) / whole)


def _answer(sheet: ChartSheet, replayed: Sequence[Group]) -> list[str]:
    """Two sentences: what replay changed over all groups that learned, and what a second try changes by luck alone."""
    found = {group: result.own for group in replayed if (result := sheet.comparison.replay(group))}
    learned = [pairs for group, pairs in found.items() if group.condition not in WITHOUT_LIBRARY]
    bare = [pairs for group, pairs in found.items() if group.condition == NO_SKILL]
    said = [_write_pairs("Replay", sum(learned, ReplayPairs()))] if learned else []
    if bare:
        return [*said, _write_pairs("A second try without skills", sum(bare, ReplayPairs()))]
    rate = sheet.comparison.noise.rate
    return [*said, f"{half_up(100 * rate)} % of repeats end differently by chance."] if rate is not None else said


def _write_pairs(who: str, pairs: ReplayPairs) -> str:
    fixed, broken = len(pairs.fail_pass), len(pairs.pass_fail)
    if not pairs.total:
        return f"{who} repeated nothing that was scored."
    return f"{who} fixed {fixed} of {pairs.failed_first} failures and broke {broken} of {pairs.passed_first} passes."


def _sources(noise: Noise) -> list[tuple[str, Flips]]:
    return [(said, flips) for name, said in SOURCES.items() if (flips := getattr(noise, name)).pairs]


def _rates(pairs: ReplayPairs | None) -> dict[str, object] | None:
    counts = {cell: len(getattr(pairs, cell)) for cell in CELLS} if pairs else {}
    return {**counts, **RATES.read(pairs)} if pairs else None


RATES = JsonShape("unpaired", "recovery", "regression", "lift")
