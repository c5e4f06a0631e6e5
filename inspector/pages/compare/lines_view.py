"""`/compare/lines/`: for each condition that got worse, the lines of its skills whose readers did worst beside no-skill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import quote_plus, urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.analysis.lineage.suspects import ASKED_LENGTH, SuspectLines, rank_suspects
from benchapp.experiments.probe_results import ProbeResult, read_results
from benchapp.models import Probe
from benchapp.record.json_shape import JsonShape
from benchapp.stats.comparing.answer import Answer, JudgedGroup
from benchapp.stats.comparing.groups import Group
from benchapp.stats.metrics.metric_names import MetricName, name_metric
from inspector.charts.chart_request import sheet_of
from inspector.charts.sheet import ChartSheet
from inspector.pages.compare.crumbs import read_parent
from inspector.web.responses import render_page
from runner.protocols.conditions import conditions_without_library

MAX_GROUPS = 6
MAX_RUNS = 12  # of a group: their libraries are read line by line
MAX_PROBES = 100  # the newest
SHOWN = 5  # sets of lines of a group
MAX_ASKED = 2_000  # characters of an address for the lines that a probe is asked about; servers refuse long addresses


@dataclass(frozen=True, slots=True)
class GroupSuspects:
    """`judged`: where the group is worst; None where nothing was compared or nothing got worse."""

    group: Group
    judged: JudgedGroup | None
    found: tuple[SuspectLines, ...]
    total: int
    runs_left_out: int
    tested: Mapping[int, ProbeResult] = field(default_factory=dict)  # by key of the decision that it is about

    @property
    def metric(self) -> MetricName | None:
        return name_metric(self.judged.metric) if self.judged else None

    @property
    def has_alike(self) -> bool:
        return not all(each.is_apart for each in self.found)

    @property
    def rows(self) -> list[tuple[SuspectLines, str, ProbeResult | None]]:
        """With the address of a probe, empty where nothing can be probed, and what the newest probe of them found."""
        return [(each, write_probe_address(each), self._find_tested(each)) for each in self.found]

    def _find_tested(self, found: SuspectLines) -> ProbeResult | None:
        places = [place for line in found.lines for place in line.places]
        asked = {(place.decision.pk, place.path) for place in places if place.decision}
        for decision, result in self.tested.items():
            if any((decision, hunk.get("path")) in asked for hunk in result.probe.reverted):
                return result
        return None


@require_safe
def lines(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison = sheet.comparison
    asked = _choose_groups(sheet)
    groups = [_read_suspects(sheet, *each) for each in asked[:MAX_GROUPS]]
    data = {
        "choices": comparison.choices.pairs(),
        "problems": sheet.problems,
        "scripted": comparison.scripted,
        "groups": SUSPECTS.read_all(groups),
        "groups_left_out": max(0, len(asked) - MAX_GROUPS),
        "next": None,
    }
    context = {
        "stand_ins": comparison.stand_ins,
        "parent": read_parent(comparison.choices),
        "as_of": comparison.choices.as_of,
        "suspects": groups,
        "got_worse": any(each.judged for each in groups),
        "several_models": len({each.group.agent_model for each in groups}) > 1,
        "query": comparison.choices.query(),
    }
    return render_page(request, "compare/compare_lines.html", data=data, context=context, as_json=as_json)


def write_probe_address(found: SuspectLines) -> str:
    """The probe of the library where the first line opens, with every line of the row that its author wrote there."""
    place = found.lines[0].place
    if place.decision is None or not place.run.was_launched:
        return ""
    pairs = [("episode", str(place.episode.public_id)), ("decision", str(place.decision.number))]
    pairs += [("state", place.state.key), ("lines", str(len(found.lines))), ("libraries", str(found.libraries))]
    room = MAX_ASKED
    for line in found.lines:
        text = line.text[:ASKED_LENGTH]
        room -= len(quote_plus(text)) + len("&line=")
        if room >= 0:
            pairs.append(("line", text))
    return f"{reverse('probe', args=[place.run.public_id])}?{urlencode(pairs)}"


def _choose_groups(sheet: ChartSheet) -> list[tuple[Group, JudgedGroup | None]]:
    """Those that got worse, as the answer lists them; where none did, all that can have a library."""
    worse = list_worse(sheet)
    if worse:
        return [(each.group, each) for each in worse]
    bare = conditions_without_library()
    return [(group, None) for group in sheet.comparison.groups.all if group.condition not in bare]


def list_worse(sheet: ChartSheet) -> list[JudgedGroup]:
    return Answer(sheet.comparison, sheet.metrics, sheet.metric).worse if sheet.metric else []


def _read_suspects(sheet: ChartSheet, group: Group, judged: JudgedGroup | None) -> GroupSuspects:
    """Kept with the comparison: a run that changes makes another one."""
    kept, key = sheet.comparison.drawn, ("suspects", group.identity)
    ranked = cast(Sequence[SuspectLines] | None, kept.get(key))
    if ranked is None:
        ranked = rank_suspects(group.runs[:MAX_RUNS])
        kept.put(key, ranked)
    left_out = max(0, group.replicates - MAX_RUNS)
    return GroupSuspects(group, judged, tuple(ranked[:SHOWN]), len(ranked), left_out, _read_tested(group))


def _read_tested(group: Group) -> dict[int, ProbeResult]:
    """Key of a decision -> the newest probe that took lines of it back and was tested."""
    runs = [run.pk for run in group.runs[:MAX_RUNS]]
    about = Probe.objects.standing().filter(origin__run__in=runs).exclude(reverted_digest="").exclude(decision=None)
    probes = list(about[:MAX_PROBES])
    found: dict[int, ProbeResult] = {}
    for result in read_results(probes) if probes else ():
        if result.finding:
            found.setdefault(result.probe.decision_id or 0, result)
    return found


SUSPECTS = JsonShape(
    *("label=group.label", "condition=group.condition", "agent_model=group.agent_model", "metric=judged.metric.key"),
    *(("effect", lambda each: each.judged and each.judged.effect.value), "lines=found", "total", "runs_left_out"),
)
