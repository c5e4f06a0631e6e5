"""What an agent finds in its container: its program, as a volume that is loaded once and mounted read-only, and none
of the image's own skills."""

from __future__ import annotations

import hashlib
import re
import shlex
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from docker import APIClient
from docker.errors import APIError, NotFound
from docker.types import Mount

from runner.base.errors import SetupError
from runner.sandboxes import SKILLS
from runner.sandboxes.docker.docker_archive import END_OF_ARCHIVE, can_be_packed, make_entry, pad_entry, read_pieces
from runner.sandboxes.docker.docker_engine import (
    CARRIER_LABEL,
    LABEL,
    OWNER_LABEL,
    PREFIX,
    engine_errors,
    hold_lock,
    remove,
)
from runner.sandboxes.needs import Program
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
    for entry, _ in _entries(program.folder):
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
        _remove_left(client, container)
        time.sleep(_PAUSE)
    try:
        yield made
    finally:
        client.remove_container(made, force=True)


def _remove_left(client: APIClient, container: str) -> None:
    """Remove a loader whose process certainly ended. What another machine left is for its own sweep."""
    with suppress(NotFound):
        found = client.inspect_container(container)
        process = ProcessName.parse((found["Config"]["Labels"] or {}).get(OWNER_LABEL, ""))
        if process is not None and process.is_gone:
            remove(client, "container", found["Id"])  # not by name, which may be another's by now


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
    for entry, path in _entries(folder):
        yield from pad_entry(entry, read_pieces(path) if entry.isreg() else iter(()))
    yield from pad_entry(tarfile.TarInfo(_COMPLETE), iter(()))
    yield END_OF_ARCHIVE


def _entries(folder: Path) -> Iterator[tuple[tarfile.TarInfo, Path]]:
    """Sorted; owned by root; readable by everyone, since an image may run as another user."""
    for path in sorted(folder.rglob("*")):
        if can_be_packed(path):
            yield make_entry(path, str(path.relative_to(folder))), path


# Below a home or a working directory: where agent programs look for skills, both ours (runner/agents) and others that
# images are made for.
PLACES = (
    ".agents/skills",
    ".claude/skills",
    ".cline/skills",
    ".codex/skills",
    ".config/agent/skills",
    ".config/agents/skills",
    ".config/goose/skills",
    ".config/opencode/skill",
    ".config/opencode/skills",
    ".copilot/skills",
    ".cursor/skills",
    ".factory/skills",
    ".gemini/skills",
    ".github/skills",
    ".goose/skills",
    ".kimi/skills",
    ".kimi-code/skills",
    ".opencode/skill",
    ".opencode/skills",
    ".openclaw/skills",
    ".openhands/skills",
    ".pi/agent/skills",
    ".qwen/skills",
)
ABSOLUTE = (
    f"/{SKILLS}",
    "/etc/claude-code/.claude/skills",
    "/etc/codex/skills",
    "/runtime/skills",
    "/tmp/hermes/skills",
)
# Shell patterns below a home or a working directory: skills of extensions and plug-ins.
EXTENSIONS = (
    ".claude/plugins/cache/*/*/*/skills",
    ".gemini/extensions/*/skills",
    ".qwen/extensions/*/skills",
)
# Variables that replace a folder below the home: variable -> that folder, "" for the home itself.
VARIABLES = {
    "CLAUDE_CONFIG_DIR": ".claude",
    "CODEX_HOME": ".codex",
    "GEMINI_CLI_HOME": "",
    "KIMI_CODE_HOME": ".kimi-code",
    "KIMI_SHARE_DIR": ".kimi",
    "QWEN_HOME": ".qwen",
    "XDG_CONFIG_HOME": ".config",
}
DEPTH = 8  # levels below the working directory: programs find skills in folders of a repository, too
MAX_TOLD = 200
# Folders stay, with their owner and empty; links are removed. Finds are printed, a line each; the status is not 0 if
# something is left. Only the image's own files exist at this time: the library's volume is empty.
_CLEAR = """left=0
clear() {
  [ -e "$1" ] || [ -L "$1" ] || return 0
  if [ -L "$1" ] || [ ! -d "$1" ]; then echo "$1"; rm -f -- "$1"; { [ ! -e "$1" ] && [ ! -L "$1" ]; } || left=1; return 0; fi
  [ -n "$(ls -A -- "$1")" ] || return 0
  echo "$1"
  for each in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if [ -e "$each" ] || [ -L "$each" ]; then rm -rf -- "$each"; fi
  done
  [ -z "$(ls -A -- "$1")" ] || left=1
}
clear_home() {
  for place in {places}; do clear "${1%/}/$place"; done
  for place in {extensions}; do clear "$place"; done
}
for home in {homes} "$HOME" /home/*; do clear_home "$home"; done
while IFS=: read -r _ _ _ _ _ home _; do clear_home "$home"; done 2>/dev/null < /etc/passwd
for place in {absolute}; do clear "$place"; done
{variables}
while IFS= read -r place; do [ -z "$place" ] || clear "$place"; done <<EOF
$(find {below} -prune -print 2>/dev/null)
EOF
for skill in {own}; do
  if [ -f "$skill" ]; then clear "${skill%/SKILL.md}"; fi
done
exit $left"""
_LINE_BREAK = "! -path '*\n*'"  # a path with one would be read as two


def build_clearing(working_directory: str, more: tuple[str, ...], own: str = "") -> str:
    """The command that removes every skill of the image. `more`: further absolute folders of skills.

    `own`: the folder that the task names for its skills. It may be any folder, so only folders with a SKILL.md are
    emptied, and nothing if the working directory is inside it.
    """
    folder = PurePosixPath(working_directory)
    own = "" if own and folder.is_relative_to(own) else own
    skills = " -o ".join(f"-path {shlex.quote(f'*/{place}')}" for place in PLACES)
    parts = {
        "homes": shlex.join(dict.fromkeys(("/root", "/", str(folder), *map(str, folder.parents)))),
        "places": shlex.join(PLACES),
        "extensions": " ".join(f'"${{1%/}}"/{place}' for place in EXTENSIONS),
        "absolute": shlex.join(dict.fromkeys((*ABSOLUTE, *more))),
        "variables": "\n".join(_clear_variable(name, replaced) for name, replaced in VARIABLES.items()),
        "below": f"{shlex.quote(str(folder))} -xdev -maxdepth {DEPTH} {_LINE_BREAK} \\( {skills} \\)",
        "own": " ".join(f"{shlex.quote(own)}/{place}SKILL.md" for place in ("", "*/", "*/*/")) if own else "",
    }
    command = _CLEAR
    for name, text in parts.items():
        command = command.replace(f"{{{name}}}", text)
    return command


def _clear_variable(name: str, replaced: str) -> str:
    if not replaced:
        return f'[ -z "${name}" ] || clear_home "${name}"'
    places = [place.removeprefix(f"{replaced}/") for place in PLACES if place.startswith(f"{replaced}/")]
    return f'[ -z "${name}" ] || for place in {shlex.join(places)}; do clear "${{{name}%/}}/$place"; done'
