"""Turn the moments of a source's library into decisions and a spine: one episode in one transaction.

The spine is kept if the source still shows the same history; a run that continued is extended. If the source shows
another past, the new one replaces the old, and an activity keeps what was replaced. Decisions that somebody reviews are
never removed: the difference is reported instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from typing import Any

from django.db import transaction

from benchapp.imports.audited_edits import Author
from benchapp.imports.packing import redacted_files
from benchapp.imports.problems import ProblemList
from benchapp.imports.reading import found_sources as sources
from benchapp.models import Attempt, Decision, Entry, Episode, Family, Run, Seeding, Snapshot, Trial
from benchapp.models.base import derived_id
from benchapp.models.episodes import Target
from benchapp.record.redaction import redact_text
from benchapp.record.writing.rows import MAX_OPERATION, enter, pack_decision, write_refusal, write_seal
from runner.base.digests import EMPTY_LIBRARY, digest_json, library_digest
from runner.base.encoding import encode
from runner.base.text import storable
from runner.base.types import DecisionStatus, Files, Patch
from runner.engine.engine import seal
from runner.protocols.recorder import Frozen

CHANGED_AT_SOURCE = "its source has another history"
MAX_SUMMARY = 10_000


@dataclass(frozen=True, slots=True)
class PlannedEntry:
    """One planned entry: the moment, the libraries around it, and what must match for it to be the same one."""

    moment: sources.Moment
    before: str  # snapshot digests
    after: str
    number: int  # of the decision
    round: int
    at: datetime
    identity: tuple[Any, ...]


class HistoryRecorder:
    """Write one episode's history. `families` finds or makes the row of a family's key."""

    def __init__(self, source: sources.HistorySource, episode: Episode, author: Author, problems: ProblemList) -> None:
        self.source, self.episode, self.author, self.problems = source, episode, author, problems
        self.trials = {str(trial.public_id): trial for trial in episode.trials.select_related("task")}
        self.counting = dict(
            Attempt.objects.filter(trial__episode=episode, counts=True).values_list("trial__public_id", "pk")
        )
        self.sizes: dict[str, int] = {EMPTY_LIBRARY: 0}  # skills by snapshot digest
        self.last_digest = EMPTY_LIBRARY  # digest of the library at the end
        self.skills_total = 0  # of that library
        self.last: tuple[Files, str] | None = None  # the files stored last, and their digest

    # --- what it is to become ------------------------------------------------------------------------------------

    def places(self) -> list[PlannedEntry]:
        """Return every planned entry. Contents are stored here, before the rows that refer to them."""
        places: list[PlannedEntry] = []
        current, number, rounds, at = EMPTY_LIBRARY, 0, 0, self.source.at
        for moment in self.source.read():
            before = after = current
            if isinstance(moment, sources.DecisionMoment):
                if moment.before is not None:
                    before = self._store(moment.before)
                after, number, status = self._store(moment.after), number + 1, moment.status
                # Applied if it changed the library, as everywhere; an identical answer is a no-op.
                if status in (DecisionStatus.APPLIED, DecisionStatus.NO_OP):
                    status = DecisionStatus.NO_OP if after == before else DecisionStatus.APPLIED
                moment = replace(moment, patch=_redacted_patch(moment.patch), status=status)
                if status is DecisionStatus.APPLIED:
                    current, rounds = after, rounds + 1
                else:
                    after = before
            elif isinstance(moment, sources.SeedMoment):
                current = after = self._store(moment.after)
            elif isinstance(moment, sources.FreezeMoment) and moment.kept is not None:
                current = after = self._store(moment.kept)
            elif isinstance(moment, sources.TrialMoment):
                trial = self._trial(moment.ident)
                if trial is None or trial.public_id not in self.counting:
                    continue  # it never finished, so it takes no place
                at = trial.finished_at or at
            at = getattr(moment, "at", None) or at
            given = self._find_given(moment, current) if isinstance(moment, sources.TrialMoment) else None
            identity = _identify_moment(moment, before, after, number, rounds, given)
            places.append(PlannedEntry(moment, before, after, number, rounds, at, identity))
        self.last_digest = current
        return places

    def _store(self, files: Files) -> str:
        if self.last is None or self.last[0] is not files:  # moments share one mapping as long as nothing changes
            clean = redacted_files(files)
            digest = library_digest(clean)
            if digest not in self.sizes:
                self.sizes[digest] = Snapshot.objects.put(clean).skills_total
            self.last = (files, digest)
        return self.last[1]

    def _find_given(self, moment: sources.TrialMoment, current: str) -> str | None:
        """Return the library the trial had, as the source says: the current one, or a candidate."""
        if moment.given is None:
            return None
        if (given := self._store(moment.given)) == current or moment.of_candidate:
            return given
        trial = self._trial(moment.ident)
        name = trial.task.key if trial else moment.ident
        self.problems.add(
            self.source.path, name, "a trial with the library of its place", "it was another one; left unknown"
        )
        return None

    def _trial(self, ident: str | None) -> Trial | None:
        return None if ident is None else self.trials.get(str(derived_id("trial", ident)))

    # --- writing it ----------------------------------------------------------------------------------------------

    def record(self) -> str:
        """Return "created", "changed" or "unchanged"."""
        places = self.places()
        last = self.last_digest
        self.skills_total = self.sizes[last]
        with transaction.atomic():
            self._gather()
            old = list(self.episode.entries.in_order())
            pairs = zip(places, map(_identify_row, old), strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0].identity == pair[1], pairs))
            if same == len(places) == len(old):
                moved = self._point(old, places)
                return "changed" if moved else "unchanged"
            if same < len(old) and not self._make_room(old[same:]):
                return "unchanged"
            self._point(old[:same], places[:same])
            for sequence, place in enumerate(places[same:], start=same + 1):
                enter(self.episode, self._target(place), place.at, sequence)
            self.episode.library = Snapshot.objects.standing_for(last)
            self.episode.is_ordered = True
            self.episode.save(update_fields=["library", "is_ordered"])
            Run.objects.filter(pk=self.episode.run_id).touch()
        return "changed" if old else "created"

    def _gather(self) -> None:
        """Bring along the spines of trials that a map moved here."""
        attempts = Entry.objects.filter(attempt__in=self.counting.values()).exclude(episode=self.episode)
        for left in set(attempts.values_list("episode", flat=True)):
            if self.episode.entries.exists():
                break
            Entry.objects.filter(episode=left).update(episode=self.episode)
            Decision.objects.filter(episode=left).update(episode=self.episode)
            Episode.objects.filter(pk=left).update(library=None, is_ordered=False)

    def _point(self, entries: Sequence[Entry], places: Sequence[PlannedEntry]) -> bool:
        """Point the entry of a trial whose source changed at the attempt that counts now."""
        moved = False
        for entry, place in zip(entries, places, strict=True):
            if isinstance(place.moment, sources.TrialMoment):
                trial = self._trial(place.moment.ident)
                counting = self.counting[trial.public_id] if trial else None
                if entry.attempt_id != counting:
                    Entry.objects.filter(pk=entry.pk).update(attempt=counting)
                    moved = True
        return moved

    def _make_room(self, entries: Sequence[Entry]) -> bool:
        decisions = [entry.decision for entry in entries if entry.decision is not None]
        if Decision.objects.filter(pk__in=[row.pk for row in decisions], review_items__isnull=False).exists():
            expected = "the history that was imported before, as far as somebody reviews it"
            self.problems.add(self.source.path, "", expected, "another one; this library's history did not change")
            return False
        if decisions:
            names = ("number", "status", "operation_type", "summary", "patch_id")
            before = [
                {name: getattr(row, name) for name in names} | {"before": row.before.digest, "after": row.after.digest}
                for row in decisions
            ]
            self.author.note(self.episode, {"decisions": before}, None, CHANGED_AT_SOURCE, verb="supersede")
        for entry in entries:
            if entry.attempt_id is None and entry.target is not None:
                entry.target.delete()  # takes the entry with it
        Entry.objects.filter(pk__in=[entry.pk for entry in entries]).delete()
        return True

    def _target(self, place: PlannedEntry) -> Target:
        match place.moment:
            case sources.TrialMoment() as moment:
                trial = self._trial(moment.ident)
                assert trial is not None
                given = place.identity[-1]
                snapshot = None if given is None else Snapshot.objects.standing_for(given)
                Trial.objects.filter(pk=trial.pk).update(snapshot=snapshot)
                if given in self.sizes:
                    Trial.objects.filter(pk=trial.pk, skills_mounted=None).update(skills_mounted=self.sizes[given])
                return Attempt.objects.get(pk=self.counting[trial.public_id])
            case sources.DecisionMoment() as moment:
                return self._decision(moment, place)
            case sources.SeedMoment() as moment:
                return Seeding.objects.create(
                    family=self._family(moment.family), snapshot=Snapshot.objects.standing_for(place.after)
                )
            case sources.FreezeMoment():
                setup = self.episode.run.setup_digest  # empty: unknown
                frozen = Frozen(place.after, place.after, setup, seal(setup, place.after))
                return write_seal(frozen, place.at, derived_id("seal", str(self.episode.public_id), place.after))
            case sources.RefusalMoment() as moment:
                return write_refusal(self._trial(moment.trial), _cut_paths(moment), moment.reason)

    def _decision(self, moment: sources.DecisionMoment, place: PlannedEntry) -> Decision:
        before, after = (Snapshot.objects.standing_for(digest) for digest in (place.before, place.after))
        row = Decision(
            public_id=derived_id(
                "decision", str(self.episode.public_id), str(place.number), digest_json(place.identity)
            ),
            episode=self.episode,
            number=place.number,
            round=place.round,
            family=self._family(moment.family),
            mode=moment.mode,
            after_trial=self._trial(moment.after_trial),
            status=moment.status,
            operation_type=_text(moment.operation_type),
            summary=_text(moment.summary),
            findings=_findings(moment),
            error=_text(moment.error),
            decided_at=place.at,
        )
        shown = [(trial, None) for ident in moment.evidence if (trial := self._trial(ident))]
        return pack_decision(before, after, moment.patch).save(row, shown)

    def _family(self, key: str) -> Family:
        suite = next((trial.task.suite_id for trial in self.trials.values()), None)
        if suite is None:
            assert self.episode.family is not None  # an episode without trials has a family's name
            suite = self.episode.family.suite_id
        return Family.objects.get_or_create(suite_id=suite, key=key[:200], defaults={"name": key[:200]})[0]


def _identify_moment(
    moment: sources.Moment, before: str, after: str, number: int, rounds: int, given: str | None
) -> tuple[Any, ...]:
    """Return what identifies an entry; `_identify_row` gives the same for a recorded one."""
    match moment:
        case sources.TrialMoment():
            return ("trial", str(derived_id("trial", moment.ident)), given)
        case sources.DecisionMoment():
            patch = "" if moment.patch is None else digest_json(encode(moment.patch))
            followed = "" if moment.after_trial is None else str(derived_id("trial", moment.after_trial))
            texts = (_text(moment.operation_type)[:MAX_OPERATION], _text(moment.summary), _text(moment.error))
            words = (moment.family[:200], str(moment.mode), followed, str(moment.status), *texts)
            return ("decision", number, rounds, *words, patch, digest_json(_findings(moment)), before, after)
        case sources.SeedMoment():
            return ("seed", moment.family[:200], after)
        case sources.FreezeMoment():
            return ("freeze", after)
        case sources.RefusalMoment():
            followed = "" if moment.trial is None else str(derived_id("trial", moment.trial))
            return ("refusal", followed, _cut_paths(moment), moment.reason)


def _identify_row(entry: Entry) -> tuple[Any, ...]:
    if entry.attempt is not None:
        trial = entry.attempt.trial
        return ("trial", str(trial.public_id), trial.snapshot.digest if trial.snapshot else None)
    if (row := entry.decision) is not None:
        followed = "" if row.after_trial is None else str(row.after_trial.public_id)
        words = (row.family.key, row.mode, followed, row.status, row.operation_type, row.summary, row.error)
        libraries = (row.before.digest, row.after.digest)
        return ("decision", row.number, row.round, *words, row.patch_id or "", digest_json(row.findings), *libraries)
    if entry.seeding is not None:
        return ("seed", entry.seeding.family.key, entry.seeding.snapshot.digest)
    if entry.seal is not None:
        return ("freeze", entry.seal.library_digest)
    if entry.refusal is not None:
        followed = "" if entry.refusal.trial is None else str(entry.refusal.trial.public_id)
        return ("refusal", followed, tuple(entry.refusal.paths), entry.refusal.reason)
    return ("skip",)


def _redacted_patch(patch: Patch | None) -> Patch | None:
    if patch is None:
        return None
    files = {storable(path)[:1000]: redact_text(storable(text)) for path, text in patch.upsert_files.items()}
    deleted = tuple(storable(path)[:1000] for path in patch.delete_paths)
    return Patch(_text(patch.summary), _text(patch.operation_type)[:40], files, deleted)


def _cut_paths(moment: sources.RefusalMoment) -> tuple[str, ...]:
    return tuple(storable(path)[:1000] for path in moment.paths)


def _findings(moment: sources.DecisionMoment) -> list[dict[str, str]]:
    names = ("rule", "path", "message", "severity")
    return [{name: _text(getattr(found, name)) for name in names} for found in moment.findings]


def _text(text: str) -> str:
    return redact_text(storable(text))[:MAX_SUMMARY]
