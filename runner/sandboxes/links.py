"""Links that the agent left where a verifier looks for answers: one into the tests is an answer that is always right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

from runner.suites.findings import plain

_MAX_NAMED = 20
_MAX_FOLLOWED = 40  # as the kernel
# They lead elsewhere for each process that opens them: to the tests, where the verifier stands there.
_EACH_ITS_OWN = ("/proc", "/dev/fd", "/dev/stdin")
_MOUNTS = {"/proc/mounts", "/proc/self/mounts"}  # /etc/mtab, which packages make


def leading_into(
    folders: Iterable[str], made: Iterable[str], read: Callable[[str], str | None]
) -> list[tuple[str, str]]:
    """Those of the links `made` that must not be followed, each with where it leads.

    That is into one of the folders, to a folder above one, or to what is each process's own. All paths are absolute;
    `read` tells what a link says, and None for what is no link.
    """
    guarded = [*map(PurePosixPath, folders), *map(PurePosixPath, _EACH_ITS_OWN)]
    found = []
    for link in made:
        place = _destination(link, read)
        if place is None or str(place) in _MOUNTS:
            continue
        if any(place.is_relative_to(one) or one.is_relative_to(place) for one in guarded):
            found.append((link, str(place)))
    return found


def removed(astray: Sequence[tuple[str, str]]) -> list[str]:
    """A sentence for each link that was removed, fit for the notes of a verdict."""
    told = [f"{_shown(path)}: a link to {_shown(place)}, removed before judging" for path, place in astray]
    more = len(told) - _MAX_NAMED
    return [*told[:_MAX_NAMED], *([f"and {more:,} more such links, removed as well"] if more > 0 else [])]


def _shown(path: str) -> str:
    return plain(path).replace("\n", "?")[:500]


def _destination(path: str, read: Callable[[str], str | None]) -> PurePosixPath | None:
    """Where the path ends when every link on the way is followed, whether or not something lies there. None: in a loop."""
    place, left, followed = PurePosixPath("/"), _backwards(path), 0
    while left:
        part = left.pop()
        if part == "..":
            place = place.parent
            continue
        target = read(str(place / part))
        if target is None:
            place /= part
            continue
        followed += 1
        if followed > _MAX_FOLLOWED:
            return None
        place = PurePosixPath("/") if target.startswith("/") else place
        left += _backwards(target)
    return place


def _backwards(path: str) -> list[str]:
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
