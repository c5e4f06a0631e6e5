"""`/trials/<a>/compare/<b>/`: two trials of one task side by side.
Where did they part, and what had each been given?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple
from uuid import UUID

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from benchapp.analysis.alignment.alignment import AlignedRow, Alignment, RowKind
from benchapp.models import Trial
from benchapp.models.stand_ins import join_stand_ins
from benchapp.record.json_shape import JsonShape
from benchapp.record.visible import visible
from inspector.pages.trials.pair import UNITS, Half, PairUnit, TrialPair, draw_units
from inspector.reader.reading import SkillUsage
from inspector.reader.verdict import VerdictView
from inspector.web.responses import next_url, render_page
from inspector.web.subject import refuse_closed
from inspector.web.text.row_shapes import TRIAL
from runner.base.text import parse_count

MAX_CHECKS, MAX_SKILLS = 60, 40
STRIP_WIDTH, STRIP_PLACES = 1_000, 250
CURVE_WIDTH, CURVE_HEIGHT = 1_000, 140
CURVE_POINTS = 240  # of one line; a longer one keeps every nth point and its last

Tokens = Sequence[tuple[int | None, int | None]]  # input (cached ones among it) and output of each step


def pair(request: HttpRequest, public_id: UUID, other_id: UUID, *, as_json: bool = False) -> HttpResponse:
    left = get_object_or_404(Trial.objects.for_detail(), public_id=public_id)
    right = get_object_or_404(Trial.objects.for_detail(), public_id=other_id)
    for trial in (left, right):
        if closed := refuse_closed(request, trial=trial, as_json=as_json):
            return closed
    problem = ""
    if left.task_id != right.task_id:
        problem = "These two trials have different tasks, so their steps cannot be aligned."
    elif left == right and request.GET.get("a", "") == request.GET.get("b", ""):
        problem = "Both sides are the same trial. Choose another one, or two of its trajectories with ?a= and ?b=."
    if problem:
        refused = {"problem": problem}
        both = {"section": "trial", "left_trial": left, "right_trial": right}
        return render_page(request, "trials/pair_refused.html", data=refused, context=both, as_json=as_json, status=400)
    this = TrialPair(left, right, request.GET)
    row = parse_count(request.GET.get("row", ""))
    pointed = None if row is None else this.unit_at(row)
    # ?page=3, else the page that holds the row pointed at, or where the two part; else the first.
    opened = pointed if pointed or as_json else this.parting_unit
    asked = request.GET.get("page") or (this.units.index(opened) // UNITS + 1 if opened else 1)
    page = Paginator(this.units, UNITS).get_page(asked)
    units = draw_units(this, page)
    opens_at = 0  # how many units come before the parting, where the page opens if the address asks for no place
    if "row" not in request.GET and "page" not in request.GET:
        opens_at = next((place for place, unit in enumerate(units) if unit.is_parting), 0)
    checks = pair_checks(this.left.verdict, this.right.verdict)
    skills = pair_skills(this.left.skills, this.right.skills)
    others = (("a", request.GET.get("b", "")), ("b", request.GET.get("a", "")))
    swapped = "&".join(f"{name}={value}" for name, value in others if value.replace("-", "").isalnum())
    data = {**_twin(this), "checks": CHECK.read_all(checks), "skills": SKILL.read_all(skills)}
    data |= {"units": UNIT.read_all(units), "next": next_url(request, page)}
    context = {
        "section": "trial",
        "this": this,
        "stand_ins": join_stand_ins(side.trial.episode.run for side in (this.left, this.right)),
        "this_page": page,
        "before_parting": units[:opens_at],
        "shown": units[opens_at:],
        "pointed": pointed.row if pointed else None,
        "checks": checks[:MAX_CHECKS],
        "checks_left_out": max(0, len(checks) - MAX_CHECKS),
        "checks_differ": sum(check.differs for check in checks),
        "checks_both": sum(not check.is_one_sided for check in checks),
        "skills": skills[:MAX_SKILLS],
        "skills_total": len(skills),
        "skills_left_out": max(0, len(skills) - MAX_SKILLS),
        "strip": list(_draw_strip(this.alignment)),
        "curves": draw_curves(this.left.side.tokens, this.right.side.tokens, this.parting_row),
        "same": this.alignment.count(RowKind.SAME),
        "changed": this.alignment.count(RowKind.CHANGED),
        "only_left": this.alignment.count(RowKind.LEFT),
        "only_right": this.alignment.count(RowKind.RIGHT),
        "parting_url": _build_row_url(request, this.parting_unit),
        "before": _find_earlier(request, this),
        "swap_query": f"?{swapped}" if swapped else "",
    }
    return render_page(request, "trials/pair.html", data=data, context=context, as_json=as_json)


def _find_earlier(request: HttpRequest, this: TrialPair) -> dict[str, str]:
    """Find where the two had read or received something different before they first acted differently."""
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


# --- how the two ended, and what they had -----------------------------------------------------------------------


class CheckPair:
    """One check on both sides; None where that side's verdict does not name it. `differs`: both name it, and it ended
    differently."""

    def __init__(self, name: str, group: str, left: str | None, right: str | None) -> None:
        self.name, self.group, self.left, self.right = name, group, left, right
        self.is_one_sided = None in (left, right)
        self.differs = not self.is_one_sided and left != right


class SkillPair(NamedTuple):
    """One skill on both sides; None where that side does not know it."""

    slug: str
    left: SkillUsage | None
    right: SkillUsage | None


def pair_checks(left: VerdictView | None, right: VerdictView | None) -> list[CheckPair]:
    """Pair the checks: those that ended differently first, then those that one side names; else in the verifier's
    order. A name used twice is kept apart."""
    mine, theirs = _list_statuses(left), _list_statuses(right)
    pairs = [
        CheckPair(visible(key[1]), key[0], mine.get(key), theirs.get(key)) for key in dict.fromkeys([*mine, *theirs])
    ]
    return sorted(pairs, key=lambda pair: (not pair.differs, not pair.is_one_sided))


def _list_statuses(view: VerdictView | None) -> dict[tuple[str, str, int], str]:
    found: dict[tuple[str, str, int], str] = {}
    for check in view.verdict.checks.all() if view else ():
        again = 0
        while (check.group, check.name, again) in found:
            again += 1
        found[check.group, check.name, again] = check.status
    return found


def pair_skills(left: Sequence[SkillUsage], right: Sequence[SkillUsage]) -> list[SkillPair]:
    """Pair the skills, those that were used on either side first."""
    mine, theirs = ({fact.slug: fact for fact in facts} for facts in (left, right))
    pairs = [SkillPair(slug, mine.get(slug), theirs.get(slug)) for slug in dict.fromkeys([*mine, *theirs])]
    return sorted(pairs, key=lambda pair: not any(fact and fact.kinds for fact in (pair.left, pair.right)))


# --- drawings ---------------------------------------------------------------------------------------------------


def _draw_strip(alignment: Alignment) -> Iterator[dict[str, object]]:
    """Draw the rows from left to right; if many fall on one place, the one that differs most is shown."""
    total = len(alignment.rows)
    places = min(total, STRIP_PLACES)
    kinds = []
    for place in range(places):
        found = {row.kind for row in alignment.rows[place * total // places : (place + 1) * total // places]}
        kinds.append(
            "apart" if found & {RowKind.LEFT, RowKind.RIGHT} else "changed" if RowKind.CHANGED in found else "same"
        )
    start = 0
    for kind, group in groupby(kinds):
        width, scale = len(list(group)), STRIP_WIDTH / places
        yield {"kind": kind, "x": round(start * scale, 1), "width": round(width * scale, 1)}
        start += width


def sum_tokens(tokens: Tokens) -> list[int]:
    """Sum input and output up to each step. A step without a report adds nothing."""
    return list(accumulate(sum(part or 0 for part in step) for step in tokens))


def draw_curves(left: Tokens, right: Tokens, marked: tuple[int | None, int | None]) -> dict[str, object]:
    """Draw tokens summed step by step, as two lines on one scale: `most` tokens high, `steps` wide. A side without a
    step that reports tokens has no curve. `marked`: the place of the step to mark on either side, from 0."""
    steps = max(len(left), len(right), 1)
    most = max([0, *sum_tokens(left)[-1:], *sum_tokens(right)[-1:]])
    return {
        "left": _draw_curve(left, steps, most, marked[0]),
        "right": _draw_curve(right, steps, most, marked[1]),
        "most": most,
        "steps": steps,
        "width": CURVE_WIDTH,
        "height": CURVE_HEIGHT,
    }


def _draw_curve(tokens: Tokens, steps: int, most: int, marked: int | None) -> dict[str, object] | None:
    """Draw one curve. `points` as SVG wants them; `known` of `steps` report tokens; if one of them reports only input
    or only output, `total` is a lower bound."""
    known = sum(any(part is not None for part in step) for step in tokens)
    if not known or not most:
        return None
    sums = sum_tokens(tokens)
    places = [
        (round(CURVE_WIDTH * (at + 1) / steps, 1), round(CURVE_HEIGHT * (1 - total / most), 1))
        for at, total in enumerate(sums)
    ]
    stride = -(-len(places) // CURVE_POINTS)
    drawn = [(0, CURVE_HEIGHT), *places[: len(places) - 1 : stride], places[-1]]
    return {
        "points": " ".join(f"{x:g},{y:g}" for x, y in drawn),
        "total": sums[-1],
        "known": known,
        "steps": len(tokens),
        "at": None if marked is None else places[marked],
        "is_partial": any((given is None) != (written is None) for given, written in tokens),
    }


# --- the twin ---------------------------------------------------------------------------------------------------


def _twin(this: TrialPair) -> dict[str, object]:
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
        "paired": alignment.count(RowKind.SAME) + alignment.count(RowKind.CHANGED),
        **{kind.value: alignment.count(kind) for kind in RowKind},
        "is_banded": alignment.is_banded,
        "first_divergence": _row_twin(alignment.rows, parting.first),
        "first_other": {
            part: _row_twin(alignment.rows, getattr(parting, part)) for part in ("given", "action", "result", "words")
        },
    }


def _compare_revisions(this: TrialPair) -> bool | None:
    """Compare the revisions of the task; None if a side does not report its revision."""
    revisions = [half.trial.task_revision for half in this.halves]
    if any(revision is None or revision.digest == "unknown" for revision in revisions):
        return None
    return revisions[0] == revisions[1]


def _sum_by_step(half: Half) -> list[int] | None:
    """Sum a number of each step; None if no step reports any."""
    is_reported = any(part is not None for step in half.side.tokens for part in step)
    return sum_tokens(half.side.tokens) if is_reported else None


def _row_twin(rows: tuple[AlignedRow, ...], place: int | None) -> dict[str, object] | None:
    return None if place is None else {"row": place + 1, **PARTING.read(rows[place])}


def _number(place: int | None) -> int | None:
    return None if place is None else place + 1


HALF = JsonShape(
    "label run=trial.episode.run condition=trial.episode.run.condition replicate=trial.episode.run.replicate",
    "agent_model=trial.episode.run.agent_model harness=trial.episode.run.harness scripted=trial.episode.run.scripted",
    "library_digest=trial.snapshot.digest attempt=attempt.number trajectory",
    ("tokens_by_step", _sum_by_step),
)
SKILL = JsonShape("skill=slug A=left B=right")
CHECK = JsonShape("name group A=left B=right")
STEPS = (("A", lambda row: _number(row.left)), ("B", lambda row: _number(row.right)))
PARTING = JsonShape(*STEPS, "differs")
UNIT_ROW = JsonShape(*STEPS, "kind differs")
UNIT = JsonShape("row kind is_first_divergence=is_parting", ("steps", lambda unit: UNIT_ROW.read_all(unit.rows)))
