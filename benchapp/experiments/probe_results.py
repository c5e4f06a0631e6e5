"""What probes found: passed of scored per task, compared with the unchanged round, the original run and no-skill.

Four queries for any number of probes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchapp.models import Probe, Run, Task, Trial
from benchapp.stats.comparing.effects import Effect, judge_test
from benchapp.stats.inference.strata import StratifiedTest, Stratum, stratified_test
from benchapp.stats.metrics.no_skill_sibling import BASELINE
from benchapp.stats.metrics.tally import TrialTally, tally_by
from runner.base.types import ACQUISITION_ROLES, Phase

# Trials compared with a probe's deployment of a task. For acquisition tasks, the best match is their replay, also with
# a frozen library; without a replay, their first try.
FROZEN = (Phase.DEPLOYMENT, Phase.EVALUATION)
CONTROL, ORIGINAL, NO_SKILL = "control", "original", "no-skill"


@dataclass(frozen=True, slots=True)
class ProbedTask:
    """`learning`: the sides with trials of acquisition here. They are shown, not tested: a probe has none."""

    task: Task
    own: TrialTally
    sides: Mapping[str, TrialTally]
    learning: frozenset[str] = frozenset()

    @property
    def cells(self) -> list[tuple[TrialTally, bool]]:
        """Return (count, whether it is of acquisition) of each side, in their order."""
        return [(self.sides[side], side in self.learning) for side in SIDES]

    def has_pair(self, side: str) -> bool:
        """Can the probe's trials be compared with this side's?"""
        return bool(side not in self.learning and self.own.scored and self.sides[side].scored)


class ProbeResult:
    """`tests`: comparisons with the sides that differ from the probe only in the library. The original is tested only
    if it had run with the frozen library; otherwise its counts are just shown. So are trials of acquisition. Testing
    waits until all trials on both sides have ended: stopping early at a small p finds differences that do not exist.
    `original_had_it`: the original's trials ran with the library of the frozen round."""

    def __init__(self, probe: Probe, controls: Sequence[int], sibling: int | None, counted: _Counted) -> None:
        self.probe = probe
        own = sorted(
            counted.tasks.get(probe.run_id, []), key=lambda task: (task.family_id or 0, task.ordinal, task.key)
        )
        origin = probe.origin.run_id if probe.origin else None
        self.lines = []
        for task in own:
            compared = {ORIGINAL: counted.find(origin, task), NO_SKILL: counted.find(sibling, task)}
            learning = frozenset(side for side, (_, phase) in compared.items() if phase is Phase.ACQUISITION)
            frozen = (counted.trials.get((run, task.pk, Phase.DEPLOYMENT), TrialTally()) for run in controls)
            sides = {CONTROL: sum(frozen, TrialTally()), **{side: count for side, (count, _) in compared.items()}}
            mine = counted.trials[probe.run_id, task.pk, Phase.DEPLOYMENT]
            self.lines.append(ProbedTask(task, mine, sides, learning))
        self.original_had_it = bool(own and origin) and all(
            counted.find_libraries(origin, task) == {probe.frozen_id} for task in own
        )
        self.tests = dict(self._compute_tests())

    def _compute_tests(self) -> Iterator[tuple[str, StratifiedTest]]:
        for side in SIDES:
            is_open = any(not line.own.is_over or not line.sides[side].is_over for line in self.lines)
            if is_open or (side == ORIGINAL and not self.original_had_it):
                continue
            strata = (
                Stratum(line.own.passed, line.own.scored, line.sides[side].passed, line.sides[side].scored)
                for line in self.lines
                if line.has_pair(side)
            )
            if test := stratified_test(strata):
                yield side, test

    @property
    def own(self) -> TrialTally:
        return sum((line.own for line in self.lines), TrialTally())

    @property
    def is_over(self) -> bool:
        """Have all requested trials ended, here and in the unchanged round?"""
        return self.own.is_over and self.side(CONTROL).is_over

    def side(self, name: str) -> TrialTally:
        return sum((line.sides[name] for line in self.lines), TrialTally())

    @property
    def effect(self) -> Effect:
        """Return the effect of the removed lines: the round with them against this probe."""
        if CONTROL not in self.tests:
            return Effect.TOO_SMALL
        return judge_test(self.tests[CONTROL])

    @property
    def finding(self) -> str:
        """Describe what the lines did; empty if nothing was removed or tested."""
        return FINDINGS[self.effect] if CONTROL in self.tests else ""

    @property
    def totals(self) -> list[TrialTally]:
        return [self.side(name) for name in SIDES]

    @property
    def untested(self) -> list[tuple[str, int]]:
        """Return (side, tasks) that would be tested if their trials were not of acquisition."""
        sides = [side for side in SIDES if side != ORIGINAL or self.original_had_it]
        counts = [(side, sum(side in line.learning for line in self.lines)) for side in sides]
        return [(side, count) for side, count in counts if count]

    @property
    def verdicts(self) -> list[tuple[str, StratifiedTest, TrialTally, TrialTally]]:
        """Return (side, test, own and other counts over the tasks scored on both sides)."""
        found = []
        for name, test in self.tests.items():
            both = [line for line in self.lines if line.has_pair(name)]
            own, other = (line.own for line in both), (line.sides[name] for line in both)
            found.append((name, test, sum(own, TrialTally()), sum(other, TrialTally())))
        return found


SIDES = (CONTROL, ORIGINAL, NO_SKILL)
FINDINGS = {
    Effect.BETTER: "The lines helped",
    Effect.WORSE: "The lines hurt",
    Effect.OPEN: "No clear effect of the lines",
    Effect.TOO_SMALL: "Too few trials to show an effect of the lines",
}
_Key = tuple[int, int, str]  # run, task, phase


def read_results(probes: Iterable[Probe]) -> list[ProbeResult]:
    """Return results in the given order. The probes need the relations that `ProbeQuerySet.not_deleted` selects."""
    found = list(probes)
    controls = _find_controls(found)
    siblings = _find_siblings(found)
    runs = {probe.run_id for probe in found} | {run for each in controls.values() for run in each}
    runs |= {probe.origin.run_id for probe in found if probe.origin} | set(siblings.values())
    counted = _Counted(runs)
    return [ProbeResult(probe, controls[probe.pk], siblings.get(probe.pk), counted) for probe in found]


def _find_controls(probes: Sequence[Probe]) -> dict[int, list[int]]:
    """Return probe -> runs of the same setup and round, with nothing removed; empty for a probe without removals."""
    origins = {probe.origin_id for probe in probes if probe.origin_id}
    whole = Probe.objects.filter(origin__in=origins, reverted_digest="", run__experiment__deleted_at=None)
    rows = list(whole.values_list("origin_id", "frozen_id", "run__setup_digest", "run_id"))
    return {
        probe.pk: [
            run
            for *place, run in rows
            if not probe.is_control and place == [probe.origin_id, probe.frozen_id, probe.run.setup_digest]
        ]
        for probe in probes
    }


def _find_siblings(probes: Sequence[Probe]) -> dict[int, int]:
    """Return probe -> the no-skill sibling of the run it comes from, as `no_skill_sibling.sibling_of` finds it."""
    origins = {probe.pk: probe.origin.run for probe in probes if probe.origin}
    experiments = {run.experiment_id for run in origins.values()}
    bare = Run.objects.filter(experiment__in=experiments, condition=BASELINE).order_by("-id")
    by_place = {_place(run): run.pk for run in bare}
    return {
        probe: by_place[_place(run)]
        for probe, run in origins.items()
        if _place(run) in by_place and run.condition != BASELINE
    }


def _place(run: Run) -> tuple[object, ...]:
    return run.experiment_id, run.agent_model, run.harness, run.replicate


class _Counted:
    """The trials of these runs. Tainted episodes are left out, as in every comparison."""

    def __init__(self, runs: set[int]) -> None:
        self.trials: defaultdict[_Key, TrialTally] = defaultdict(TrialTally)
        self.libraries: defaultdict[_Key, set[int | None]] = defaultdict(set)
        met: defaultdict[int, dict[int, None]] = defaultdict(dict)
        trials = Trial.objects.filter(episode__run__in=runs, episode__is_tainted=False)
        for place, tally in tally_by(trials, "episode__run", "task", "phase", "snapshot").items():
            run, task, phase, snapshot = place
            self.trials[run, task, phase] += tally
            self.libraries[run, task, phase].add(snapshot)
            met[run][task] = None
        tasks = Task.objects.select_related("family").in_bulk({task for each in met.values() for task in each})
        self.tasks = {run: [tasks[task] for task in each] for run, each in met.items()}

    def find(self, run: int | None, task: Task) -> tuple[TrialTally, Phase | None]:
        """Count the first phase with trials of the task in the run, and name the phase."""
        for phase in _list_phases(task):
            if run is not None and (run, task.pk, phase) in self.trials:
                return self.trials[run, task.pk, phase], phase
        return TrialTally(), None

    def find_libraries(self, run: int | None, task: Task) -> set[int | None]:
        keys = ((run or 0, task.pk, phase) for phase in _list_phases(task))
        return next((self.libraries[key] for key in keys if key in self.libraries), set())


def _list_phases(task: Task) -> Iterator[Phase]:
    yield from FROZEN
    if task.role in ACQUISITION_ROLES:
        yield from (Phase.REPLAY, Phase.ACQUISITION)
