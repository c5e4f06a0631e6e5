"""An author that is an agent: what it is given, and what becomes of the folder it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.agents import AgentJob, AgentRun, Limits
from runner.agents.shell import Shell
from runner.authoring.agent_prompts import CREATOR
from runner.base.errors import BudgetSpent, ModelUnavailable, SandboxError
from runner.base.types import AuthorMode, Decision, DecisionStatus, File, Phase, Source, TrialSlot, Usage
from runner.engine.author_step import RULE, ask, occasion_of, session_name
from runner.engine.engine import advance, run_episode
from runner.engine.recorders import JsonLinesRecorder, ListRecorder
from runner.engine.setup import describe_setup
from runner.engine.toolbox import Toolbox
from runner.protocols import author_limits, next_step
from runner.protocols.history import fold
from runner.protocols.plan import Ask, EpisodePlan
from runner.sandboxes import SKILLS, WORKSPACE, local
from runner.suites.starter_suite import load_starter
from runner.suites.tasks.task_files import read_workspace_files
from tests.providers.chat_provider import Provider
from tests.runner.agent_authors import FAMILY, KEY, KEY_VARIABLE, SKILL, WRITE, calls_tool, learning_plan, tools, used
from tests.runner.small_episode import ticking_clock
from tests.worlds.corpora import AGNOSTIC, CONDITIONED, HANDBOOK, plan_for

SEED = f"{FAMILY}-T1"
SLUG = "tidy-tables"


@pytest.fixture(autouse=True)
def _boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))
    monkeypatch.setenv(KEY_VARIABLE, KEY)


@pytest.fixture
def provider() -> Iterator[Provider]:
    found = Provider()
    yield found
    found.close()


def asked(plan: EpisodePlan, toolbox: Toolbox, recorder: ListRecorder | None = None) -> tuple[ListRecorder, Decision]:
    """The first answer of the author."""
    recorder = recorder or ListRecorder(plan, ticking_clock())
    step = next_step(plan, recorder.history())
    assert isinstance(step, Ask)
    ask(step, plan, recorder, toolbox, fold(recorder.history()))
    return recorder, recorder.decisions[-1]


def works(provider: Provider, *commands: str) -> None:
    """The scripted model's session: these commands, then it submits."""
    for command in commands:
        calls_tool(provider, "shell", command=command)
    calls_tool(provider, "submit")


# --- what it leaves -----------------------------------------------------------------------------------------------


def test_the_folder_becomes_a_patch_and_the_session_is_kept_and_billed(provider: Provider) -> None:
    calls_tool(provider, "write", **WRITE)
    works(provider, "echo 'Wrote how to sort, since gaps hide in order.' > summary.txt")
    plan = learning_plan()
    recorder, decision = asked(plan, tools(plan, provider))
    assert decision.status is DecisionStatus.APPLIED, decision.error or decision.findings
    assert recorder.library(decision.after) == {f"{SLUG}/SKILL.md": File(SKILL.encode())}
    assert decision.summary == "Wrote how to sort, since gaps hide in order."
    assert [finding for finding in decision.findings if finding.severity == "error"] == []
    (call,) = recorder.calls
    assert (call.key, call.purpose, call.model) == (decision.call, "author", "litellm/openai/gpt-4.1-mini")
    reply = recorder.reply(call.key)
    assert reply is not None
    assert (reply.finish_reason, reply.usage) == ("stop", used(3))
    (trajectory,) = recorder.sessions[call.key]
    assert [step.source for step in trajectory.steps] == [Source.SYSTEM, Source.USER, *[Source.AGENT] * 3]
    assert trajectory.steps[1].message == call.request.messages[1]["content"]
    assert (trajectory.head.agent_name, (trajectory.head.extra or {})["turns"]) == ("shell", 3)
    assert len(provider.asked) == 3


def test_what_changed_and_what_is_gone_is_the_patch_and_what_stands_is_not(provider: Provider) -> None:
    plan = learning_plan()
    recorder = ListRecorder(plan, ticking_clock())
    text = "---\\nname: %s\\ndescription: Do %s. Use for %s.\\n---\\n\\n# %s\\n\\n1. Go.\\n"
    works(provider, f"for s in a b; do mkdir skills/$s; printf -- '{text}' $s $s $s $s > skills/$s/SKILL.md; done")
    asked(plan, tools(plan, provider), recorder)
    state = fold(recorder.history())
    provider.answers.clear()
    works(provider, "rm -r skills/a; echo '2. Check.' >> skills/b/SKILL.md; touch skills/b/SKILL.md")
    step = Ask(AuthorMode.REFLECT, FAMILY, None, 2, task=SEED)
    ask(step, plan, recorder, tools(plan, provider), state)
    decision = recorder.decisions[-1]
    assert decision.status is DecisionStatus.APPLIED, decision.findings
    assert decision.patch is not None
    assert (list(decision.patch.upsert_files), decision.patch.delete_paths) == (["b/SKILL.md"], ("a/SKILL.md",))
    assert set(recorder.library(decision.after)) == {"b/SKILL.md"}
    assert decision.summary == "shell wrote 1 files and deleted 1."


def test_nothing_written_changes_nothing(provider: Provider) -> None:
    works(provider, "ls -R")
    plan = learning_plan()
    recorder, decision = asked(plan, tools(plan, provider))
    assert decision.status is DecisionStatus.NO_OP
    assert recorder.library(decision.after) == {}


def test_a_patch_that_breaks_a_rule_is_refused_whole(provider: Provider) -> None:
    calls_tool(provider, "write", **WRITE)
    works(provider, "echo loose > skills/notes.md; echo hidden > skills/.cache")
    plan = learning_plan()
    recorder, decision = asked(plan, tools(plan, provider))
    assert decision.status is DecisionStatus.REJECTED
    broken = {finding.rule for finding in decision.findings if finding.severity == "error"}
    assert broken >= {"path-layout", "path-confinement"}
    assert recorder.library(decision.after) == {}


def test_links_and_binary_files_are_told_and_not_taken(provider: Provider) -> None:
    calls_tool(provider, "write", **WRITE)
    works(provider, f"cd skills/{SLUG} && ln -s /etc references && mkdir assets && printf '\\377\\0' > assets/logo.png")
    plan = learning_plan()
    recorder, decision = asked(plan, tools(plan, provider))
    assert decision.status is DecisionStatus.APPLIED
    assert set(recorder.library(decision.after)) == {f"{SLUG}/SKILL.md"}
    (told,) = [finding.message for finding in decision.findings if finding.rule == RULE]
    assert f"{SLUG}/references: a link" in told
    assert f"{SLUG}/assets/logo.png: binary, 2 bytes" in told


def test_a_folder_replaced_by_a_link_hands_in_nothing(provider: Provider, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "loot").mkdir(parents=True)
    (tmp_path / "elsewhere" / "loot" / "SKILL.md").write_text(SKILL)
    works(provider, f"rm -r skills && ln -s {tmp_path}/elsewhere skills")
    plan = learning_plan()
    _, decision = asked(plan, tools(plan, provider))
    assert decision.status is DecisionStatus.NO_OP
    assert [finding.message for finding in decision.findings if finding.rule == RULE] == ["not taken: skills: a link."]


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (Limits(max_turns=2), "TurnLimit"),
        (Limits(max_total_tokens=200), "TokenLimit"),
        (Limits(timeout_seconds=2), "AgentTimeout"),
    ],
)
def test_at_a_limit_what_lies_in_the_folder_counts_and_the_decision_says_so(
    provider: Provider, limits: Limits, told: str
) -> None:
    calls_tool(provider, "write", **WRITE)
    calls_tool(provider, "shell", command="sleep 1.2")  # and so on, for ever
    plan = learning_plan(author_limits=limits)
    recorder, decision = asked(plan, tools(plan, provider))
    assert decision.status is DecisionStatus.APPLIED
    (note,) = [finding for finding in decision.findings if finding.rule == RULE]
    assert note.severity == "warning"
    assert note.message.startswith(f"{told}: ")
    assert note.message.endswith("What lay in the folder then counts.")
    reply = recorder.reply(str(decision.call))
    assert reply is not None
    assert reply.finish_reason == told


# --- what it is given ---------------------------------------------------------------------------------------------


class Looks:
    """In the agent's place: keeps what it was given."""

    name, version = "shell", Shell.version

    def __init__(self) -> None:
        self.jobs: list[AgentJob] = []
        self.files: list[str] = []
        self.own: list[str] = []

    def needs(self, model: Any) -> Any:
        return Shell().needs(model)

    def run(self, job: AgentJob, sandbox: Any, model: Any, on_step: Any) -> AgentRun:
        self.jobs.append(job)
        self.files, self.own = sorted(sandbox.files(WORKSPACE)), sorted(sandbox.files(SKILLS))
        return AgentRun((), Usage(), 0)


def looked(plan: EpisodePlan, provider: Provider) -> Looks:
    agent = Looks()
    asked(plan, tools(plan, provider, author_agent=agent))
    return agent


def test_it_finds_the_seed_tasks_files_and_neither_tests_nor_solution(provider: Provider) -> None:
    plan = learning_plan()
    agent = looked(plan, provider)
    task = plan.task(SEED)
    assert agent.files == sorted(read_workspace_files(task))
    assert agent.own == []
    (job,) = agent.jobs
    assert job.task == task
    assert job.limits == plan.author_limits
    assert (job.library, job.skills) == (False, ())
    assert task.instruction.strip() in job.instruction
    assert "`skills/` is empty" in job.instruction
    assert "upsert_files" not in job.instruction
    assert plan.task(f"{FAMILY}-T2").instruction.strip() not in job.instruction


def test_of_further_seeds_it_is_told_the_texts_and_finds_no_files(provider: Provider) -> None:
    plan = learning_plan("one-shot@3")
    agent = looked(plan, provider)
    first, second, third = (plan.task(f"{FAMILY}-T{number}") for number in (1, 2, 3))
    assert agent.files == sorted(read_workspace_files(first))
    (job,) = agent.jobs
    assert job.task == first
    assert "of which you see 3 examples" in job.instruction
    for place, task in ((2, second), (3, third)):
        _, told = job.instruction.split(f"## Task {place} of 3\n")
        assert task.instruction.strip() in told
        assert all(f"- {name} (" in told for name in read_workspace_files(task))
        assert "What lies in the working directory is of the first task." in told
    assert plan.task(f"{FAMILY}-T4").instruction.strip() not in job.instruction


def test_skill_creator_has_a_skill_that_says_how_to_write_skills_and_no_second_round(provider: Provider) -> None:
    plan = learning_plan("skill-creator")
    agent = looked(plan, provider)
    assert agent.own == [f"{CREATOR}/SKILL.md"]
    (job,) = agent.jobs
    assert (job.library, job.skills) == (True, (CREATOR,))
    assert "Use it before you create" in job.descriptions[CREATOR]
    assert f"`{CREATOR}`, says how to write skills" in job.instruction
    calls_tool(provider, "write", **WRITE)
    works(provider)
    recorder = ListRecorder(plan, ticking_clock())
    asked(plan, tools(plan, provider), recorder)
    assert not isinstance(next_step(plan, recorder.history()), Ask)
    (first, *_) = provider.asked
    assert [tool["function"]["name"] for tool in first["tools"]] == ["shell", "read", "write", "skill", "submit"]


@pytest.mark.parametrize("protocol", [CONDITIONED, AGNOSTIC])
def test_a_corpus_lies_in_a_folder_and_the_tasks_files_beside_it_where_one_is_revealed(
    provider: Provider, protocol: str
) -> None:
    plan = plan_for("naive-prompt@2000", protocol, author_agent="shell", author_limits=author_limits(protocol))
    agent = looked(plan, provider)
    corpus = {f"corpus/{path.relative_to(HANDBOOK)}" for path in HANDBOOK.rglob("*") if path.is_file()}
    step = next_step(plan, ())
    assert isinstance(step, Ask)
    task = {f"task/{path}" for path in read_workspace_files(plan.task(step.task))} if step.task else set()
    assert set(agent.files) == corpus | task
    assert bool(task) is (protocol == CONDITIONED)
    assert agent.jobs[0].limits.max_turns == 45
    assert "budget: 2,000 tokens for the whole library" in agent.jobs[0].instruction
    assert agent.jobs[0].task.folder == Path("/nonexistent")


def test_a_library_over_the_generation_budget_is_refused(provider: Provider) -> None:
    calls_tool(provider, "write", **WRITE)
    works(provider, f"yes 'a rule' | head -n 2000 >> skills/{SLUG}/SKILL.md")
    plan = plan_for("naive-prompt@500", author_agent="shell", answers=1)
    _, decision = asked(plan, tools(plan, provider))
    assert "generation-budget" in {finding.rule for finding in decision.findings}
    assert decision.status is DecisionStatus.REJECTED


def test_an_episode_with_feedback_gives_the_trials_record_as_a_file_and_the_skills_as_they_are(
    provider: Provider,
) -> None:
    calls_tool(provider, "write", **WRITE)
    works(provider)
    plan = learning_plan("self-feedback")
    recorder = ListRecorder(plan, ticking_clock())
    advance(plan, recorder, tools(plan, provider))  # its first writing, the seed's trial, its answer to that
    slot = TrialSlot(Phase.ACQUISITION, SEED)
    due = Ask(AuthorMode.REFLECT, FAMILY, slot, 2, evidence=(slot,), task=SEED)
    agent = Looks()
    state = fold(recorder.history())
    ask(due, plan, recorder, tools(plan, provider, author_agent=agent), state)
    record = f"evidence/01-acquisition-{SEED}-0.md"
    assert {record, f"skills/{SLUG}/SKILL.md"} <= set(agent.files)
    instruction = agent.jobs[0].instruction
    assert f"- `{record}`: trial acquisition/{SEED}/0 (verdict not shown)" in instruction
    assert f"- `skills/{SLUG}/SKILL.md`" in instruction
    occasion = occasion_of(due, plan, recorder, state)
    assert occasion.evidence[0][1].text not in instruction


# --- the machine, the provider, the budget ------------------------------------------------------------------------


def test_a_committed_session_is_judged_and_never_made_again(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls_tool(provider, "write", **WRITE)
    works(provider)
    plan = learning_plan()
    recorder = JsonLinesRecorder(tmp_path / "record", plan, ticking_clock())
    monkeypatch.setattr(recorder, "decide", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        asked(plan, tools(plan, provider), recorder)
    recorder.close()
    again = JsonLinesRecorder(tmp_path / "record", plan, ticking_clock())
    _, decision = asked(plan, tools(plan, provider), again)
    assert decision.status is DecisionStatus.APPLIED
    assert len(provider.asked) == 2
    (trajectory,) = again.sessions[str(decision.call)]
    assert len(trajectory.steps) == 4
    again.close()


def test_a_session_that_its_provider_broke_off_is_begun_again_from_nothing(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls_tool(provider, "shell", command="mkdir -p skills/half; echo half > skills/half/SKILL.md")
    provider.fails(503, "overloaded")
    plan = learning_plan()
    recorder = ListRecorder(plan, ticking_clock())
    bills: list[Usage] = []
    monkeypatch.setattr(recorder, "bill_call", lambda key, usage, table: bills.append(usage))
    with pytest.raises(ModelUnavailable):
        asked(plan, tools(plan, provider), recorder)
    assert recorder.decisions == []
    assert bills[-1].known_tokens == 105
    provider.answers.clear()
    calls_tool(provider, "write", **WRITE)
    works(provider)
    _, decision = asked(plan, tools(plan, provider), recorder)
    assert decision.status is DecisionStatus.APPLIED
    assert set(recorder.library(decision.after)) == {f"{SLUG}/SKILL.md"}
    assert len(recorder.calls) == 2


def test_a_sandbox_that_cannot_be_had_is_no_answer(provider: Provider, tmp_path: Path) -> None:
    (tmp_path / "boxes").write_text("a file in the way")
    plan = learning_plan()
    recorder = ListRecorder(plan, ticking_clock())
    with pytest.raises(SandboxError):
        asked(plan, tools(plan, provider), recorder)
    assert recorder.decisions == []


def test_a_spent_budget_ends_the_session_without_an_answer(provider: Provider) -> None:
    calls_tool(provider, "shell", command="ls")
    seen: list[int] = []

    def budget(under_way: Usage) -> None:
        seen.append(under_way.known_tokens)
        if under_way.known_tokens >= 200:
            raise BudgetSpent("all of it")

    plan = learning_plan()
    recorder = ListRecorder(plan, ticking_clock())
    with pytest.raises(BudgetSpent):
        asked(plan, tools(plan, provider, budget=budget), recorder)
    assert seen == [0, 0, 105, 210]
    assert recorder.decisions == []


def test_what_an_interrupted_session_left_is_ended_by_the_next(provider: Provider) -> None:
    calls_tool(provider, "write", **WRITE)
    works(provider)
    plan = learning_plan()
    recorder = ListRecorder(plan, ticking_clock())
    step = next_step(plan, recorder.history())
    assert isinstance(step, Ask)
    orphan = local.open_sandbox(plan.task(SEED), name=session_name(plan, step))
    asked(plan, tools(plan, provider), recorder)
    assert not orphan.folder.exists()


def test_a_whole_episode_runs_and_every_answer_is_a_session(provider: Provider) -> None:
    calls_tool(provider, "write", **WRITE)
    calls_tool(provider, "submit")
    plan = learning_plan("self-feedback")
    recorder = ListRecorder(plan, ticking_clock())
    run_episode(plan, recorder, tools(plan, provider))
    assert [decision.mode for decision in recorder.decisions] == [AuthorMode.WRITE, AuthorMode.REFLECT]
    assert recorder.decisions[0].status is DecisionStatus.APPLIED
    assert recorder.decisions[1].status is DecisionStatus.NO_OP
    assert set(recorder.sessions) == {decision.call for decision in recorder.decisions}
    assert fold(recorder.history()).frozen is not None


def test_a_single_call_is_set_up_as_before_and_an_agent_with_all_that_it_is(provider: Provider) -> None:
    def author(**more: Any) -> Any:
        plan = learning_plan()
        setup = describe_setup(
            load_starter(),
            protocol=plan.protocol,
            agent=plan.agent,
            agent_model=plan.agent_model,
            author_model=plan.author_model,
            sandbox="local",
            feedback=plan.feedback,
            profile=plan.profile,
            answers=1,
            samples=1,
            limits=plan.limits,
            **more,
        )
        return setup["author"]

    assert "agent" not in author()
    told = author(author_agent="shell", author_limits=author_limits("skillgenbench"))["agent"]
    assert (told["name"], told["version"], told["prompts"]) == ("shell", Shell.version, "agent-author/1")
    assert told["limits"] == {
        "max_turns": 45,
        "max_output_tokens": 16_384,
        "max_total_tokens": None,
        "timeout_seconds": 1_800.0,
    }
