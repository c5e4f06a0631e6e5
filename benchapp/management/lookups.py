"""What several commands take from their command line: rows by their ids, files, numbers.

Each ends the command with one sentence about what was wrong.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from django.core.management.base import CommandError

from benchapp.models import Episode, Experiment, Queue, Run
from runner.models.recording import SUFFIX, recordings_folder


@contextmanager
def end_on(*errors: type[Exception]) -> Iterator[None]:
    """End the command with the sentence of an error of these kinds."""
    try:
        yield
    except errors as error:
        raise CommandError(str(error)) from error


def find_experiment(public_id: UUID) -> Experiment:
    if found := Experiment.objects.not_deleted().filter(public_id=public_id).first():
        return found
    raise CommandError(f"there is no experiment {public_id}")


def find_run(public_id: UUID) -> Run:
    if found := Run.objects.not_deleted().select_related("experiment").filter(public_id=public_id).first():
        return found
    raise CommandError(f"there is no run {public_id}")


def find_episode(public_id: UUID) -> Episode:
    kept = Episode.objects.filter(run__experiment__deleted_at=None).select_related("run__experiment", "library")
    if found := kept.filter(public_id=public_id).first():
        return found
    of_run = list(kept.filter(run__public_id=public_id)[:2])
    if len(of_run) == 1:
        return of_run[0]
    what = "a run with several episodes: name one, from the address of its library" if of_run else "no episode or run"
    raise CommandError(f"{public_id}: {what}")


def find_own_episode(public_id: UUID) -> Episode:
    own = Episode.objects.own().select_related("run__experiment__suite", "environment")
    if found := own.filter(public_id=public_id).first():
        return found
    raise CommandError(f"there is no episode {public_id} that was launched here")


def find_queue(public_id: UUID) -> Queue:
    if found := Queue.objects.select_related("version__codebook").filter(public_id=public_id).first():
        return found
    raise CommandError(f"there is no queue {public_id}")


def name_recording(text: str) -> Path:
    """Return a path; a bare name is in the folder of recordings, which is created."""
    path = Path(text if text.endswith(SUFFIX) else text + SUFFIX)
    if path.parent != Path():
        return path
    recordings_folder().mkdir(parents=True, exist_ok=True)
    return recordings_folder() / path


def parse_positive_int(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r}: expected a whole number above 0")
    return int(parse_positive(text))


def parse_positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise ArgumentTypeError(f"{text!r}: expected a number above 0")
    return value
