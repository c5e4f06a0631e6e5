"""Holding an episode while working on it."""

from __future__ import annotations

import logging
import threading
from types import TracebackType

from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from benchapp.models import Episode
from runner.sandboxes.processes import this_process

log = logging.getLogger(__name__)


class Lease:
    """An episode's lease, renewed by a thread of its own as long as the `with` block runs.

    `lost` is set after a renewal found that somebody else holds the episode. The fence does not depend on it: every
    recording transaction checks the epoch itself. It only lets long work stop early.
    """

    def __init__(self, episode: int, epoch: int, seconds: float) -> None:
        self.episode, self.epoch, self.seconds = episode, epoch, seconds
        self.lost = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"lease-{episode}", daemon=True)

    @classmethod
    def take(cls, episode: int, *, seconds: float | None = None) -> Lease | None:
        """Take the lease of a free, open episode; None when it is not available."""
        seconds = settings.LEASE_SECONDS if seconds is None else seconds
        epoch = Episode.objects.take(episode, owner=str(this_process())[:200], now=timezone.now(), seconds=seconds)
        return None if epoch is None else cls(episode, epoch, seconds)

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _renew(self) -> None:
        """Renew three times per lease, so that two may fail. The thread has its own connection and closes it."""
        try:
            while not self._stop.wait(self.seconds / 3):
                if not self._try_renewal():
                    self.lost.set()
                    return
        finally:
            connection.close()

    def _try_renewal(self) -> bool:
        try:
            return Episode.objects.renew(self.episode, epoch=self.epoch, now=timezone.now(), seconds=self.seconds)
        except DatabaseError:
            log.warning("episode %s: lease not renewed, trying again", self.episode, exc_info=True)
            return True
