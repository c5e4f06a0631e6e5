"""A model that answers from a recording: "recorded/<file name without .jsonl>". No network, no key, no cost today.

The same request always gets the same reply, so that an attempt repeated after a failure of the machine takes the same
course. A request that is not in the recording is refused, with its difference from the most similar one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from runner.base.errors import ModelRefused, SetupError
from runner.base.types import ModelReply, ModelRequest
from runner.base.var_folder import var_folder
from runner.models.recording import difference, read_recording, request_digest

PROVIDER, SUFFIX = "recorded", ".jsonl"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
MAX_PRICE_TABLE = 64  # characters; more than one list may have been used


def recordings_folder() -> Path:
    """$SKILLGLASS_RECORDINGS, or the folder `recordings` of the installation's data."""
    own = os.environ.get("SKILLGLASS_RECORDINGS", "").strip()
    return Path(own) if own else var_folder() / "recordings"


class Recorded:
    """`version` is the recording's digest: a changed file is another model. Usage and cost are the recorded ones."""

    scripted = True
    preset = None
    priced = False  # its cost was paid when it was recorded

    def __init__(self, name: str) -> None:
        provider, _, file = name.partition("/")
        if provider != PROVIDER or not NAME.fullmatch(file):
            raise SetupError(f"model {name!r}: expected recorded/<file name without {SUFFIX}>")
        self.name = name
        self.recording = read_recording(recordings_folder() / f"{file}{SUFFIX}")
        self.version = self.recording.digest[:16]
        window = self.recording.head.get("context_window")
        self.context_window: int | None = window if isinstance(window, int) else None
        self.price_table = str(self.recording.head.get("price_table") or "")[:MAX_PRICE_TABLE]

    def complete(self, request: ModelRequest) -> ModelReply:
        """Raises ModelRefused for any request that was not recorded, also for a turn beyond the last."""
        call = self.recording.calls.get(request_digest(request))
        if call is not None:
            return call.reply
        file, total = self.recording.path.name, len(self.recording.calls)
        closest = self.recording.closest(request)
        if closest is None:
            raise ModelRefused(f"{self.name}: {file} holds no call")
        raise ModelRefused(
            f"{self.name}: none of the {total:,} calls in {file} asks this. The closest is line {closest.line}"
            f" ({closest.place}):\n{difference(closest.request, request)}"
        )
