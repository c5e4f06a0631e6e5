"""Later trials of a line and of a decision, against a slow recount from the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from uuid import UUID

import pytest

from benchapp.analysis.lineage.attribution import (
    Ended,
    LedgerRow,
    count_later_trials,
    list_trials_with_lines,
    read_no_skill,
)
from benchapp.analysis.lineage.library_states import read_history
from benchapp.analysis.lineage.line_history import KEPT, Lineage, read_lineage
from benchapp.models import Entry, Episode, Run, SkillUse, Trial
from runner.base.types import DecisionStatus, Phase
from tests.worlds.factories import (
    add_entry,
    freeze,
    make_decision,
    make_episode,
    make_experiment,
    make_learning_run,
    make_run,
    make_snapshot,
    make_suite,
    make_trial,
)

pytestmark = pytest.mark.django_db


def lineage(episode: Episode) -> Lineage:
    episode.refresh_from_db()
    return read_lineage(Run.objects.get(pk=episode.run_id), episode, read_history(episode).states)


def figures(ended: Ended) -> dict[str, tuple[int, ...]]:
    sides = {
        name: (side.passed, side.scored, side.planned)
        for name, side in (("read", ended.read), ("unread", ended.unread), ("unknown", ended.unknown))
    }
    return {
        **sides,
        "own": (ended.own.passed, ended.own.scored),
        "beside": (ended.no_skill.passed, ended.no_skill.scored),
    }


# --- a random run: edits, renames, deletions, refused patches; trials that read or not; a run without skills ------


def random_run(dice: Random) -> Run:
    suite = make_suite(environments=1, families=2)
    experiment = make_experiment(suite=suite)
    environment = suite.environments.get()
    for replicate in (1, 2):
        baseline = make_run(experiment, condition="no-skill", replicate=replicate)
        play(dice, make_episode(baseline, environment=environment, is_tainted=dice.random() < 0.2), writes=False)
    run = make_run(experiment, condition="selfgen-always")
    play(dice, make_episode(run, environment=environment), writes=True)
    return run


def play(dice: Random, episode: Episode, *, writes: bool) -> None:
    files: dict[str, str] = {}
    tasks = [task for family in episode.environment.families.all() for task in family.tasks.all()]
    slots = [(phase, task) for phase in (Phase.ACQUISITION, Phase.DEPLOYMENT, Phase.REPLAY) for task in tasks]
    for phase, task in slots:
        if not writes and (phase == Phase.REPLAY or dice.random() < 0.2):
            continue
        mounted = sorted({path.split("/")[0] for path in files})
        trial = make_trial(
            episode,
            task,
            phase=phase,
            success=dice.choice([True, False, None]),
            mounted=mounted,
            read=[skill for skill in [*mounted, "harness-own"] if dice.random() < 0.4],
            snapshot=episode.library,
            attempt={"steps": None} if dice.random() < 0.1 else {},
        )
        add_entry(episode, Entry.Kind.TRIAL, attempt=trial.counting_attempt())
        if writes and phase == Phase.ACQUISITION:
            files = decide(dice, episode, trial, files)
    freeze(episode)


def decide(dice: Random, episode: Episode, trial: Trial, files: dict[str, str]) -> dict[str, str]:
    if dice.random() < 0.2:
        make_decision(episode, trial.task.family, after_trial=trial, status=DecisionStatus.REJECTED)
        return files
    files = dict(files)
    act = dice.choice(["write", "write", "edit", "rename", "delete"])
    path = dice.choice(sorted(files)) if files else ""
    if act == "write" or not path:
        files[f"{dice.choice('ab')}/SKILL.md"] = "".join(f"- rule {dice.randrange(6)}\n" for _ in range(4))
    elif act == "edit":
        lines = files[path].splitlines(keepends=True)
        lines[dice.randrange(len(lines) + 1) :][:1] = []
        lines.insert(dice.randrange(len(lines) + 1), f"- rule {dice.randrange(20)}\n")
        files[path] = "".join(lines)
    elif act == "rename":
        files[f"{dice.choice('cd')}/SKILL.md"] = files.pop(path)
    else:
        del files[path]
    make_decision(episode, trial.task.family, after_trial=trial, after=make_snapshot(files))
    return files


# --- the recount ----------------------------------------------------------------------------------------------------


def state_of(episode: Episode, trial: Trial) -> int:
    """Walks the spine up to the trial and counts the changes of the library."""
    states, library = 0, make_snapshot({}).pk
    for entry in Entry.objects.filter(episode=episode).order_by("sequence"):
        if entry.attempt_id and entry.attempt.trial_id == trial.pk:
            return states
        if entry.decision_id and entry.decision.status == "applied" and entry.decision.after_id != library:
            states, library = states + 1, entry.decision.after_id
    raise AssertionError("the trial is not on the spine")


@dataclass(frozen=True)
class Facts:
    """Of one trial, each asked for by a query of its own."""

    trial: Trial
    state: int
    used: set[str]
    is_told: bool
    no_skill: list[bool]


def facts_of(episode: Episode) -> list[Facts]:
    found = []
    for trial in Trial.objects.filter(episode=episode, is_done=True).exclude(snapshot=None).select_related("task"):
        attempt = trial.attempts.get(counts=True)
        used = {use.skill for use in SkillUse.objects.filter(attempt=attempt) if use.kind != "mounted"}
        is_told = attempt.trajectories.exists() or bool(used)
        beside = no_skill(episode.run, trial, trial.phase)
        found.append(Facts(trial, state_of(episode, trial), used, is_told, beside))
    return found


def recount(
    facts: list[Facts], skills_at: dict[int, set[str]], counted: Callable[[Trial], bool] = lambda trial: True
) -> dict:
    """`skills_at`: state -> the skills that hold the lines."""
    found = {"read": [0, 0, 0], "unread": [0, 0, 0], "unknown": [0, 0, 0], "own": [0, 0], "beside": [0, 0]}
    slots = set()
    for each in facts:
        trial, skills = each.trial, skills_at.get(each.state, set())
        if not skills or not counted(trial):
            continue
        side = "unknown" if not each.is_told else "read" if each.used & skills else "unread"
        found[side][2] += 1
        if trial.success is None:
            continue
        found[side][1] += 1
        found[side][0] += trial.success
        if side == "read" and each.no_skill:
            found["own"] = [found["own"][0] + trial.success, found["own"][1] + 1]
            if (trial.task_id, trial.phase) not in slots:
                slots.add((trial.task_id, trial.phase))
                found["beside"] = [found["beside"][0] + sum(each.no_skill), found["beside"][1] + len(each.no_skill)]
    return {name: tuple(counts) for name, counts in found.items()}


def no_skill(run: Run, trial: Trial, phase: str) -> list[bool]:
    found = [
        other.success
        for other in Trial.objects.filter(task=trial.task, phase=phase)
        if other.episode.run.experiment_id == run.experiment_id
        and other.episode.run.condition == "no-skill"
        and not other.episode.is_tainted
        and other.success is not None
    ]
    return no_skill(run, trial, "acquisition") if not found and phase == "replay" else found


@pytest.mark.parametrize("seed", range(8))
def test_it_equals_a_slow_recount_for_every_line_and_every_decision(seed):
    run = random_run(Random(seed))
    episode = run.episodes.get()
    found = lineage(episode)
    baseline = read_no_skill(Run.objects.get(pk=run.pk), {trial.task for trial in found.trials})
    states = read_history(episode).states
    last = len(states) - 1
    facts = facts_of(episode)
    for path, written in found.blame.states[last].items():
        names = found.blame.paths(last, path)
        for number in set(written):
            line = found.blame.lines[number]
            at = {state: {name.split("/")[0]} for state, name in names.items() if line.born <= state <= line.last}
            mine = count_later_trials(
                list_trials_with_lines(found, lambda s, at=at: frozenset(at.get(s, ())), born=line.born), baseline
            )
            assert figures(mine.total) == recount(facts, at)
            for group, ended in mine.groups.items():
                assert figures(ended) == recount(facts, at, lambda t, group=group: (t.phase, t.task.role) == group)
    for place in range(1, last + 1):
        at = {
            state: {path.split("/")[0] for path in files if place in found.blame.origins(state, path)}
            for state, files in enumerate(found.blame.states)
        }
        family = states[place].decision.family_id
        row = LedgerRow(found, place, family, baseline)
        assert figures(row.all.total) == recount(facts, at)
        assert figures(row.same_family) == recount(facts, at, lambda t, own=family: t.task.family_id == own)
        assert figures(row.other_families) == recount(facts, at, lambda t, own=family: t.task.family_id != own)
        nothing = figures(Ended())
        for role in {each.trial.task.role for each in facts}:
            expected = recount(facts, at, lambda t, r=role: (t.phase, t.task.role) == (Phase.DEPLOYMENT, r))
            assert (figures(row.deployment[role]) if role in row.deployment else nothing) == expected


def test_it_places_a_trial_by_the_spine_where_two_states_hold_the_same_files():
    episode = make_episode()
    family = make_suite(environments=1).environments.get().families.first()
    trials = {}
    for text in ("one\n", "two\n", "one\n"):
        make_decision(episode, family, after=make_snapshot({"a/SKILL.md": text}))
        episode.refresh_from_db()
        trial = make_trial(episode, snapshot=episode.library, mounted=["a"], read=["a"])
        add_entry(episode, Entry.Kind.TRIAL, attempt=trial.counting_attempt())
        trials[trial.public_id] = len(trials) + 1
    assert placed(episode) == trials


def placed(episode: Episode) -> dict[UUID, int]:
    return {trial.public_id: trial.state for trial in lineage(episode).trials}


def test_it_is_read_again_when_the_run_has_grown():
    run = make_learning_run(families=1)
    episode = run.episodes.get()
    before = len(lineage(episode).trials)
    trial = make_trial(episode, phase=Phase.EVALUATION, snapshot=episode.library)
    Run.objects.filter(pk=run.pk).touch()
    assert len(lineage(episode).trials) == before + 1
    assert trial.public_id in placed(episode)


def test_it_tells_same_family_from_others_and_deployment_by_role():
    run = make_learning_run(families=2)
    episode = run.episodes.get()
    found = lineage(episode)
    first = episode.decisions.first()
    row = LedgerRow(found, 1, first.family_id, {})  # the state that the first decision left
    assert row.same_family.mounted + row.other_families.mounted == row.all.total.mounted
    assert row.other_families.mounted
    assert list(row.deployment) == ["context-shift", "adversarial", "composition"]
    assert row.all.total.slots == 0  # no baseline was given


def test_a_library_too_big_to_trace_loads_no_contents(monkeypatch, django_assert_max_num_queries):
    monkeypatch.setattr("benchapp.analysis.lineage.line_history.MAX_BYTES", 10)
    episode = make_learning_run(families=1).episodes.get()
    KEPT.clear()
    with django_assert_max_num_queries(7):
        found = lineage(episode)
    assert found.too_big > 10
    assert found.blame.lines == ()
