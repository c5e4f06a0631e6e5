"""Send the folder of a run log to an installation: the bytes that it has not got, in order, as often as it takes."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from skillglass.connection import Connection
from skillglass.record_rows import RecordError

REQUEST_BYTES, REQUEST_PARTS = 3 * 1024 * 1024, 500  # of one request
PAUSE, LONGEST_PAUSE = 1.0, 15.0  # seconds between two looks at the folder; longer while the server does not answer
EVENTS, MESSAGES, BLOBS = "run.jsonl", "messages", "blobs"  # of the folder

Part = tuple[str, int, int]  # path, offset, length


class RunSender:
    """Sends one run. `have`: bytes of each file that the server has; None before it was asked."""

    def __init__(self, folder: Path, server: str, token: str) -> None:
        self.folder, self.connection = folder, Connection(server, token=token)
        self.have: dict[str, int] | None = None
        self._address = ""

    def send(self) -> int:
        """Send all that was logged so far. Return how many bytes.
        RecordError: the server does not answer, or refuses it."""
        if not self._address:
            self._address = f"/imports/logs/{_read_id(self.folder)}/"
        if self.have is None:
            self.have = json.loads(self.connection.ask(self._address)[1])["files"]
        sent = 0
        for parts in _pack(self._list_parts(self.have)):
            body = (json.dumps(parts) + "\n").encode() + b"".join(self._read(part) for part in parts)
            try:
                answer = self.connection.ask(self._address, body, content_type="application/octet-stream")[1]
            except RecordError:
                self.have = None  # ask again what has arrived
                raise
            self.have.update(json.loads(answer)["files"])
            sent += sum(length for _, _, length in parts)
        return sent

    def _list_parts(self, have: dict[str, int]) -> Iterator[Part]:
        """List what is missing there. The events come last: they name the other files."""
        events = _count_whole(self.folder / EVENTS)  # counted first
        ends = dict[str, int]()
        for place in sorted((self.folder / BLOBS).iterdir()):
            if not place.name.endswith(".part"):
                ends[f"{BLOBS}/{place.name}"] = place.stat().st_size
        for place in sorted((self.folder / MESSAGES).iterdir()):
            if place.stat().st_size > have.get(name := f"{MESSAGES}/{place.name}", 0):
                ends[name] = _count_whole(place)
        for path, end in (*ends.items(), (EVENTS, events)):
            offset = have.get(path, 0)
            while offset < end:
                length = min(end - offset, REQUEST_BYTES)
                yield path, offset, length
                offset += length

    def _read(self, part: Part) -> bytes:
        path, offset, length = part
        with (self.folder / path).open("rb") as file:
            file.seek(offset)
            return file.read(length)


def _pack(parts: Iterator[Part]) -> Iterator[list[Part]]:
    packed, size = list[Part](), 0
    for part in parts:
        if packed and (size + part[2] > REQUEST_BYTES or len(packed) == REQUEST_PARTS):
            yield packed
            packed, size = [], 0
        packed.append(part)
        size += part[2]
    if packed:
        yield packed


def _count_whole(path: Path) -> int:
    """Return the bytes of its whole lines: the last one may be half written."""
    size = path.stat().st_size
    with path.open("rb") as file:
        end = size
        while end:
            begin = max(0, end - 65_536)
            file.seek(begin)
            if (found := file.read(end - begin).rfind(b"\n")) >= 0:
                return begin + found + 1
            end = begin
    return 0


def _read_id(folder: Path) -> str:
    try:
        with (folder / EVENTS).open("rb") as file:
            return str(json.loads(file.readline())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        raise RecordError(f"{folder}: expected a run log, a folder with {EVENTS}") from None


class Sender(threading.Thread):
    """Sends a run while it is written.
    A server that does not answer is asked again and again; the first failure is one line."""

    def __init__(self, folder: Path, server: str, token: str) -> None:
        super().__init__(name=f"sends {folder.name}", daemon=True)
        self._run = RunSender(folder, server, token)
        self._ending = threading.Event()
        self._until = float("inf")
        self._error = ""

    def run(self) -> None:
        pause = PAUSE
        while True:
            is_ending = self._ending.is_set()  # asked first: what was written until then is sent now
            try:
                self._run.send()
                pause, self._error = PAUSE, ""
            except Exception as error:  # it must not end the loop that logs
                if not self._error:
                    _tell(f"{error}; the run goes on, and what it logs is kept here")
                self._error = str(error)
                pause = min(2 * pause, LONGEST_PAUSE)
            if is_ending and (not self._error or time.monotonic() > self._until):
                return
            if self._ending.wait(pause) and self._error:
                time.sleep(PAUSE)

    def finish(self, seconds: float) -> None:
        """Send the rest, for at most that long. One line says what is left."""
        self._until = time.monotonic() + seconds
        self._ending.set()
        self.join(seconds + 1)
        if self._error or self.is_alive():
            _tell(f"not all was sent: {self._error or 'the time is over'}. Later: skillglass sync {self._run.folder}")


def _tell(line: str) -> None:
    print(f"skillglass: {line}", file=sys.stderr, flush=True)
