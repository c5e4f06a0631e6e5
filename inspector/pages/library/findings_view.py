"""`/runs/<id>/library/findings/`: what rules found in the library at each round; alarms about leaks first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.db.models import Case, IntegerField, OuterRef, Subquery, Value, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse

from benchapp.analysis.diagnoses.diagnosis import RULES, RULES_VERSION
from benchapp.analysis.diagnoses.diagnosis_queue import enqueue_reading, select_with_library
from benchapp.analysis.diagnoses.library_shelf import GROUPS, LibraryRule, read_text
from benchapp.analysis.diagnoses.profile import PROFILE_GROUPS
from benchapp.analysis.lineage.library_states import LibraryState
from benchapp.models import Blob, Episode, LibraryDiagnosis, LibraryFinding, Run, SnapshotFile, User
from benchapp.record.json_shape import JsonShape
from benchapp.record.textual_change import has_nul
from benchapp.record.visible import visible
from inspector.pages.library.rail import open_rail
from inspector.web.access import needs
from inspector.web.responses import PageLink, PathLink, paginate, render_page
from inspector.web.subject import choose_row, find_neighbours, head_of, of_run, once_for, review_access
from inspector.web.text.row_shapes import RUN_HEAD
from runner.base.text import plural
from runner.base.var_folder import MANAGE

TEMPLATE = "library/findings.html"
PER_PAGE = 40
AROUND = 1  # lines before and after
MAX_LINES = 8  # of a span
MAX_COLUMNS = 220  # of a line, around the span
MAX_CONTEXT_BYTES = 1024 * 1024

PROFILE_WORDS = {
    "contract": "interface and verification named",
    "environment": "setup, dependencies, invocation, versions",
    "grounding": "tied to files, identifiers, examples",
    "procedure": "steps, order, branches, data, failures",
    "constraints": "musts, must-nots, limits, scope",
    "safety": "concise, no risky command, no leak found",
}

LACK_WORDS = {"concise": "too long", "no risky command": "a risky command", "no leak found": "a possible leak"}
SEVERITIES = ("alarm", "warning", "note")
CHART_HEIGHT = 96
BAR, STEP, MIN_BAR = 26, 44, 3
Line = tuple[int, list[tuple[str, bool]]]  # number, and pieces with whether they belong to the span


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """One finding with its lines around it."""

    finding: LibraryFinding
    rule: LibraryRule | None  # None: of a rule that this version no longer has
    lines: Sequence[Line]
    file_url: str


@of_run
def findings(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    """Show the state and group of rules that the address names.
    Nonsense falls back to the last state and all groups."""
    present = LibraryDiagnosis.objects.filter(episode=OuterRef("pk"), snapshot=OuterRef("library"))
    with_library = select_with_library(run.episodes.select_related("library", "family", "run"))
    # None where no rule has read the current library.
    episodes = list(with_library.annotate(alarms=Subquery(present.values("alarms")[:1])))
    episode = choose_row(episodes, request.GET.get("episode", ""), lambda each: each.alarms)
    data = {
        "run": RUN_HEAD.read(run),
        "episodes": EPISODE.read_all(episodes),
        "episode": episode,
        "rules_version": RULES_VERSION,
    }
    context = {
        **head_of(run, episodes, episode),
        "profile_words": PROFILE_WORDS,
        "rules_total": len(RULES),
        "may_ask": cast(User, request.user).may(User.Level.OPERATOR),
    }
    if episode is None:
        return render_page(request, TEMPLATE, data=data, context=context, as_json=as_json)
    rail, diagnoses = open_rail(run, episode), read_diagnoses(episode)
    state = rail.round(request.GET.get("round", ""))
    diagnosis = diagnoses.get(state.snapshot.pk) if state.snapshot else None
    group = request.GET.get("group", "")
    group = group if group in GROUPS else ""

    # What this person may see of it, alarms first, then group by group.
    closed = review_access(request).closed_trials()
    open_rows = LibraryFinding.objects.filter(diagnosis=diagnosis).exclude(trial__in=closed)
    counts = Counter(open_rows.order_by().values_list("group", "severity"))
    totals, of_groups = Counter[str](), Counter[str]()
    for (name, severity), count in counts.items():
        totals[severity] += count
        of_groups[name] += count
    withheld = sum(_count_severities(diagnosis).values()) - counts.total()
    places = [When(group=name, then=Value(place)) for place, name in enumerate(GROUPS)]
    rows = open_rows.select_related("trial").order_by(
        Case(When(severity="alarm", then=Value(0)), default=Value(1), output_field=IntegerField()),
        Case(*places, default=Value(99), output_field=IntegerField()),
        "ordinal",
    )
    page = paginate(request, rows.filter(group=group) if group else rows, per_page=PER_PAGE)
    shown = _read_lines(episode, state, list(page))
    filled = [each for each in rail.states if each.snapshot and each.snapshot.files_total]
    trend = [(each, diagnoses.get(each.snapshot.pk) if each.snapshot else None) for each in filled]
    skills = diagnosis.skills if diagnosis else []
    if as_json:
        data |= {
            "round": state.key,
            "library_digest": state.digest or None,
            "group": group or None,
            "diagnosis": {
                "rules_version": diagnosis.rules_version,
                "at": diagnosis.diagnosed_at,
                "alarms": totals["alarm"],
                "warnings": totals["warning"],
                "notes": totals["note"],
                "withheld": withheld,
                **DIAGNOSIS.read(diagnosis),
            }
            if diagnosis
            else None,
            "trend": [
                {"round": each.key, **{f"{name}s": getattr(read, f"{name}s", None) for name in SEVERITIES}}
                for each, read in trend
            ],
            "skills": skills,
            "findings": FINDING.read_all(shown),
        }
        return render_page(request, TEMPLATE, data=data, page=page, as_json=True)
    previous, following = find_neighbours(filled, state)
    patterns = Counter(facts["pattern"] for facts in skills)
    skill_rows = []
    for facts in skills:
        groups = []
        for name in PROFILE_GROUPS:
            cues = facts["cues"].get(name, {})
            missing = [cue for cue, is_there in cues.items() if not is_there]
            lacks = [LACK_WORDS.get(cue, f"no {cue}") for cue in missing]
            found = {"group": name, "found": sum(cues.values()), "total": len(cues)}
            groups.append({**found, "missing": missing, "lacks": lacks})
        skill_rows.append({**facts, "groups": groups})
    context |= {"shown": shown, "totals": totals}
    context["opened"] = {
        "state": state,
        "filled": filled,  # the states that hold something to read
        "previous": previous,
        "following": following,
        "diagnosis": diagnosis,
        "is_stale": diagnosis is not None and diagnosis.rules_version != RULES_VERSION,
        "withheld": withheld,
        "counts": counts,
        "group": group,
        "facets": [
            (name, word, of_groups[name], counts[name, "alarm"]) for name, word in GROUPS.items() if of_groups[name]
        ],
        "skills": skill_rows,
        "patterns": [(pattern, patterns[pattern]) for pattern in "ABC"],
        "trend": _draw_trend(episode, trend),
        "chart_width": max(1, len(filled)) * STEP,
    }
    return render_page(request, TEMPLATE, context=context, page=page)


@needs(User.Level.OPERATOR)
def findings_ask(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Queue the reading of this run's libraries. Reading twice changes nothing, so nobody is asked why."""
    run = get_object_or_404(Run.objects.for_detail(), public_id=public_id)
    asked = enqueue_reading(select_with_library(Episode.objects.filter(run=run)))
    if asked is None:
        messages.error(request, f"The broker does not answer, so no worker runs it. Use `{MANAGE} diagnose_libraries`.")
    else:
        messages.success(request, f"A worker checks {plural(asked, 'library', 'libraries')}. Reload this page soon.")
    return redirect("findings", run.public_id)


def read_diagnoses(episode: Episode) -> dict[int, LibraryDiagnosis]:
    """Return snapshot pk -> what the rules found in it."""
    found = LibraryDiagnosis.objects.filter(episode=episode)
    return once_for(episode.run, ("diagnoses", episode.pk), lambda: {each.snapshot_id: each for each in found})


def _count_severities(diagnosis: LibraryDiagnosis | None) -> dict[str, int]:
    return {name: getattr(diagnosis, f"{name}s") for name in SEVERITIES} if diagnosis else {}


def _draw_trend(
    episode: Episode, states: Sequence[tuple[LibraryState, LibraryDiagnosis | None]]
) -> list[dict[str, object]]:
    """Return a column for each state: `bars` of (severity, count, y, height), `top` of all,
    in the drawing's own units."""
    most = max((sum(_count_severities(each).values()) for _, each in states), default=0) or 1
    columns: list[dict[str, object]] = []
    for place, (state, diagnosis) in enumerate(states):
        bars, y = [], CHART_HEIGHT
        for severity, count in _count_severities(diagnosis).items():
            if count:
                height = max(MIN_BAR, round(count / most * (CHART_HEIGHT - 14)))
                y -= height
                bars.append((severity, count, y, height))
        url = f"?{urlencode({'episode': episode.public_id, 'round': state.key})}"
        x = place * STEP + (STEP - BAR) // 2
        drawn = {"url": url, "x": x, "bars": bars, "top": y - 4, "label_x": x + BAR // 2}
        columns.append({"state": state, "diagnosis": diagnosis, **drawn})
    return columns


# --- lines around a finding -------------------------------------------------------------------------------------------


def _read_lines(episode: Episode, state: LibraryState, rows: Sequence[LibraryFinding]) -> list[ShownFinding]:
    """Return the findings of one page with their lines: always two queries."""
    wanted = {finding.path for finding in rows}
    files = SnapshotFile.objects.filter(snapshot=state.snapshot, path__in=wanted, size__lte=MAX_CONTEXT_BYTES)
    blobs = dict(files.values_list("path", "blob"))
    contents = Blob.objects.read_many([*blobs.values(), ""])
    texts = {path: read_text(contents[blob]) for path, blob in blobs.items() if not has_nul(contents[blob])}
    library, place = reverse("library", args=[episode.run.public_id]), {"from": state.key, "to": state.key}
    shown = []
    for finding in rows:
        query = urlencode({"episode": episode.public_id, **place, "file": finding.path, "view": "source"})
        anchor = f"#f0-R{finding.line}" if finding.line else ""
        lines = _cut_lines(texts[finding.path], finding) if finding.line and finding.path in texts else []
        shown.append(ShownFinding(finding, RULES.get(finding.rule), lines, f"{library}?{query}{anchor}"))
    return shown


def _cut_lines(text: str, finding: LibraryFinding) -> list[Line]:
    lines = text.split("\n")
    first = max(1, finding.line - AROUND)
    start = sum(len(line) + 1 for line in lines[: first - 1])
    found: list[Line] = []
    last_marked = 0
    for number in range(first, len(lines) + 1):
        line = lines[number - 1]
        if start > finding.end and number > finding.line and number > (last_marked or finding.line) + AROUND:
            break
        if len(found) >= MAX_LINES + 2 * AROUND:
            break
        pieces = _cut_pieces(line, finding.start - start, finding.end - start)
        last_marked = number if any(marked for _, marked in pieces) else last_marked
        found.append((number, pieces))
        start += len(line) + 1
    return found


def _cut_pieces(line: str, start: int, end: int) -> list[tuple[str, bool]]:
    """Return the line in up to three pieces, cut around the span where it is long."""
    start, end = max(0, min(start, len(line))), max(0, min(end, len(line)))
    start += len(line[start:end]) - len(line[start:end].lstrip())  # of an indented line the words are marked
    left = max(0, min(start, len(line) - MAX_COLUMNS) - 40) if len(line) > MAX_COLUMNS else 0
    right = min(len(line), left + MAX_COLUMNS)
    end = min(end, right)
    pieces = (
        ("…" if left else "", False),
        (line[left:start], False),
        (line[start:end], True),
        (line[end:right] if end >= start else "", False),
        ("…" if right < len(line) else "", False),
    )
    return [(visible(text), marked) for text, marked in pieces if text]


# --- the twin -------------------------------------------------------------------------------------------------------


DIAGNOSIS = JsonShape("left_out files_cut=cut tasks_seen trials_read trials_left_out references")
FINDING = JsonShape(
    "rule=finding.rule group=finding.group severity=finding.severity heuristic=rule.is_heuristic path=finding.path",
    "line=finding.line? start=finding.start end=finding.end quote=finding.quote says=finding.says",
    "trial=finding.trial",
    ("trial_url", lambda shown: shown.finding.trial and PageLink("trial-json", shown.finding.trial.public_id)),
    "step=finding.step field=finding.field?",
    ("url", lambda shown: PathLink(shown.file_url)),
)
EPISODE = JsonShape("id=public_id title alarms", ("read", lambda episode: episode.alarms is not None))
