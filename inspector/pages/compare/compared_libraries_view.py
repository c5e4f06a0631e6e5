"""`/compare/libraries/`: how the libraries of each group grew, and who read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from urllib.parse import quote_plus, urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString

from benchapp.analysis.lineage.attribution import ASKED_LENGTH, MAX_LENGTH, SuspectLines, rank_suspects
from benchapp.analysis.lineage.hunks import list_hunks
from benchapp.experiments.probe_results import ProbeResult, read_results
from benchapp.models import Episode, Probe, Run
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.blinding import HIDDEN, ReviewAccess
from benchapp.stats.comparing.answer import Answer, JudgedGroup
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import Rate, pooled_interval
from benchapp.stats.learning.libraries import FILE_KINDS, Churn, LibrarySize, read_library_numbers
from benchapp.stats.learning.reuse import PhaseReuse, Reuse, reuse
from benchapp.stats.metrics.catalogue import name_metric
from inspector.charts import OF_PAGES
from inspector.charts.chart_request import Gallery, sheet_of
from inspector.charts.sheet import ChartSheet
from inspector.pages.compare.lanes import draw_share
from inspector.pages.compare.results import begin_page, begin_twin
from inspector.web.responses import paginate, render_page, wants_fragment
from inspector.web.subject import review_access
from runner.base.text import plural
from runner.base.types import DecisionStatus, Phase
from runner.protocols.conditions import conditions_without_library

MAX_GROUPS = 6
MAX_RUNS = 12  # of a group: their libraries are read line by line
MAX_PROBES = 20  # the newest: of each the files before and after are read
SHOWN = 5  # sets of lines of a group
MAX_ASKED = 2_000  # characters of an address for the lines that a probe is asked about; servers refuse long addresses


# A probe that was tested, and the lines that it took out: (key of the decision, path, text as suspects have it).
Tested = tuple[ProbeResult, frozenset[tuple[int, str, str]]]
GROUPS_PER_PAGE = 25
LATER = (Phase.DEPLOYMENT, Phase.REPLAY, Phase.EVALUATION)  # trials that a finished library was carried to


class GroupSuspects:
    """The lines that a group's failed trials read. Kept with the comparison: a run that changes makes another one.

    `judged`: where the group is worst; None if nothing was compared or nothing got worse. `closed`: runs whose
    libraries the reader may not see. `rows`: the suspects, each with the address of a probe (empty if nothing can be
    probed) and the result of its newest probe."""

    def __init__(self, sheet: ChartSheet, group: Group, judged: JudgedGroup | None, closed: frozenset[int]) -> None:
        runs = [run for run in group.runs[:MAX_RUNS] if run.pk not in closed]
        key = "suspects", group.identity, tuple(run.pk for run in runs)
        ranked = sheet.comparison.draw(key, lambda: rank_suspects(runs))
        self.group, self.judged, self.metric = group, judged, name_metric(judged.metric) if judged else None
        self.found, self.total, self.runs_left_out = ranked[:SHOWN], len(ranked), max(0, group.replicates - len(runs))
        self.has_alike = not all(each.is_apart for each in self.found)
        self.tested = _read_tested(runs)  # newest first

    @property
    def rows(self) -> list[tuple[SuspectLines, str, ProbeResult | None]]:
        rows = []
        for found in self.found:
            places = [(place, line.text) for line in found.lines for place in line.places]
            asked = {(place.decision.pk, place.path, text) for place, text in places if place.decision}
            result = next((result for result, lines in self.tested if lines & asked), None)
            rows.append((found, write_probe_address(found), result))
        return rows


def lines(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison = sheet.comparison
    worse = Answer(comparison, sheet.metric).worse if sheet.metric else []
    bare = conditions_without_library()
    # Those that got worse, as the answer lists them; where none did, all that can have a library.
    asked: list[tuple[Group, JudgedGroup | None]] = [(each.group, each) for each in worse]
    asked = asked or [(group, None) for group in sheet.groups if group.condition not in bare]
    closed = frozenset(review_access(request).closed_runs().values_list("pk", flat=True))
    groups = [GroupSuspects(sheet, *each, closed) for each in asked[:MAX_GROUPS]]
    data = {
        "choices": comparison.choices.pairs(),
        "problems": sheet.problems,
        "scripted": comparison.scripted,
        "groups": SUSPECTS.read_all(groups),
        "groups_left_out": max(0, len(asked) - MAX_GROUPS),
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


def write_probe_address(suspects: SuspectLines) -> str:
    """Return the address that probes the library where the first line opens, with every line of the row that its
    author wrote there."""
    place = suspects.lines[0].place
    if place.decision is None or not place.run.was_launched:
        return ""
    pairs = [("episode", str(place.episode.public_id)), ("decision", str(place.decision.number))]
    pairs += [("state", place.state.key), ("lines", str(len(suspects.lines))), ("libraries", str(suspects.libraries))]
    room = MAX_ASKED
    for line in suspects.lines:
        text = line.text[:ASKED_LENGTH]
        room -= len(quote_plus(text)) + len("&line=")
        if room >= 0:
            pairs.append(("line", text))
    return f"{reverse('probe', args=[place.run.public_id])}?{urlencode(pairs)}"


def _read_tested(runs: Sequence[Run]) -> list[Tested]:
    """Read the newest probes that took lines of a decision back and were tested."""
    about = Probe.objects.not_deleted().filter(origin__run__in=[run.pk for run in runs]).exclude(reverted_digest="")
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
    "label=group.label condition=group.condition agent_model=group.agent_model metric=judged.metric.key",
    ("effect", lambda each: each.judged and each.judged.effect.value),
    "lines=found total runs_left_out",
)


class GroupLibraries(Shaped):
    """The libraries of one group, its replicates added up, without tainted episodes.

    `files`: kind -> files, in the order of FILE_KINDS, without kinds that have no file. `later`: trials that were given
    the finished library. `answers`: how many answers of the author changed the library, and how many there are.
    `is_library`: it has something to show; a condition without skills has empty libraries that nobody wrote to."""

    json_shape = JsonShape(
        "label=group.label runs=group.runs",
        ("libraries", lambda each: len(each.libraries)),
        "skills",
        ("files", lambda each: dict(each.files)),
        ("decisions", lambda each: dict(each.decisions)),
        "skills_created=created skills_deleted=deleted",
        ("lines_added", lambda each: each.lines[0]),
        ("lines_removed", lambda each: each.lines[1]),
        "later_trials=later",
        ("never_read", lambda each: JsonShape("skill mounted").read_all(each.never_read)),
    )

    def __init__(
        self, group: Group, libraries: Sequence[LibrarySize], churn: Sequence[Churn], uses: Sequence[Reuse]
    ) -> None:
        self.group, self.libraries, self.reuse = group, libraries, uses
        files, decisions = Counter[str](), Counter[str]()
        for library in libraries:
            files.update(library.files)
        for of_run in churn:
            decisions.update(of_run.decisions)
        self.skills = sum(library.skills for library in libraries)
        self.files = [(kind, files[kind]) for kind in FILE_KINDS if files[kind]]
        self.decisions = [(each.value, decisions[each.value]) for each in DecisionStatus if decisions[each.value]]
        self.answers = decisions[DecisionStatus.APPLIED.value], sum(count for _, count in self.decisions)
        self.created, self.deleted = sum(each.created for each in churn), sum(each.deleted for each in churn)
        self.lines = sum(each.lines_added for each in churn), sum(each.lines_removed for each in churn)
        self.later = _add_up(*uses)
        self.never_read = [skill for of_run in uses for skill in of_run.never_read]
        self.is_library = bool(self.skills or self.decisions)

    @property
    def drawn(self) -> SafeString:
        """Draw the share of later trials that read one of its skills, with its interval; empty if no trial had one to
        read."""
        share = self.later.share_of_mounted
        if share is None:
            return SafeString("")
        counts = [_add_up(of_run) for of_run in self.reuse]
        ends = pooled_interval([Rate(each.read_own, each.mounted) for each in counts if each.mounted])
        label = f"{self.later.read_own} of {self.later.mounted} later trials read a skill"
        return draw_share(self.group.condition, share, ends, label)


def _add_up(*runs: Reuse) -> PhaseReuse:
    found = [of_run.phases[phase] for of_run in runs for phase in LATER if phase in of_run.phases]
    names = PhaseReuse.__dataclass_fields__
    return PhaseReuse(**{name: sum(getattr(each, name) for each in found) for name in names})


def compared_libraries(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison = sheet.comparison
    runs = [run.pk for group in sheet.groups for run in group.runs]
    held = set(Episode.objects.filter(run__in=runs, library__files_total__gt=0).values_list("run", flat=True))
    # Those with a library first, so that no page of others hides them.
    ordered = sorted(sheet.groups, key=lambda group: not any(run.pk in held for run in group.runs))
    page = paginate(request, ordered, per_page=GROUPS_PER_PAGE)
    shown = _of_groups(list(page), comparison.choices.as_of, review_access(request))
    data = {**begin_twin(request, sheet), "groups": shown}
    libraries = [each for each in shown if each.is_library]
    context = {
        **begin_page(comparison, "compare-libraries"),
        "shown": libraries,
        "answer": _answer(libraries),
        "gallery": Gallery(OF_PAGES["compare-libraries"], sheet),
        "without": sum(not each.is_library for each in shown),
    }
    return render_page(
        request, "compare/compare_libraries.html", data=data, context=context, page=page, as_json=as_json
    )


def _answer(shown: Sequence[GroupLibraries]) -> list[str]:
    """Say who read the libraries, and what nobody read."""
    read, mounted = (sum(getattr(each.later, name) for each in shown) for name in ("read_own", "mounted"))
    skills, unread = sum(each.skills for each in shown), sum(len(each.never_read) for each in shown)
    sentences = [f"Agents opened a skill in {read:,} of {mounted:,} later trials."] if mounted else []
    if mounted and skills:
        which = "Every skill was" if not unread else f"{plural(unread, 'skill was', 'skills were')} never"
        sentences.append(f"{which} opened by some trial." if not unread else f"{which} opened.")
    return sentences


def _of_groups(groups: Sequence[Group], as_of: datetime | None, access: ReviewAccess) -> list[GroupLibraries]:
    """Read the libraries of the groups on the page only: a history of a whole campaign takes a second to read. Skills
    that are closed to the reader have no names."""
    runs = [run for group in groups for run in group.runs]
    libraries, uses = read_library_numbers(runs, as_of), dict(reuse(runs, as_of))
    for pk in access.closed_runs().filter(pk__in=uses).values_list("pk", flat=True):
        uses[pk] = replace(uses[pk], skills=tuple(replace(skill, skill=HIDDEN) for skill in uses[pk].skills))
    return [
        GroupLibraries(
            group,
            [size for run in group.runs for size in libraries[run.pk].sizes if not size.tainted],
            [libraries[run.pk].churn for run in group.runs],
            [uses[run.pk] for run in group.runs],
        )
        for group in groups
    ]
