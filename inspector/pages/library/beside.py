"""Two libraries of the same tasks, side by side: another condition or author of one experiment, after its last change.

Likeness is that of words: it says what two texts name alike, not whether they say the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models import Q

from benchapp.analysis.lineage.attribution import count_rate
from benchapp.analysis.lineage.word_overlap import find_words
from benchapp.models import Episode, Run, Square, Trial
from benchapp.record.textual_change import is_binary
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.inference.shares import half_up
from benchapp.stats.metrics.rates import Rate
from inspector.evolution.strip import Strip, link_to_pages, open_timeline
from inspector.evolution.strip_drawing import Place, StripForm, count_patches, draw_strip
from inspector.pages.library.changes import Versions, read_contents, read_versions
from inspector.pages.library.gutter import LineStories
from inspector.pages.library.rail import LibraryCourse, open_course
from inspector.web.text.diff import DiffRow, LineReaders, draw_source_rows
from runner.base.types import Phase

MAX_OTHERS = 60
MAX_LINES = 250  # of a text that are laid beside each other
MIN_LIKE = 0.1  # words that two skills share, or they are no pair
MIN_LINE_LIKE = 1 / 3


@dataclass(frozen=True, slots=True)
class SkillFacts:
    """One skill of a library. `readers`: trials of its episode that read it."""

    name: str
    path: str
    lines: int
    words: frozenset[str]
    readers: Rate


@dataclass(frozen=True, slots=True)
class SkillPair:
    """Two skills with likeness, the share of all their words that both use; or one that has no counterpart."""

    left: SkillFacts | None
    right: SkillFacts | None
    likeness: float | None = None

    @property
    def percent(self) -> int:
        return int(half_up(100 * (self.likeness or 0)))


@dataclass(frozen=True, slots=True)
class SideBySide:
    """A line and the one of the other text that uses its words; one of them None where there is none."""

    left: DiffRow | None
    right: DiffRow | None


@dataclass(frozen=True, slots=True)
class TaskPair:
    """The same task with either library."""

    left: Square
    right: Square

    @property
    def differs(self) -> bool:
        return self.left.success is not self.right.success


@dataclass(frozen=True, slots=True)
class LibrarySide:
    """One of the two: its episode, what became of its library, and the skills it ended with."""

    run: Run
    episode: Episode
    course: LibraryCourse
    skills: tuple[SkillFacts, ...]
    strip: Strip | None = None

    @property
    def lines(self) -> int:
        return sum(skill.lines for skill in self.skills)


@dataclass(frozen=True, slots=True)
class BesideLibraries:
    """`others`: every library of these tasks in the experiment; `right` None where there is none. `only`: whether lines
    with a counterpart are left out."""

    episode: Episode
    others: tuple[Episode, ...]
    left: LibrarySide
    right: LibrarySide | None
    pairs: tuple[SkillPair, ...]
    chosen: SkillPair | None
    rows: tuple[SideBySide, ...]
    rows_left_out: int
    only: bool
    tasks: tuple[TaskPair, ...]

    @property
    def likeness(self) -> float | None:
        """Of all words of both libraries, the share that both use."""
        if self.right is None:
            return None
        left, right = (
            frozenset[str]().union(*(skill.words for skill in side.skills)) for side in (self.left, self.right)
        )
        return _compare(left, right)

    @property
    def differing(self) -> list[TaskPair]:
        return [pair for pair in self.tasks if pair.differs]

    @property
    def passed(self) -> tuple[int, int]:
        """On the tasks that are scored on both sides."""
        return (
            sum(bool(pair.left.success) for pair in self.tasks),
            sum(bool(pair.right.success) for pair in self.tasks),
        )

    @property
    def better(self) -> tuple[int, int]:
        """Tasks that only the left passed, and only the right."""
        return (
            sum(bool(pair.left.success) for pair in self.differing),
            sum(bool(pair.right.success) for pair in self.differing),
        )

    @property
    def most_read(self) -> tuple[DiffRow | None, DiffRow | None]:
        """Of the lines that only one side has, the one with most later readers who passed."""
        left = [row.left for row in self.rows if row.left and not row.right]
        right = [row.right for row in self.rows if row.right and not row.left]
        return _find_most_read(left), _find_most_read(right)


def open_beside(run: Run, episode: Episode, query: Mapping[str, str]) -> BesideLibraries:
    """`other`: the episode to lay beside; `skill`: one of the left library, or of the right one; `show=differs`."""
    others = list_others(run, episode)
    other = next((each for each in others if str(each.public_id) == query.get("other")), others[0] if others else None)
    left, right = _open_side(run, episode), _open_side(other.run, other) if other else None
    left, right = _draw_strips(left, right)
    pairs = pair_skills(left.skills, right.skills if right else ())
    asked = query.get("skill", "")
    chosen = next((pair for pair in pairs if asked and asked in _names(pair)), pairs[0] if pairs else None)
    only = query.get("show") == "differs"
    rows = _lay_out(left, right, chosen) if chosen else []
    shown = [row for row in rows if not (only and row.left and row.right)]
    left_out = (
        max((skill.lines - MAX_LINES for skill in (chosen.left, chosen.right) if skill), default=0) if chosen else 0
    )
    return BesideLibraries(
        episode,
        tuple(others),
        left,
        right,
        tuple(pairs),
        chosen,
        tuple(shown),
        max(0, left_out),
        only,
        tuple(_pair_tasks(episode, other)) if other else (),
    )


def list_others(run: Run, episode: Episode) -> list[Episode]:
    """The libraries of the same tasks in this experiment, first those of the same replicate and agent. One query."""
    same = Q(environment=episode.environment, family=episode.family)
    if not episode.environment_id and not episode.family_id:
        same = Q(key=episode.key)
    found = Episode.objects.filter(same, run__experiment=run.experiment, library__files_total__gt=0)
    rows = found.exclude(pk=episode.pk).exclude(protocol="probe").select_related("run__experiment", "library")

    def rank(each: Episode) -> tuple[bool, bool, int, str, int]:
        other = each.run
        is_far = (other.replicate != run.replicate, other.agent_model != run.agent_model)
        return (*is_far, name_condition(other.condition).order, other.condition, each.pk)

    return sorted(rows[: MAX_OTHERS * 4], key=rank)[:MAX_OTHERS]


def _open_side(run: Run, episode: Episode) -> LibrarySide:
    course = open_course(run, episode)
    (versions,) = read_versions(course.rail.states[-1].snapshot)
    return LibrarySide(run, episode, course, tuple(_read_skills(course, versions)))


def _draw_strips(left: LibrarySide, right: LibrarySide | None) -> tuple[LibrarySide, LibrarySide | None]:
    """Task under task: both strips keep the room that either needs."""
    sides = [side for side in (left, right) if side and side.episode.is_ordered]
    timelines = [open_timeline(side.run, side.episode, side.course.history) for side in sides]
    rooms: Counter[Place] = Counter()
    for timeline in timelines:
        rooms |= count_patches(timeline)
    drawn: dict[int, LibrarySide] = {}
    for side, timeline, form in zip(sides, timelines, (StripForm.PLAIN, StripForm.MINOR), strict=False):
        decisions = timeline.decisions_total
        svg = draw_strip(timeline, link_to_pages(side.run, side.episode), form, rooms=rooms)
        place = f"{decisions} decision{'' if decisions == 1 else 's'}"
        drawn[side.episode.pk] = replace(side, strip=Strip(timeline, svg, place))
    return drawn.get(left.episode.pk, left), drawn.get(right.episode.pk, right) if right else None


def _read_skills(course: LibraryCourse, versions: Versions) -> Iterable[SkillFacts]:
    main = {path.partition("/")[0]: path for path in versions if path.count("/") == 1 and path.endswith("/SKILL.md")}
    contents = read_contents(versions[path] for path in main.values())
    for name, path in sorted(main.items()):
        content = contents[versions[path].digest]
        text = "" if is_binary(content) else content.decode()
        readers = count_rate(trial for trial in course.lineage.trials if trial.read and name in trial.read)
        yield SkillFacts(name, path, versions[path].lines, frozenset(find_words(text)), readers)


def pair_skills(left: Sequence[SkillFacts], right: Sequence[SkillFacts]) -> list[SkillPair]:
    """Each skill with the most alike that is left, most alike first; then those without a counterpart."""
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


def _names(pair: SkillPair) -> set[str]:
    return {skill.name for skill in (pair.left, pair.right) if skill}


# --- line beside line -------------------------------------------------------------------------------------------------


def _lay_out(left: LibrarySide, right: LibrarySide | None, pair: SkillPair) -> list[SideBySide]:
    return align_lines(_read_lines(left, pair.left), _read_lines(right, pair.right) if right else [])


def _read_lines(side: LibrarySide, skill: SkillFacts | None) -> list[DiffRow]:
    """The lines of the skill's text that are not blank, each with its readers."""
    if skill is None:
        return []
    (versions,) = read_versions(side.course.rail.states[-1].snapshot)
    version = versions[skill.path]
    rows = draw_source_rows(skill.path, read_contents([version])[version.digest])
    stories = None if side.course.lineage.too_big else LineStories(side.course, skill.path)
    place = len(side.course.rail.states) - 1
    told: list[DiffRow] = []
    last = None
    for row in rows[:MAX_LINES]:
        if not row.text.strip():
            continue
        found = stories.count(place, row.new or 0) if stories else None
        readers = LineReaders(found[0].passed, found[0].scored, found[1], is_first=found != last) if found else None
        told.append(replace(row, readers=readers))
        last = found
    return told


def align_lines(left: Sequence[DiffRow], right: Sequence[DiffRow]) -> list[SideBySide]:
    """In the order of both, so that the shared words of all pairs are most. A pair shares a third of its words or more."""
    like = [[_compare_lines(one, other) for other in map(_line_words, right)] for one in map(_line_words, left)]
    best = [[0.0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) - 1, -1, -1):
        for j in range(len(right) - 1, -1, -1):
            paired = like[i][j] + best[i + 1][j + 1] if like[i][j] >= MIN_LINE_LIKE else 0.0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    rows: list[SideBySide] = []
    i = j = 0
    while i < len(left) or j < len(right):
        is_inside = i < len(left) and j < len(right)
        if is_inside and like[i][j] >= MIN_LINE_LIKE and best[i][j] == like[i][j] + best[i + 1][j + 1]:
            rows.append(SideBySide(left[i], right[j]))
            i, j = i + 1, j + 1
        elif j == len(right) or (i < len(left) and best[i][j] == best[i + 1][j]):
            rows.append(SideBySide(left[i], None))
            i += 1
        else:
            rows.append(SideBySide(None, right[j]))
            j += 1
    return rows


def _line_words(row: DiffRow) -> tuple[str, frozenset[str]]:
    return row.text.strip(), frozenset(find_words(row.text))


def _compare_lines(left: tuple[str, frozenset[str]], right: tuple[str, frozenset[str]]) -> float:
    return 1.0 if left[0] == right[0] else _compare(left[1], right[1])


def _find_most_read(rows: Iterable[DiffRow]) -> DiffRow | None:
    told = [row for row in rows if row.readers and row.readers.scored and len(find_words(row.text)) > 2]
    return max(told, key=lambda row: row.readers.passed if row.readers else 0, default=None)


# --- the same tasks ---------------------------------------------------------------------------------------------------


def _pair_tasks(left: Episode, right: Episode) -> list[TaskPair]:
    """Trials with the finished library that are scored on both sides. One query."""
    after = Trial.objects.filter(episode__in=[left, right], phase__in=[Phase.DEPLOYMENT, Phase.EVALUATION])
    sides: dict[int, dict[tuple[str, int, int], Square]] = {left.pk: {}, right.pk: {}}
    for square in after.for_grid():
        if square.success is not None:
            sides[square.episode_id][square.phase, square.task_id, square.sample] = square
    mine, theirs = sides[left.pk], sides[right.pk]
    return [TaskPair(square, theirs[key]) for key, square in mine.items() if key in theirs]
