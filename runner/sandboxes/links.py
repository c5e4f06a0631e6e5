"""Links that the agent left where a verifier looks for answers. One into the tests would always be a right answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

from runner.base.errors import SandboxRuined
from runner.base.text import replace_unprintable

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
    told = [f"{_shorten(path)}: a link to {_shorten(place)}, removed before judging" for path, place in astray]
    more = len(told) - _MAX_NAMED
    return [*told[:_MAX_NAMED], *([f"and {more:,} more such links, removed as well"] if more > 0 else [])]


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
            self._count(place)
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

    def _count(self, place: str) -> None:
        self._steps += 1 + len(place) // 256  # a longer path takes longer to extend
        if self._steps > _MAX_STEPS:
            raise SandboxRuined("links into the tests cannot be looked for: following all links takes too long")


def _backwards(path: str) -> list[str]:
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
