"""One attempt at a trial, from an empty sandbox to the recorded result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from runner.agents import AgentJob, AgentRun
from runner.agents.skill_list import read_descriptions
from runner.authoring.feedback import without_answers
from runner.base.errors import LeaseLost
from runner.base.types import (
    AttemptResult,
    Compaction,
    CompactionKind,
    Files,
    ModelReply,
    ModelRequest,
    Phase,
    SkillUse,
    Step,
    Trajectory,
    TrajectoryKind,
    TrialSlot,
    Usage,
    Verdict,
)
from runner.engine.cleaning import Cleaner
from runner.engine.host_calls import JUDGE, WatchedModel
from runner.engine.session_watch import SessionWatcher
from runner.engine.sessions import Session
from runner.engine.toolbox import Toolbox
from runner.evaluating.judged_artifact import Asked
from runner.models import Model, price_table_of
from runner.protocols.history import slugs
from runner.protocols.instruction import Trace, build_instruction
from runner.protocols.plan import EpisodePlan
from runner.protocols.recorder import Recorder
from runner.protocols.steps import RunTrial
from runner.sandboxes import SKILLS, WORKSPACE, Sandbox
from runner.suites.tasks.task_files import read_workspace_files
from runner.trajectories.compaction import compact
from runner.trajectories.readers.skill_use import skill_uses


def run_trial(step: RunTrial, library: Files, plan: EpisodePlan, recorder: Recorder, toolbox: Toolbox) -> None:
    """Run and record one attempt with a private copy of `library`. An exception abandons it unscored and is raised."""
    if toolbox.agent_model is not None:
        toolbox.budget(Usage())  # start nothing that could not make its first call
    attempt = recorder.start_attempt(step.slot, snapshot=step.snapshot, retrieved=step.retrieved)
    watcher = _Watcher(attempt, recorder, toolbox)
    try:
        job = _job(step, plan, recorder, library, toolbox.sandboxes.SKILLS_PATH, watcher.before_call)
        watched = replace(toolbox, agent_model=watcher.watch_model(step, plan))
        result = _attempt(step.slot, job, library, watcher, plan, watched)
    except LeaseLost:
        raise
    except BaseException as error:
        recorder.abandon_attempt(attempt, error, usage=watcher.usage)
        raise
    recorder.finish_attempt(attempt, result)


class _Watcher(SessionWatcher):
    """Watches one attempt."""

    def __init__(self, attempt: str, recorder: Recorder, toolbox: Toolbox) -> None:
        super().__init__(
            toolbox, toolbox.agent_model, partial(recorder.bill, attempt), partial(recorder.live_step, attempt)
        )
        self.attempt, self.recorder = attempt, recorder

    def watch_model(self, step: RunTrial, plan: EpisodePlan) -> Model | None:
        key = f"agent/{step.slot}/{self.recorder.attempt_number(self.attempt)}"
        return self.watched(key, self.recorder if plan.record_calls else None)

    def judge(self, slot: TrialSlot) -> Asked | None:
        """The judging model for the verdict of this attempt. Its calls are always kept and billed separately: a
        judge's usage is not the agent's."""
        model = self.toolbox.judge_model
        if model is None:
            return None
        key = f"{JUDGE}/{slot}/{self.recorder.attempt_number(self.attempt)}"
        kept = WatchedModel(model, key, self.toolbox.clean, lambda usage, is_part: None, self.recorder, JUDGE)

        def ask(request: ModelRequest) -> ModelReply:
            self.toolbox.budget(self.usage)
            reply = kept.complete(request)
            self.judge_queued += reply.queued_seconds
            return reply

        return ask

    def note_opened(self, sandbox: Sandbox) -> None:
        self.recorder.note_sandbox(self.attempt, sandbox.handle)


def _job(
    step: RunTrial, plan: EpisodePlan, recorder: Recorder, library: Files, skills: str, before_call: Callable[[], None]
) -> AgentJob:
    task = plan.task(step.slot.task)
    instruction = build_instruction(
        task,
        library=step.library,
        frozen=step.slot.phase in (Phase.DEPLOYMENT, Phase.REPLAY),
        traces=_traces(step, plan, recorder),
        skills=skills,
        notice=plan.notice,
    )
    return AgentJob(
        task,
        instruction,
        slugs(library),
        step.slot.seed(plan.run_seed),
        plan.limits,
        before_call,
        step.library,
        read_descriptions(library),
        advised=plan.notice == "ours",
    )


def _traces(step: RunTrial, plan: EpisodePlan, recorder: Recorder) -> list[Trace]:
    """Traces for the condition. Rough ones show verdict and reward. Rich ones show as much as an author sees."""
    kind, traces = plan.condition.retrieved_as, []
    for slot in step.retrieved:
        verdict = recorder.verdict(slot)
        if kind is CompactionKind.RICH and verdict is not None:
            verdict = select_verdict(verdict, plan.shown)
        success, reward = (None, None) if verdict is None else (verdict.success, verdict.reward)
        told = kind is CompactionKind.ROUGH or plan.shown != "none"
        traces.append(Trace(slot, success, reward, recorder.compaction(slot, kind).text, told))
    return traces


def _attempt(
    slot: TrialSlot, job: AgentJob, library: Files, watcher: _Watcher, plan: EpisodePlan, toolbox: Toolbox
) -> AttemptResult:
    started_at = toolbox.clock()
    needs = watcher.needs(toolbox.agent)
    sandbox = toolbox.sandboxes.open_sandbox(job.task, name=watcher.attempt, needs=needs)
    try:
        watcher.note_opened(sandbox)
        sandbox.put(WORKSPACE, read_workspace_files(job.task))
        sandbox.put(SKILLS, library)
        session = Session(sandbox, library, watcher, watcher.judge(slot), toolbox, bool(plan.condition.agent))
        played = session.play(job)
    finally:
        sandbox.close()
    run = played.run
    return AttemptResult(
        trajectories=run.trajectories,
        verdict=played.verdict,
        compactions=_compactions(run, job, played.verdict, plan.shown, toolbox.clean),
        skill_uses=_skill_uses(run.trajectories, job.skills),
        usage=run.usage,
        turns=run.turns,
        started_at=started_at,
        finished_at=toolbox.clock(),
        agent_seconds=_subtract(played.agent_seconds, run.queued_seconds),
        verifier_seconds=_subtract(played.verifier_seconds, watcher.judge_queued),
        failure=run.failure,
        library_writes=played.library_writes,
        price_table=price_table_of(toolbox.agent_model, run.usage),
        files_digest=played.files_digest,
        stage_verdicts=played.stage_verdicts,
        queued_seconds=run.queued_seconds + watcher.judge_queued,
    )


def _subtract(seconds: float | None, queued: float) -> float | None:
    return None if seconds is None else max(seconds - queued, 0.0)


def _compactions(
    run: AgentRun, job: AgentJob, verdict: Verdict, feedback: str, clean: Cleaner
) -> tuple[Compaction, ...]:
    """Build a rich one for the author, with as much of the verdict as the feedback level allows, and a rough one for
    raw-trajectory. Both have the task's own instruction without the additions of the condition."""
    task = job.task
    told_more = job.instruction != task.instruction
    rendering = partial(
        compact,
        _main_steps(run.trajectories),
        title=task.key,
        instruction=clean.text(task.instruction.rstrip()) if told_more else "",
        ending=run.failure,
    )
    checks = feedback in ("rich", "process")
    rich = rendering(
        CompactionKind.RICH,
        verdict=select_verdict(verdict, feedback),
        with_checks=checks,
        verdict_shown=feedback != "none",
    )
    rough = rendering(CompactionKind.ROUGH, verdict=verdict, with_checks=False)
    return rich, rough


def select_verdict(verdict: Verdict, feedback: str) -> Verdict | None:
    """The part of a verdict that a feedback level allows in the author's evidence."""
    if feedback == "none":
        return None
    if feedback == "binary":
        return Verdict(source=verdict.source, success=verdict.success)
    return replace(without_answers(verdict), output="")


def _main_steps(trajectories: Sequence[Trajectory]) -> tuple[Step, ...]:
    """The agent's own line of work: the main trajectory and its continuations, without subagents."""
    own = (TrajectoryKind.MAIN, TrajectoryKind.CONTINUATION, TrajectoryKind.STAGE)
    return tuple(step for trajectory in trajectories if trajectory.head.kind in own for step in trajectory.steps)


def _skill_uses(trajectories: Iterable[Trajectory], mounted: tuple[str, ...]) -> tuple[SkillUse, ...]:
    uses: list[SkillUse] = []
    for number, trajectory in enumerate(trajectories):
        found = skill_uses(trajectory.steps, mounted=mounted, trajectory=trajectory.head.name)
        uses.extend(use for use in found if number == 0 or use.step is not None)  # mounted once per attempt
    return tuple(uses)
