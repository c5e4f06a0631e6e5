"""Writing what a source holds into the record: an attempt in one transaction, never one row twice.

An attempt whose source is the same byte for byte is left alone. One whose source changed is superseded: the new one
counts, the old one stays. The same holds where an earlier version of the readers read other things from the same source.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from uuid import UUID

from django.db import DatabaseError, DataError, IntegrityError, transaction
from django.db.models import Count, Max
from django.utils import timezone

from benchapp.imports.audited_edits import Author, edit_runs, next_sample
from benchapp.imports.histories import HistoryRecorder
from benchapp.imports.import_map import ImportMap, MappedEdits
from benchapp.imports.import_places import Places
from benchapp.imports.packing import AttemptPacker, redacted_files
from benchapp.imports.problems import ProblemList
from benchapp.imports.read_again import StandingAttempt, read_digest, reads_the_same, standing_of
from benchapp.imports.reading.found_sources import (
    ClaimingTrial,
    ExperimentSource,
    FoundTrial,
    HistorySource,
    LibrarySource,
    SourceChoice,
    TrialSource,
    is_of_other_job,
    place_of,
)
from benchapp.imports.remapped_trials import SET_BY_MAP, Remapping
from benchapp.imports.trial_rows import AttemptParts, status_of
from benchapp.models import Attempt, Episode, Run, Snapshot, Trajectory, Trial
from benchapp.models.base import derived_id
from benchapp.record.machine_failures import SPENT
from benchapp.record.redaction import Redactor, redact_text
from runner.base.digests import library_digest

logger = logging.getLogger(__name__)
IDS_JOINED, MAX_IDS = "|", 1_000  # characters of the column
CHANGED_AT_SOURCE = "its source changed"
LOOKED_UP = 500  # trials looked up at once


@dataclass(frozen=True, slots=True)
class Known:
    """An attempt imported before."""

    pk: int
    digest: str
    status: str
    run: int  # its key


KNOWN_COLUMNS = ("pk", "source_digest", "status", "trial__episode__run")


def _join_ids(ids: Sequence[str]) -> str:
    """Ids as one text that comes apart into the same ids, without those that hold a secret, or that cannot be told whole and would be
    told as another's: a trial is also found by what is derived from its first id."""
    found = ""
    for ident in ids:
        joined = f"{found}{IDS_JOINED}{ident}" if found else ident
        if IDS_JOINED not in ident and redact_text(ident) == ident and len(joined) <= MAX_IDS:
            found = joined
    return found


@dataclass(slots=True)
class ExperimentRecorder:
    """Records one experiment's trials and libraries. `counts` are those that import_runs prints."""

    source: ExperimentSource
    mapping: ImportMap
    problems: ProblemList
    author: Author
    counts: Counter[str]
    places: Places = field(init=False)
    remapping: Remapping = field(init=False)
    known: dict[str, list[Known]] = field(default_factory=dict)  # by each of its ids, the oldest attempt first
    samples: dict[tuple[int, str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places = Places(self.source)
        self.remapping = Remapping(self.author)
        attempts = Attempt.objects.filter(trial__episode__run__experiment=self.places.experiment).order_by("number")
        for ids, *row in attempts.values_list("source_key", *KNOWN_COLUMNS).iterator():
            self._remember(ids.split(IDS_JOINED), Known(*row))

    def _remember(self, ids: Sequence[str], known: Known) -> None:
        for ident in ids:
            self.known.setdefault(ident, []).append(known)

    # --- trials -------------------------------------------------------------------------------------------------

    def record_trials(self, trials: Sequence[FoundTrial]) -> Iterator[int]:
        """Stores what is new of each, counts it, and gives the key of its run. Problems of unchanged ones are told
        again. One that could not be read gives nothing."""
        waiting = iter(trials)
        while some := list(islice(waiting, LOOKED_UP)):
            self._look_elsewhere(some)
            for found in some:
                if run := self._try_to_record(found):
                    yield run

    def _try_to_record(self, found: FoundTrial) -> int | None:
        """The key of the trial's run, or None, reported, where reading it failed in a way that no reader foresaw."""
        try:
            return self._record_trial(found)
        except IntegrityError:  # somebody changed the slot or brought it in at this moment
            self.samples.clear()
            self._look_elsewhere([found])
            return self._record_trial(found)
        except Exception as error:
            self.samples.clear()  # the number it took is free again
            if isinstance(error, MemoryError) or (
                isinstance(error, DatabaseError) and not isinstance(error, DataError)
            ):
                raise  # the machine's failure, not the trial's
            if getattr(error, "errno", None) in SPENT:
                raise
            logger.exception("reading the trial in %s failed", found.path)
            told = getattr(error, "strerror", None) or error  # the text of an OSError says the path again
            self.problems.add(found.path, "", "a trial that can be read", f"{type(error).__name__}: {told}; left out")
            return None

    def _look_elsewhere(self, trials: Sequence[FoundTrial]) -> None:
        """The same trials under another experiment: their job's files gave another id then."""
        wanted = {derived_id("trial", found.ids[0]): found for found in trials if found.ids[0] not in self.known}
        attempts = Attempt.objects.filter(trial__public_id__in=wanted).order_by("number")
        strangers: dict[UUID, tuple[ClaimingTrial, str]] = {}
        for ident, key, *row in attempts.values_list("trial__public_id", "source_key", *KNOWN_COLUMNS):
            trial = wanted[ident]
            if isinstance(trial, ClaimingTrial) and is_of_other_job(trial.ids, key.split(IDS_JOINED)):
                strangers[ident] = trial, key
            else:
                self._remember(trial.ids, Known(*row))
        for stranger, key in strangers.values():
            stranger.report_duplicate(stranger.ids[0], f"the trial {key} in the record")
        if strangers:  # they may have come in before, under the ids they have now
            self._look_elsewhere([stranger for stranger, _ in strangers.values()])

    def _record_trial(self, found: FoundTrial) -> int:
        earlier = next((self.known[ident] for ident in found.ids if ident in self.known), [])
        digest = read_digest(found)
        source = found.read()
        settings = self.mapping.of_trial(source, found.path)
        same = next((known for known in reversed(earlier) if known.digest == digest), None)
        if same is not None:
            return self._keep(same, found, source, settings)
        return self._record(found, source, settings, digest, earlier)

    def _record(
        self, found: FoundTrial, source: TrialSource, settings: MappedEdits, digest: str, earlier: list[Known]
    ) -> int:
        redactor = Redactor.knowing(source.config)
        parts = AttemptParts.of(source, AttemptPacker(source, redactor, found.path, self.problems).pack(), redactor)
        attempt = Attempt(
            public_id=derived_id("attempt", found.ids[0], *([digest] if earlier else [])),
            number=1,
            source_key=_join_ids(found.ids),
            source_digest=digest,
        )
        with transaction.atomic():
            standing = None
            if earlier:
                trial = Trial.objects.select_related("episode").get(attempts__pk=earlier[-1].pk)
                attempt.number = trial.attempts.aggregate(last=Max("number"))["last"] + 1
                standing = standing_of(trial)
                trial.attempts.update(status=Attempt.Status.SUPERSEDED, counts=False)
            else:
                trial = self._new_trial(found, source, settings)
            attempt.trial = trial
            parts.save(attempt)
            Run.objects.filter(pk=trial.episode.run_id).touch()
            is_kept = standing is not None and reads_the_same(standing, attempt)
            if is_kept:
                transaction.set_rollback(True)
        self._count(len(parts.packed), sum(item.rows.packed.steps_total for item in parts.packed))
        if standing is not None and is_kept:
            return self._keep_reading(standing, found, source, settings, digest)
        self.counts["redactions"] += redactor.counts.total()
        self.counts["changed" if earlier else "created"] += 1
        run: int = trial.episode.run_id
        self._remember(found.ids, Known(attempt.pk, digest, attempt.status, run))
        return run

    def _keep_reading(
        self, standing: StandingAttempt, found: FoundTrial, source: TrialSource, settings: MappedEdits, digest: str
    ) -> int:
        """An attempt that this version of the readers reads as an earlier one did."""
        standing.read_again(digest)
        attempt = standing.attempt
        known = Known(attempt.pk, digest, attempt.status, attempt.trial.episode.run_id)
        self._remember(found.ids, known)
        is_changed, run = self._put_right(known, source, settings) if settings else (False, known.run)
        self.counts["changed" if is_changed else "unchanged"] += 1
        return run

    def _new_trial(self, found: FoundTrial, source: TrialSource, settings: MappedEdits) -> Trial:
        run = self.places.run(settings.apply(source.run))
        episode = self.places.episode(run, source.episode, source.task.suite)
        task = self.places.task(source.task)
        self.remapping.task(task, settings.trial)
        phase = settings.trial.phase or str(source.phase)
        return Trial(
            public_id=derived_id("trial", found.ids[0]),
            episode=episode,
            task=task,
            task_revision=self.places.revision(task, source.task.revision),
            phase=phase,
            sample=self._sample(episode.pk, phase, task.pk),
        )

    def _sample(self, episode: int, phase: str, task: int) -> int:
        slot = (episode, phase, task)
        self.samples[slot] = self.samples[slot] + 1 if slot in self.samples else next_sample(*slot)
        return self.samples[slot]

    def _keep(self, known: Known, found: FoundTrial, source: TrialSource, settings: MappedEdits) -> int:
        """A trial whose source is the same."""
        is_superseded = known.status == Attempt.Status.SUPERSEDED
        is_changed, run = self._put_right(known, source, settings) if is_superseded or settings else (False, known.run)
        self.counts["changed" if is_changed else "unchanged"] += 1
        self._tell_again(known.pk, found, source)
        return run

    def _put_right(self, known: Known, source: TrialSource, settings: MappedEdits) -> tuple[bool, int]:
        """(did anything change, key of the run): a superseded attempt stands again, and the map is obeyed."""
        rows = Attempt.objects.select_related("trial__episode__run", "trial__task__family", "trial__task__suite")
        with transaction.atomic():
            attempt = rows.get(pk=known.pk)
            trial = attempt.trial
            is_changed = attempt.status == Attempt.Status.SUPERSEDED
            if is_changed:
                self._reinstate(attempt, source)
            is_changed |= self.remapping.trial(trial, settings)
        if is_changed:
            self.samples.clear()  # a trial may have moved into a slot counted before
        return is_changed, trial.episode.run_id

    def _reinstate(self, attempt: Attempt, source: TrialSource) -> None:
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

    def _tell_again(self, attempt: int, found: FoundTrial, source: TrialSource) -> None:
        """Counts what is stored of an unchanged trial, and reports what was wrong with its trajectories."""
        rows = list(
            Trajectory.objects.filter(attempt=attempt, is_superseded=False).values_list(
                "source_path", "steps_total", "extra__problems"
            )
        )
        self._count(len(rows), sum(steps for _, steps, _ in rows))
        stored = {path for path, _, _ in rows}
        for path, _, problems in rows:
            for problem in problems or ():
                place = place_of(found.path, path, stored)
                self.problems.add(place, problem["place"], problem["expected"], problem["message"])
        empty = [
            SourceChoice(tuple(item for item in choice.trajectories if item.path not in stored))
            for choice in source.choices
        ]
        if any(choice.trajectories for choice in empty):  # nothing in it could be read, so nothing is kept with it
            quiet = Redactor.knowing(source.config)
            AttemptPacker(replace(source, choices=tuple(empty)), quiet, found.path, self.problems).pack()

    def _count(self, trajectories: int, steps: int) -> None:
        self.counts.update(trials=1, attempts=1, trajectories=trajectories, steps=steps)

    def finish(self) -> None:
        self.remapping.finish()

    # --- histories ----------------------------------------------------------------------------------------------

    def record_history(self, source: HistorySource) -> None:
        """The decisions and the spine of one episode, whose trials are in. Counted as one snapshot: its last library."""
        episode = self._episode_of(source)
        history = HistoryRecorder(source, episode, self.author, self.problems)
        self.counts[history.record()] += 1
        self.counts["snapshots"] += 1
        self.counts["skills"] += history.skills_total

    def _episode_of(self, source: HistorySource) -> Episode:
        """Where most of its trials are now: a map may have moved them to another run."""
        wanted = [derived_id("trial", ident) for ident in source.trials]
        held = Trial.objects.filter(public_id__in=wanted).values("episode").annotate(held=Count("pk")).order_by("-held")
        if most := held.first():
            return Episode.objects.select_related("run", "family").get(pk=most["episode"])
        return self.places.episode(self.places.run(source.run), source.episode, source.suite)

    # --- libraries ----------------------------------------------------------------------------------------------

    def record_library(self, source: LibrarySource) -> None:
        """The one library of an episode that has no decisions; a changed one replaces it, and the old one is named."""
        run = self.places.run(source.run)
        edit_runs([run], self.mapping.of_library(source).run, author=self.author, reason=SET_BY_MAP)
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
