"""How large a finished library is, as SkillEvolBench counts it: files by kind, all libraries of a run together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from benchapp.metrics.libraries import FILE_KINDS, LibrarySize

COUNTED = tuple(kind for kind in FILE_KINDS if kind != "other")


@dataclass(frozen=True, slots=True)
class Size:
    """Of one run's libraries together, or the mean of that over the replicates that have one."""

    files: dict[str, float]
    skills: float
    libraries: float
    replicates: int

    @property
    def counted(self) -> float:
        return sum(self.files[kind] for kind in COUNTED)


def sum_of(libraries: Sequence[LibrarySize]) -> Size:
    """The libraries of a run's episodes added up, as the paper counts them."""
    files = {kind: sum(each.files.get(kind, 0) for each in libraries) for kind in FILE_KINDS}
    return Size(files, sum(each.skills for each in libraries), len(libraries), 1)


def mean_of(sizes: Sequence[Size]) -> Size:
    files = {kind: fmean(size.files[kind] for size in sizes) for kind in FILE_KINDS}
    skills, libraries = fmean(size.skills for size in sizes), fmean(size.libraries for size in sizes)
    return Size(files, skills, libraries, len(sizes))
