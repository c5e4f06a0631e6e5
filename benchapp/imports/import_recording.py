"""Write what a source holds into the record: new trials in batches, each in one transaction; never one row twice.

An attempt whose source is unchanged, byte for byte, is left alone. If its source changed, a new attempt supersedes it
and counts instead. The same happens when an earlier version of the readers read something else from the same source.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeAlias
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Count, Max
from django.utils import timezone

from benchapp.imports.audited_edits import Author, edit_runs, edit_task
from benchapp.imports.histories import HistoryRecorder
from benchapp.imports.import_map import NO_SETTINGS, SET_BY_MAP, ImportMap, Remapping, Settings
from benchapp.imports.import_places import Places
from benchapp.imports.logs.lineage import can_scan
from benchapp.imports.logs.session_logs import Session
from benchapp.imports.packing import READER_VERSION, AttemptPacker, read_digest, redacted_files
from benchapp.imports.problems import ProblemList
from benchapp.imports.reading import found_sources as sources
from benchapp.imports.related_sessions import KeptSession, find_kept, is_of_lineage, relate
from benchapp.imports.trial_rows import (
    IDS_JOINED,
    AttemptParts,
    PackedTrial,
    TrialBatch,
    read_ahead,
    save_attempts,
    status_of,
)
from benchapp.models import Attempt, Episode, Run, Snapshot, Task, Trajectory, Trial
from benchapp.models.base import derived_id
from benchapp.models.blobs import GatheredBlobs
from benchapp.models.trials import NUMBERS
from benchapp.record.error_text import is_of_machine
from benchapp.record.record_digest import reading_of
from benchapp.record.redaction import Redactor
from benchapp.stats.learning.computed_runs import digest_code, keep_fact, take_fact
from runner.base.digests import library_digest
from runner.base.types import JsonValue

logger = logging.getLogger(__name__)
CHANGED_AT_SOURCE = "its source changed"
QUIET = "quiet-sources"
READERS = ("benchapp/imports", "benchapp/record", "runner")  # their code decides whether a source has problems
LOOKED_UP = 500  # trials looked up at once


@dataclass(frozen=True, slots=True)
class Known:
    """An attempt imported before."""

    pk: int
    digest: str
    status: str
    run: int  # its key
    lineage: dict[str, JsonValue]


KNOWN_COLUMNS = ("pk", "source_digest", "status", "trial__episode__run", "lineage")
StoredTrajectory: TypeAlias = tuple[str, int, list[dict[str, str]] | None]  # path in its source, steps, problems


@dataclass(slots=True)
class ExperimentRecorder:
    """Record one experiment's trials and libraries. `counts` are what import_runs prints."""

    source: sources.ExperimentSource
    mapping: ImportMap
    problems: ProblemList
    author: Author
    counts: Counter[str]
    processes: int = 1  # that read new trials
    places: Places = field(init=False)
    remapping: Remapping = field(init=False)
    # Digests of sources that had no problems. If such a source and its recorded attempt are found again, there is
    # nothing to report or read. They are kept outside the record; without them every source is read.
    quiet: set[str] = field(init=False)
    quiet_before: set[str] = field(init=False)
    known: dict[str, list[Known]] = field(default_factory=dict)  # by each of its ids, the oldest attempt first
    # Of each episode the last sample number of every (phase, task).
    samples: dict[int, dict[tuple[str, int], int]] = field(default_factory=dict)
    batch: TrialBatch = field(default_factory=TrialBatch)
    stored: dict[int, list[StoredTrajectory]] = field(default_factory=dict)  # of attempts that were looked up

    def __post_init__(self) -> None:
        self.places = Places(self.source)
        self.remapping = Remapping(self.author)
        fact = take_fact(self.places.experiment, QUIET, digest_code(READERS)) or {}
        self.quiet_before = set(fact.get("digests", ()))
        self.quiet = set(self.quiet_before)
        attempts = Attempt.objects.filter(trial__episode__run__experiment=self.places.experiment).order_by("number")
        for ids, *row in attempts.values_list("source_key", *KNOWN_COLUMNS).iterator():
            self._remember(ids.split(IDS_JOINED), Known(*row))

    def _remember(self, ids: Sequence[str], known: Known) -> None:
        for ident in ids:
            self.known.setdefault(ident, []).append(known)

    # --- trials -------------------------------------------------------------------------------------------------

    def record_trials(self, trials: Sequence[sources.FoundTrial]) -> Iterator[int]:
        """Store what is new in each trial, count it, and yield the key of its run. Problems of unchanged trials are
        reported again. A trial that could not be read yields nothing."""
        for kept in relate(trials):
            yield from self._try(kept, partial(self._record_copy, kept))
        new = [not any(ident in self.known for ident in found.ids) for found in trials]
        with closing(read_ahead(trials, new, self.problems, self.processes)) as ahead:
            waiting = zip(trials, ahead, strict=True)
            while some := list(islice(waiting, LOOKED_UP)):
                self._look_elsewhere([found for found, _ in some])
                self.stored.clear()
                self._look_up_stored(known.pk for found, _ in some for known in self._earlier(found))
                for found, reading in some:
                    if not self.batch.ids.isdisjoint(found.ids):  # it may be one of those
                        yield from self._record_batch()
                    yield from self._try(found, partial(self._take, found, reading))
                    if self.batch.is_full:
                        yield from self._record_batch()
        yield from self._record_batch()

    def _record_copy(self, kept: KeptSession) -> list[int]:
        """Read a recorded session again from its kept log, because part of it turned out to be a copy."""
        if not kept.is_whole:
            message = f"it copies {kept.lineage.of if kept.lineage else 'nothing'}; its log is too long to be kept: import it again"  # noqa: E501
            self.problems.add(kept.path, "", "the log of a session in the record", message)
            return []
        parts = AttemptParts.of(kept.read(), kept.digest(), kept.path, self.problems)
        attempt, _ = self._supersede(PackedTrial(kept, NO_SETTINGS, parts), kept.attempt.pk)
        self.counts["changed"] += 1
        return [attempt.trial.episode.run_id]

    def _earlier(self, found: sources.FoundTrial) -> list[Known]:
        return next((self.known[ident] for ident in found.ids if ident in self.known), [])

    def _look_up_stored(self, attempts: Iterable[int]) -> None:
        """Look up what is stored for many attempts at once."""
        wanted = list(attempts)
        self.stored |= {attempt: [] for attempt in wanted}
        rows = Trajectory.objects.current().filter(attempt__in=wanted)
        for attempt, *row in rows.values_list("attempt", "source_path", "steps_total", "extra__problems"):
            self.stored[attempt].append(tuple(row))

    def _try(self, found: sources.FoundTrial, record: Callable[[], list[int]]) -> list[int]:
        """Return what `record` returns. If reading fails unexpectedly, report it and return nothing."""
        try:
            return record()
        except IntegrityError:  # another process changed the slot or imported it at this moment
            self.samples.clear()
            self._look_elsewhere([found])
            return self._take(found) or self._record(self.batch.take())
        except Exception as error:
            self.samples.clear()  # the number it took is free again
            if is_of_machine(error):
                raise
            logger.exception("reading the trial in %s failed", found.path)
            text = getattr(error, "strerror", None) or error  # the text of an OSError repeats the path
            self.problems.add(found.path, "", "a trial that can be read", f"{type(error).__name__}: {text}; left out")
            return []

    def _record_batch(self) -> list[int]:
        """Write the waiting trials and return the keys of their runs. If one cannot be stored, store each alone."""
        batch = self.batch.take()
        try:
            return self._record(batch)
        except Exception:  # storing each alone shows which trial it is
            logger.warning("%d trials cannot be stored together: storing each alone", len(batch), exc_info=True)
            self.samples.clear()
        return [run for packed in batch for run in self._try(packed.found, partial(self._record, [packed]))]

    def _look_elsewhere(self, trials: Sequence[sources.FoundTrial]) -> None:
        """Look for the same trials under another experiment, because their job's files gave another id then."""
        wanted = {derived_id("trial", found.ids[0]): found for found in trials if found.ids[0] not in self.known}
        attempts = Attempt.objects.filter(trial__public_id__in=wanted).order_by("number")
        strangers: dict[UUID, tuple[sources.ClaimingTrial, str]] = {}
        for ident, key, *row in attempts.values_list("trial__public_id", "source_key", *KNOWN_COLUMNS):
            trial = wanted[ident]
            if isinstance(trial, sources.ClaimingTrial) and sources.is_of_other_job(trial.ids, key.split(IDS_JOINED)):
                strangers[ident] = trial, key
            else:
                self._remember(trial.ids, Known(*row))
        for stranger, key in strangers.values():
            stranger.report_duplicate(stranger.ids[0], f"the trial {key} in the record")
        if strangers:  # they may have been imported before, under the ids they have now
            self._look_elsewhere([stranger for stranger, _ in strangers.values()])

    def _take(self, found: sources.FoundTrial, parts: AttemptParts | None = None) -> list[int]:
        """Read a trial unless it was read before. A new one joins the batch; for others, return the key of the run.
        `parts`: what another process read of it."""
        earlier = self._earlier(found)
        if self.mapping.rules and isinstance(found, Session) and self._map_lineage(found):
            parts = None  # it was read without the map's settings
        if parts is not None and not earlier:
            for problem in parts.problems:
                self.problems.add(*problem)
            self.batch.add(PackedTrial.of(found, self._match(parts.source, found), parts))
            if not parts.problems:
                self.quiet.add(parts.digest)
            return []
        digest = read_digest(found)
        lineage = found.lineage.as_json() if isinstance(found, Session) and found.lineage else {}
        equal = (known for known in reversed(earlier) if known.digest == digest)
        same = next((known for known in equal if is_of_lineage(known.lineage, lineage)), None)
        if same is None and earlier and self._is_set_aside(found, earlier[-1]):
            return self._skip(earlier[-1])
        is_current = same is not None and same.status != Attempt.Status.SUPERSEDED
        if same is not None and is_current and digest in self.quiet and not self.mapping.rules:
            return self._skip(same)
        reported_before = self.problems.reported
        runs = self._read(found, digest, earlier, same)
        if self.problems.reported == reported_before:
            self.quiet.add(digest)
        return runs

    def _match(self, source: sources.TrialSource, found: sources.FoundTrial) -> Settings:
        return self.mapping.match(source.run, found.path, source.task.key)

    def _skip(self, known: Known) -> list[int]:
        self.counts["unchanged"] += 1
        self._count_stored(known.pk)
        return [known.run]

    def _map_lineage(self, session: Session) -> bool:
        """Does the map say whose copy the session is?"""
        lineage = self._match(session.read(), session).lineage_of(session.format)
        if lineage is not None and not can_scan(session.format):
            expected = "a log whose lines can be marked as copied"
            self.problems.add(
                session.path, "", expected, f"{session.format}; what the map says about its origin is left out"
            )
            return False
        session.lineage = lineage or session.lineage
        return lineage is not None

    def _is_set_aside(self, found: sources.FoundTrial, known: Known) -> bool:
        """Is this a session in its state before the record took it in?"""
        kept = find_kept(known.pk) if isinstance(found, Session) and found.session_root else None
        if kept is None or not isinstance(found, Session):
            return False
        here, there = found.scan(), kept.scan()
        is_older = here.is_part_of(there) and not there.is_part_of(here)
        if is_older:
            found.report_snapshot("the record")
        return is_older

    def _read(self, found: sources.FoundTrial, digest: str, earlier: list[Known], same: Known | None) -> list[int]:
        """`same`: the earlier attempt with this same source, if any."""
        source = found.read()
        settings = self._match(source, found)
        if same is not None:
            run = self._put_right(same, source, settings)
            self._tell_again(same.pk, found, source)
            return [run]
        packed = PackedTrial.of(found, settings, AttemptParts.of(source, digest, found.path, self.problems))
        if earlier:
            return [self._record_again(packed, earlier[-1].pk)]
        self.batch.add(packed)
        return []

    def _record(self, some: Sequence[PackedTrial]) -> list[int]:
        """Write new trials. Their runs and tasks come first: these are cached and must survive if the trials fail."""
        with transaction.atomic():
            tasks = [packed.parts.source.task for packed in some]
            self.counts["tasks_joined"] += self.places.look_up_tasks(tasks)
            self.places.look_up_revisions((self.places.task(task), task.revision) for task in tasks)
            trials = [self._new_trial(packed) for packed in some]
        filled = []
        for packed, trial in zip(some, trials, strict=True):
            attempt = packed.attempt()
            attempt.trial = trial
            packed.parts.fill(attempt)
            filled.append((packed.parts, attempt))
        runs = [trial.episode.run_id for trial in trials]
        with transaction.atomic():
            save_attempts(filled)
            Run.objects.filter(pk__in=set(runs)).touch()
        for packed, (_, attempt), run in zip(some, filled, runs, strict=True):
            self._count_packed(packed.parts)
            self._remember_read(packed, attempt, run, "created")
        return runs

    def _record_again(self, packed: PackedTrial, known: int) -> int:
        """Write a trial whose source changed, or that other readers read before. If these readers find what is already
        recorded, nothing is superseded: the attempt is marked as read by them."""
        attempt, is_new = self._supersede(packed, known)
        self._count_packed(packed.parts)
        run: int = attempt.trial.episode.run_id
        if is_new:
            return self._remember_read(packed, attempt, run, "changed")
        digest = packed.parts.digest
        Attempt.objects.filter(pk=attempt.pk).update(source_digest=digest)
        attempt.trajectories.update(reader_version=READER_VERSION)
        kept = Known(attempt.pk, digest, attempt.status, run, attempt.lineage)
        self._remember(packed.found.ids, kept)
        return self._put_right(kept, packed.parts.source, packed.settings)

    def _supersede(self, packed: PackedTrial, known: int) -> tuple[Attempt, bool]:
        """Add an attempt to that one's trial. Return it and True; or the current one and False, if an earlier version
        of the readers read the same."""
        with transaction.atomic():
            trial = Trial.objects.select_related("episode").get(attempts__pk=known)
            counting = trial.counting_attempt()
            if counting and not packed.settings.scorer:  # a person's choice survives a changed source
                packed = replace(packed, parts=packed.parts.decided_by(counting.lineage.get("scorer")))
            attempt = packed.attempt(number=trial.attempts.aggregate(last=Max("number"))["last"] + 1)
            rows = trial.attempts.exclude(status=Attempt.Status.SUPERSEDED).select_related("trial__episode")
            current = rows.order_by("number").last()
            if current is not None and current.trajectories.filter(reader_version=READER_VERSION).exists():
                current = None  # these readers read it already, so its source changed
            phase = packed.settings.phase or str(packed.parts.source.phase)
            # What a search keeps is known at its end: its source counts the trial in another phase then.
            if packed.parts.source.is_phase_late and phase != trial.phase:
                trial.phase, trial.sample = phase, self._sample(trial.episode_id, phase, trial.task_id)
                trial.save(update_fields=["phase", "sample"])
            numbers = _list_numbers(trial)
            trial.attempts.update(status=Attempt.Status.SUPERSEDED, counts=False)
            attempt.trial = trial
            packed.parts.fill(attempt)
            save_attempts([(packed.parts, attempt)])
            if "kind" in attempt.lineage:  # its title was the copied session's request
                Task.objects.filter(revisions__trials=trial).update(title=packed.parts.source.task.title[:300])
            Run.objects.filter(pk=trial.episode.run_id).touch()
            if current is not None:
                new = Attempt.objects.select_related("trial").get(pk=attempt.pk)
                old = Attempt.objects.get(pk=current.pk)
                if numbers == _list_numbers(new.trial) and reading_of(old) == reading_of(new):
                    transaction.set_rollback(True)
                    return current, False
        return attempt, True

    def _remember_read(self, packed: PackedTrial, attempt: Attempt, run: int, counted: str) -> int:
        self.counts["redactions"] += packed.parts.redactor.counts.total()
        self.counts[counted] += 1
        self._remember(packed.found.ids, Known(attempt.pk, packed.parts.digest, attempt.status, run, attempt.lineage))
        return run

    def _new_trial(self, packed: PackedTrial) -> Trial:
        source, settings = packed.parts.source, packed.settings
        run = self.places.run(replace(source.run, **settings.run_edit))
        episode = self.places.episode(run, source.episode, source.task.suite)
        task = self.places.task(source.task)
        edit_task(task, settings.trial_edit, author=self.author, reason=SET_BY_MAP)
        phase, counted_as = settings.phase or str(source.phase), task.counted_as
        return Trial(
            public_id=derived_id("trial", packed.found.ids[0]),
            episode=episode,
            task=counted_as,
            task_revision=self.places.revision(task, source.task.revision),
            phase=phase,
            sample=self._sample(episode.pk, phase, counted_as.pk),
        )

    def _sample(self, episode: int, phase: str, task: int) -> int:
        """Return the first free sample number of the slot."""
        if episode not in self.samples:
            slots = (
                Trial.objects.filter(episode=episode).order_by().values_list("phase", "task").annotate(Max("sample"))
            )
            self.samples[episode] = {(phase, task): last for phase, task, last in slots}
        last = self.samples[episode]
        last[phase, task] = last.get((phase, task), -1) + 1
        return last[phase, task]

    def _put_right(self, known: Known, source: sources.TrialSource, settings: Settings) -> int:
        """Reinstate a superseded attempt and apply the map. Count whether it changed; return the key of the run."""
        is_superseded, run = known.status == Attempt.Status.SUPERSEDED, known.run
        is_changed = False
        if is_superseded or settings.run_edit or settings.trial_edit:
            rows = Attempt.objects.select_related("trial__episode__run", "trial__task__family", "trial__task__suite")
            with transaction.atomic():
                attempt = rows.get(pk=known.pk)
                trial = attempt.trial
                is_changed = attempt.status == Attempt.Status.SUPERSEDED
                if is_changed:
                    self._reinstate(attempt, source)
                is_changed |= self.remapping.trial(trial, settings)
            run = trial.episode.run_id
        if is_changed:
            self.samples.clear()  # a trial may have moved into a slot counted before
        self.counts["changed" if is_changed else "unchanged"] += 1
        return run

    def _reinstate(self, attempt: Attempt, source: sources.TrialSource) -> None:
        trial = attempt.trial
        trial.attempts.exclude(pk=attempt.pk).update(status=Attempt.Status.SUPERSEDED, counts=False)
        attempt.status = status_of(source)
        attempt.save(update_fields=["status"])
        if source.is_finished:
            trial.settle(attempt)
            trial.duration_seconds = source.timing.duration_seconds  # known also between zoneless times
        else:
            trial.drop_numbers()
            trial.settled_at = timezone.now()
        trial.save()
        Run.objects.filter(pk=trial.episode.run_id).touch()

    def _tell_again(self, attempt: int, found: sources.FoundTrial, source: sources.TrialSource) -> None:
        """Count what is stored of an unchanged trial, and report again what was wrong with its trajectories."""
        rows = self._count_stored(attempt)
        stored = {path for path, _, _ in rows}
        for path, _, problems in rows:
            for problem in problems or ():
                place = sources.place_of(found.path, path, stored)
                self.problems.add(place, problem["place"], problem["expected"], problem["message"])
        empty = [
            sources.SourceChoice(tuple(item for item in choice.trajectories if item.path not in stored))
            for choice in source.choices
        ]
        if any(choice.trajectories for choice in empty):  # nothing in it could be read, so nothing is stored of it
            quiet = Redactor.knowing(source.config)
            unread = replace(source, choices=tuple(empty))
            AttemptPacker(unread, quiet, found.path, self.problems, GatheredBlobs()).pack()

    def _count_stored(self, attempt: int) -> list[StoredTrajectory]:
        if attempt not in self.stored:
            self._look_up_stored([attempt])
        rows = self.stored[attempt]
        self.counts.update(trials=1, attempts=1, trajectories=len(rows), steps=sum(steps for _, steps, _ in rows))
        return rows

    def _count_packed(self, parts: AttemptParts) -> None:
        steps = sum(item.steps.steps_total for item in parts.packed)
        self.counts.update(trials=1, attempts=1, trajectories=len(parts.packed), steps=steps)

    def keep_quiet(self) -> None:
        """Keep the quiet sources of recorded attempts for the next import of the experiment."""
        digests = self.quiet & {known.digest for attempts in self.known.values() for known in attempts}
        if digests != self.quiet_before:
            keep_fact(self.places.experiment, QUIET, digest_code(READERS), {"digests": sorted(digests)})

    # --- histories ----------------------------------------------------------------------------------------------

    def record_history(self, source: sources.HistorySource) -> None:
        """Record the decisions and the spine of one episode, after its trials. Its last library counts as one
        snapshot."""
        wanted = [derived_id("trial", ident) for ident in source.trials]
        held = Trial.objects.filter(public_id__in=wanted).values("episode").annotate(held=Count("pk")).order_by("-held")
        if most := held.first():  # the episode that has most of its trials now: a map may have moved them
            episode = Episode.objects.select_related("run", "family").get(pk=most["episode"])
        else:
            episode = self.places.episode(self.places.run(source.run), source.episode, source.suite)
        history = HistoryRecorder(source, episode, self.author, self.problems)
        self.counts[history.record()] += 1
        self.counts["snapshots"] += 1
        self.counts["skills"] += history.skills_total

    # --- libraries ----------------------------------------------------------------------------------------------

    def record_library(self, source: sources.LibrarySource) -> None:
        """Record the one library of an episode without decisions. It replaces a different one, which is named."""
        run = self.places.run(source.run)
        settings = self.mapping.match(source.run, source.path, source.episode.key)
        edit_runs([run], settings.run_edit, author=self.author, reason=SET_BY_MAP)
        episode = self.places.episode(run, source.episode, source.suite)
        files = redacted_files(source.files)
        before = episode.library.digest if episode.library else None
        self.counts["snapshots"] += 1
        self.counts["skills"] += sum(path.count("/") == 1 and path.endswith("/SKILL.md") for path in files)
        if before == library_digest(files):
            self.counts["unchanged"] += 1
            return
        snapshot = Snapshot.objects.put(files)
        with transaction.atomic():
            episode.library = snapshot
            episode.save(update_fields=["library"])
            if before is not None:
                after = {"library": snapshot.digest}
                self.author.note(episode, {"library": before}, after, CHANGED_AT_SOURCE, verb="supersede")
        self.counts["created" if before is None else "changed"] += 1


def _list_numbers(trial: Trial) -> dict[str, object]:
    return {name: getattr(trial, name) for name in ("status", *NUMBERS)}
