"""Find containers without an owner: the record knows what is being worked on, the labels know whose it is."""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.db.models.functions import Now
from django.utils import timezone

from benchapp.models import Attempt, Episode
from runner.sandboxes.docker.docker_engine import Leftover, SweptContainers, sweep

CLOSING = timedelta(minutes=10)  # an attempt that just ended may still be removing its sandbox


def is_dead(leftover: Leftover) -> bool:
    """Return True only if it is certain that nobody works with it.

    An attempt of this record lives while it runs under its episode's current lease, on any machine. An attempt unknown
    to this record belongs to another installation, or to a test: it is dead after its process on this machine ended,
    and is left alone otherwise.
    """
    try:
        attempt = Attempt.objects.filter(public_id=uuid.UUID(leftover.attempt)).select_related("trial").first()
    except ValueError:  # of another installation
        attempt = None
    if attempt is None:
        return leftover.owner_is_gone
    if attempt.status != Attempt.Status.RUNNING:
        return leftover.owner_is_gone or attempt.finished_at is None or attempt.finished_at < timezone.now() - CLOSING
    return not Episode.objects.filter(
        pk=attempt.trial.episode_id, lease_epoch=attempt.lease_epoch, lease_until__gt=Now()
    ).exists()


def sweep_sandboxes(*, dry_run: bool = False) -> SweptContainers:
    """Sweep the containers. Raise SandboxError when no engine answers."""
    return sweep(is_dead, dry_run=dry_run)
