"""SkillFlow's protocol: what comes next, what each side is shown, and that it can die anywhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner import protocols
from runner.authoring.author import judge_reply
from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.trees import slugs
from runner.base.types import (
    AuthorMode,
    CompactionKind,
    DecisionStatus,
    Environment,
    ModelReply,
    ModelRequest,
    Phase,
    TrialSlot,
    Usage,
)
from runner.engine.engine import run_episode
from runner.engine.recorders import AttemptAbandoned, CallFinished, JsonLinesRecorder, ListRecorder, Transaction
from runner.protocols.audit import audit
from runner.protocols.conditions import conditions_of, find_condition
from runner.protocols.history import fold
from runner.protocols.plan import EpisodePlan
from runner.protocols.recorder import Decided, Frozen, Skipped, TrialDone
from runner.suites.starter_suite import load_starter
from tests.cases import every
from tests.runner.hostile_patches import HOSTILE
from tests.runner.small_episode import (
    FAMILIES,
    FixedAgent,
    events_of,
    shown_files,
    skill_text,
    small_environment,
    small_toolbox,
    ticking_clock,
)
from tests.runner.small_patches import occasion, skill

CONDITIONS = conditions_of("skillflow")
FAMILY = "E1-LS1"
TASKS = [f"{FAMILY}-T{n}" for n in range(1, 7)]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return small_environment(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="module")
def units(environment: Environment) -> dict[str, Environment]:
    suite = Suite("small", "Small", "1", "0" * 64, (environment,))
    return {unit.key: unit for unit in protocols.units("skillflow", suite)}


class Diarist:
    """An author that writes down which trial it was shown; what it answers otherwise comes from `replies`."""

    name, version, scripted, preset, price_table, priced = "fixed/author", "1", True, None, "", True

    def __init__(self, *replies: ModelReply) -> None:
        self.replies = list(replies)
        self.prompts: list[str] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        prompt = str(request.messages[-1]["content"])
        self.prompts.append(prompt)
        if self.replies:
            return self.replies.pop(0)
        (task,) = shown_slots(prompt)
        text = shown_files(prompt).get("diary/SKILL.md") or skill_text("diary", "What happened.")
        patch = {"summary": f"lesson of {task}", "upsert_files": {"diary/SKILL.md": f"{text}\n- {task}\n"}}
        return ModelReply(json.dumps({**patch, "delete_paths": []}), usage=Usage(100, 0, 20), model=self.name)


def shown_slots(prompt: str) -> list[str]:
    return re.findall(r"^### Trial (\S+) \(", prompt, re.MULTILINE)


def plan_for(condition: str, unit: Environment, **changes: Any) -> EpisodePlan:
    values: dict[str, Any] = {
        "episode": f"{unit.key}-{condition}",
        "environment": unit,
        "condition": find_condition(condition, "skillflow"),
        "run_seed": 7,
        "setup_digest": "0" * 64,
        "agent": "fixed",
        "author_model": "fixed/author",
        "protocol": "skillflow",
        "answers": 2,
        **changes,
    }
    return EpisodePlan(**values)


def played(
    condition: str, unit: Environment, author: Diarist | None = None, **changes: Any
) -> tuple[ListRecorder, FixedAgent, Diarist]:
    plan = plan_for(condition, unit, **changes)
    recorder, agent, author = ListRecorder(plan, ticking_clock()), FixedAgent(), author or Diarist()
    run_episode(plan, recorder, small_toolbox(agent, author))
    assert audit(plan, recorder.history()) == []
    return recorder, agent, author


# --- units and plans ----------------------------------------------------------------------------------------------


def test_an_episode_is_one_family_under_its_own_key(environment: Environment, units: dict[str, Environment]) -> None:
    assert list(units) == list(FAMILIES)
    assert [unit.families for unit in units.values()] == [(family,) for family in environment.families]
    starter = load_starter()
    keys = [family.key for each in starter.environments for family in each.families]
    assert [unit.key for unit in protocols.units("skillflow", starter)] == keys
    assert protocols.units("skillevolbench", starter) == starter.environments


@pytest.mark.parametrize("changes", [{"samples": 2}, {"placebo_replay": True}])
def test_it_refuses_what_it_does_not_have(units: dict[str, Environment], changes: dict[str, Any]) -> None:
    with pytest.raises(SetupError, match="skillflow"):
        plan_for("skill-evolution", units[FAMILY], **changes)


def test_it_refuses_several_families_in_one_episode(environment: Environment) -> None:
    with pytest.raises(SetupError, match="one family at a time, not 2"):
        plan_for("no-skill", environment)


def test_conditions_are_those_of_the_protocol() -> None:
    assert list(CONDITIONS) == ["no-skill", "skill-evolution", "history-context"]
    with pytest.raises(SetupError, match="unknown condition 'curated-static' of skillflow; known: no-skill, "):
        find_condition("curated-static", "skillflow")
    with pytest.raises(SetupError, match="unknown protocol 'skillfull'; known: skillevolbench, skillflow"):
        find_condition("no-skill", "skillfull")


# --- what comes next ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_tasks_run_once_in_order_of_difficulty(units: dict[str, Environment], condition: str) -> None:
    (family,) = units[FAMILY].families
    shuffled = replace(units[FAMILY], families=(replace(family, tasks=family.tasks[::-1]),))
    recorder, _, _ = played(condition, shuffled)
    slots = [TrialSlot(Phase.EVALUATION, task) for task in TASKS]
    assert [trial.slot for trial in events_of(recorder, TrialDone)] == slots
    assert protocols.slots(recorder.plan) == tuple(slots)
    assert events_of(recorder, Frozen) == []


def test_the_author_works_after_every_task_also_failed_ones_and_the_last(units: dict[str, Environment]) -> None:
    recorder, _, author = played("skill-evolution", units[FAMILY])
    kinds = [type(entry.event) for entry in recorder.history()]
    assert kinds == [TrialDone, Decided] * 6
    assert {trial.success for trial in events_of(recorder, TrialDone)} == {True, False}
    assert [shown_slots(prompt) for prompt in author.prompts] == [[f"evaluation/{task}/0"] for task in TASKS]
    assert [decision.mode for decision in recorder.decisions] == [AuthorMode.EVOLVE] * 6
    assert recorder.decisions[-1].round == 6


def test_every_trial_finds_what_the_decision_before_it_left(units: dict[str, Environment]) -> None:
    recorder, agent, author = played("skill-evolution", units[FAMILY])
    trials = events_of(recorder, TrialDone)
    assert [trial.snapshot for trial in trials] == [EMPTY_LIBRARY, *(d.after for d in recorder.decisions[:-1])]
    for place, (job, files) in enumerate(zip(agent.jobs, agent.mounted, strict=True)):
        told = files["diary/SKILL.md"].content.decode() if place else ""
        assert re.findall(r"^- evaluation/(\S+)/0$", told, re.MULTILINE) == TASKS[:place]
        assert job.skills == slugs(files)
    shown = [shown_files(prompt) for prompt in author.prompts]
    before = [recorder.library(decision.before) for decision in recorder.decisions]
    assert shown == [{path: file.content.decode() for path, file in files.items()} for files in before]


def test_the_first_task_is_worked_on_as_without_skills_and_the_others_are_told_of_a_growing_library(
    units: dict[str, Environment],
) -> None:
    _, plain, _ = played("no-skill", units[FAMILY])
    _, agent, _ = played("skill-evolution", units[FAMILY])
    assert [job.instruction for job in plain.jobs] == [job.task.instruction for job in plain.jobs]
    assert (agent.jobs[0].instruction, agent.jobs[0].seed) == (plain.jobs[0].instruction, plain.jobs[0].seed)
    assert [job.library for job in agent.jobs] == ["## Skill library" in job.instruction for job in agent.jobs]
    assert [job.library for job in agent.jobs] == [False] + [True] * 5
    assert not any("frozen" in job.instruction for job in agent.jobs)


def test_the_next_family_starts_with_nothing(units: dict[str, Environment]) -> None:
    played("skill-evolution", units["E1-LS1"])
    second, agent, author = played("skill-evolution", units["E1-LS2"])
    assert agent.mounted[0] == {}
    assert "E1-LS1" not in "".join(author.prompts)
    assert events_of(second, TrialDone)[0].snapshot == EMPTY_LIBRARY


def test_an_answer_that_cannot_be_used_is_asked_for_again_as_often_as_the_plan_says(
    units: dict[str, Environment],
) -> None:
    author = Diarist(ModelReply("no"), ModelReply('{"upsert_files": {"../x/SKILL.md": "x"}}'), ModelReply("no"))
    recorder, _, _ = played("skill-evolution", units[FAMILY], author, answers=3)
    found = [(decision.after_trial, decision.answer, decision.status) for decision in recorder.decisions[:4]]
    first, second = (TrialSlot(Phase.EVALUATION, task) for task in TASKS[:2])
    assert found == [
        (first, 1, DecisionStatus.FAILED),
        (first, 2, DecisionStatus.REJECTED),
        (first, 3, DecisionStatus.FAILED),
        (second, 1, DecisionStatus.APPLIED),
    ]
    assert events_of(recorder, TrialDone)[1].snapshot == EMPTY_LIBRARY


# --- the control --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feedback", ["none", "binary", "process"])
def test_history_context_shows_each_trial_as_the_author_would_be_shown_it(
    units: dict[str, Environment], feedback: str
) -> None:
    recorder, agent, author = played("history-context", units[FAMILY], feedback=feedback)
    evolving, _, _ = played("skill-evolution", units[FAMILY], feedback=feedback)
    assert author.prompts == []
    assert all(files == {} for files in agent.mounted)
    for place, job in enumerate(agent.jobs):
        assert shown_slots(job.instruction) == [f"evaluation/{task}/0" for task in TASKS[:place]]
        for task in TASKS[:place]:
            slot = TrialSlot(Phase.EVALUATION, task)
            assert recorder.compaction(slot, CompactionKind.RICH).text.rstrip() in job.instruction
        if feedback == "none":
            assert "passed" not in job.instruction
            assert "(verdict not shown)" in job.instruction or place == 0
        assert ("reward 0.25" in job.instruction) <= (feedback == "process")
    first = TrialSlot(Phase.EVALUATION, TASKS[0])
    assert recorder.compaction(first, CompactionKind.RICH) == evolving.compaction(first, CompactionKind.RICH)


# --- trouble ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "tainted"), [("no-skill", False), ("skill-evolution", True), ("history-context", True)]
)
def test_a_skip_taints_the_episode_where_later_trials_were_to_learn_from_it(
    units: dict[str, Environment], condition: str, tainted: bool
) -> None:
    plan = plan_for(condition, units[FAMILY])
    recorder, author, agent = ListRecorder(plan, ticking_clock()), Diarist(), FixedAgent()
    recorder.skip(Skipped(TrialSlot(Phase.EVALUATION, TASKS[0]), "the image cannot be built"))
    run_episode(plan, recorder, small_toolbox(agent, author))
    assert plan.condition.is_tainted_by(fold(recorder.history()).skipped) is tainted
    assert not any(TASKS[0] in "".join(shown_slots(prompt)) for prompt in author.prompts)
    assert TASKS[0] not in "".join(job.instruction for job in agent.jobs)
    assert agent.jobs[0].library is plan.condition.has_library  # its second task, with a library that is still empty
    assert audit(plan, recorder.history()) == []


class _Killed(BaseException):
    pass


class _DyingRecorder(ListRecorder):
    """Dies instead of committing its n-th transaction, and leaves no word about it, as a killed process does."""

    def __init__(self, plan: EpisodePlan, left: int) -> None:
        super().__init__(plan, ticking_clock())
        self.left = left

    def commit(self, transaction: Transaction) -> None:
        self.left -= 1
        if self.left < 0 or isinstance(transaction, AttemptAbandoned):
            raise _Killed
        super().commit(transaction)


@pytest.mark.parametrize("condition", ["skill-evolution", "history-context"])
def test_a_family_killed_at_any_transaction_goes_on_to_the_same_history(
    units: dict[str, Environment], condition: str
) -> None:
    whole, _, _ = played(condition, units[FAMILY])
    for killed_after in range(0, len(whole.transactions), 3):
        dying = _DyingRecorder(whole.plan, killed_after)
        with pytest.raises(_Killed):
            run_episode(whole.plan, dying, small_toolbox(author=Diarist()))
        reopened = ListRecorder(whole.plan, ticking_clock())
        for transaction in dying.transactions:
            reopened.apply(transaction)
        run_episode(whole.plan, reopened, small_toolbox(author=Diarist()))
        assert reopened.history() == whole.history()
        assert reopened.decisions == whole.decisions
        replies = [t for t in reopened.transactions if isinstance(t, CallFinished)]
        assert len({reply.key for reply in replies}) == len(replies) == len(whole.decisions)


def test_hostile_answers_are_recorded_one_after_another_and_the_good_one_after_them_counts(
    units: dict[str, Environment], tmp_path: Path
) -> None:
    hostile = [each for each in HOSTILE if each.evolve.startswith(("rejected", "failed"))]
    hostile = [
        each for each in hostile if "library" not in each.name and len(each.reply) < 100_000
    ]  # it is still empty
    replies = [ModelReply(each.reply, finish_reason=each.finish) for each in hostile]
    plan = plan_for("skill-evolution", units[FAMILY], answers=len(replies) + 1)
    recorder = JsonLinesRecorder(tmp_path / "episode.jsonl", plan)
    run_episode(plan, recorder, small_toolbox(author=Diarist(*replies)))
    recorder.close()
    reread = JsonLinesRecorder(tmp_path / "episode.jsonl", plan)
    statuses = [decision.status for decision in reread.decisions]
    reread.close()
    assert len(replies) > 90
    assert set(statuses[: len(replies)]) == {DecisionStatus.REJECTED, DecisionStatus.FAILED}
    assert statuses[len(replies) :] == [DecisionStatus.APPLIED] * 6
    assert fold(reread.history()).snapshot == fold(played("skill-evolution", units[FAMILY])[0].history()).snapshot


# --- the patch's schema -------------------------------------------------------------------------------------------


def _judged(profile: str, value: dict[str, Any]) -> tuple[DecisionStatus, set[str]]:
    at = occasion(AuthorMode.EVOLVE, profile=profile, family_slugs=("key-alignment", "null-safe-totals"))
    at = replace(at, library=occasion().library)
    judgement = judge_reply(at, ModelReply(json.dumps({"upsert_files": {}, **value})))
    return judgement.status, set(judgement.files or ())


def test_as_released_a_folder_can_be_deleted_and_otherwise_it_is_refused() -> None:
    removed = {"delete_paths": ["key-alignment"]}
    assert _judged("paper", removed) == (DecisionStatus.REJECTED, set())
    status, left = _judged("as-released", removed)
    assert (status, {path.partition("/")[0] for path in left}) == (DecisionStatus.APPLIED, {"null-safe-totals"})


@every("", ".", "/", "./", "..", "key-alignment/..")
def test_as_released_too_no_path_stands_for_the_library_itself(path: str) -> None:
    assert _judged("as-released", {"delete_paths": [path]}) == (DecisionStatus.REJECTED, set())


def test_a_patch_may_create_several_skills_with_their_programs_under_names_of_its_own() -> None:
    body = "# Fresh\n\nRun `scripts/count_rows.sh`.\n"
    files = {f"{slug}/SKILL.md": skill(slug, body=body) for slug in ("fresh", "fresher")}
    files |= {f"{slug}/scripts/count_rows.sh": "#!/bin/sh\nwc -l\n" for slug in ("fresh", "fresher")}
    status, left = _judged("paper", {"upsert_files": files})
    assert (status, files.keys() <= left) == (DecisionStatus.APPLIED, True)
