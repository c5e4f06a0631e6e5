"""Count how later trials ended whose library held certain lines. This is association: they differ in more than that.

The change to show first is the one after a failure with the best later readers against no-skill; the example's probe takes
it back, so that nobody picks the change that looks best. Pure except for `read_no_skill`, the one query of the baseline. In the ledger, a trial counts for a decision while its
library holds at least one line that the decision wrote. It counts as read if it read a skill with such a line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Count, Q

from benchapp.analysis.lineage.library_states import LibraryHistory
from benchapp.analysis.lineage.line_history import Lineage, TracedLine, WorkedTrial
from benchapp.models import Decision, Run, Trial
from benchapp.record.json_shape import JsonShape, Shaped, encode
from benchapp.stats.inference.shares import Rate
from benchapp.stats.metrics.no_skill_sibling import BASELINE
from runner.base.types import ACQUISITION_ROLES, DEPLOYMENT_ROLES, DecisionStatus, Phase

Slot = tuple[int, int | None, str]  # task, its revision, phase
Baseline = Mapping[Slot, Rate]  # under no-skill

_PHASES = [phase.value for phase in Phase]
_ROLES = [role.value for role in (*ACQUISITION_ROLES, *DEPLOYMENT_ROLES)]


NOTE = ("note", lambda _: "association, not effect")  # an entry of every shape that counts later trials
BESIDE = JsonShape("tasks=slots", "own", "no_skill=beside")


@dataclass(frozen=True, slots=True)
class Ended(Shaped):
    """How trials ended whose library held the lines, by whether they read a skill with them: yes, no, unknown.

    `own`, `beside`: the readers, and no-skill, on the `slots` tasks that are scored on both sides.
    """

    read: Rate = Rate()
    unread: Rate = Rate()
    unknown: Rate = Rate()
    own: Rate = Rate()
    beside: Rate = Rate()
    slots: int = 0

    json_shape = JsonShape(
        *("mounted", "read", "not_read=unread", "reading_unknown=unknown"),
        ("beside_no_skill", lambda ended: BESIDE.read(ended) if ended.slots else None),
    )

    @property
    def mounted(self) -> int:
        return self.read.planned + self.unread.planned + self.unknown.planned

    @property
    def gain(self) -> float | None:
        """Return the readers' passes above no-skill's rate on the same tasks; None if no-skill was not run."""
        return self.own.passed - self.own.scored * (self.beside.value or 0.0) if self.slots else None


@dataclass(frozen=True, slots=True)
class LaterTrials(Shaped):
    """`groups`: (phase, role) -> how those trials ended, in the order of the protocol. `trials`: (trial, whether it read)."""

    total: Ended = Ended()
    groups: Mapping[tuple[str, str], Ended] = field(default_factory=dict)
    trials: tuple[tuple[WorkedTrial, bool | None], ...] = ()

    json_shape = JsonShape(
        *(NOTE, "*total"),
        (
            "by_phase_and_role",
            lambda found: [
                {"phase": phase, "role": role or None, **encode(ended)} for (phase, role), ended in found.groups.items()
            ],
        ),
        (
            "trials",
            lambda found: [
                {"trial": each.public_id, "read": read, "success": each.success} for each, read in found.trials
            ],
        ),
    )


def read_no_skill(run: Run, tasks: Iterable[int]) -> dict[Slot, Rate]:
    """Return the same tasks under no-skill: runs of this experiment with the same agent model and harness, all
    replicates, without tainted episodes. If no-skill did not replay a task, its first try counts as the replay."""
    wanted = set(tasks)
    if run.condition == BASELINE or not wanted:
        return {}
    rows = (
        Trial.objects.filter(
            episode__run__experiment=run.experiment_id,
            episode__run__condition=BASELINE,
            episode__run__agent_model=run.agent_model,
            episode__run__harness=run.harness,
            episode__is_tainted=False,
            task__in=wanted,
            success__isnull=False,
        )
        .order_by()
        .values_list("task_id", "task_revision_id", "phase")
        .annotate(scored=Count("pk"), passed=Count("pk", filter=Q(success=True)))
    )
    found = {(task, revision, phase): Rate(passed, scored, scored) for task, revision, phase, scored, passed in rows}
    for (task, revision, phase), rate in list(found.items()):
        if phase == Phase.ACQUISITION:
            found.setdefault((task, revision, Phase.REPLAY.value), rate)
    return found


def count_later_trials(trials: Sequence[tuple[WorkedTrial, bool | None]], baseline: Baseline) -> LaterTrials:
    """Count the trials. `trials`: those whose library held the lines, and whether they read a skill with them."""
    groups: dict[tuple[str, str], list[tuple[WorkedTrial, bool | None]]] = defaultdict(list)
    for trial, read in trials:
        groups[trial.phase, trial.role].append((trial, read))
    ordered = sorted(groups, key=lambda key: (_rank(key[0], _PHASES), _rank(key[1], _ROLES), key))
    return LaterTrials(
        count_endings(trials, baseline), {key: count_endings(groups[key], baseline) for key in ordered}, tuple(trials)
    )


def list_trials_with_lines(
    lineage: Lineage, standing: Callable[[int], frozenset[str]], *, born: int
) -> list[tuple[WorkedTrial, bool | None]]:
    """Return the trials whose library held the lines, from the state `born` on. `standing(state)`: skills with them."""
    found = []
    for trial in lineage.trials:
        skills = standing(trial.state) if trial.state >= born else frozenset()
        if skills:
            found.append((trial, None if trial.read is None else bool(trial.read & skills)))
    return found


def list_trials_with_line(
    lineage: Lineage, place: int, path: str, line: TracedLine
) -> list[tuple[WorkedTrial, bool | None]]:
    """Return the trials given a state with this line, and whether they read the skill as it was called then. `place`,
    `path`: where the line is."""
    names = lineage.blame.paths(place, path)

    def standing(state: int) -> frozenset[str]:
        has_line = line.born <= state <= line.last and state in names
        return frozenset([names[state].partition("/")[0]]) if has_line else frozenset()

    return list_trials_with_lines(lineage, standing, born=line.born)


def list_trials_of_state(lineage: Lineage, state: int) -> list[tuple[WorkedTrial, bool | None]]:
    """Return the trials whose library held a line that was written in this state."""
    return list_trials_with_lines(lineage, lambda at: lineage.holding[at].get(state, frozenset()), born=state)


def count_endings(trials: Iterable[tuple[WorkedTrial, bool | None]], baseline: Baseline) -> Ended:
    sides: dict[bool | None, list[WorkedTrial]] = {True: [], False: [], None: []}
    for trial, read in trials:
        sides[read].append(trial)
    both = [
        (trial, (trial.task, trial.revision, trial.phase))
        for trial in sides[True]
        if trial.success is not None and (trial.task, trial.revision, trial.phase) in baseline
    ]
    slots = {slot for _, slot in both}
    return Ended(
        read=count_rate(sides[True]),
        unread=count_rate(sides[False]),
        unknown=count_rate(sides[None]),
        own=count_rate(trial for trial, _ in both),
        beside=sum((baseline[slot] for slot in slots), Rate()),
        slots=len(slots),
    )


def describe_readers(ended: Ended) -> list[str]:
    """Return sentences about the trials that read the lines, next to those that did not."""
    if not ended.read.scored:
        return ["No later trial with a verdict read these lines."]
    lines = [f"Later trials that read these lines: {ended.read.passed} of {ended.read.scored} passed."]
    if ended.unread.scored:
        lines.append(f"Trials that had them and did not read them: {ended.unread.passed} of {ended.unread.scored}.")
    if ended.slots:
        tasks = f"{ended.slots} task{'' if ended.slots == 1 else 's'}"
        own, beside = f"{ended.own.passed} of {ended.own.scored}", f"{ended.beside.passed} of {ended.beside.scored}"
        lines.append(f"On {tasks} also tried without a skill: {own} with these lines, {beside} without a skill.")
    return lines


def split_by_family(
    trials: Sequence[tuple[WorkedTrial, bool | None]], family: int | None, baseline: Baseline
) -> tuple[Ended, Ended]:
    """Return how those of the tasks of this family ended, and those of all others."""
    same = [pair for pair in trials if pair[0].family == family]
    others = [pair for pair in trials if pair[0].family != family]
    return count_endings(same, baseline), count_endings(others, baseline)


def count_rate(trials: Iterable[WorkedTrial]) -> Rate:
    outcomes = [trial.success for trial in trials]
    scored = [outcome for outcome in outcomes if outcome is not None]
    return Rate(sum(scored), len(scored), len(outcomes))


def read_round_rates(episodes: Sequence[int]) -> dict[int, dict[int, Rate]]:
    """Return episode -> round -> how its trials of acquisition ended that had the library of that round. Proposals that were
    rejected, and trials whose library is unknown, count in no round. Two queries."""
    rounds: dict[tuple[int, int | None], int] = {}  # by episode and snapshot
    applied = Decision.objects.filter(episode__in=episodes, status=DecisionStatus.APPLIED).order_by("number")
    for episode, number, before, after in applied.values_list("episode", "round", "before", "after"):
        rounds.setdefault((episode, before), number - 1)
        rounds[episode, after] = number
    trials = Trial.objects.filter(episode__in=episodes, phase=Phase.ACQUISITION).order_by()
    found: dict[int, dict[int, Rate]] = {episode: {} for episode in episodes}
    counted = trials.values_list("episode", "snapshot").annotate(
        passed=Count("pk", filter=Q(success=True)), scored=Count("success"), planned=Count("pk")
    )
    for episode, snapshot, *counts in counted:
        if (episode, snapshot) in rounds:
            number = rounds[episode, snapshot]
            found[episode][number] = found[episode].get(number, Rate()) + Rate(*counts)
    return found


def _rank(key: str, order: Sequence[str]) -> int:
    return order.index(key) if key in order else len(order)


# --- the ledger: a row for each decision that changed the library ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LedgerRow(Shaped):
    """`written`: lines it wrote; `standing`: those still in the last state. Families are those of the tasks."""

    state: int
    written: int
    standing: int
    all: LaterTrials
    same_family: Ended
    other_families: Ended
    deployment: Mapping[str, Ended]  # by role

    json_shape = JsonShape(
        *("lines_written=written", "lines_standing=standing", NOTE, "all=all.total"),
        *("same_family", "other_families"),
        ("deployment", lambda row: {role or "no role": ended for role, ended in row.deployment.items()}),
    )


def count_ledger_row(lineage: Lineage, state: int, family: int | None, baseline: Baseline) -> LedgerRow:
    """Count the row of the decision or seeding that made this state. `family`: the one that it was made for."""
    trials = list_trials_of_state(lineage, state)
    found = count_later_trials(trials, baseline)
    written = [line for line in lineage.blame.lines if line.born == state]
    return LedgerRow(
        state,
        len(written),
        sum(line.last == len(lineage.snapshots) - 1 for line in written),
        found,
        *split_by_family(trials, family, baseline),
        {role: ended for (phase, role), ended in found.groups.items() if phase == Phase.DEPLOYMENT},
    )


@dataclass(frozen=True, slots=True)
class TellingChange:
    """`state`: the one the change made. `ended`: later trials of its family that had its lines."""

    state: int
    ended: Ended

    @property
    def gain(self) -> float:
        """Return `Ended.gain`; if no-skill was not run, all passes of later readers."""
        gain = self.ended.gain
        return float(self.ended.read.passed) if gain is None else gain


def rank_telling_changes(history: LibraryHistory, lineage: Lineage, baseline: Baseline) -> list[TellingChange]:
    """Rank the applied changes after a failure that later trials of their family read, by gain. Empty if the library's
    lines are not traced."""
    if lineage.too_big:
        return []
    made = {}
    for step in history.steps:
        decision = step.entry.decision
        if (
            decision
            and step.before is not step.after
            and decision.after_trial
            and decision.after_trial.success is False
        ):
            made[history.states.index(step.after)] = decision.family_id
    return rank_changes(lineage, made.items(), baseline)


def rank_changes(
    lineage: Lineage, changes: Iterable[tuple[int, int | None]], baseline: Baseline
) -> list[TellingChange]:
    """Rank `changes`, given as (state, family). Ties: more readers, then the earlier one. Changes without a scored
    reader in a later trial of their family are left out."""
    found = []
    for state, family in changes:
        own = [pair for pair in list_trials_of_state(lineage, state) if pair[0].family == family]
        found.append(TellingChange(state, count_endings(own, baseline)))
    read = [change for change in found if change.ended.read.scored]
    return sorted(read, key=lambda change: (-change.gain, -change.ended.read.scored, change.state))
