"""SkillGenBench's protocols: the next step in both settings, what a generator gets, and what it must never get."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner import protocols
from runner.authoring.author import request_for
from runner.authoring.material import MAX_CORPUS_CHARS, corpus_lines
from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import (
    AuthorMode,
    DecisionStatus,
    Environment,
    Family,
    File,
    ModelReply,
    ModelRequest,
    Phase,
    TrialSlot,
    Usage,
)
from runner.engine.author_step import BUDGET_SPENT, occasion_of
from runner.engine.engine import run_episode
from runner.engine.recorders import ListRecorder
from runner.engine.toolbox import Toolbox, toolbox_for
from runner.protocols import next_step
from runner.protocols.audit import audit
from runner.protocols.conditions import conditions_of
from runner.protocols.history import fold
from runner.protocols.plan import AUTHOR_SAMPLING, Ask, AuthorSampling, EpisodePlan, Freeze, RunTrial, SeedSkill
from runner.protocols.recorder import Decided, Entry, Event, Frozen, Seeded, Skipped, TrialDone
from tests.cases import every
from tests.runner.small_episode import skill_text, ticking_clock
from tests.worlds.corpora import AGNOSTIC, CONDITIONED, COUNTED, FAMILY, PRACTICE, handbook_suite, plan_for, unit_of

SETTINGS = (CONDITIONED, AGNOSTIC)
CONDITIONS = conditions_of(CONDITIONED)
ONE, TWO, LEARNED = "1" * 64, "2" * 64, "3" * 64  # snapshots
APPLIED, REJECTED, NO_OP = DecisionStatus.APPLIED, DecisionStatus.REJECTED, DecisionStatus.NO_OP


def steps(
    plan: EpisodePlan, answers: Callable[[Ask], DecisionStatus] = lambda _: APPLIED, passes: bool = True
) -> list[Any]:
    """Every step of an episode whose answers end like this, found by the protocol alone."""
    events: list[Event] = []
    taken = []
    while (step := next_step(plan, tuple(Entry(n, each) for n, each in enumerate(events, start=1)))) is not None:
        taken.append(step)
        events.append(
            _event(step, answers, fold(tuple(Entry(n, each) for n, each in enumerate(events, start=1))), passes)
        )
        assert len(taken) < 100
    return taken


def _event(step: Any, answers: Callable[[Ask], DecisionStatus], state: Any, passes: bool) -> Event:
    match step:
        case SeedSkill():
            return Seeded(step.family, ONE)
        case RunTrial():
            return TrialDone(step.slot, step.family, step.role, passes, step.snapshot)
        case Ask():
            status = answers(step)
            applied = status is APPLIED
            after = f"{step.answer:x}" * 64 if applied else state.snapshot
            return Decided(
                state.decisions + 1, state.rounds + applied, step.family, step.mode, None, step.answer, status, after
            )
        case _:
            return Frozen(state.snapshot, state.snapshot, "0" * 64, "5" * 64)


def shapes(taken: list[Any]) -> list[str]:
    """The steps as short words: "ask distill 1", "trial deployment E1-LS1-T4/0", "freeze"."""
    return [
        f"ask {step.mode} {step.answer}"
        if isinstance(step, Ask)
        else f"trial {step.slot.phase} {step.slot.task}/{step.slot.sample}"
        if isinstance(step, RunTrial)
        else type(step).__name__.lower()
        for step in taken
    ]


# --- units and plans ----------------------------------------------------------------------------------------------


def test_an_episode_is_a_task_that_counts_or_a_corpus_with_all_of_them() -> None:
    suite = handbook_suite()
    tasks = protocols.units(CONDITIONED, suite)
    assert [unit.key for unit in tasks] == list(COUNTED)
    assert [[task.key for task in unit.families[0].tasks] for unit in tasks] == [[key] for key in COUNTED]
    (corpus,) = protocols.units(AGNOSTIC, suite)
    assert corpus.key == "handbook"
    assert {task.key for task in corpus.families[0].tasks} == {*COUNTED, PRACTICE}


@pytest.mark.parametrize("protocol", SETTINGS)
def test_a_suite_without_corpora_has_nothing_to_run(protocol: str) -> None:
    suite = handbook_suite()
    bare = replace(suite, environments=tuple(replace(each, corpus=None) for each in suite.environments))
    assert protocols.units(protocol, bare) == ()
    with pytest.raises(SetupError, match="generates skills from a corpus; E1-LS1-T4 has none"):
        plan_for("naive-prompt", unit=replace(unit_of(CONDITIONED), corpus=None))


def test_what_the_plan_may_not_ask_for() -> None:
    unit = unit_of(AGNOSTIC)
    with pytest.raises(SetupError, match="has no replay"):
        plan_for("no-skill", placebo_replay=True)
    with pytest.raises(SetupError, match="needs a reference skill"):
        plan_for("reference-skill", AGNOSTIC, _changed(unit, curated={}))
    counted = tuple(task for task in unit.families[0].tasks if not task.practice)
    with pytest.raises(SetupError, match="no practice task, and trials of the others would reveal them"):
        plan_for("from-trajectories", AGNOSTIC, _changed(unit, tasks=counted))
    with pytest.raises(SetupError, match="one corpus at a time"):
        plan_for("no-skill", AGNOSTIC, replace(unit, families=unit.families * 2))


def _changed(unit: Environment, **changes: Any) -> Environment:
    families: tuple[Family, ...] = tuple(replace(family, **changes) for family in unit.families)
    return replace(unit, families=families)


# --- what comes next ----------------------------------------------------------------------------------------------

BEFORE = {
    "no-skill": [],
    "reference-skill": ["seedskill"],
    "naive-prompt": ["ask distill 1"],
    "iterative": ["ask distill 1", "ask refine 2", "ask refine 3"],
    "plug-in": ["ask outside 1"],
}


@every(*BEFORE)
@every(*SETTINGS)
def test_the_library_is_made_sealed_and_tried(protocol: str, condition: str) -> None:
    taken = steps(plan_for(condition, protocol))
    tasks = COUNTED[:1] if protocol == CONDITIONED else COUNTED
    assert shapes(taken) == [*BEFORE[condition], "freeze", *(f"trial deployment {task}/0" for task in tasks)]


@pytest.mark.parametrize("protocol", SETTINGS)
def test_what_is_learned_from_trajectories_comes_from_the_task_itself_or_from_practice(protocol: str) -> None:
    taken = steps(plan_for("from-trajectories", protocol))
    learned = COUNTED[0] if protocol == CONDITIONED else PRACTICE
    assert shapes(taken)[:3] == [f"trial acquisition {learned}/0", "ask consolidate 1", "freeze"]
    assert (taken[0].snapshot, taken[0].library) == (EMPTY_LIBRARY, False)
    assert taken[1].evidence == (TrialSlot(Phase.ACQUISITION, learned),)


@every(*SETTINGS)
@every(*CONDITIONS)
def test_only_the_task_conditioned_setting_reveals_a_task(condition: str, protocol: str) -> None:
    asked = {step.task for step in steps(plan_for(condition, protocol)) if isinstance(step, Ask)}
    assert asked <= {COUNTED[0] if protocol == CONDITIONED else ""}


@pytest.mark.parametrize("protocol", SETTINGS)
@pytest.mark.parametrize("passes", [True, False])
def test_three_samples_run_also_after_a_pass(protocol: str, passes: bool) -> None:
    plan = plan_for("naive-prompt", protocol, samples=3)
    trials = [step for step in steps(plan, passes=passes) if isinstance(step, RunTrial)]
    tasks = COUNTED[:1] if protocol == CONDITIONED else COUNTED
    assert [step.slot for step in trials] == [TrialSlot(Phase.DEPLOYMENT, task, n) for task in tasks for n in range(3)]
    assert {step.snapshot for step in trials} == {ONE}
    assert tuple(step.slot for step in trials) == protocols.slots(plan)


def test_rounds_of_refinement_end_where_one_changes_nothing_and_a_bad_one_is_a_round_all_the_same() -> None:
    def content(step: Ask) -> DecisionStatus:
        return NO_OP if step.mode is AuthorMode.REFINE else APPLIED

    def unlucky(step: Ask) -> DecisionStatus:
        return REJECTED if step.answer in (1, 3) else APPLIED

    asked = [shape for shape in shapes(steps(plan_for("iterative"), content)) if shape.startswith("ask")]
    assert asked == ["ask distill 1", "ask refine 2"]
    asked = [shape for shape in shapes(steps(plan_for("iterative"), unlucky)) if shape.startswith("ask")]
    assert asked == ["ask distill 1", "ask distill 2", "ask refine 3", "ask refine 4"]


def test_a_generator_that_never_answers_well_leaves_an_empty_library_that_is_tried() -> None:
    taken = steps(plan_for("iterative", answers=2), lambda _: DecisionStatus.FAILED)
    assert shapes(taken) == ["ask distill 1", "ask distill 2", "freeze", f"trial deployment {COUNTED[0]}/0"]
    assert taken[-1].snapshot == EMPTY_LIBRARY


def test_a_trial_left_out_gives_no_evidence() -> None:
    plan = plan_for("from-trajectories")
    skipped = Entry(1, Skipped(TrialSlot(Phase.ACQUISITION, COUNTED[0]), "its image is gone"))
    asked = next_step(plan, (skipped,))
    assert isinstance(asked, Ask)
    assert asked.evidence == ()
    assert plan.condition.is_tainted_by(fold((skipped,)).skipped)


@pytest.mark.parametrize("name", ["naive-prompt@2000", "iterative@4000", "plug-in@8000"])
def test_a_budget_behind_the_name_is_that_of_the_library(name: str) -> None:
    plan = plan_for(name)
    assert plan.condition.generation_tokens == int(name.partition("@")[2])
    assert isinstance(steps(plan)[-2], Freeze)


@every("no-skill@3", "naive-prompt@", "naive-prompt@0", "naive-prompt@99", "naive-prompt@1e4")
def test_a_budget_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(SetupError, match="'@'"):
        plan_for(name)


# --- the budget of an author that is asked --------------------------------------------------------------------------


class Writer:
    """Gives these replies in order, and keeps what it was asked."""

    name, version, scripted, preset, price_table, priced = "fixed/writer", "1", True, None, "", True

    def __init__(self, *replies: ModelReply) -> None:
        self.replies = list(replies)
        self.asked: list[ModelRequest] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        return self.replies[min(len(self.asked), len(self.replies)) - 1]


def patch(text: str = "Sort.", *, tokens: int | None = 100, slug: str = "tidy") -> ModelReply:
    files = {f"{slug}/SKILL.md": skill_text(slug, text)}
    value = {"summary": "s", "upsert_files": files, "delete_paths": []}
    return ModelReply(json.dumps(value), usage=Usage(10, 0, tokens), model=Writer.name)


def played(plan: EpisodePlan, writer: Writer, box: Path, monkeypatch: pytest.MonkeyPatch) -> ListRecorder:
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(box))
    recorder = ListRecorder(plan, ticking_clock())
    toolbox: Toolbox = replace(toolbox_for(plan, handbook_suite()), author_model=writer)
    run_episode(plan, recorder, toolbox)
    assert audit(plan, recorder.history()) == []
    return recorder


def test_every_round_may_write_what_the_earlier_ones_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(patch("One.", tokens=300), patch("Two.", tokens=500), patch("Three.", tokens=100))
    played(plan_for("iterative@1000"), writer, tmp_path, monkeypatch)
    assert [request.max_tokens for request in writer.asked] == [1_000, 700, 200]


def test_no_call_may_write_more_than_an_author_ever_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(patch())
    played(plan_for("naive-prompt@100000"), writer, tmp_path, monkeypatch)
    assert writer.asked[0].max_tokens == AUTHOR_SAMPLING.max_tokens


def test_an_author_is_sampled_as_the_experiment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(patch())
    sampling = AuthorSampling(temperature=None, max_tokens=90_000)
    played(plan_for("naive-prompt@100000", author_sampling=sampling), writer, tmp_path, monkeypatch)
    assert (writer.asked[0].temperature, writer.asked[0].max_tokens) == (None, 90_000)


@pytest.mark.parametrize("tokens", [None, 0])
def test_an_answer_that_tells_no_tokens_counts_by_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: int | None
) -> None:
    first = patch("x " * 400, tokens=tokens)
    writer = Writer(first, patch("Two."))
    played(plan_for("iterative@1000"), writer, tmp_path, monkeypatch)
    assert writer.asked[1].max_tokens == 1_000 - -(-len(first.text) // 4)


def test_a_spent_budget_is_told_and_nobody_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(patch(tokens=1_000))
    recorder = played(plan_for("iterative@1000"), writer, tmp_path, monkeypatch)
    assert [decision.status for decision in recorder.decisions] == [
        APPLIED,
        DecisionStatus.FAILED,
        DecisionStatus.FAILED,
    ]
    assert {decision.error for decision in recorder.decisions[1:]} == {BUDGET_SPENT}
    assert len(writer.asked) == 1


def test_a_reply_that_was_cut_off_has_spent_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = patch("x " * 1_000)
    cut = replace(whole, text=whole.text[:900], finish_reason="length", usage=Usage(10, 0, 800))
    writer = Writer(cut, patch("Shorter."))
    recorder = played(plan_for("naive-prompt@1000"), writer, tmp_path, monkeypatch)
    first, second = recorder.decisions
    assert first.status is DecisionStatus.FAILED
    assert "cut off at the limit on output tokens" in first.error
    assert second.status is APPLIED
    assert [request.max_tokens for request in writer.asked] == [1_000, 200]


def test_the_texts_of_an_author_that_is_asked_are_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model's own tokens may be longer than four characters."""
    recorder = played(plan_for("naive-prompt@100"), Writer(patch("word " * 200, tokens=100)), tmp_path, monkeypatch)
    assert recorder.decisions[0].status is APPLIED


# --- what a corpus looks like in a prompt ---------------------------------------------------------------------------


def test_what_a_reader_opens_first_comes_first_and_the_rest_is_told() -> None:
    files = {
        "vendor/a.md": "vendored", "poetry.lock": "locked", "node_modules/x/index.js": "theirs",
        "tests/test_tool.py": "tested", "src/tool.py": "deep", "README.md": "top", "logo.png": "\0",
    }  # fmt: skip
    corpus = {path: File(text.encode()) for path, text in files.items()}
    lines = list(corpus_lines(corpus))
    shown = [line.split("\n")[0][4:] for line in lines if line.startswith("### ")]
    assert shown == [
        "README.md",
        "src/tool.py",
        "tests/test_tool.py",
        "poetry.lock",
        "vendor/a.md",
        "node_modules/x/index.js",
    ]
    assert lines[0] == "7 files:"
    assert "- logo.png (1 bytes)" in lines
    assert lines[-1] == "[left out: 1 binary files]"


def test_a_corpus_beyond_the_room_is_cut_and_told() -> None:
    half = "x" * (MAX_CORPUS_CHARS // 2 + 10)
    corpus = {f"{name}.md": File(half.encode()) for name in "abcd"}
    text = "\n".join(corpus_lines(corpus))
    assert "[... 20 characters left out ...]" in text
    assert f"[left out for want of room: 2 files with {2 * len(half):,} characters]" in text
    assert len(text) < MAX_CORPUS_CHARS + 1_000


# --- the boundary ---------------------------------------------------------------------------------------------------

CANARIES = ("canary-of-the-tests", "canary-of-the-solution", "canary-of-the-reference", "canary-of-another-task")


@pytest.fixture
def planted(tmp_path: Path) -> Suite:
    """The handbook's suite with a canary in everything that a generator must not see."""
    suite = handbook_suite()
    (environment,) = suite.environments
    (family,) = environment.families
    tasks = []
    for task in family.tasks:
        folder = tmp_path / "tasks" / task.key
        shutil.copytree(task.folder, folder)
        (folder / "tests" / "hidden.txt").write_text("canary-of-the-tests\n")
        (folder / "solution").mkdir(exist_ok=True)
        (folder / "solution" / "hidden.txt").write_text("canary-of-the-solution\n")
        held_out = task.key == COUNTED[1]
        (folder / "environment" / "more.txt").write_text("canary-of-another-task\n" if held_out else "plain\n")
        instruction = f"{task.instruction}\ncanary-of-another-task\n" if held_out else task.instruction
        tasks.append(replace(task, folder=folder, instruction=instruction))
    curated = {path: File(file.content + b"\ncanary-of-the-reference\n") for path, file in family.curated.items()}
    changed = replace(family, tasks=tuple(tasks), curated=curated)
    return replace(suite, environments=(replace(environment, families=(changed,)),))


@pytest.mark.parametrize("protocol", SETTINGS)
@pytest.mark.parametrize("condition", ["naive-prompt", "iterative", "from-trajectories"])
def test_no_prompt_holds_what_the_generator_must_not_see(
    planted: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str, condition: str
) -> None:
    plan = plan_for(condition, protocol, unit_of(protocol, planted))
    writer = Writer(patch("One."), patch("Two."), patch("Three."))
    recorder = played(plan, writer, tmp_path / "boxes", monkeypatch)
    told = "\n".join(str(message["content"]) for request in writer.asked for message in request.messages)
    assert len(writer.asked) == plan.condition.rounds
    assert "codebook beside the table" in told
    assert [canary for canary in CANARIES if canary in told] == []
    for task in plan.environment.families[0].tasks:
        revealed = protocol == CONDITIONED or (task.practice and condition == "from-trajectories")
        assert (task.instruction.strip()[:60] in told) == revealed, task.key
    assert recorder.verdict(TrialSlot(Phase.DEPLOYMENT, COUNTED[0])) is not None


@pytest.mark.parametrize("protocol", SETTINGS)
def test_what_is_learned_from_trajectories_carries_no_verdict(
    planted: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    plan = plan_for("from-trajectories", protocol, unit_of(protocol, planted), feedback="process")
    writer = Writer(patch())
    recorder = played(plan, writer, tmp_path / "boxes", monkeypatch)
    (slot,) = [entry.event.slot for entry in recorder.history() if isinstance(entry.event, TrialDone)][:1]
    verdict = recorder.verdict(slot)
    assert slot.phase is Phase.ACQUISITION
    assert verdict is not None
    assert verdict.checks
    evidence = str(writer.asked[0].messages[1]["content"]).partition("## Evidence")[2]
    assert f"### Trial {slot} (verdict not shown)" in evidence
    for check in verdict.checks:
        assert check.name not in evidence
        assert not check.message or check.message not in evidence
    assert "reward" not in evidence.lower()


def test_protocols_without_corpora_leave_material_and_practice_tasks_out() -> None:
    assert [task.key for task in unit_of("skillflow").families[0].tasks] == list(COUNTED)
    plan = plan_for("one-shot", "skilllearnbench")
    first = next_step(plan, ())
    assert isinstance(first, Ask)
    assert first.mode is AuthorMode.WRITE
    recorder = ListRecorder(plan, ticking_clock())
    request = request_for(occasion_of(first, plan, recorder, fold(())), seed=1)
    assert "## Task" in request.messages[1]["content"]
    assert "## Corpus" not in request.messages[1]["content"]


def test_a_library_made_for_one_task_can_be_probed() -> None:
    suite = handbook_suite()
    keys = [unit.key for unit in protocols.units("probe", suite)]
    assert keys == ["handbook", FAMILY, *COUNTED]
