"""The evolution of a run's libraries: the strip of one episode with its skills, those of the others, and the
text below the cursor: a trial, the decision it led to, and the library that left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from benchapp.analysis.lineage.library_states import LibraryHistory, read_histories
from benchapp.models import Check, Episode, Run, Square, Verdict
from benchapp.record.visible import one_line
from benchapp.review.blinding import ReviewAccess, hidden_until
from benchapp.stats.inference.shares import Rate
from benchapp.stats.learning.computed_runs import RunCache, has_ended, keep_fact, read_revisions, take_fact
from benchapp.stats.metrics.no_skill_sibling import Successes
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
from inspector.pages.library.changes import draw_changes, read_changes
from inspector.pages.library.rail import LibraryCourse
from inspector.web.subject import choose_row, find_neighbours, review_access
from inspector.web.text.diff import DiffRow, LineSign
from runner.base.text import plural
from runner.base.types import CheckStatus, Phase

MAX_MINOR = 8  # strips of other episodes
MAX_LINES = 6  # of a patch
MAX_READERS = 60  # squares
MAX_SENTENCE = 140  # characters
MAX_KEPT = 40  # of one run

# The drawn part of runs at their end, by (episode, cursor, number of no-skill trials).
KEPT: RunCache[dict[tuple[str, str, int], str]] = RunCache(60)


def draw_evolution(
    request: HttpRequest, run: Run, episodes: Sequence[Episode], squares: Sequence[Square], no_skill: Successes
) -> str:
    """Return this part of the page as HTML, empty where there is none.

    Of a run at its end it is kept until one of its numbers changes, for readers who may see all of it. `episodes` have
    `decisions_total`; the address names one of them, and in `at` the key of a trial or patch.
    """
    access, episode, at = review_access(request), request.GET.get("episode", ""), request.GET.get("at", "")
    key, keeps = (episode, at, len(no_skill)), has_ended(run) and access.hides_nothing
    kept = KEPT.get(run) or {} if keeps else {}
    if key not in kept:
        evolution = None
        ordered = [each for each in episodes if each.is_ordered]
        chosen = choose_row(ordered, episode, lambda row: getattr(row, "decisions_total", 0))
        if chosen and squares:
            others = [each for each in ordered if each != chosen]
            # Of the others only the trials are drawn: what their authors did is drawn once one is chosen.
            histories = {each.pk: LibraryHistory(()) for each in others[:MAX_MINOR]} | read_histories([chosen])
            timelines = read_timelines(run, [chosen, *others[:MAX_MINOR]], squares, histories)
            timeline, *minor = (hide_words(each, access) for each in timelines)
            timeline = follow_skills(timeline)
            if timeline.trials:
                cursor = Cursor(run, timeline, at)
                evolution = {
                    "asked": at,
                    "strip": cursor.draw_strip(),
                    "cursor": cursor.read(access, no_skill),
                    "others": [_draw_minor(run, each) for each in minor if each.trials],
                    "left_out": max(0, len(others) - MAX_MINOR),
                    "skills": sum(not lane.end for lane in timeline.lanes),
                    "families": len({each.square.family_id for each in timeline.trials}),
                    "has_lost": any(each.tone == "refused" for each in timeline.patches),  # an answer, or the call
                }
        drawn = render_to_string("runs/_evolution.html", {"run": run, "evolution": evolution}).strip()
        kept = {**(kept if len(kept) < MAX_KEPT else {}), key: drawn}
        if keeps:
            KEPT.put(run, kept)
    return mark_safe(kept[key])  # noqa: S308 (a template's)


def _draw_minor(run: Run, timeline: Timeline) -> Strip:
    passed, scored = timeline.count_passed(Phase.DEPLOYMENT)
    place = f"{passed}/{scored} deployed" if scored else f"{len(timeline.trials)} trials"
    if decisions := getattr(timeline.episode, "decisions_total", 0):
        place = f"{place}, {plural(decisions, 'decision')}"
    return Strip(timeline, draw_strip(timeline, link_to_cursor(run, timeline.episode), StripForm.MINOR), place)


# --- the text below the cursor ----------------------------------------------------------------------------------------


class Cursor:
    """A trial with the patch that it led to, or a patch with the trial that it followed: the event `at` that key, else
    the one to show first."""

    def __init__(self, run: Run, timeline: Timeline, at: str) -> None:
        self.run, self.timeline = run, timeline
        self.trial, self.patch = self._find(at)
        if self.trial is None and self.patch is None:
            self.trial, self.patch = self._find(self._choose_key())

    def _find(self, key: str) -> tuple[TimelineTrial | None, TimelinePatch | None]:
        trials, patches = self.timeline.trials, self.timeline.patches
        trial = next((each for each in trials if each.key == key), None)
        if trial:
            return trial, next((each for each in patches if each.after_trial_id == trial.square.pk), None)
        patch = next((each for each in patches if each.key and each.key == key), None)
        if patch:
            trial = next((each for each in trials if each.square.pk == patch.after_trial_id), None)
        return trial, patch

    def _choose_key(self) -> str:
        """Choose what is shown first: of an open run what happened last; else the change that the library page shows
        first, else the last change, else the first failure."""
        trials, keyed = self.timeline.trials, [patch for patch in self.timeline.patches if patch.key]
        if not keyed:
            return next((trial.key for trial in trials if trial.square.success is False), trials[0].key)
        if self.run.is_open:
            return keyed[-1].key
        changes = [patch.key for patch in keyed if patch.is_change] or [patch.key for patch in keyed]
        return self._find_telling() or changes[-1]

    def _find_telling(self) -> str:
        """Return the key of the change that the library page shows first, or "".

        Finding it reads every file the library ever held, so of a run at its end it is kept on disk.
        """
        run, episode = self.run, self.timeline.episode
        name, revisions = f"telling-{episode.public_id}", read_revisions(run.experiment) if has_ended(run) else None
        fact = take_fact(run.experiment, name, revisions) if revisions is not None else None
        if fact is None:
            telling = LibraryCourse(run, episode, self.timeline.history).find_telling()
            fact = {"key": telling.stop.key if telling else ""}
            if revisions is not None:
                keep_fact(run.experiment, name, revisions, fact)
        return str(fact["key"])

    def draw_strip(self) -> Strip:
        timeline, trial, patch = self.timeline, self.trial, self.patch
        links = link_to_cursor(self.run, timeline.episode)
        place = ""
        if patch and patch.key:
            decision = patch.decision
            place = f"decision {decision.number} of {timeline.decisions_total}" if decision else patch.word.lower()
        elif trial:
            place = f"trial {trial.number} of {len(timeline.trials)}"
        neighbours = find_neighbours([each for each in timeline.patches if each.key], patch)
        before, after = (links.of_patch(each) if each else "" for each in neighbours)
        here = frozenset(found.key for found in (trial, patch) if found)
        return Strip(timeline, draw_strip(timeline, links, StripForm.FULL, here=here), place, before, after)

    def read(self, access: ReviewAccess, no_skill: Successes) -> dict[str, object]:
        """Return what runs/_cursor.html shows. One query for a failed trial, two for a patch."""
        timeline, trial, patch = self.timeline, self.trial, self.patch
        links = link_to_pages(self.run, timeline.episode)
        path, lines = _read_lines(patch) if patch and not timeline.hidden else ("", [])
        return {
            "trial": trial,
            "trial_url": links.of_trial(trial) if trial else "",
            "checks": _read_checks(timeline, trial, access) if trial and trial.square.success is False else None,
            "patch": patch,
            "patch_url": links.of_patch(patch) if patch else "",
            "path": path,
            "lines": lines[:MAX_LINES],
            "lines_more": max(0, len(lines) - MAX_LINES),
            "readers": _count_readers(timeline, patch, no_skill) if patch and patch.is_change else None,
            "hidden": timeline.hidden,  # shown in place of its words
        }


def _read_checks(timeline: Timeline, trial: TimelineTrial, access: ReviewAccess) -> Mapping[str, object] | None:
    """Count the checks that the trial failed by its primary verdict, with the first of them in words. One query."""
    counting = Verdict.objects.filter(attempt__trial=trial.square.pk, attempt__counts=True, is_primary=True)
    rows = Check.objects.filter(verdict__in=counting).exclude(status=CheckStatus.SKIPPED).order_by("id")
    checks = list(rows.values_list("name", "status", "message"))
    failed = [(name, message) for name, status, message in checks if status != CheckStatus.PASSED]
    if not failed:
        return None
    name, message = (one_line(text or "", MAX_SENTENCE) for text in failed[0])
    if queue := access.closing_trial(trial.square.task_id, timeline.episode.key):
        name, message = hidden_until(queue), ""
    return {"failed": len(failed), "total": len(checks), "name": name, "message": message}


def _read_lines(patch: TimelinePatch) -> tuple[str, list[DiffRow]]:
    """Return the first file that changed, skills before others, with its changed lines. Two queries."""
    before, after = patch.step.before.snapshot, patch.step.after.snapshot
    changes = [change for change in read_changes(before, after, patch.decision)[0] if change.status]
    skills = [change for change in changes if change.path.endswith("/SKILL.md")]
    for change in (skills or changes)[:1]:
        (shown,) = draw_changes([change])
        rows = (row for block in shown.diff.blocks for row in block.rows)
        return change.path, [row for row in rows if row.sign is not LineSign.SAME and row.text.strip()]
    return "", []


def _count_readers(timeline: Timeline, patch: TimelinePatch, no_skill: Successes) -> dict[str, object]:
    """Count the later trials that read a skill which the patch wrote: association, not effect.

    Those of the same family are compared with no-skill on the tasks that were scored on both sides, where there are
    any.
    """
    readers = timeline.list_readers(patch)
    source = patch.decision or patch.step.entry.seeding
    family = source.family_id if source else None
    same = [reader.square for reader in readers if reader.square.family_id == family]
    both: list[tuple[Square, bool]] = []
    for square in same:
        # A replay that no-skill lacks meets its first try.
        phases = (square.phase, Phase.ACQUISITION.value) if square.phase == Phase.REPLAY else (square.phase,)
        found = (no_skill.get((phase, square.role, square.task_id, square.sample)) for phase in phases)
        passed = next((each for each in found if each is not None), None)
        if square.success is not None and passed is not None:
            both.append((square, passed))
    shown = readers[:MAX_READERS]
    return {
        "phases": [(phase, list(group)) for phase, group in groupby(shown, lambda each: each.square.phase)],
        "total": _count([reader.square for reader in readers]),
        "same_family": _count([square for square, _ in both] if both else same),
        "beside": Rate(sum(passed for _, passed in both), len(both), len(both)),
        "left_out": len(readers) - len(shown),
    }


def _count(squares: Sequence[Square]) -> Rate:
    outcomes = [square.success for square in squares]
    return Rate(outcomes.count(True), len(outcomes) - outcomes.count(None), len(outcomes))
