"""`/trials/<a>/compare/<b>/`: two trials of one task side by side. Where did they part, and what had each been given?"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from benchapp.analysis.alignment.alignment import AlignedRow, RowKind
from benchapp.models import Trial
from benchapp.models.stand_ins import join_stand_ins
from benchapp.record.json_shape import JsonShape
from inspector.pages.trials.pair import MAX_CHECKS, MAX_SKILLS, UNITS, Half, PairUnit, TrialPair, build_pair, draw_units
from inspector.pages.trials.token_curves import sum_tokens
from inspector.web.closed_pages import refuse_closed
from inspector.web.responses import next_url, render_page
from inspector.web.text.row_shapes import TRIAL


@require_safe
def pair(request: HttpRequest, public_id: UUID, other_id: UUID, *, as_json: bool = False) -> HttpResponse:
    left = get_object_or_404(Trial.objects.for_detail(), public_id=public_id)
    right = get_object_or_404(Trial.objects.for_detail(), public_id=other_id)
    for trial in (left, right):
        if closed := refuse_closed(request, trial=trial, as_json=as_json):
            return closed
    if problem := _find_problem(left, right, request.GET):
        refused = {"problem": problem, "next": None}
        both = {"section": "trial", "left_trial": left, "right_trial": right}
        return render_page(request, "trials/pair_refused.html", data=refused, context=both, as_json=as_json, status=400)
    this = build_pair(left, right, request.GET)
    pointed = _find_pointed(request, this)
    page = _choose_page(request, this, pointed if pointed or as_json else this.parting_unit)
    units = draw_units(this, page)
    opens_at = _find_opening(request, units)
    data = _twin(request, this, page, units)
    context = {
        "section": "trial",
        "this": this,
        "stand_ins": join_stand_ins(side.trial.episode.run for side in (this.left, this.right)),
        "this_page": page,
        "before_parting": units[:opens_at],
        "shown": units[opens_at:],
        "pointed": pointed.row if pointed else None,
        "checks": this.checks[:MAX_CHECKS],
        "checks_left_out": max(0, len(this.checks) - MAX_CHECKS),
        "checks_differ": sum(check.differs for check in this.checks),
        "checks_both": sum(not check.is_one_sided for check in this.checks),
        "skills": this.skills[:MAX_SKILLS],
        "skills_left_out": max(0, len(this.skills) - MAX_SKILLS),
        "same": this.alignment.count(RowKind.SAME),
        "changed": this.alignment.count(RowKind.CHANGED),
        "only_left": this.alignment.count(RowKind.LEFT),
        "only_right": this.alignment.count(RowKind.RIGHT),
        "parting_url": _build_row_url(request, this.parting_unit),
        "before": _find_earlier(request, this),
        "swap_query": _build_swap_query(request.GET),
    }
    return render_page(request, "trials/pair.html", data=data, context=context, as_json=as_json)


def _find_problem(left: Trial, right: Trial, query: Mapping[str, str]) -> str:
    """Return why these two cannot be compared; empty if they can."""
    if left.task_id != right.task_id:
        return "These two trials have different tasks, so their steps cannot be aligned."
    if left == right and query.get("a", "") == query.get("b", ""):
        return "Both sides are the same trial. Choose another one, or two of its trajectories with ?a= and ?b=."
    return ""


def _find_pointed(request: HttpRequest, this: TrialPair) -> PairUnit | None:
    """The unit that holds ?row=41."""
    row = request.GET.get("row", "")
    return this.unit_at(int(row)) if row.isdecimal() and len(row) < 9 else None


def _choose_page(request: HttpRequest, this: TrialPair, pointed: PairUnit | None) -> Page[PairUnit]:
    """?page=3, else the page that holds the row pointed at, or where the two part; else the first."""
    asked = request.GET.get("page") or (this.units.index(pointed) // UNITS + 1 if pointed else 1)
    return Paginator(this.units, UNITS).get_page(asked)


def _find_opening(request: HttpRequest, units: list[PairUnit]) -> int:
    """How many units come before the parting, where the address asks for no place: the page opens at the parting."""
    if "row" in request.GET or "page" in request.GET:
        return 0
    return next((place for place, unit in enumerate(units) if unit.is_parting), 0)


def _find_earlier(request: HttpRequest, this: TrialPair) -> dict[str, str]:
    """Where the two had read or received something different before they first acted differently."""
    action = this.parting.action
    if action is None:
        return {}
    found = {"given": this.parting.given, "result": this.parting.result}
    units = {name: this.unit_of(row) for name, row in found.items() if row is not None and row < action}
    return {name: _build_row_url(request, unit) for name, unit in units.items()}


def _build_row_url(request: HttpRequest, unit: PairUnit | None) -> str:
    if unit is None:
        return ""
    query = request.GET.copy()
    query.pop("page", None)
    query["row"] = str(unit.row)
    return f"?{query.urlencode()}#row-{unit.row}"


def _build_swap_query(query: Mapping[str, str]) -> str:
    kept = [
        f"{name}={query[was]}"
        for name, was in (("a", "b"), ("b", "a"))
        if query.get(was, "").replace("-", "").isalnum()
    ]
    return "?" + "&".join(kept) if kept else ""


# --- the twin ---------------------------------------------------------------------------------------------------


def _twin(request: HttpRequest, this: TrialPair, page: Page[PairUnit], units: list[PairUnit]) -> dict[str, object]:
    alignment, parting = this.alignment, this.parting
    return {
        "problem": "",
        "task": this.left.trial.task.key,
        "same_task_revision": _compare_revisions(this),
        "setups": {"differ_in": this.setups.differs, "unknown": this.setups.unknown, "of": this.setups.runs},
        "trials": {half.letter: {**TRIAL.read(half.trial), **HALF.read(half)} for half in this.halves},
        "steps_aligned": {half.letter: len(half.side.signs) for half in this.halves},
        "steps_total": {half.letter: half.side.total for half in this.halves},
        "rows": len(alignment.rows),
        "paired": this.paired,
        **{kind.value: alignment.count(kind) for kind in RowKind},
        "is_banded": alignment.is_banded,
        "first_divergence": _row_twin(alignment.rows, parting.first),
        "first_other": {
            part: _row_twin(alignment.rows, getattr(parting, part)) for part in ("given", "action", "result", "words")
        },
        "checks": CHECK.read_all(this.checks),
        "skills": SKILL.read_all(this.skills),
        "units": UNIT.read_all(units),
        "next": next_url(request, page),
    }


def _compare_revisions(this: TrialPair) -> bool | None:
    """None if a side does not report its revision."""
    revisions = [half.trial.task_revision for half in this.halves]
    if any(revision is None or revision.digest == "unknown" for revision in revisions):
        return None
    return revisions[0] == revisions[1]


def _sum_tokens(half: Half) -> list[int] | None:
    """None if no step reports any."""
    is_told = any(any(part is not None for part in step) for step in half.side.tokens)
    return sum_tokens(half.side.tokens) if is_told else None


def _row_twin(rows: tuple[AlignedRow, ...], place: int | None) -> dict[str, object] | None:
    return None if place is None else {"row": place + 1, **PARTING.read(rows[place])}


def _number(place: int | None) -> int | None:
    return None if place is None else place + 1


HALF = JsonShape(
    *("label", "run=trial.episode.run", "condition=trial.episode.run.condition"),
    *("replicate=trial.episode.run.replicate", "agent_model=trial.episode.run.agent_model"),
    *("harness=trial.episode.run.harness", "scripted=trial.episode.run.scripted"),
    *("library_digest=trial.snapshot.digest", "attempt=attempt.number", "trajectory"),
    ("tokens_by_step", _sum_tokens),
)
SKILL = JsonShape("skill=slug", "A=left", "B=right")
CHECK = JsonShape("name", "group", "A=left", "B=right")
STEPS = (("A", lambda row: _number(row.left)), ("B", lambda row: _number(row.right)))
PARTING = JsonShape(*STEPS, "differs")
UNIT_ROW = JsonShape(*STEPS, "kind", "differs")
UNIT = JsonShape("row", "kind", "is_first_divergence=is_parting", ("steps", lambda unit: UNIT_ROW.read_all(unit.rows)))
