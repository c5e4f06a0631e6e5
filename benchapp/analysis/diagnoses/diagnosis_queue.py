"""Diagnoses as rows, made by jobs of the queue: after an import, after a decision, and on request from the page.

Safe to repeat: a state is read again only if the rules or what it is compared with changed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import suppress

import django_rq
from django.conf import settings
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import F, QuerySet
from django.utils import timezone
from redis.exceptions import RedisError

from benchapp.analysis.diagnoses.diagnosis import RULES_VERSION, Diagnosis, diagnose
from benchapp.analysis.diagnoses.evidence import DiagnosisEvidence
from benchapp.analysis.diagnoses.library_shelf import Sources
from benchapp.analysis.lineage.library_states import NamedLibrary, read_named_libraries
from benchapp.models import Blob, Episode, LibraryDiagnosis, LibraryFinding, Snapshot, SnapshotFile, Trial
from runner.base.types import File, Files


def diagnose_episode(episode: Episode, *, again: bool = False) -> int:
    """Bring the diagnoses of all states of its library up to date. Return how many were made."""
    states = read_named_libraries(episode)
    evidence = DiagnosisEvidence(episode, states)
    known = LibraryDiagnosis.objects.filter(episode=episode, rules_version=RULES_VERSION)
    digests = {state.snapshot.pk: evidence.digest(state) for state in states}
    current = {each.snapshot_id for each in known if each.sources_digest == digests.get(each.snapshot_id)}
    due = [state for state in states if again or state.snapshot.pk not in current]
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


def _read_files(snapshots: Iterable[Snapshot]) -> dict[int, Files]:
    """Return the files of all states; a shared content is read once."""
    files = SnapshotFile.objects.filter(snapshot__in=list(snapshots))
    rows = list(files.values_list("snapshot", "path", "blob", "mode"))
    contents = Blob.objects.read_many(list({blob for _, _, blob, _ in rows}))
    found: dict[int, dict[str, File]] = {}
    for snapshot, path, blob, mode in rows:
        found.setdefault(snapshot, {})[path] = File(contents[blob], mode)
    return dict(found)


def _store(episode: Episode, state: NamedLibrary, diagnosis: Diagnosis, sources: Sources, digest: str) -> None:
    named = {each.hit.trial for each in diagnosis.found if each.hit.trial}
    by_id = {str(trial.public_id): trial for trial in Trial.objects.filter(public_id__in=named)} if named else {}
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
            skills=list(diagnosis.skills),
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


log = logging.getLogger(__name__)

SLICE_SECONDS = 20.0  # a job may delay trials by at most this time plus one library


def select_with_library(episodes: QuerySet[Episode]) -> QuerySet[Episode]:
    """Select episodes that have, or had, a library to read."""
    return episodes.exclude(library=None, decisions=None).distinct()


def select_unread(episodes: QuerySet[Episode]) -> QuerySet[Episode]:
    """Select episodes whose current library no rule has read yet."""
    return episodes.filter(library__files_total__gt=0).exclude(diagnoses__snapshot=F("library"))


def read_libraries(episode_ids: list[str]) -> None:
    """Run the job: at least one library, then more while there is time. The rest goes to the end of the queue, so that
    trials take turns with a large import. A library that cannot be read is logged and does not stop the others."""
    deadline, episodes = time.monotonic() + SLICE_SECONDS, Episode.objects.select_related("run", "library", "family")
    for done, episode_id in enumerate(episode_ids, start=1):
        try:
            if episode := episodes.filter(public_id=episode_id).first():
                diagnose_episode(episode)
        except (DatabaseError, MemoryError, OSError):
            raise  # the machine's failure
        except Exception:
            log.exception("episode %s: its libraries cannot be read", episode_id)
        if episode_ids[done:] and time.monotonic() > deadline:
            _enqueue(episode_ids[done:])
            return


def enqueue_reading(episodes: QuerySet[Episode]) -> int | None:
    """Queue the reading of these libraries. Return how many; None if the broker cannot be reached."""
    asked = [str(public_id) for public_id in episodes.order_by("pk").values_list("public_id", flat=True)]
    try:
        if asked:
            _enqueue(asked)
    except (RedisError, OSError) as error:
        log.warning("libraries not checked: cannot reach the broker: %s", error)
        return None
    return len(asked)


def _enqueue(episode_ids: list[str]) -> None:
    first, more = episode_ids[0], len(episode_ids) - 1
    django_rq.get_queue().enqueue(
        read_libraries,
        episode_ids,
        job_timeout=settings.JOB_SECONDS,
        result_ttl=60,
        failure_ttl=3600,
        description=f"read the libraries of episode {first}" + (f" and {more} more" if more else ""),
    )
