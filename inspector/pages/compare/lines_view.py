"""`/compare/lines/`: for each condition that got worse, the skill lines whose readers did worst compared with no-skill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote_plus, urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.analysis.lineage.hunks import list_hunks
from benchapp.analysis.lineage.suspects import ASKED_LENGTH, MAX_LENGTH, SuspectLines, rank_suspects
from benchapp.experiments.probe_results import ProbeResult, read_results
from benchapp.models import Probe, Run
from benchapp.record.json_shape import JsonShape
from benchapp.stats.comparing.answer import Answer, JudgedGroup
from benchapp.stats.comparing.groups import Group
from benchapp.stats.metrics.catalogue import MetricName, name_metric
from inspector.charts.chart_request import sheet_of
from inspector.charts.sheet import ChartSheet
from inspector.pages.compare.results import begin_page
from inspector.web.closed_pages import words_of
from inspector.web.responses import render_page, wants_fragment
from runner.protocols.conditions import conditions_without_library

MAX_GROUPS = 6
MAX_RUNS = 12  # of a group: their libraries are read line by line
MAX_PROBES = 20  # the newest: of each the files before and after are read
SHOWN = 5  # sets of lines of a group
MAX_ASKED = 2_000  # characters of an address for the lines that a probe is asked about; servers refuse long addresses


Tested = tuple[ProbeResult, frozenset[tuple[int, str, str]]]
"""A probe that was tested, and the lines that it took out: (key of the decision, path, text as suspects have it)."""


@dataclass(frozen=True, slots=True)
class GroupSuspects:
    """`judged`: where the group is worst; None where nothing was compared or nothing got worse."""

    group: Group
    judged: JudgedGroup | None
    found: tuple[SuspectLines, ...]
    total: int
    runs_left_out: int
    tested: Sequence[Tested]  # newest first

    @property
    def metric(self) -> MetricName | None:
        return name_metric(self.judged.metric) if self.judged else None

    @property
    def has_alike(self) -> bool:
        return not all(each.is_apart for each in self.found)

    @property
    def rows(self) -> list[tuple[SuspectLines, str, ProbeResult | None]]:
        """With the address of a probe, empty where nothing can be probed, and what the newest probe of them found."""
        rows = []
        for found in self.found:
            places = [(place, line.text) for line in found.lines for place in line.places]
            asked = {(place.decision.pk, place.path, text) for place, text in places if place.decision}
            result = next((result for result, lines in self.tested if lines & asked), None)
            rows.append((found, write_probe_address(found), result))
        return rows


@require_safe
def lines(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison = sheet.comparison
    worse = Answer(comparison, sheet.metric).worse if sheet.metric else []
    bare = conditions_without_library()
    # Those that got worse, as the answer lists them; where none did, all that can have a library.
    asked: list[tuple[Group, JudgedGroup | None]] = [(each.group, each) for each in worse]
    asked = asked or [(group, None) for group in sheet.groups if group.condition not in bare]
    closed = frozenset(words_of(request).closed_runs().values_list("pk", flat=True))
    groups = [_read_suspects(sheet, *each, closed) for each in asked[:MAX_GROUPS]]
    data = {
        "choices": comparison.choices.pairs(),
        "problems": sheet.problems,
        "scripted": comparison.scripted,
        "groups": SUSPECTS.read_all(groups),
        "groups_left_out": max(0, len(asked) - MAX_GROUPS),
        "next": None,
    }
    context = {
        **begin_page(comparison, "compare-lines"),
        "as_of": comparison.choices.as_of,
        "suspects": groups,
        "is_fragment": wants_fragment(request),  # the answer of an experiment shows the worst line alone
        "got_worse": bool(worse),
        "several_models": len({each.group.agent_model for each in groups}) > 1,
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


def _read_suspects(
    sheet: ChartSheet, group: Group, judged: JudgedGroup | None, closed: frozenset[int]
) -> GroupSuspects:
    """Kept with the comparison: a run that changes makes another one. `closed`: runs whose libraries the reader may not see."""
    runs = [run for run in group.runs[:MAX_RUNS] if run.pk not in closed]
    kept, key = sheet.comparison.drawn, ("suspects", group.identity, tuple(run.pk for run in runs))
    ranked = cast(Sequence[SuspectLines] | None, kept.get(key))
    if ranked is None:
        ranked = rank_suspects(runs)
        kept.put(key, ranked)
    left_out = max(0, group.replicates - len(runs))
    return GroupSuspects(group, judged, tuple(ranked[:SHOWN]), len(ranked), left_out, _read_tested(runs))


def _read_tested(runs: Sequence[Run]) -> list[Tested]:
    """Read the newest probes that took lines of a decision back and were tested."""
    about = Probe.objects.standing().filter(origin__run__in=[run.pk for run in runs]).exclude(reverted_digest="")
    probes = list(about.exclude(decision=None).select_related("decision__before", "decision__after")[:MAX_PROBES])
    found: list[Tested] = []
    for result in read_results(probes) if probes else []:
        decision = result.probe.decision
        if decision is None or not result.finding:
            continue
        taken = {str(each.get("id")) for each in result.probe.reverted}
        hunks = list_hunks(decision.before.read(), decision.after.read())
        whole = [each for hunk in hunks for each in (hunk, *hunk.lines) if each.id in taken]
        parts = [part for each in whole for part in (each, *each.lines)]
        lines = [
            (part.path, text.decode(errors="replace").strip()[:MAX_LENGTH]) for part in parts for text in part.added
        ]
        found.append((result, frozenset((decision.pk, path, text) for path, text in lines)))
    return found


SUSPECTS = JsonShape(
    *("label=group.label", "condition=group.condition", "agent_model=group.agent_model", "metric=judged.metric.key"),
    *(("effect", lambda each: each.judged and each.judged.effect.value), "lines=found", "total", "runs_left_out"),
)
