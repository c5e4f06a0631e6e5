"""The evolution of a run's libraries: the strip of one episode with its skills, those of the others, and what lies under the
cursor: a trial, the decision it led to, and the library that left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from benchapp.analysis.lineage.library_states import LibraryHistory, read_histories
from benchapp.models import Check, Episode, Run, Square, Verdict
from benchapp.record.visible import one_line
from benchapp.review.blinding import Words, hidden_until
from benchapp.stats.learning.computed_runs import RunCache, has_ended
from benchapp.stats.learning.kept_files import keep_fact, read_revisions, take_fact
from benchapp.stats.metrics.no_skill_sibling import Successes
from benchapp.stats.metrics.rates import Rate
from inspector.evolution.strip import Strip, link_to_cursor, link_to_pages
from inspector.evolution.strip_drawing import StripForm, draw_strip
from inspector.evolution.timeline import (
    Timeline,
    TimelinePatch,
    TimelineTrial,
    follow_skills,
    hide_words,
    read_timelines,
)
from inspector.pages.library.changes import FileChange, draw_changes, read_changes
from inspector.pages.library.rail import open_course
from inspector.web.subject import choose_row, find_neighbours
from inspector.web.text.diff import DiffRow, LineSign
from runner.base.types import CheckStatus, Phase

MAX_MINOR = 8  # strips of other episodes
MAX_LINES = 6  # of a patch
MAX_READERS = 60  # squares
MAX_SENTENCE = 140  # characters


@dataclass(frozen=True, slots=True)
class FailedChecks:
    """The checks a trial failed, and the first of them in words."""

    failed: int
    total: int
    name: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Readers:
    """Later trials that read a skill which the patch wrote: association. `beside`: no-skill on those of `shared` tasks of
    the same family that were scored on both sides; `same_family` are ours."""

    phases: tuple[tuple[str, tuple[TimelineTrial, ...]], ...]
    total: Rate
    same_family: Rate
    beside: Rate
    left_out: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """The text under the patch. `hidden`: what is shown instead of its words."""

    trial: TimelineTrial | None = None
    checks: FailedChecks | None = None
    patch: TimelinePatch | None = None
    lines: tuple[DiffRow, ...] = ()
    lines_more: int = 0
    path: str = ""
    readers: Readers | None = None
    trial_url: str = ""
    patch_url: str = ""
    hidden: str = ""


@dataclass(frozen=True, slots=True)
class Evolution:
    """`others`: strips of the other episodes, their trials alone: what their authors did is drawn once one is chosen.
    `left_out` of them are not drawn."""

    strip: Strip
    cursor: Cursor
    others: tuple[Strip, ...]
    left_out: int
    asked: str  # what of the cursor the address holds

    @property
    def skills(self) -> int:
        return sum(not lane.end for lane in self.strip.timeline.lanes)

    @property
    def has_lost(self) -> bool:
        """Was an author's answer rejected, or its call lost?"""
        return any(patch.tone == "refused" for patch in self.strip.timeline.patches)

    @property
    def families(self) -> int:
        return len({trial.square.family_id for trial in self.strip.timeline.trials})


KEPT: RunCache[dict[tuple[str, str, int], str]] = RunCache(
    60
)  # runs at their end; by episode, cursor and no-skill trials
MAX_KEPT = 40  # of one run


def draw_evolution(
    run: Run,
    episodes: Sequence[Episode],
    squares: Sequence[Square],
    words: Words,
    *,
    episode: str = "",
    at: str = "",
    beside: Successes | None = None,
) -> str:
    """The part of the page as HTML, empty where there is none. Of a run at its end it is kept until one of its numbers
    changes, for readers to whom all of it is open."""
    key, keeps = (episode, at, len(beside or {})), has_ended(run) and words.hides_nothing
    kept = KEPT.get(run) or {} if keeps else {}
    if key not in kept:
        found = open_evolution(run, episodes, squares, words, episode=episode, at=at, beside=beside)
        drawn = render_to_string("runs/_evolution.html", {"run": run, "evolution": found}).strip()
        kept = {**(kept if len(kept) < MAX_KEPT else {}), key: drawn}
        if keeps:
            KEPT.put(run, kept)
    return mark_safe(kept[key])  # noqa: S308 (a template's)


def open_evolution(
    run: Run,
    episodes: Sequence[Episode],
    squares: Sequence[Square],
    words: Words,
    *,
    episode: str = "",
    at: str = "",
    beside: Successes | None = None,
) -> Evolution | None:
    """`episodes`: with `decisions_total`; `at`: a key of a trial or patch. None where no trial has a place in an order."""
    ordered = [each for each in episodes if each.is_ordered]
    chosen = choose_row(ordered, episode, _has_decisions)
    if chosen is None or not squares:
        return None
    others = [each for each in ordered if each != chosen]
    histories = {each.pk: LibraryHistory(()) for each in others[:MAX_MINOR]} | read_histories([chosen])
    timelines = read_timelines(run, [chosen, *others[:MAX_MINOR]], squares, histories)
    timeline, *minor = (hide_words(each, words) for each in timelines)
    timeline = follow_skills(timeline)
    if not timeline.trials:
        return None
    cursor = _open_cursor(run, timeline, words, at, beside or {})
    return Evolution(
        _draw_full(run, timeline, cursor),
        cursor,
        tuple(_draw_minor(run, each) for each in minor if each.trials),
        max(0, len(others) - MAX_MINOR),
        at,
    )


def _has_decisions(episode: Episode) -> bool:
    return bool(getattr(episode, "decisions_total", 0))


def _draw_full(run: Run, timeline: Timeline, cursor: Cursor) -> Strip:
    links = link_to_cursor(run, timeline.episode)
    trial, patch = cursor.trial, cursor.patch
    here = frozenset(found.key for found in (trial, patch) if found)
    place = ""
    if patch and patch.key:
        decision = patch.step.entry.decision
        place = f"decision {decision.number} of {timeline.decisions_total}" if decision else patch.word.lower()
    elif trial:
        place = f"trial {trial.number} of {len(timeline.trials)}"
    before, after = find_neighbours([each for each in timeline.patches if each.key], patch)
    return Strip(
        timeline,
        draw_strip(timeline, links, StripForm.FULL, here=here),
        place,
        links.of_patch(before) if before else "",
        links.of_patch(after) if after else "",
    )


def _draw_minor(run: Run, timeline: Timeline) -> Strip:
    passed, scored = timeline.count_passed(Phase.DEPLOYMENT)
    place = f"{passed}/{scored} deployed" if scored else f"{len(timeline.trials)} trials"
    if decisions := getattr(timeline.episode, "decisions_total", 0):
        place = f"{place}, {decisions} decision{'' if decisions == 1 else 's'}"
    links = link_to_cursor(run, timeline.episode)
    return Strip(timeline, draw_strip(timeline, links, StripForm.MINOR), place)


# --- what lies under the cursor ---------------------------------------------------------------------------------------


def _open_cursor(run: Run, timeline: Timeline, words: Words, at: str, beside: Successes) -> Cursor:
    trial, patch = _find_event(timeline, at) if at else (None, None)
    if trial is None and patch is None:
        trial, patch = _find_event(timeline, _choose_key(run, timeline))
    links = link_to_pages(run, timeline.episode)
    change, rows = _read_lines(patch) if patch and not timeline.hidden else (None, ())
    return Cursor(
        trial=trial,
        checks=_read_checks(timeline, trial, words) if trial and trial.square.success is False else None,
        patch=patch,
        lines=rows[:MAX_LINES],
        lines_more=max(0, len(rows) - MAX_LINES),
        path=change.path if change else "",
        readers=_count_readers(timeline, patch, beside) if patch and patch.is_change else None,
        trial_url=links.of_trial(trial) if trial else "",
        patch_url=links.of_patch(patch) if patch else "",
        hidden=timeline.hidden,
    )


def _find_event(timeline: Timeline, key: str) -> tuple[TimelineTrial | None, TimelinePatch | None]:
    """The event of that key, with the patch that a trial led to or the trial that a patch followed."""
    trials = {trial.key: trial for trial in timeline.trials}
    if trial := trials.get(key):
        follows = (patch for patch in timeline.patches if _is_after(patch, trial))
        return trial, next(follows, None)
    patch = next((patch for patch in timeline.patches if patch.key and patch.key == key), None)
    if patch is None:
        return None, None
    return next((trial for trial in timeline.trials if _is_after(patch, trial)), None), patch


def _is_after(patch: TimelinePatch, trial: TimelineTrial) -> bool:
    decision = patch.step.entry.decision
    return decision is not None and decision.after_trial_id == trial.square.pk


def _choose_key(run: Run, timeline: Timeline) -> str:
    """While the run goes on what happened last; then the change on which the library opens, else the last change, else the
    first failure."""
    keyed = [patch for patch in timeline.patches if patch.key]
    if run.is_open and keyed:
        return keyed[-1].key
    if keyed and (telling := _find_telling(run, timeline)):
        return telling
    changes = [patch.key for patch in keyed if patch.is_change] or [patch.key for patch in keyed]
    failed = (trial.key for trial in timeline.trials if trial.square.success is False)
    return changes[-1] if changes else next(failed, timeline.trials[0].key)


def _find_telling(run: Run, timeline: Timeline) -> str:
    """The key of the change on which the library opens, or "". Finding it reads every file the library ever held, so of a
    run at its end it is kept on disk."""
    if not has_ended(run):
        return _read_telling(run, timeline)
    name, revisions = f"telling-{timeline.episode.public_id}", read_revisions(run.experiment)
    fact = take_fact(run.experiment, name, revisions)
    if fact is None:
        fact = {"key": _read_telling(run, timeline)}
        keep_fact(run.experiment, name, revisions, fact)
    return str(fact["key"])


def _read_telling(run: Run, timeline: Timeline) -> str:
    telling = open_course(run, timeline.episode, timeline.history).find_telling()
    return telling.stop.key if telling else ""


def _read_checks(timeline: Timeline, trial: TimelineTrial, words: Words) -> FailedChecks | None:
    """Of the primary verdict. One query."""
    counting = Verdict.objects.filter(attempt__trial=trial.square.pk, attempt__counts=True, is_primary=True)
    rows = Check.objects.filter(verdict__in=counting).exclude(status=CheckStatus.SKIPPED).order_by("id")
    checks = list(rows.values_list("name", "status", "message"))
    failed = [(name, message) for name, status, message in checks if status != CheckStatus.PASSED]
    if not failed:
        return None
    if queue := words.closing_trial(trial.square.task_id, timeline.episode.key):
        return FailedChecks(len(failed), len(checks), hidden_until(queue))
    name, message = failed[0]
    return FailedChecks(len(failed), len(checks), one_line(name, MAX_SENTENCE), one_line(message or "", MAX_SENTENCE))


def _read_lines(patch: TimelinePatch) -> tuple[FileChange | None, tuple[DiffRow, ...]]:
    """The changed lines of the first file that changed. Two queries."""
    decision = patch.step.entry.decision
    before, after = patch.step.before.snapshot, patch.step.after.snapshot
    changes = [change for change in read_changes(before, after, decision)[0] if change.status]
    skills = [change for change in changes if change.path.endswith("/SKILL.md")]
    for change in (skills or changes)[:1]:
        (shown,) = draw_changes([change])
        rows = (row for block in shown.diff.blocks for row in block.rows)
        return change, tuple(row for row in rows if row.sign is not LineSign.SAME and row.text.strip())
    return None, ()


def _count_readers(timeline: Timeline, patch: TimelinePatch, beside: Successes) -> Readers:
    readers = timeline.list_readers(patch)
    decision, seeding = patch.step.entry.decision, patch.step.entry.seeding
    family = decision.family_id if decision else seeding.family_id if seeding else None
    same = [reader for reader in readers if reader.square.family_id == family]
    both = [
        (reader, passed)
        for reader in same
        if reader.square.success is not None and (passed := _find_beside(reader.square, beside)) is not None
    ]
    shown = readers[:MAX_READERS]
    return Readers(
        phases=tuple((phase, tuple(group)) for phase, group in groupby(shown, lambda each: each.square.phase)),
        total=_count(readers),
        same_family=_count(same) if not both else _count([reader for reader, _ in both]),
        beside=Rate(sum(passed for _, passed in both), len(both), len(both)),
        left_out=len(readers) - len(shown),
    )


def _find_beside(square: Square, beside: Successes) -> bool | None:
    """How no-skill ended on the same task; a replay that it lacks meets its first try."""
    phases = (square.phase, Phase.ACQUISITION.value) if square.phase == Phase.REPLAY else (square.phase,)
    found = (beside.get((phase, square.role, square.task_id, square.sample)) for phase in phases)
    return next((passed for passed in found if passed is not None), None)


def _count(trials: Sequence[TimelineTrial]) -> Rate:
    outcomes = [trial.square.success for trial in trials]
    return Rate(outcomes.count(True), len(outcomes) - outcomes.count(None), len(outcomes))
