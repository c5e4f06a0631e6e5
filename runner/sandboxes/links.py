"""Links that the agent left where a verifier looks for answers. One into the tests would always be a right answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from runner.base.errors import SandboxError, SandboxRuined
from runner.base.text import replace_unprintable
from runner.base.types import File
from runner.sandboxes import LOGS, NOT_CLEARED, OWN_FOLDER, SOLUTION, TESTS, Sandbox

_MAX_NAMED = 20
_MAX_FOLLOWED = 40  # as the kernel
_MAX_STEPS = (
    10_000_000  # parts of paths, for all links together; a hundred thousand ordinary links take about two million
)
# They lead elsewhere for each process that opens them: for the verifier, to the tests if it works there.
_EACH_ITS_OWN = ("/proc", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr")
_MOUNTS = {"/proc/mounts", "/proc/self/mounts"}  # /etc/mtab, which packages make


def find_links_into(
    folders: Iterable[str], made: Iterable[str], read: Callable[[str], str | None]
) -> list[tuple[str, str]]:
    """Find the links among `made` that must not be followed, each with its destination.

    That is one of the folders, a folder above one, or a path that differs by process. All paths are absolute. `read`
    returns a link's target, None if it is not a link. SandboxRuined if following them takes too long.
    """
    guarded = [*map(PurePosixPath, folders), *map(PurePosixPath, _EACH_ITS_OWN)]
    found, walk = [], _Walk(read)
    for link in made:
        place = walk.destination(link)
        if place is None or str(place) in _MOUNTS:
            continue
        if any(place.is_relative_to(one) or one.is_relative_to(place) for one in guarded):
            found.append((link, str(place)))
    return found


def word_removed_links(astray: Sequence[tuple[str, str]]) -> list[str]:
    """Return a sentence for each removed link, for the notes of a verdict."""
    messages = [f"{_shorten(path)}: a link to {_shorten(place)}, removed before judging" for path, place in astray]
    more = len(messages) - _MAX_NAMED
    return [*messages[:_MAX_NAMED], *([f"and {more:,} more such links, removed as well"] if more > 0 else [])]


def _shorten(path: str) -> str:
    return replace_unprintable(path).replace("\n", "?")[:500]


class _Walk:
    """Follows links, with one limit for all: links of 4,095 bytes that lead to each other would keep us for hours."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self._read, self._steps = read, 0

    def destination(self, path: str) -> PurePosixPath | None:
        """Return where the path ends when every link on the way is followed, even if nothing exists there. None: in
        a loop."""
        place, left, followed = "", _backwards(path), 0
        while left:
            self._steps += 1 + len(place) // 256  # a longer path takes longer to extend
            if self._steps > _MAX_STEPS:
                raise SandboxRuined("links into the tests cannot be looked for: following all links takes too long")
            part = left.pop()
            if part == "..":
                place = place.rpartition("/")[0]
                continue
            target = self._read(f"{place}/{part}")
            if target is None:
                place = f"{place}/{part}"
                continue
            followed += 1
            if followed > _MAX_FOLLOWED:
                return None
            place = "" if target.startswith("/") else place
            left += _backwards(target)
        return PurePosixPath(place or "/")


def _backwards(path: str) -> list[str]:
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


# The time is that of the last change, which nothing in the container can set back: links of the image are older than
# the container. The engine remakes the excluded folders whenever the container starts. The list may have 40,000 blocks
# of 512 bytes. That is longer than the part that is read (32,768), so that too many links are not mistaken for a full
# disk.
_LIST = """{first}
[ $? = 0 ] || exit 5
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
mkdir -p {folder} || exit 5
command -v find > /dev/null || exit 3
ulimit -c 0; ulimit -f 40000
full() {{ [ -n "$(find {into} -size +32768)" ]; }}
list() {{ find / \\( -path /proc -o -path /sys -o -path /dev \\) -prune -o -type l "$@" > {into} 2> /dev/null; }}
list -printf '%C@\\0%p\\0%l\\0' || full || list -exec sh -c '
  for link; do printf "%s\\0%s\\0%s\\0" "$(stat -c %Z -- "$link")" "$link" "$(readlink -- "$link")"; done' sh {{}} + || full || exit 4
"""  # noqa: E501
_REMOVE = """PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
xargs -0 rm -f -- < {doomed} && rm -f {doomed}
"""
_NO_FIND, _INCOMPLETE, _NOT_CLEARED = 3, 4, 5  # exit codes
_FOUND, _DOOMED = "links", "doomed-links"  # files in our folder below the tests
_SECONDS = 180.0


def remove_links(sandbox: Sandbox, first: str, since: float) -> list[str]:
    """See `Sandbox.remove_links`. `since`: the container's first start, in seconds since 1970.

    SandboxRuined if the agent left more links than can be checked, or removed the programs for it; SandboxError if that
    takes too long, or `first` fails. One command for both: starting one costs more than most of them do.
    """
    folder = f"{sandbox.path(TESTS)}/{OWN_FOLDER}"
    listing = sandbox.execute(
        _LIST.format(first=first, folder=folder, into=f"{folder}/{_FOUND}"), timeout_seconds=_SECONDS
    )
    if listing.exit_code == _NOT_CLEARED:
        raise SandboxError(NOT_CLEARED.format(listing.output[-500:].strip()))
    if listing.exit_code == _NO_FIND:
        return ["links into the tests were not looked for: the image has no program `find`"]
    if listing.exit_code is None:
        raise SandboxError(f"links cannot be looked for: {listing.output[-500:].strip()}")
    links, made = _list_links(sandbox, since)
    folders = [sandbox.path(folder) for folder in (TESTS, LOGS, SOLUTION)]
    astray = find_links_into(folders, made, links.get)
    if astray:
        doomed = File(b"".join(os.fsencode(path) + b"\0" for path, _ in astray))
        sandbox.put(TESTS, {f"{OWN_FOLDER}/{_DOOMED}": doomed})
        removing = sandbox.execute(_REMOVE.format(doomed=f"{folder}/{_DOOMED}"), timeout_seconds=_SECONDS)
        if removing.exit_code != 0:
            raise SandboxRuined(f"links into the tests cannot be removed: {removing.output[-500:].strip()}")
    notes = (
        ["links into the tests were not looked for everywhere: `find` failed"]
        if listing.exit_code == _INCOMPLETE
        else []
    )
    return notes + word_removed_links(astray)


def _list_links(sandbox: Sandbox, since: float) -> tuple[dict[str, str], list[str]]:
    """(each link's target, the links made since then), from the command's output."""
    tree = sandbox.tree(TESTS, OWN_FOLDER, names=frozenset({_FOUND}))
    if tree.left_out or _FOUND not in tree.files:
        raise SandboxRuined(f"links cannot be looked for, there may be too many: {'; '.join(tree.left_out)}")
    fields = iter(tree.files[_FOUND].content.split(b"\0")[:-1])
    links, made = {}, []
    try:
        for time, name, target in zip(fields, fields, fields, strict=True):
            path = os.fsdecode(name)
            links[path] = os.fsdecode(target)
            if not time or float(time) >= since:  # a small image may have no program that prints the time
                made.append(path)
    except ValueError as error:
        raise SandboxRuined(f"links cannot be looked for, `find` was replaced: {error}") from error
    return links, made


def read_start_of_container(container: Mapping[str, Any]) -> float:
    """Seconds since 1970, from the engine's answer about a running container."""
    return datetime.fromisoformat(container["State"]["StartedAt"]).timestamp()
