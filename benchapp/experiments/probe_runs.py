"""Probes: freeze a round of an episode's library again, whole or without some hunks of one decision, and rerun tasks.

Later trials that read a line and did better show only association. A probe changes the library on purpose and repeats
the same tasks, so a probe without a hunk differs from one with it only by that hunk and by chance. The old run never
changes. The probe is a separate experiment, which comparisons include only if a person names it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice

from django.conf import settings
from django.db import transaction

from benchapp.analysis.lineage.hunks import Hunk, NamedFiles, find_echoes, list_hunks, take_back
from benchapp.analysis.lineage.library_states import LibraryState, find_round, read_history
from benchapp.experiments.foresight import Past, estimate
from benchapp.experiments.launch import launch_prepared
from benchapp.experiments.launch_spec import Unlaunchable
from benchapp.experiments.plans import (
    Arm,
    Cell,
    author_limits_of,
    cell_of,
    keep_tasks,
    make_plan,
    plan_of,
    setup_of,
    spec_alone,
    spec_of,
    suite_of,
)
from benchapp.experiments.preparation import Prepared, prepare
from benchapp.models import Decision, Episode, Experiment, Probe, Snapshot, User
from benchapp.record.writing.human_acts import NotPossible, name_actor, note_activity
from benchapp.stats.comparing.condition_names import name_run
from runner import protocols
from runner.base.digests import digest_json, library_digest
from runner.base.suite import Suite
from runner.base.text import plural
from runner.base.types import Files, Phase
from runner.engine.setup import setup_digest
from runner.protocols.probe import CONDITION

MAX_TIMES = 100
TIMES = 5
MAX_REASON = 1000
PROTOCOL = "probe"


@dataclass(frozen=True, slots=True)
class AskedProbe:
    """What to probe. Defaults: the last state, the deployment tasks, nothing removed."""

    state: str = ""  # a key such as R3
    # number of the decision whose hunks are in `revert`; by default the one that made the state
    decision: int | None = None
    revert: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    times: int = TIMES
    max_usd: float | None = None  # None: the budget of the run it comes from
    skill: str = ""  # the folder of a skill that is left out completely, instead of hunks


@dataclass(frozen=True, slots=True)
class ProbeChoice:
    """What an episode offers to a probe: `states` in order, the hunks of `decision`, and `echoes`: the same
    lines found again in `state`."""

    states: tuple[LibraryState, ...]
    state: LibraryState
    decision: Decision | None
    hunks: tuple[Hunk, ...] = field(default=())
    echoes: tuple[Hunk, ...] = field(default=())

    def find_hunks(self, ids: Sequence[str]) -> tuple[Hunk, ...]:
        """Return the hunks and single lines with these ids. A line of a hunk that is itself named is dropped.
        Raise NotPossible for an unknown id."""
        known = {hunk.id: hunk for hunk in (*self.hunks, *self.echoes)}
        lines = {line.id: hunk.id for hunk in self.hunks for line in hunk.lines}
        if unknown := next((name for name in ids if name not in known and name not in lines), None):
            if self.decision is None:
                raise NotPossible("no decision made this state: name the decision to take hunks back from")
            if not known:
                raise NotPossible(f"decision {self.decision.number} changed nothing: there is no hunk {unknown[:40]!r}")
            ids_known = ", ".join(islice(known, 12))
            raise NotPossible(
                f"decision {self.decision.number} has no hunk {unknown[:40]!r} (expected one of: {ids_known})"
            )
        known |= {line.id: line for hunk in self.hunks if hunk.id not in ids for line in hunk.lines}
        return tuple(known[name] for name in dict.fromkeys(ids) if name in known)


def read_choice(episode: Episode, asked: AskedProbe) -> ProbeChoice:
    """Return what this episode offers to a probe.
    Raise NotPossible if the state or decision does not exist, or the condition keeps no library."""
    states = read_history(episode).states
    if asked.skill:
        state = _find_state(states, asked.state, None)
        return ProbeChoice(states, state, None, list_skill_files(_read_files(state.snapshot), asked.skill))
    if len(states) == 1:
        raise NotPossible("this episode's library was always empty: there is nothing to freeze")
    decided = _find_decision(episode, states, asked)
    state = _find_state(states, asked.state, decided)
    if decided is None and not asked.state:
        decided = state.decision
    if decided is None or not decided.changed_library:
        return ProbeChoice(states, state, decided)
    hunks = list_hunks(decided.before.read(), decided.after.read())
    return ProbeChoice(states, state, decided, hunks, find_echoes(hunks, _read_files(state.snapshot)))


def list_skill_files(files: Files, skill: str) -> tuple[Hunk, ...]:
    """Return all files of one skill as hunks that added them. Raise NotPossible if the library has no such skill."""
    if f"{skill}/SKILL.md" not in files:
        raise NotPossible(f"no skill {skill[:80]!r} (expected one of: {', '.join(list_skills(files)[:12])})")
    return list_hunks({path: file for path, file in files.items() if not path.startswith(f"{skill}/")}, files)


def list_skills(files: Files) -> list[str]:
    return sorted(
        path.removesuffix("/SKILL.md") for path in files if path.count("/") == 1 and path.endswith("/SKILL.md")
    )


def _find_decision(episode: Episode, states: Sequence[LibraryState], asked: AskedProbe) -> Decision | None:
    if asked.decision is None:
        state = find_round(states, asked.state)
        return state.decision if state else None
    found = episode.decisions.filter(number=asked.decision).select_related("before", "after").first()
    if found is None:
        raise NotPossible(f"there is no decision {asked.decision} in {episode.title}")
    return found


def _find_state(states: Sequence[LibraryState], key: str, decision: Decision | None) -> LibraryState:
    if not key:
        made = (state for state in states if decision is not None and state.decision == decision)
        return next(made, states[-1])
    if state := find_round(states, key):
        return state
    known = ", ".join(state.key for state in states)
    raise NotPossible(f"the library was never at {key[:20]!r} (expected one of {known})")


def choose_default_tasks(episode: Episode, state: LibraryState) -> tuple[str, ...]:
    """Return the deployment tasks; if the protocol has none, the tasks that were worked on after that state."""
    if found := _list_tasks_of(episode, Phase.DEPLOYMENT):
        return found
    later = episode.entries.filter(sequence__gt=state.sequence, attempt__isnull=False).order_by("sequence")
    after = tuple(dict.fromkeys(later.values_list("attempt__trial__task__key", flat=True)))
    return after or list_tasks(episode)


def list_deployed_tasks(episode: Episode) -> tuple[str, ...]:
    """Return the tasks that a library serves, for every state: those of deployment, else of evaluation, else all."""
    found = (_list_tasks_of(episode, phase) for phase in (Phase.DEPLOYMENT, Phase.EVALUATION))
    return next(filter(None, found), ()) or list_tasks(episode)


def _list_tasks_of(episode: Episode, phase: Phase) -> tuple[str, ...]:
    of_phase = episode.trials.filter(phase=phase, sample=0).order_by("task__ordinal", "task__key")
    return tuple(of_phase.values_list("task__key", flat=True))


def list_tasks(episode: Episode) -> tuple[str, ...]:
    """Return every task of the episode, family by family."""
    ordered = episode.trials.order_by("task__family__ordinal", "task__ordinal", "task__key")
    return tuple(dict.fromkeys(ordered.values_list("task__key", flat=True)))


class ProbePreview:
    """A probe that is ready to launch: what would run and what it would cost. Nothing is written."""

    def __init__(
        self,
        episode: Episode,
        asked: AskedProbe,
        *,
        seed: int | None = None,
        suite: Suite | None = None,
        past: dict[Arm, Past] | None = None,
    ) -> None:
        """`suite`: the episode's, if it was read before. `past`: earlier trials by the arm that made them, shared
        between calls; what is read is added to it.

        NotPossible names what does not fit: a missing state, hunk or task, a hunk that no longer applies, an episode
        whose launch is unknown or not possible here. SetupError: the setup is no longer that of the launch.
        """
        _require_launch(episode)
        self.episode = episode
        self.skill = asked.skill
        self.times = asked.times
        chosen = read_choice(episode, asked)
        self.state, self.decision = chosen.state, chosen.decision
        self.hunks = chosen.hunks if asked.skill else chosen.find_hunks(asked.revert)  # removed from the state
        self.library = remove_hunks(chosen, self.hunks)
        self.tasks = _choose_tasks(episode, self.state, asked.tasks)
        require_times(self.times)
        self.trials = len(self.tasks) * self.times
        if self.trials > settings.MAX_TRIALS:
            expected = f"expected at most {settings.MAX_TRIALS:,}, the setting MAX_TRIALS"
            raise NotPossible(f"{self.trials:,} trials ({expected})")
        self.prepared = self._prepare(asked.max_usd, seed, suite or suite_of(episode))
        past = {} if past is None else past
        as_origin = _as_origin(self.prepared, episode.run.condition)
        (arm,) = as_origin.setups
        if arm not in past:
            past[arm] = Past(as_origin)
        self.estimate = estimate(as_origin, past[arm])

    def _prepare(self, max_usd: float | None, seed: int | None, suite: Suite) -> Prepared:
        episode, origin = self.episode, self.episode.run
        plan_of(episode, suite)  # raises SetupError if tasks, agent or model changed since the launch
        spec = spec_of(origin)
        arm = replace(cell_of(origin).arm, condition=CONDITION)
        left_out = self.skill[:60] or plural(len(self.hunks), "change")
        label = f"{self.state.key} without {left_out}" if self.hunks else self.state.key
        limits = asdict(author_limits_of(spec)) if arm.author_agent else {}  # as in the origin's setup
        probe = spec_alone(
            episode,
            name=f"{spec.name[:160]} (probe of {name_run(origin.condition, origin.replicate)[:60]}, "
            f"{episode.title[:40]}, {label})"[:300],
            protocol=PROTOCOL,
            author_limits=limits,
            conditions=[CONDITION],
            samples=self.times,
            answers=1,
            placebo_replay=False,
            seed=secrets.randbits(61) if seed is None else seed,
            budget={"usd": max_usd or origin.budget_usd, "tokens": origin.budget_tokens},
            qualification=None,
            probe={"library": library_digest(self.library), "tasks": list(self.tasks)},
        )
        setup = setup_of(probe, arm, suite)
        cell = Cell(arm, 1, probe.seed)
        unit = protocols.find_unit(PROTOCOL, keep_tasks(suite, probe.tasks), episode.key)
        plan = make_plan(probe, unit, cell, episode=unit.key, digest=setup_digest(setup))
        return Prepared(probe, suite, {cell: (plan,)}, {arm: setup})


def require_times(times: int) -> None:
    """Raise NotPossible for a number of trials per task that is out of range."""
    if not 1 <= times <= MAX_TIMES:
        raise NotPossible(f"{times} times (expected 1 to {MAX_TIMES})")


def _require_launch(episode: Episode) -> None:
    """Raise NotPossible unless the episode can be launched again here."""
    run = episode.run
    if run.experiment.deleted_at:
        raise NotPossible(f"{episode.title} belongs to a deleted experiment: its tasks cannot be run again")
    if not episode.is_ordered or not run.was_launched:
        raise NotPossible(f"{episode.title} was not launched by Skillglass: its tasks cannot be run again")
    if episode.protocol == PROTOCOL:
        raise NotPossible("this is a probe itself (expected the episode that learned the library)")
    if run.experiment.origin != Experiment.Origin.RUN:
        try:
            prepare(run.experiment.spec, keys_elsewhere=True)
        except Unlaunchable as error:
            raise NotPossible(f"{episode.title} was launched elsewhere and cannot be run again here: {error}") from None


def remove_hunks(chosen: ProbeChoice, hunks: Sequence[Hunk]) -> Files:
    """Return the files of the state without these hunks. Raise HunkGone if one no longer applies."""
    if not hunks:
        return _read_files(chosen.state.snapshot)
    frozen = chosen.states.index(chosen.state)
    if chosen.decision is None:  # a whole skill of this state
        return take_back(hunks, [NamedFiles(chosen.state.key, _read_files(chosen.state.snapshot))])
    made = next(place for place, state in enumerate(chosen.states) if state.decision == chosen.decision)
    if frozen < made:
        key = chosen.states[made].key
        raise NotPossible(f"at {chosen.state.key} these hunks were not written yet (expected {key} or a later state)")
    line = [NamedFiles(state.key, _read_files(state.snapshot)) for state in chosen.states[made : frozen + 1]]
    return take_back(hunks, line)


def _read_files(snapshot: Snapshot | None) -> Files:
    return {} if snapshot is None else snapshot.read()


def _choose_tasks(episode: Episode, state: LibraryState, asked: Sequence[str]) -> tuple[str, ...]:
    known = list_tasks(episode)
    if strange := [key for key in asked if key not in known]:
        raise NotPossible(f"{episode.title} has no task {strange[0][:80]!r} (expected one of: {', '.join(known[:12])})")
    wanted = set(asked or choose_default_tasks(episode, state))
    return tuple(key for key in known if key in wanted)


def _as_origin(prepared: Prepared, condition: str) -> Prepared:
    """Return the same trials under the original condition: their cost is known under that name."""
    ((cell, plans),) = prepared.plans.items()
    arm: Arm = replace(cell.arm, condition=condition)
    return Prepared(prepared.spec, prepared.suite, {replace(cell, arm=arm): plans}, {arm: prepared.setups[cell.arm]})


def make_control(preview: ProbePreview) -> AskedProbe:
    """Return the same probe with nothing removed: it separates the effect of the hunks from chance."""
    decision = preview.decision.number if preview.decision else None
    return AskedProbe(preview.state.key, decision, (), preview.tasks, preview.times)


# --- launching ----------------------------------------------------------------------------------------------------


def launch_probe(preview: ProbePreview, *, reason: str, by: User | None = None) -> Probe:
    """Record the probe and queue its episode. Raise NotPossible without a reason."""
    if not reason.strip():
        raise NotPossible("a probe needs a reason, which is kept with it")
    library = Snapshot.objects.put(preview.library)  # store files before the transaction opens
    frozen = preview.state.snapshot or Snapshot.objects.put({})
    with transaction.atomic():
        experiment = launch_prepared(preview.prepared, by=by)
        experiment.estimate = preview.estimate.as_json()
        experiment.save(update_fields=["estimate"])
        probe = Probe.objects.create(
            run=experiment.runs.get(),
            origin=preview.episode,
            decision=preview.decision,
            state=preview.state.key,
            frozen=frozen,
            library=library,
            reverted=[hunk.as_json() for hunk in preview.hunks],
            reverted_digest=digest_json([hunk.id for hunk in preview.hunks]) if preview.hunks else "",
            skill=preview.skill,
            times=preview.times,
            reason=reason.strip()[:MAX_REASON],
            actor=by,
            actor_name=name_actor(by),
        )
        detail = {
            "state": probe.state,
            "reverted": [hunk.id for hunk in preview.hunks],
            "trials": preview.trials,
            "experiment": str(experiment.public_id),
        }
        note_activity(by, "probe", preview.episode, detail=detail, reason=probe.reason)
    return probe
