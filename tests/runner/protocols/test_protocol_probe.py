"""A probe by itself: the library comes in whole, is sealed, and every task runs with it so often. Nobody learns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner import protocols
from runner.base.digests import EMPTY_LIBRARY, library_digest
from runner.base.errors import FrozenLibrary, SetupError, TrialsLeft
from runner.base.types import File, Files, Phase, TrialSlot
from runner.engine.engine import run_episode
from runner.engine.recorders import ListRecorder
from runner.protocols.audit import audit
from runner.protocols.plan import EpisodePlan, Freeze, Probe, RunTrial, SeedLibrary
from runner.protocols.probe import CONDITIONS
from runner.protocols.recorder import Entry, Frozen, Seeded, TrialDone
from runner.protocols.registry import LAUNCHED, PROTOCOLS
from tests.cases import every
from tests.runner.small_episode import FixedAgent, FixedAuthor, events_of, small_environment, small_plan, small_toolbox

LIBRARY: Files = {"tidy-tables/SKILL.md": File(b"---\nname: tidy-tables\n---\nOne rule.\n")}
DIGEST = library_digest(LIBRARY)
TASKS = ("E1-LS1-T4", "E1-LS2-T6")


def probe_plan(folder: Path, **changes: Any) -> EpisodePlan:
    values = {
        "protocol": "probe",
        "samples": 2,
        "probe": Probe(DIGEST, TASKS),
        "condition": CONDITIONS["library-probe"],
    }
    return replace(small_plan("no-skill", small_environment(folder)), **{**values, **changes})


class Holding(ListRecorder):
    """One that has the library on record, as the database has those of every run."""

    def library(self, snapshot: str) -> Files:
        return LIBRARY if snapshot == DIGEST else super().library(snapshot)


def test_it_seeds_seals_and_runs_each_task_once_and_then_again(tmp_path: Path) -> None:
    plan, agent, author = probe_plan(tmp_path), FixedAgent(), FixedAuthor()
    recorder = Holding(plan)
    run_episode(plan, recorder, small_toolbox(agent, author))
    events = [entry.event for entry in recorder.history()]
    assert events[0] == Seeded("E1-LS1", DIGEST)
    assert isinstance(events[1], Frozen)
    slots = [event.slot for event in events_of(recorder, TrialDone)]
    assert slots == [TrialSlot(Phase.DEPLOYMENT, task, sample) for sample in range(2) for task in TASKS]
    assert tuple(slots) == protocols.slots(plan)
    assert agent.mounted == [LIBRARY] * 4
    assert all("The library is frozen" in job.instruction for job in agent.jobs)
    assert author.prompts == []
    assert audit(plan, recorder.history()) == []


def test_each_rerun_has_dice_of_its_own(tmp_path: Path) -> None:
    plan, agent = probe_plan(tmp_path), FixedAgent()
    run_episode(plan, Holding(plan), small_toolbox(agent))
    assert len({job.seed for job in agent.jobs}) == 4


def test_the_empty_library_is_there_from_the_start(tmp_path: Path) -> None:
    plan = probe_plan(tmp_path, probe=Probe(EMPTY_LIBRARY, TASKS))
    assert protocols.next_step(plan, ()) == Freeze()
    recorder = ListRecorder(plan)
    run_episode(plan, recorder, small_toolbox())
    assert audit(plan, recorder.history()) == []


def test_it_goes_on_where_it_stands(tmp_path: Path) -> None:
    plan = probe_plan(tmp_path)
    seeded = Entry(1, Seeded("E1-LS1", DIGEST))
    sealed = Entry(2, Frozen(DIGEST, DIGEST, "0" * 64, "s"))
    assert protocols.next_step(plan, ()) == SeedLibrary("E1-LS1", DIGEST)
    assert protocols.next_step(plan, (seeded,)) == Freeze()
    assert isinstance(protocols.next_step(plan, (seeded, sealed)), RunTrial)


def test_another_library_than_the_one_asked_for_is_no_answer(tmp_path: Path) -> None:
    (problem,) = audit(probe_plan(tmp_path), (Entry(1, Seeded("E1-LS1", "f" * 64)),))
    assert "expected an answer to SeedLibrary" in problem


def test_a_library_that_is_no_longer_what_it_was_is_not_mounted(tmp_path: Path) -> None:
    class Spoiled(Holding):
        def library(self, snapshot: str) -> Files:
            return {"other/SKILL.md": File(b"other\n")}

    plan = probe_plan(tmp_path)
    recorder = Spoiled(plan)
    with pytest.raises(FrozenLibrary, match="was to be frozen"):
        run_episode(plan, recorder, small_toolbox())
    assert recorder.history() == ()


def test_a_machine_that_fails_scores_nothing(tmp_path: Path) -> None:
    plan = probe_plan(tmp_path)
    recorder = Holding(plan)
    agent = FixedAgent(dies_at=lambda job: job.task.key == TASKS[1])
    with pytest.raises(TrialsLeft):
        run_episode(plan, recorder, small_toolbox(agent), retries=1, sleep=lambda _: None)
    done = {event.slot for event in events_of(recorder, TrialDone)}
    assert done == {slot for slot in protocols.slots(plan) if slot.task != TASKS[1]}


@every(
    ({"probe": None}, "needs a library"),
    ({"probe": Probe(DIGEST, ())}, "at least one task"),
    ({"probe": Probe(DIGEST, ("E9-T1",))}, "has no task E9-T1"),
    ({"probe": Probe(DIGEST, (TASKS[0], TASKS[0]))}, "named twice"),
    ({"protocol": "skillevolbench"}, "only a probe is given one"),
)
def test_what_is_no_probe_is_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=said):
        probe_plan(tmp_path, **changes)


def test_nobody_launches_it_from_a_file() -> None:
    assert "probe" not in LAUNCHED
    assert "probe" in PROTOCOLS
