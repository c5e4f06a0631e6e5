"""The engine: what it records, what it refuses, and that it can die anywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner import protocols
from runner.agents import AgentJob, AgentRun
from runner.authoring.occasion import FeedbackLevel
from runner.base.digests import library_digest
from runner.base.errors import (
    FrozenLibrary,
    ImageError,
    ModelRefused,
    ModelUnavailable,
    NotOnThisMachine,
    SandboxError,
    TrialsLeft,
)
from runner.base.trees import slugs
from runner.base.types import (
    AuthorMode,
    CompactionKind,
    Environment,
    Failure,
    File,
    ModelReply,
    ModelRequest,
    Phase,
    TrialSlot,
    Usage,
    UseKind,
)
from runner.engine.engine import advance, next_step, perform, retry_delay, run_episode, seal
from runner.engine.recorders import (
    AttemptAbandoned,
    CallFinished,
    DecisionMade,
    JsonLinesRecorder,
    ListRecorder,
    Transaction,
)
from runner.protocols.audit import audit
from runner.protocols.conditions import CONDITIONS
from runner.protocols.history import family_skills, fold
from runner.protocols.plan import Ask, EpisodePlan, SeedSkill
from runner.protocols.recorder import AGENT_WROTE, Decided, Entry, Frozen, Refused, Seeded, Skipped, TrialDone
from runner.trajectories.compaction import VERDICT_NOT_SHOWN
from tests.cases import every
from tests.runner.small_episode import (
    FAMILIES,
    RUN_SEED,
    FixedAgent,
    FixedAuthor,
    events_of,
    shown_files,
    shown_trials,
    small_environment,
    small_plan,
    small_toolbox,
    ticking_clock,
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return small_environment(tmp_path_factory.mktemp("tasks"))


def _run(environment: Environment, condition: str, **changes: Any) -> tuple[ListRecorder, FixedAgent, FixedAuthor]:
    plan = small_plan(condition, environment, **changes)
    recorder, agent, author = ListRecorder(plan, ticking_clock()), FixedAgent(), FixedAuthor()
    run_episode(plan, recorder, small_toolbox(agent, author))
    return recorder, agent, author


# --- what each side is given --------------------------------------------------------------------------------------


@every(*CONDITIONS)
def test_what_the_agent_found_mounted_is_what_the_record_says(condition: str, environment: Environment) -> None:
    recorder, agent, _ = _run(environment, condition)
    trials = events_of(recorder, TrialDone)
    assert [library_digest(files) for files in agent.mounted] == [trial.snapshot for trial in trials]
    assert [job.skills for job in agent.jobs] == [slugs(files) for files in agent.mounted]
    assert [job.seed for job in agent.jobs] == [trial.slot.seed(RUN_SEED) for trial in trials]


@every(*[name for name, condition in CONDITIONS.items() if condition.has_author])
def test_what_the_author_was_prompted_with_is_what_the_record_says(condition: str, environment: Environment) -> None:
    recorder, _, author = _run(environment, condition)
    assert len(author.prompts) == len(recorder.decisions)
    history = recorder.history()
    places = [place for place, entry in enumerate(history) if isinstance(entry.event, Decided)]
    for prompt, decision, place in zip(author.prompts, recorder.decisions, places, strict=True):
        assert shown_trials(prompt) == [evidence.slot.task for evidence in decision.evidence]
        skills = family_skills(history[:place], recorder.library).get(decision.family, ())
        before = recorder.library(decision.before)
        assert shown_files(prompt) == {
            path: file.content.decode() for path, file in before.items() if path.partition("/")[0] in skills
        }


@every(*[name for name, condition in CONDITIONS.items() if condition.has_author])
def test_the_author_is_told_nothing_of_another_family_but_what_a_trace_itself_holds(
    condition: str, environment: Environment
) -> None:
    _, _, author = _run(environment, condition)
    for prompt in author.prompts:
        before, _, rest = prompt.partition("## Evidence")
        told = before + rest.partition("## Skills of this family")[2]
        (own,) = {key for key in FAMILIES if key in before}
        (other,) = FAMILIES.keys() - {own}
        assert other not in told
        assert FAMILIES[other] not in told


def test_no_skill_leaves_the_task_s_text_as_it_is(environment: Environment) -> None:
    _, agent, _ = _run(environment, "no-skill")
    assert all(job.instruction == job.task.instruction for job in agent.jobs)


def test_a_library_condition_announces_the_library_and_names_no_skill(environment: Environment) -> None:
    _, agent, _ = _run(environment, "curated-always")
    for job in agent.jobs:
        assert job.instruction.startswith(job.task.instruction)
        assert "## Skill library" in job.instruction
        assert not any(slug in job.instruction for slug in FAMILIES.values())
    assert ["frozen" in job.instruction for job in agent.jobs] == [False] * 6 + [True] * 12


def test_without_a_notice_the_library_is_there_and_the_instruction_is_the_task_s(environment: Environment) -> None:
    _, agent, _ = _run(environment, "curated-static", notice="none")
    assert all(job.instruction == job.task.instruction for job in agent.jobs)
    assert all(job.library and job.skills and job.descriptions and not job.advised for job in agent.jobs)


def test_raw_trajectory_shows_rough_traces_with_verdict_and_no_checks(environment: Environment) -> None:
    recorder, agent, _ = _run(environment, "raw-trajectory")
    for job, trial in zip(agent.jobs, events_of(recorder, TrialDone), strict=True):
        if not trial.retrieved:
            assert job.instruction == job.task.instruction
        for slot in trial.retrieved:
            verdict = recorder.verdict(slot)
            assert verdict is not None
            outcome = "passed" if verdict.success else "failed"
            assert f"### Trial {slot} ({outcome}, reward {verdict.reward:.2f})" in job.instruction
            assert recorder.compaction(slot, CompactionKind.ROUGH).text.rstrip() in job.instruction


@pytest.mark.parametrize("condition", ["raw-trajectory", "selfgen-always"])
def test_a_compaction_leaves_out_what_the_condition_told_the_agent_and_says_so(
    environment: Environment, condition: str
) -> None:
    recorder, agent, _ = _run(environment, condition)
    for job, trial in zip(agent.jobs, events_of(recorder, TrialDone), strict=True):
        added = len(job.instruction) - len(job.task.instruction.rstrip())
        steps = recorder.results[trial.slot].trajectories[0].steps
        for kind in CompactionKind:
            compaction = recorder.compaction(trial.slot, kind)
            assert "## Skill library" not in compaction.text
            assert "## Earlier trials" not in compaction.text
            told = job.task.instruction.rstrip()
            marked = f"{told}\n[... {added:,} characters left out ...]\n"
            assert (marked if job.instruction != job.task.instruction else told) in compaction.text
            assert all(span.end <= len(job.task.instruction) for span in compaction.spans if span.step == 1)
        assert steps[0].message == job.instruction


@pytest.mark.parametrize("feedback", ["none", "binary"])
def test_the_author_s_evidence_holds_no_more_of_the_verdict_than_its_level(
    environment: Environment, feedback: str
) -> None:
    recorder, _, _ = _run(environment, "curated-always", feedback=feedback)
    for trial in events_of(recorder, TrialDone):
        text = recorder.compaction(trial.slot, CompactionKind.RICH).text.lower()
        assert "0.25" not in text
        assert "1.00" not in text
        if feedback == "none":
            assert "fail" not in text.replace("failed/", "")
            assert "passed" not in text
            assert text.startswith(f"# trajectory of {trial.slot.task.lower()}: {VERDICT_NOT_SHOWN}\n")


def test_skills_that_were_read_are_recorded_with_their_step(environment: Environment) -> None:
    recorder, _, _ = _run(environment, "curated-static")
    uses = recorder.results[TrialSlot(Phase.DEPLOYMENT, "E1-LS1-T4")].skill_uses
    assert {(use.skill, use.kind) for use in uses} == {
        (slug, kind) for slug in FAMILIES.values() for kind in (UseKind.MOUNTED, UseKind.READ)
    }
    assert all(use.step is not None for use in uses if use.kind is UseKind.READ)


# --- the library --------------------------------------------------------------------------------------------------


def test_what_the_agent_writes_into_the_library_is_recorded_and_lost(environment: Environment) -> None:
    plan = small_plan("curated-static", environment)
    recorder = ListRecorder(plan, ticking_clock())
    agent = FixedAgent(writes={"tidy-tables/SKILL.md": "mine now", "planted/SKILL.md": "new"})
    run_episode(plan, recorder, small_toolbox(agent))
    paths = ("planted/SKILL.md", "tidy-tables/SKILL.md")
    trials = events_of(recorder, TrialDone)
    assert events_of(recorder, Refused) == [Refused(trial.slot, paths, AGENT_WROTE) for trial in trials]
    assert recorder.results[trials[0].slot].library_writes == paths
    assert all("planted/SKILL.md" not in files for files in agent.mounted)


def test_the_seal_is_made_of_the_setup_and_the_frozen_files(environment: Environment) -> None:
    recorder, _, _ = _run(environment, "selfgen-always")
    (frozen,) = events_of(recorder, Frozen)
    digest = library_digest(recorder.library(frozen.snapshot))
    assert frozen == Frozen(digest, digest, "0" * 64, seal("0" * 64, digest))


def test_it_stops_when_the_frozen_files_are_not_what_was_sealed(environment: Environment) -> None:
    plan = small_plan("curated-static", environment)
    recorder, toolbox = ListRecorder(plan, ticking_clock()), small_toolbox()
    while not events_of(recorder, Frozen):
        perform(_due(recorder), plan, recorder, toolbox)
    snapshot = fold(recorder.history()).snapshot
    recorder._libraries[snapshot] = {**recorder.library(snapshot), "tidy-tables/SKILL.md": File(b"changed on disk")}
    for _ in range(2):  # a retry changes nothing and repeats no entry
        with pytest.raises(FrozenLibrary, match="was frozen"):
            advance(plan, recorder, toolbox)
    (refused,) = events_of(recorder, Refused)
    assert refused.slot == TrialSlot(Phase.DEPLOYMENT, "E1-LS1-T4")
    assert not [trial for trial in events_of(recorder, TrialDone) if trial.slot.phase is Phase.DEPLOYMENT]


@pytest.mark.parametrize(
    "write",
    [SeedSkill("E1-LS1"), Ask(AuthorMode.REVISE, "E1-LS1", TrialSlot(Phase.ACQUISITION, "E1-LS1-T3"), 2)],
    ids=["seed", "answer"],
)
def test_a_write_after_the_freeze_is_refused_and_recorded(environment: Environment, write: SeedSkill | Ask) -> None:
    recorder, _, author = _run(environment, "curated-always")
    before, prompts = recorder.history(), len(author.prompts)
    with pytest.raises(FrozenLibrary, match="was not taken"):
        perform(write, recorder.plan, recorder, small_toolbox(author=author))
    (entry,) = recorder.history()[len(before) :]
    assert isinstance(entry.event, Refused)
    assert fold(recorder.history()).snapshot == fold(before).snapshot
    assert len(author.prompts) == prompts


@pytest.mark.parametrize("in_file", [False, True], ids=["list", "json lines"])
def test_a_recorder_itself_refuses_to_write_to_a_frozen_library(
    environment: Environment, tmp_path: Path, in_file: bool
) -> None:
    plan = small_plan("curated-always", environment)
    recorder = JsonLinesRecorder(tmp_path / "episode.jsonl", plan) if in_file else ListRecorder(plan)
    run_episode(plan, recorder, small_toolbox())
    before, decision = list(recorder.transactions), recorder.decisions[-1]
    content = (tmp_path / "episode.jsonl").read_bytes() if in_file else b""
    with pytest.raises(FrozenLibrary, match="seed of E1-LS1 was not taken"):
        recorder.seed("E1-LS1", {"tidy/SKILL.md": File(b"late")})
    with pytest.raises(FrozenLibrary, match=f"decision {decision.number} was not taken"):
        recorder.decide(decision, {"tidy/SKILL.md": File(b"late")})
    assert recorder.transactions == before
    if isinstance(recorder, JsonLinesRecorder):
        assert (tmp_path / "episode.jsonl").read_bytes() == content
        recorder.close()


def test_a_seed_adds_to_what_earlier_families_left(environment: Environment) -> None:
    recorder, _, _ = _run(environment, "curated-always-tier3")
    second = events_of(recorder, Seeded)[1]
    library = recorder.library(second.snapshot)
    assert slugs(library) == ("merge-logs", "tidy-tables")
    assert any(path.startswith("tidy-tables/references/") for path in library)


# --- trouble ------------------------------------------------------------------------------------------------------


def test_a_dead_sandbox_leaves_an_abandoned_attempt_and_no_score(environment: Environment) -> None:
    plan = small_plan("no-skill", environment)
    recorder = ListRecorder(plan, ticking_clock())
    with pytest.raises(SandboxError):
        advance(plan, recorder, small_toolbox(FixedAgent(dies_at=lambda job: True)))
    assert recorder.history() == ()
    assert [(gone.error_type, gone.message, gone.usage) for gone in recorder.abandoned] == [
        ("SandboxError", "the container is gone", Usage(10, 0, 5))
    ]
    assert advance(plan, recorder, small_toolbox())
    assert list(recorder.started) == ["acquisition-E1-LS1-T1-0-attempt-1", "acquisition-E1-LS1-T1-0-attempt-2"]


def test_it_retries_infrastructure_with_growing_delays_and_then_gives_up(environment: Environment) -> None:
    plan = small_plan("no-skill", environment)
    recorder, waited = ListRecorder(plan, ticking_clock()), []
    with pytest.raises(SandboxError):
        run_episode(plan, recorder, small_toolbox(FixedAgent(dies_at=lambda job: True)), retries=3, sleep=waited.append)
    assert waited[:3] == [2.0, 4.0, 8.0]
    assert [recorder.started[gone.attempt].slot.task for gone in recorder.abandoned] == [
        *["E1-LS1-T1"] * 4,
        "E1-LS1-T2",  # one look whether it is the trial or the machine
    ]


def test_a_trial_at_which_the_machine_keeps_failing_does_not_stop_those_that_do_not_need_it(
    environment: Environment,
) -> None:
    plan = small_plan("no-skill", environment)
    recorder = ListRecorder(plan, ticking_clock())
    agent = FixedAgent(dies_at=lambda job: job.task.key == "E1-LS1-T2")
    with pytest.raises(TrialsLeft, match="acquisition/E1-LS1-T2/0: SandboxError: the container is gone"):
        run_episode(plan, recorder, small_toolbox(agent), retries=3, sleep=lambda _: None)
    assert len(recorder.abandoned) == 4
    assert len(events_of(recorder, TrialDone)) == 11


def test_a_provider_that_is_away_is_away_for_every_trial(environment: Environment) -> None:
    plan = small_plan("no-skill", environment)
    recorder = ListRecorder(plan, ticking_clock())
    with pytest.raises(ModelUnavailable):
        run_episode(plan, recorder, small_toolbox(_Stopped(ModelUnavailable("529"))), retries=2, sleep=lambda _: None)
    assert len(recorder.abandoned) == 3
    assert not recorder.trials_set_aside()


class _Stopped(FixedAgent):
    """Cannot begin at some tasks."""

    def __init__(self, error: Exception, *tasks: str) -> None:
        super().__init__()
        self.error, self.tasks = error, tasks

    def run(self, job: AgentJob, *arguments: Any) -> AgentRun:
        if not self.tasks or job.task.key in self.tasks:
            raise self.error
        return super().run(job, *arguments)


BROKEN = ImageError("Dockerfile: line 2: COPY data.csv: no such file")


@every("no-skill", "curated-static", "selfgen-zero-shot")
@every(BROKEN, ModelRefused("too long"))
def test_where_nothing_is_learned_a_hopeless_trial_is_tried_once_and_the_others_go_on(
    error: Exception, condition: str, environment: Environment
) -> None:
    undisturbed, _, _ = _run(environment, condition)
    plan, recorder = undisturbed.plan, ListRecorder(undisturbed.plan, ticking_clock())
    author = FixedAuthor()
    with pytest.raises(TrialsLeft) as left:
        run_episode(plan, recorder, small_toolbox(_Stopped(error, "E1-LS1-T1", "E1-LS2-T5"), author))
    first, second = TrialSlot(Phase.ACQUISITION, "E1-LS1-T1"), TrialSlot(Phase.DEPLOYMENT, "E1-LS2-T5")
    assert list(left.value.reasons) == [first, second]
    assert str(left.value).startswith(f"{first}: {type(error).__name__}: {error} (and 1 more trial)\n{second}: ")
    assert [recorder.started[gone.attempt].slot for gone in recorder.abandoned] == [first, second]
    assert audit(plan, recorder.history()) == []
    reopened = ListRecorder(plan, ticking_clock())
    for transaction in recorder.transactions:
        reopened.apply(transaction)
    run_episode(plan, reopened, small_toolbox(author=author))  # once the cause is mended
    assert {done.slot: done for done in events_of(reopened, TrialDone)} == {
        done.slot: done for done in events_of(undisturbed, TrialDone)
    }
    assert events_of(reopened, Frozen) == events_of(undisturbed, Frozen)
    assert audit(plan, reopened.history()) == []


@pytest.mark.parametrize("condition", ["raw-trajectory", "curated-revision", "selfgen-always"])
def test_where_later_trials_learn_from_it_a_hopeless_trial_stops_the_episode(
    environment: Environment, condition: str
) -> None:
    plan = small_plan(condition, environment)
    recorder = ListRecorder(plan, ticking_clock())
    with pytest.raises(ImageError):
        run_episode(plan, recorder, small_toolbox(_Stopped(BROKEN, "E1-LS1-T2")))
    assert [done.slot.task for done in events_of(recorder, TrialDone)] == ["E1-LS1-T1"]
    assert len(recorder.abandoned) == 1


def test_after_the_freeze_a_hopeless_trial_stops_no_other(environment: Environment) -> None:
    plan = small_plan("selfgen-always", environment)
    recorder = ListRecorder(plan, ticking_clock())
    with pytest.raises(TrialsLeft):
        run_episode(plan, recorder, small_toolbox(_Stopped(BROKEN, "E1-LS1-T4")))
    planned = protocols.slots(plan)
    done = [each.slot for each in events_of(recorder, TrialDone)]
    assert set(planned) - set(done) == {TrialSlot(Phase.DEPLOYMENT, "E1-LS1-T4")}


def test_what_is_missing_here_is_missing_for_every_trial(environment: Environment) -> None:
    plan = small_plan("no-skill", environment)
    recorder = ListRecorder(plan, ticking_clock())
    with pytest.raises(NotOnThisMachine):
        run_episode(plan, recorder, small_toolbox(_Stopped(NotOnThisMachine("no such program"))))
    assert len(recorder.abandoned) == 1


def test_a_provider_s_own_delay_is_kept_to() -> None:
    assert retry_delay(1, ModelUnavailable("busy", 40.0)) == 40.0
    assert retry_delay(30) == 300.0


class _FailingAuthor(FixedAuthor):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def complete(self, request: ModelRequest) -> ModelReply:
        raise self.error


@pytest.mark.parametrize("error", [ModelUnavailable("529"), ModelRefused("no such model")])
def test_a_call_that_fails_is_recorded_and_decides_nothing(environment: Environment, error: Exception) -> None:
    plan = small_plan("selfgen-always", environment)
    recorder, agent = ListRecorder(plan, ticking_clock()), FixedAgent()
    with pytest.raises(type(error)):
        advance(plan, recorder, small_toolbox(agent, _FailingAuthor(error)))
    last = recorder.transactions[-1]
    assert isinstance(last, CallFinished)
    assert last.reply is None
    assert last.error == f"{type(error).__name__}: {error}"
    assert not recorder.decisions
    advance(plan, recorder, small_toolbox(agent))
    assert [decision.mode for decision in recorder.decisions[:1]] == [AuthorMode.INDUCE]
    assert len(agent.jobs) == 2  # the first trial was not run again


def test_a_trial_that_an_operator_skips_is_passed_over(environment: Environment) -> None:
    plan = small_plan("selfgen-always", environment)
    recorder = ListRecorder(plan, ticking_clock())
    recorder.skip(Skipped(TrialSlot(Phase.ACQUISITION, "E1-LS1-T1"), "the image cannot be built"))
    run_episode(plan, recorder, small_toolbox())
    assert plan.condition.is_tainted_by(fold(recorder.history()).skipped)
    assert {decision.family for decision in recorder.decisions} == {"E1-LS2"}
    assert audit(plan, recorder.history()) == []


def test_a_trial_that_is_known_to_be_hopeless_is_skipped_before_its_turn(environment: Environment) -> None:
    plan = small_plan("selfgen-always", environment)
    recorder = ListRecorder(plan, ticking_clock())
    advance(plan, recorder, small_toolbox())
    slot = TrialSlot(Phase.DEPLOYMENT, "E1-LS2-T6")
    recorder.skip(Skipped(slot, "its image does not exist"))
    run_episode(plan, recorder, small_toolbox())
    assert slot not in {done.slot for done in events_of(recorder, TrialDone)}
    assert not plan.condition.is_tainted_by(fold(recorder.history()).skipped)
    assert audit(plan, recorder.history()) == []
    twice = (*recorder.history(), Entry(len(recorder.history()) + 1, Skipped(slot, "again")))
    assert audit(plan, twice)[0].startswith(f"entry {len(twice)}: Skipped")


# --- one step at a time -------------------------------------------------------------------------------------------


def test_advance_does_one_trial_with_its_authoring(environment: Environment) -> None:
    plan = small_plan("curated-revision", environment)
    recorder, toolbox = ListRecorder(plan, ticking_clock()), small_toolbox()
    lengths = [[]]
    while advance(plan, recorder, toolbox):
        lengths.append([])
        assert len(events_of(recorder, TrialDone)) == len(lengths) - 1
        assert not isinstance(next_step(plan, recorder.history()), Ask)
    assert len(lengths) == 18


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


@pytest.mark.parametrize(
    "condition", ["raw-trajectory", "curated-always-tier3", "selfgen-zero-shot", "selfgen-revision"]
)
def test_an_episode_killed_at_any_transaction_goes_on_to_the_same_history(
    environment: Environment, condition: str
) -> None:
    whole, _, _ = _run(environment, condition)
    plan = whole.plan
    for killed_after in range(0, len(whole.transactions), 3):
        dying = _DyingRecorder(plan, killed_after)
        author = FixedAuthor()
        with pytest.raises(_Killed):
            run_episode(plan, dying, small_toolbox(author=author))
        reopened = ListRecorder(plan, ticking_clock())
        for transaction in dying.transactions:
            reopened.apply(transaction)
        run_episode(plan, reopened, small_toolbox(author=author))
        assert reopened.history() == whole.history()
        assert reopened.decisions == whole.decisions
        replies = [t for t in reopened.transactions if isinstance(t, CallFinished)]
        assert len({reply.key for reply in replies}) == len(replies) == len(whole.decisions)


def test_a_committed_reply_is_judged_without_a_second_call(environment: Environment) -> None:
    whole, _, _ = _run(environment, "selfgen-always")
    place = next(n for n, t in enumerate(whole.transactions) if isinstance(t, DecisionMade))
    reopened = ListRecorder(whole.plan, ticking_clock())
    for transaction in whole.transactions[:place]:
        reopened.apply(transaction)
    due = _due(reopened)
    assert isinstance(due, Ask)
    perform(due, whole.plan, reopened, small_toolbox(author=_FailingAuthor(AssertionError("asked twice"))))
    assert reopened.decisions == whole.decisions[:1]


def test_equal_seeds_give_equal_records(environment: Environment) -> None:
    first, _, _ = _run(environment, "selfgen-always")
    second, _, _ = _run(environment, "selfgen-always")
    assert first.history() == second.history()
    assert first.decisions == second.decisions


def _due(recorder: ListRecorder) -> Any:
    step = next_step(recorder.plan, recorder.history())
    assert step is not None
    return step


class _StoppedAgent(FixedAgent):
    """Reaches its limit of turns in every trial."""

    def run(self, job: AgentJob, *given: Any) -> AgentRun:
        return replace(super().run(job, *given), failure=Failure("TurnLimit", "Not submitted after 40 turns."))


@pytest.mark.parametrize("feedback", ["none", "binary", "rich", "process"])
def test_the_author_learns_at_every_feedback_level_how_the_agent_ended(
    environment: Environment, feedback: FeedbackLevel
) -> None:
    author = FixedAuthor()
    plan = small_plan("selfgen-always", environment, feedback=feedback)
    recorder = ListRecorder(plan, ticking_clock())
    while not author.prompts:
        advance(plan, recorder, small_toolbox(_StoppedAgent(), author))
    assert author.prompts[0].count("The agent did not finish: TurnLimit. Not submitted after 40 turns.") == 1


def test_an_agent_is_given_the_descriptions_of_the_skills_that_are_mounted(environment: Environment) -> None:
    _, agent, _ = _run(environment, "curated-static")
    assert agent.jobs[-1].descriptions == {
        slug: f"How to do {slug}. Use when the task is about {slug}." for slug in ("merge-logs", "tidy-tables")
    }
