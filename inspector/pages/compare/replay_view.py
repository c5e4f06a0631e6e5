"""`/compare/replay/`: replay against acquisition as a 2x2 per group, next to the noise that a second try alone brings."""

from __future__ import annotations

from collections.abc import Mapping
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
from inspector.charts.chart_request import sheet_of
from inspector.charts.sheet import WITHOUT_LIBRARY, ChartSheet
from inspector.pages.compare.lanes import BAR_HEIGHT, draw_bar, draw_lane
from inspector.pages.compare.results import begin_page, begin_twin
from inspector.web.responses import next_url, paginate, render_page

GROUPS_PER_PAGE = 30
ROOM = 1.04  # of the longest bar: some air behind it
LEAST = 0.05  # least share of an axis on either side of zero: an empty bar needs a zero to start at
CELLS = ("fail_fail", "fail_pass", "pass_fail", "pass_pass")
SOURCES = {
    "samples": "samples of one run",
    "phases": "a replay and its first try, with the same library",
    "replicates": "replicates of one cell",
    "conditions": "two conditions, before they differ",
}


@dataclass(frozen=True, slots=True)
class ReplayedGroup(Shaped):
    """A group that replayed something. `squares`: each cell of its 2x2 against acquisition, with its list of trials."""

    group: Group
    replay: ReplayResult
    squares: Mapping[str, Mapping[str, object]]
    drawn: SafeString

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
    replays = {group: found for group in sheet.groups if (found := comparison.replay(group)) is not None}
    page = paginate(request, list(replays), per_page=GROUPS_PER_PAGE)
    results = [replays[group] for group in page]
    sides = [_share_sides(pairs) for each in results for pairs in (each.own, each.placebo) if pairs]
    axis = (ROOM * max([LEAST, *(broke for broke, _ in sides)]), ROOM * max([LEAST, *(fixed for _, fixed in sides)]))
    shown = [_build_replayed(sheet, group, replays[group], axis) for group in page]
    noise = comparison.noise
    data = {**begin_twin(request, sheet), "noise": noise, "groups": shown, "next": next_url(request, page)}
    context = {
        **begin_page(comparison, "compare-replay"),
        "pin": data["pin"],
        "page": page,
        "shown": shown,
        "placebo": any(each.replay.placebo for each in shown),
        "answer": _answer(sheet, replays),
        "flips": noise,
        "swatch": _choose_colour(shown[0].group.condition) if shown else "ink",
        "sources": [(said, flips) for name, said in SOURCES.items() if (flips := getattr(noise, name)).pairs],
        "baseline": comparison.groups.baseline,
        "not_replayed": len(comparison.groups.all) - len(replays),
    }
    return render_page(request, "compare/compare_replay.html", data=data, context=context, as_json=as_json)


def _build_replayed(sheet: ChartSheet, group: Group, found: ReplayResult, axis: tuple[float, float]) -> ReplayedGroup:
    squares = {
        cell: {"count": len(getattr(found.own, cell)), "url": sheet.trials_url(group, replay=cell)} for cell in CELLS
    }
    says = f"{len(found.own.fail_pass)} fixed, {len(found.own.pass_fail)} broken, of {found.own.total}"
    luck = _share_sides(found.placebo) if found.placebo else None
    return ReplayedGroup(
        group, found, squares, draw_two_sided(axis, group.condition, _share_sides(found.own), luck, says)
    )


def _share_sides(pairs: ReplayPairs) -> tuple[float, float]:
    """Return what broke and what was fixed, as shares of all pairs."""
    whole = pairs.total or 1
    return len(pairs.pass_fail) / whole, len(pairs.fail_pass) / whole


def _choose_colour(condition: str) -> str:
    return name_condition(condition).colour or "ink"


def draw_two_sided(
    axis: tuple[float, float], condition: str, own: tuple[float, float], luck: tuple[float, float] | None, says: str
) -> SafeString:
    """Draw what broke to the left of zero, and what was fixed to the right; `axis`: how far each side reaches, as shares.

    `luck`: the same of a second try where nothing was learned, as a tick on either side."""

    def place(share: float) -> float:
        return 100 * (axis[0] + share) / (axis[0] + axis[1])

    colour, zero = _choose_colour(condition), place(0)
    parts = [
        f'<line class="zero-line" x1="{zero:.2f}%" x2="{zero:.2f}%" y1="0" y2="{BAR_HEIGHT}"/>',
        draw_bar(place(-own[0]), zero, f"soft c-{colour}"),
        draw_bar(zero, place(own[1]), f"c-{colour}"),
    ]
    for at in (place(-luck[0]), place(luck[1])) if luck else ():
        parts.append(f'<line class="luck" x1="{at:.2f}%" x2="{at:.2f}%" y1="2" y2="{BAR_HEIGHT - 2}"/>')
    return draw_lane(parts, says)


def _answer(sheet: ChartSheet, replays: Mapping[Group, ReplayResult]) -> list[str]:
    """Return two sentences: what replay changed over all groups that learned, and what a second try changes by luck alone."""
    learned = [found.own for group, found in replays.items() if group.condition not in WITHOUT_LIBRARY]
    bare = [found.own for group, found in replays.items() if group.condition == NO_SKILL]
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


def _rates(pairs: ReplayPairs | None) -> dict[str, object] | None:
    if not pairs:
        return None
    counts = {cell: len(getattr(pairs, cell)) for cell in CELLS}
    return {**counts, **{name: getattr(pairs, name) for name in ("unpaired", "recovery", "regression", "lift")}}
