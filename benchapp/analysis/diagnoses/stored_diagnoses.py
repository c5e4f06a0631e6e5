"""Diagnoses as rows. Safe to repeat: a state is read again only if the rules or what it is compared with changed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from django.db import IntegrityError, transaction
from django.utils import timezone

from benchapp.analysis.diagnoses.diagnosis import RULES_VERSION, Diagnosis, diagnose
from benchapp.analysis.diagnoses.evidence import DiagnosisEvidence
from benchapp.analysis.diagnoses.hits import Sources
from benchapp.analysis.lineage.library_states import NamedLibrary, read_named_libraries
from benchapp.models import Blob, Episode, LibraryDiagnosis, LibraryFinding, Snapshot, SnapshotFile, Trial
from runner.base.types import File, Files


def diagnose_episode(episode: Episode, *, again: bool = False) -> int:
    """Bring the diagnoses of all states of its library up to date. Return how many were made."""
    states = read_named_libraries(episode)
    evidence = DiagnosisEvidence(episode, states)
    known = {each.snapshot_id: each for each in LibraryDiagnosis.objects.filter(episode=episode)}
    digests = {state.snapshot.pk: evidence.digest(state) for state in states}
    due = [
        state for state in states if again or not _is_current(known.get(state.snapshot.pk), digests[state.snapshot.pk])
    ]
    if not due:
        return 0
    libraries = _read_files(state.snapshot for state in states)
    evidence.look(libraries)
    for state in due:
        sources = evidence.sources(state)
        diagnosis = diagnose(libraries[state.snapshot.pk], sources)
        with suppress(IntegrityError):  # another worker stored the same at this moment
            _store(episode, state, diagnosis, sources, digests[state.snapshot.pk])
    return len(due)


def _is_current(known: LibraryDiagnosis | None, digest: str) -> bool:
    return known is not None and (known.rules_version, known.sources_digest) == (RULES_VERSION, digest)


def _read_files(snapshots: Iterable[Snapshot]) -> dict[int, Files]:
    """Return the files of all states; a shared content is read once."""
    rows = list(
        SnapshotFile.objects.filter(snapshot__in=list(snapshots)).values_list("snapshot", "path", "blob", "mode")
    )
    contents = Blob.objects.read_many(list({blob for _, _, blob, _ in rows}))
    found: dict[int, dict[str, File]] = {}
    for snapshot, path, blob, mode in rows:
        found.setdefault(snapshot, {})[path] = File(contents[blob], mode)
    return dict(found)


def _store(episode: Episode, state: NamedLibrary, diagnosis: Diagnosis, sources: Sources, digest: str) -> None:
    trials = Trial.objects.in_bulk(
        list({each.hit.trial for each in diagnosis.found if each.hit.trial}), field_name="public_id"
    )
    by_id = {str(public_id): trial for public_id, trial in trials.items()}
    with transaction.atomic():
        LibraryDiagnosis.objects.filter(episode=episode, snapshot=state.snapshot).delete()
        row = LibraryDiagnosis.objects.create(
            episode=episode,
            snapshot=state.snapshot,
            rules_version=RULES_VERSION,
            sources_digest=digest,
            alarms=diagnosis.count("alarm"),
            warnings=diagnosis.count("warning"),
            notes=diagnosis.count("note"),
            skills=[facts.as_json() for facts in diagnosis.skills],
            left_out=diagnosis.left_out,
            cut=list(diagnosis.cut),
            tasks_seen=sources.tasks_seen,
            trials_read=sources.trials_read,
            trials_left_out=sources.trials_left_out,
            references=len(sources.references),
            diagnosed_at=timezone.now(),
        )
        LibraryFinding.objects.bulk_create(
            LibraryFinding(
                diagnosis=row,
                ordinal=ordinal,
                rule=found.rule.id,
                group=found.rule.group,
                severity=found.severity,
                path=found.hit.path,
                start=found.hit.start,
                end=found.hit.end,
                line=found.line,
                quote=found.quote,
                says=found.hit.says,
                trial=by_id.get(found.hit.trial),
                step=found.hit.step,
                field=found.hit.field,
            )
            for ordinal, found in enumerate(diagnosis.found)
        )
