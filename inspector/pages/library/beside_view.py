"""Two libraries of one experiment after their last change, this one and one of another condition or author: skill by
skill, line by line, and on the same tasks.

Likeness is that of words: it says what two texts name alike, not whether they mean the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from benchapp.analysis.lineage.attribution import count_rate
from benchapp.analysis.lineage.word_overlap import find_words
from benchapp.models import Episode, Run, Square, Trial
from benchapp.record.json_shape import JsonShape
from benchapp.record.textual_change import is_binary
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.inference.shares import Rate, half_up
from inspector.evolution.strip import Strip, link_to_pages, open_timeline
from inspector.evolution.strip_drawing import Place, StripForm, count_patches, draw_strip
from inspector.pages.library.between import LineStories
from inspector.pages.library.changes import read_contents, read_versions
from inspector.pages.library.library_view import EPISODE
from inspector.pages.library.rail import LibraryCourse, choose_episode
from inspector.web.responses import link_to, render_page
from inspector.web.subject import head_of, of_run
from inspector.web.text.diff import DiffRow, RowPair, draw_source_rows
from inspector.web.text.row_shapes import RUN_HEAD
from runner.base.text import plural
from runner.base.types import Phase

TEMPLATE = "library/beside.html"
MAX_OTHERS = 60
MAX_LINES = 250  # of each text
MAX_DIFFERING = 40  # tasks listed
MIN_LIKE = 0.1  # words that two skills share, or they are not paired
MIN_LINE_LIKE = 1 / 3


@dataclass(frozen=True, slots=True)
class SkillFacts:
    """One skill of a library. `readers`: trials of its episode that read it."""

    name: str
    path: str
    lines: int
    words: frozenset[str]
    readers: Rate


class SkillPair:
    """Two skills with likeness, the share of all their words that both use; or one that has no counterpart."""

    def __init__(self, left: SkillFacts | None, right: SkillFacts | None, likeness: float | None = None) -> None:
        self.left, self.right, self.likeness = left, right, likeness
        self.percent = int(half_up(100 * (likeness or 0)))


class TaskPair(NamedTuple):
    """The same task with either library."""

    left: Square
    right: Square


class LibrarySide:
    """One of the two: its episode, the course of its library, and the skills it ended with."""

    def __init__(self, run: Run, episode: Episode) -> None:
        self.run, self.episode, self.course = run, episode, LibraryCourse(run, episode)
        (versions,) = read_versions(self.course.rail.states[-1].snapshot)
        main = {
            path.partition("/")[0]: path for path in versions if path.count("/") == 1 and path.endswith("/SKILL.md")
        }
        contents = read_contents(versions[path] for path in main.values())
        self.skills = []
        for name, path in sorted(main.items()):
            content = contents[versions[path].digest]
            words = frozenset(find_words("" if is_binary(content) else content.decode()))
            readers = count_rate(trial for trial in self.course.lineage.trials if trial.read and name in trial.read)
            self.skills.append(SkillFacts(name, path, versions[path].lines, words, readers))
        self.lines = sum(skill.lines for skill in self.skills)
        self.words = frozenset[str]().union(*(skill.words for skill in self.skills))


@of_run
def library_beside(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    """Show two libraries side by side. `other` in the address names the other episode; `skill` one of the left
    library, or of the right one; `show=differs` leaves out the lines with a counterpart."""
    query = request.GET
    episodes, episode = choose_episode(run, query.get("episode", ""))
    data: dict[str, object] = {
        "run": RUN_HEAD.read(run),
        "episodes": EPISODE.read_all(episodes) if as_json else [],
        "next": None,
    }
    context = head_of(run, episodes, episode)
    if episode is None:
        return render_page(request, TEMPLATE, data=data, context=context, as_json=as_json)
    others = list_others(run, episode)
    other = next((each for each in others if str(each.public_id) == query.get("other")), others[0] if others else None)
    left, right = LibrarySide(run, episode), LibrarySide(other.run, other) if other else None
    pairs = pair_skills(left.skills, right.skills if right else ())
    asked = query.get("skill", "")
    named = (pair for pair in pairs if asked and asked in [side.name for side in (pair.left, pair.right) if side])
    chosen = next(named, pairs[0] if pairs else None)
    only = query.get("show") == "differs"
    rows, left_out = list[RowPair](), 0
    if chosen:
        rows = align_lines(_read_lines(left, chosen.left), _read_lines(right, chosen.right) if right else [])
        left_out = max(skill.lines - MAX_LINES for skill in (chosen.left, chosen.right) if skill)
    shown = [row for row in rows if not (only and row.left and row.right)]
    tasks = _pair_tasks(episode, other) if other else []
    likeness = _compare(left.words, right.words) if right else None
    if as_json:
        data |= {
            "left": SIDE.read(left),
            "right": SIDE.read(right) if right else None,
            "likeness": likeness,
            "skills": PAIR.read_all(pairs),
            "lines": ROW.read_all(shown),
            "tasks": TASK.read_all(tasks),
        }
        return render_page(request, TEMPLATE, data=data, as_json=True)
    differing = [pair for pair in tasks if pair.left.success is not pair.right.success]
    strips = _draw_strips([left, right] if right else [left])
    beside = {
        "left": left,
        "right": right,
        "strips": [(side, strips.get(side.episode.pk)) for side in (left, right) if side],
        "others": others,  # every library of these tasks in the experiment
        "likeness": likeness,  # of all words of both libraries, the share that both use
        "pairs": pairs,
        "chosen": chosen,
        "rows": shown,
        "rows_left_out": max(0, left_out),
        "only": only,
        "tasks": tasks,
        "passed": _count_passed(tasks),
        "differing": differing,
        "better": _count_passed(differing),  # tasks that only the left passed, and only the right
        "most_read": (
            _find_most_read(row.left for row in shown if not row.right),
            _find_most_read(row.right for row in shown if not row.left),
        ),
    }
    context |= {"beside": beside, "differing": differing[:MAX_DIFFERING], "max_differing": MAX_DIFFERING}
    return render_page(request, TEMPLATE, context=context)


def list_others(run: Run, episode: Episode) -> list[Episode]:
    """Return the libraries of the same tasks in this experiment, first those of the same replicate and agent.
    One query."""
    same = Q(environment=episode.environment, family=episode.family)
    if not episode.environment_id and not episode.family_id:
        same = Q(key=episode.key)
    found = Episode.objects.filter(same, run__experiment=run.experiment, library__files_total__gt=0)
    rows = found.exclude(pk=episode.pk).exclude(protocol="probe").select_related("run__experiment", "library")

    def rank(each: Episode) -> tuple[bool, bool, tuple[int, int], str, int]:
        other = each.run
        is_far = (other.replicate != run.replicate, other.agent_model != run.agent_model)
        return (*is_far, name_condition(other.condition).order, other.condition, each.pk)

    return sorted(rows[: MAX_OTHERS * 4], key=rank)[:MAX_OTHERS]


def _draw_strips(sides: Sequence[LibrarySide]) -> dict[int, Strip]:
    """Draw them task under task, by the key of the episode: both strips keep the room that either needs."""
    sides = [side for side in sides if side.episode.is_ordered]
    timelines = [open_timeline(side.run, side.episode, side.course.history) for side in sides]
    rooms: Counter[Place] = Counter()
    for timeline in timelines:
        rooms |= count_patches(timeline)
    drawn = {}
    for side, timeline, form in zip(sides, timelines, (StripForm.PLAIN, StripForm.MINOR), strict=False):
        decisions = timeline.decisions_total
        svg = draw_strip(timeline, link_to_pages(side.run, side.episode), form, rooms=rooms)
        drawn[side.episode.pk] = Strip(timeline, svg, plural(decisions, "decision"))
    return drawn


def pair_skills(left: Sequence[SkillFacts], right: Sequence[SkillFacts]) -> list[SkillPair]:
    """Pair each skill with the most alike that is left, most alike first; then those without a counterpart."""
    ranked = sorted(
        (SkillPair(one, other, _compare(one.words, other.words)) for one in left for other in right),
        key=lambda pair: -(pair.likeness or 0),
    )
    found: list[SkillPair] = []
    taken: set[tuple[str, str]] = set()
    for pair in ranked:
        sides = {("left", pair.left.name if pair.left else ""), ("right", pair.right.name if pair.right else "")}
        if (pair.likeness or 0) >= MIN_LIKE and not sides & taken:
            found.append(pair)
            taken |= sides
    found += [SkillPair(skill, None) for skill in left if ("left", skill.name) not in taken]
    found += [SkillPair(None, skill) for skill in right if ("right", skill.name) not in taken]
    return found


def _compare(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / len(left | right) if left | right else 0.0


# --- line by line ---------------------------------------------------------------------------------------------------


def _read_lines(side: LibrarySide, skill: SkillFacts | None) -> Sequence[DiffRow]:
    """Return the lines of the skill's text that are not blank, each with its readers."""
    if skill is None:
        return []
    (versions,) = read_versions(side.course.rail.states[-1].snapshot)
    version = versions[skill.path]
    rows = draw_source_rows(skill.path, read_contents([version])[version.digest])
    shown = [row for row in rows[:MAX_LINES] if row.text.strip()]
    if side.course.lineage.too_big:
        return shown
    place = len(side.course.rail.states) - 1
    return LineStories(side.course, skill.path).add_to(shown, place, place)


def align_lines(left: Sequence[DiffRow], right: Sequence[DiffRow]) -> list[RowPair]:
    """Align the lines in the order of both files, so that all pairs share as many words as possible.
    A pair shares at least a third of its words."""
    ours, theirs = ([(row.text.strip(), frozenset(find_words(row.text))) for row in rows] for rows in (left, right))
    like = [[1.0 if text == other else _compare(own, words) for other, words in theirs] for text, own in ours]
    best = [[0.0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) - 1, -1, -1):
        for j in range(len(right) - 1, -1, -1):
            paired = like[i][j] + best[i + 1][j + 1] if like[i][j] >= MIN_LINE_LIKE else 0.0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    rows: list[RowPair] = []
    i = j = 0
    while i < len(left) or j < len(right):
        is_inside = i < len(left) and j < len(right)
        if is_inside and like[i][j] >= MIN_LINE_LIKE and best[i][j] == like[i][j] + best[i + 1][j + 1]:
            rows.append(RowPair(left[i], right[j]))
            i, j = i + 1, j + 1
        elif j == len(right) or (i < len(left) and best[i][j] == best[i + 1][j]):
            rows.append(RowPair(left[i], None))
            i += 1
        else:
            rows.append(RowPair(None, right[j]))
            j += 1
    return rows


def _find_most_read(rows: Iterable[DiffRow | None]) -> DiffRow | None:
    """Return the line with most later readers who passed."""
    read = [row for row in rows if row and row.readers and row.readers.scored and len(find_words(row.text)) > 2]
    return max(read, key=lambda row: row.readers.passed if row.readers else 0, default=None)


# --- the same tasks ---------------------------------------------------------------------------------------------------


def _pair_tasks(left: Episode, right: Episode) -> list[TaskPair]:
    """Pair trials with the finished library that are scored on both sides. One query."""
    after = Trial.objects.filter(episode__in=[left, right], phase__in=[Phase.DEPLOYMENT, Phase.EVALUATION])
    sides: dict[int, dict[tuple[str, int, int], Square]] = {left.pk: {}, right.pk: {}}
    for square in after.for_grid():
        if square.success is not None:
            sides[square.episode_id][square.phase, square.task_id, square.sample] = square
    mine, theirs = sides[left.pk], sides[right.pk]
    return [TaskPair(square, theirs[key]) for key, square in mine.items() if key in theirs]


def _count_passed(pairs: Sequence[TaskPair]) -> tuple[int, int]:
    return sum(bool(pair.left.success) for pair in pairs), sum(bool(pair.right.success) for pair in pairs)


# --- the twin -------------------------------------------------------------------------------------------------------


SKILL = JsonShape("name path lines readers")
PAIR = JsonShape(
    ("left", lambda pair: SKILL.read(pair.left) if pair.left else None),
    ("right", lambda pair: SKILL.read(pair.right) if pair.right else None),
    "likeness",
)
LINE = JsonShape("number=new text readers_passed=readers.passed? readers_scored=readers.scored?")
SIDE = JsonShape("run episode condition=run.condition", link_to("run-json", "run.public_id"))
ROW = JsonShape(
    ("left", lambda row: LINE.read(row.left) if row.left else None),
    ("right", lambda row: LINE.read(row.right) if row.right else None),
)
TASK = JsonShape(
    "task=left.title left=left.public_id right=right.public_id left_passed=left.success right_passed=right.success"
)
