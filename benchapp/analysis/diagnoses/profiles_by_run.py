"""The static profile of all skills that a run's libraries hold, on SkillGenBench's six axes (section 4.3).

The paper scores eight diagnostics and averages them into six axes: contract is the mean of interface contract and
verification, procedure that of coverage and of state and data. Cues are ours (`profile`), so the scores are not the paper's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from django.db.models import Count, F

from benchapp.analysis.diagnoses.profile import PROFILE_GROUPS, StoredSkill
from benchapp.models import Episode, LibraryDiagnosis, Run
from benchapp.record.json_shape import JsonShape, Shaped
from runner.authoring.pattern import PATTERNS

# Cues that are a diagnostic of their own. All other cues of a group form one together.
APART: Mapping[str, tuple[str, ...]] = {"contract": ("verification",), "procedure": ("state and data",)}


@dataclass(frozen=True, slots=True)
class LibraryProfile(Shaped):
    """axes: in the order of PROFILE_GROUPS, shares 0..1, means over skills; empty if no skill was read. read: libraries
    whose current state rules have read, out of `libraries` with a file. patterns: skills of each, A to C
    (runner.authoring.pattern)."""

    axes: tuple[float, ...]
    skills: int
    read: int
    libraries: int
    patterns: Mapping[str, int]

    json_shape = JsonShape(
        ("axes", lambda profile: dict(zip(PROFILE_GROUPS, profile.axes, strict=True)) if profile.axes else None),
        *("overall", "skills", "libraries_read=read", "libraries", "patterns"),
    )

    @property
    def overall(self) -> float | None:
        return fmean(self.axes) if self.axes else None


@dataclass(frozen=True, slots=True)
class SkillsRead:
    """The skills of one run's libraries, as in their diagnoses."""

    skills: tuple[StoredSkill, ...] = ()
    read: int = 0
    libraries: int = 0


def read_skills(runs: Iterable[Run]) -> dict[int, SkillsRead]:
    """Return run pk -> what rules read in its current libraries, without tainted episodes. Two queries."""
    wanted = [run.pk for run in runs]
    standing = Episode.objects.filter(run__in=wanted, is_tainted=False, library__files_total__gt=0)
    libraries = dict(standing.order_by().values_list("run").annotate(Count("pk")))
    rows = LibraryDiagnosis.objects.filter(episode__in=standing, snapshot=F("episode__library"))
    found: dict[int, list[list[StoredSkill]]] = defaultdict(list)
    for run, skills in rows.values_list("episode__run", "skills"):
        found[run].append(skills)
    return {
        run: SkillsRead(
            tuple(skill for skills in found[run] for skill in skills), len(found[run]), libraries.get(run, 0)
        )
        for run in wanted
    }


def average_profile(read: Sequence[SkillsRead]) -> LibraryProfile:
    """Average the replicates of one group: every skill has the same weight."""
    scored = [score_axes(skill["cues"]) for each in read for skill in each.skills]
    axes = tuple(fmean(column) for column in zip(*scored, strict=True))
    times = Counter(skill["pattern"] for each in read for skill in each.skills)
    patterns: dict[str, int] = {pattern: times[pattern] for pattern in PATTERNS}
    counts = sum(each.read for each in read), sum(each.libraries for each in read)
    return LibraryProfile(axes, len(scored), *counts, patterns)


def score_axes(cues: Mapping[str, Mapping[str, bool]]) -> tuple[float, ...]:
    """Score one skill on the six axes; a group unknown to an earlier version of the rules counts as without cues."""
    return tuple(_score_axis(group, cues.get(group, {})) for group in PROFILE_GROUPS)


def _score_axis(group: str, cues: Mapping[str, bool]) -> float:
    apart = APART.get(group, ())
    together = [float(there) for cue, there in cues.items() if cue not in apart]
    diagnostics = [fmean(together)] if together else []
    diagnostics += [float(cues[cue]) for cue in apart if cue in cues]
    return fmean(diagnostics) if diagnostics else 0.0
