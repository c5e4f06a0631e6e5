"""An agent's program in its container: a volume that is loaded once and mounted read-only."""

from __future__ import annotations

import hashlib
import re
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from docker import APIClient
from docker.errors import APIError, NotFound
from docker.types import Mount

from runner.base.errors import SetupError
from runner.programs import Program
from runner.sandboxes.archives import END_OF_ARCHIVE, list_entries, pack_folder, pad_entry
from runner.sandboxes.docker.docker_engine import (
    CARRIER_LABEL,
    LABEL,
    OWNER_LABEL,
    PREFIX,
    engine_errors,
    hold_lock,
    remove,
)
from runner.sandboxes.processes import ProcessName, this_process

PROGRAM_LABEL = "skillglass.program"
_COMPLETE = ".skillglass-complete"  # loaded last: an interrupted load lacks it
_LONGEST_LOAD, _PAUSE = 900.0, 0.5  # seconds: for another process loading the same program, and between two looks
# (engine address, volume) -> creation time of the volume that this process found complete
_known: dict[tuple[str, str], str] = {}


def program_volume(client: APIClient, program: Program, image: str) -> str:
    """Return the name of the program's volume, loading it if needed. `image` is any image of the engine."""
    if not program.folder.is_dir():
        raise SetupError(f"{program.folder}: {program.name} {program.version} is not installed there")
    name = volume_name(program)
    key = (client.base_url, name)
    with engine_errors(f"loading {program.name} {program.version} into the engine"):
        if key not in _known or _known[key] != _read_creation_time(client, name):
            with hold_lock(name):
                _load(client, program, name, image)
                _known[key] = _read_creation_time(client, name)
    return name


def _read_creation_time(client: APIClient, volume: str) -> str:
    """Return the creation time, or "" if the volume does not exist. The time changes if the engine makes the volume
    again, empty, for a container that names a missing one."""
    try:
        return str(client.inspect_volume(volume).get("CreatedAt") or "there")
    except NotFound:
        return ""


def volume_name(program: Program) -> str:
    """Name the volume with exactly these files. It need not exist yet."""
    listing = hashlib.sha256()
    for entry, _ in list_entries(program.folder):
        listing.update(
            f"{entry.name}\0{entry.size}\0{entry.mode:o}\0{entry.linkname}\n".encode("utf-8", "surrogateescape")
        )
    readable = re.sub(r"[^A-Za-z0-9_.-]", "-", f"{program.name}-{program.version}")
    return f"{PREFIX}program-{readable}-{listing.hexdigest()[:16]}"


def _load(client: APIClient, program: Program, name: str, image: str) -> None:
    """Load it through a container that is never started."""
    client.create_volume(name, labels={LABEL: "1", PROGRAM_LABEL: f"{program.name} {program.version}"})
    with _carrier(client, name, image) as carrier:
        if _is_complete(client, carrier):
            return
    with _carrier(client, name, image, container=f"{name}-loading") as carrier:
        if not _is_complete(client, carrier):
            client.put_archive(carrier, "/program", _pack(program.folder))


@contextmanager
def _carrier(client: APIClient, volume: str, image: str, container: str | None = None) -> Iterator[str]:
    """A container with the volume at /program. The engine has each name once, so a named one makes all others of
    that name wait, from other machines and from other workers' containers too."""
    settings = client.create_host_config(mounts=[mount(volume, "/program", read_only=False)], network_mode="none")
    labels = {LABEL: "1", CARRIER_LABEL: "1", OWNER_LABEL: str(this_process())}
    until = time.monotonic() + _LONGEST_LOAD
    while True:
        try:
            made = client.create_container(image, ["true"], name=container, host_config=settings, labels=labels)["Id"]
            break
        except APIError as error:
            if container is None or error.status_code != 409 or time.monotonic() > until:
                raise
        with suppress(NotFound):  # what another machine left is for its own sweep
            found = client.inspect_container(container)
            process = ProcessName.parse((found["Config"]["Labels"] or {}).get(OWNER_LABEL, ""))
            if process is not None and process.is_gone:
                remove(client, "container", found["Id"])  # not by name, which may be another's by now
        time.sleep(_PAUSE)
    try:
        yield made
    finally:
        client.remove_container(made, force=True)


def _is_complete(client: APIClient, carrier: str) -> bool:
    try:
        client.get_archive(carrier, f"/program/{_COMPLETE}")[0].close()
    except NotFound:
        return False
    return True


def mount(volume: str, target: str, *, read_only: bool) -> Mount:
    """Mount it without copying what the image has at the target."""
    return Mount(target, volume, type="volume", read_only=read_only, no_copy=True)


def _pack(folder: Path) -> Iterator[bytes]:
    yield from pack_folder(folder)
    yield from pad_entry(tarfile.TarInfo(_COMPLETE), iter(()))
    yield END_OF_ARCHIVE
