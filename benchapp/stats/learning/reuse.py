"""Who used the skills: trials that received a skill, and trials that read one of their library.

Reading counts every use except being mounted: read, invoked through a harness' own tool, or executed. Detection differs
between harnesses, so these numbers are not compared across them. "Later trials that read this" is association, not
effect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from benchapp.models import Run, SkillUse, SnapshotFile, Trial
from benchapp.stats.learning.computed_runs import Fact, RunCache, take_or_read
from runner.base.types import UseKind

READ = ~Q(kind=UseKind.MOUNTED)


@dataclass(frozen=True, slots=True)
class PhaseReuse:
    """Trials of one phase. `known`: those whose trajectory could be searched for uses. `mounted`: with a skill in their
    library. `read`: read any skill, a harness' own included. `read_own`: read a skill of their library."""

    trials: int = 0
    known: int = 0
    mounted: int = 0
    read: int = 0
    read_own: int = 0

    @property
    def share(self) -> float | None:
        """Share of the trials with a known trajectory that read a skill of their library; 0..1."""
        return self.read_own / self.known if self.known else None

    @property
    def share_of_mounted(self) -> float | None:
        """Return the share among the trials that had a skill to read."""
        return self.read_own / self.mounted if self.mounted else None


@dataclass(frozen=True, slots=True)
class SkillReuse:
    """One skill of one episode: trials it was mounted in, trials that read it."""

    skill: str
    mounted: int
    read: int


@dataclass(frozen=True, slots=True)
class Reuse:
    """One run: phase -> counts, and each skill that was mounted or read, by episode and name."""

    phases: Mapping[str, PhaseReuse] = field(default_factory=dict)
    skills: tuple[SkillReuse, ...] = ()

    @classmethod
    def restore(cls, fact: Fact) -> Reuse:
        """Restore from its `asdict`."""
        phases = {phase: PhaseReuse(**counts) for phase, counts in fact["phases"].items()}
        return cls(phases, tuple(SkillReuse(**skill) for skill in fact["skills"]))

    @property
    def never_read(self) -> tuple[SkillReuse, ...]:
        """Skills that were mounted and that no trial read."""
        return tuple(skill for skill in self.skills if skill.mounted and not skill.read)


KEPT: RunCache[Reuse] = RunCache(600)  # runs


def reuse(runs: Iterable[Run], as_of: datetime | None = None) -> dict[int, Reuse]:
    """Return run pk -> reuse for every run, without tainted episodes. Three grouped queries, none for what is cached in
    this process or on disk."""
    if as_of is not None:
        return _read(runs, as_of)
    return KEPT.read_all(runs, lambda missing: take_or_read(missing, "reuse", _read, asdict, Reuse.restore))


def _read(runs: Iterable[Run], as_of: datetime | None = None) -> dict[int, Reuse]:
    wanted = [run.pk for run in runs]
    if not wanted:
        return {}
    trials = Trial.objects.filter(episode__run__in=wanted, episode__is_tainted=False, is_done=True)
    if as_of is not None:
        trials = trials.filter(Q(settled_at__isnull=True) | Q(settled_at__lte=as_of))
    uses = SkillUse.objects.filter(attempt__counts=True, attempt__trial__in=trials)
    phases, skills = _phases(trials, uses), _skills(uses)
    return {run: Reuse(phases.get(run, {}), tuple(skills.get(run, ()))) for run in wanted}


def _phases(trials: QuerySet[Trial], uses: QuerySet[SkillUse]) -> dict[int, dict[str, PhaseReuse]]:
    own = uses.filter(READ).filter(is_of_library()).order_by()
    own_rows = own.values_list("attempt__trial__episode__run_id", "attempt__trial__phase")
    readings = {tuple(place): n for *place, n in own_rows.annotate(reading=Count("attempt__trial", distinct=True))}
    counts = {
        "in_all": Count("pk"),
        "searched": Count("skills_read"),
        "given": Count("pk", filter=Q(skills_mounted__gt=0)),
        "reading": Count("pk", filter=Q(skills_read__gt=0)),
    }
    found: dict[int, dict[str, PhaseReuse]] = defaultdict(dict)
    rows = trials.order_by().values_list("episode__run_id", "phase").annotate(**counts)
    for run, phase, total, searched, given, reading in rows:
        found[run][phase] = PhaseReuse(total, searched, given, reading, readings.get((run, phase), 0))
    return found


def is_of_library() -> Q:
    """Match uses of a skill that the trial received: one in its snapshot or, if none is recorded, seen mounted."""
    in_snapshot = SnapshotFile.objects.filter(snapshot=OuterRef("attempt__trial__snapshot"), skill=OuterRef("skill"))
    seen_mounted = SkillUse.objects.filter(attempt=OuterRef("attempt"), skill=OuterRef("skill"), kind=UseKind.MOUNTED)
    return Q(Exists(in_snapshot)) | Q(Exists(seen_mounted), attempt__trial__snapshot__isnull=True)


def _skills(uses: QuerySet[SkillUse]) -> dict[int, list[SkillReuse]]:
    counted = (
        uses.order_by()
        .values_list("attempt__trial__episode__run_id", "attempt__trial__episode_id", "skill")
        .annotate(
            given=Count("attempt__trial", distinct=True, filter=~READ),
            reading=Count("attempt__trial", distinct=True, filter=READ),
        )
    )
    found: dict[int, list[SkillReuse]] = defaultdict(list)
    for run, _, *counts in sorted(counted):
        found[run].append(SkillReuse(*counts))
    return found
