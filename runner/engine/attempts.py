"""One attempt at a trial, from an empty sandbox to the recorded result: the agent works, then the verifier; in a task
of several stages, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add

from runner.agents import Agent, AgentJob, AgentRun
from runner.authoring.contract.skill_file import read_descriptions
from runner.authoring.feedback import show_verdict
from runner.authoring.occasion import FeedbackLevel
from runner.base.digests import digest_json, manifest
from runner.base.errors import BudgetSpent, LeaseLost, SandboxError, SandboxRuined
from runner.base.text import join_ends
from runner.base.trees import slugs
from runner.base.types import (
    AttemptResult,
    Compaction,
    CompactionKind,
    Files,
    ModelReply,
    ModelRequest,
    Phase,
    Stage,
    Step,
    Task,
    Trajectory,
    TrajectoryKind,
    Usage,
    Verdict,
    choose_reward,
    is_success,
)
from runner.engine.model_calls import WatchedModel
from runner.engine.toolbox import Cleaner, Toolbox
from runner.evaluating.judged_artifact import Asked
from runner.models import Model, price_table_of
from runner.protocols.instruction import Trace, build_instruction
from runner.protocols.plan import EpisodePlan, RunTrial
from runner.protocols.recorder import JUDGE, Recorder
from runner.sandboxes import SKILLS, WORKSPACE, Sandbox
from runner.sandboxes.needs import Needs
from runner.suites.tasks.task_files import read_tree, read_workspace_files, script_command
from runner.trajectories.compaction import ShownVerdict, compact
from runner.trajectories.readers.skill_use import skill_uses
from runner.verifying.verifier import MAX_OUTPUT_CHARS, SOURCE, run_verifier

SECONDS_BETWEEN_BILLS = 1.0  # a program that reports all its steps at once is not billed step by step


@dataclass(slots=True)
class SessionWatcher:
    """Passes on what a session does while it runs, and bills what it has cost so far.

    Usage comes from answered calls, here or at a gateway; the agent's steps count only if no call reported any.
    """

    toolbox: Toolbox
    model: Model | None  # the session's model
    write_bill: Callable[[Usage, str], None]  # with the price list
    show_step: Callable[[Step], None]
    called: Usage | None = None
    reported: Usage = Usage()
    is_part: bool = False  # failed calls may have used more than is known
    billed_at: float = 0.0
    spent: BudgetSpent | None = None
    judge_queued: float = 0.0  # seconds that calls of a judging model waited for a free slot

    @property
    def usage(self) -> Usage:
        used = self.reported if self.called is None else self.called
        return used.in_part() if self.is_part else used

    def __call__(self, step: Step) -> None:
        self.reported += step.usage or Usage()
        if self.called is None and step.usage and time.monotonic() - self.billed_at >= SECONDS_BETWEEN_BILLS:
            self.bill()
        self.show_step(self.toolbox.clean.step(step))

    def note_answer(self, usage: Usage, is_part: bool = False) -> None:
        """Bill an answered call, or with `is_part` the known usage of a failed one."""
        self.is_part = self.is_part or is_part
        self.called = (self.called or Usage()) + usage
        self.bill()

    def bill(self) -> None:
        self.billed_at = time.monotonic()
        self.write_bill(self.usage, price_table_of(self.model, self.usage))

    def before_call(self) -> None:
        """Check the budget. BudgetSpent is kept too: a program in a sandbox only sees a refused call."""
        try:
            self.toolbox.budget(self.usage)
        except BudgetSpent as error:
            self.spent = error
            raise

    def require_budget(self) -> None:
        if self.spent is not None:
            raise self.spent

    def watched(self, key: str, recorder: Recorder | None) -> Model | None:
        """Wrap the model for the session's agent. With a recorder each call is kept, as `<key>/<number>`."""
        if self.model is None:
            return None
        return WatchedModel(self.model, key, self.toolbox.clean, self.note_answer, recorder)

    def needs(self, agent: Agent) -> Needs:
        """Return what the agent's sandbox must have, with a gateway that reports to this watcher."""
        return replace(
            agent.needs(self.model),
            before_call=self.before_call,
            after_call=self.note_answer,
            counted=self.toolbox.has_budget,
        )


MAX_LIBRARY_WRITES = 200  # paths named in the record of one attempt
ARTIFACTS = "/logs/artifacts"  # always given to a verifier in a container of its own
SETUP = "setup.sh"  # of a stage's workdir/, run before the agent


@dataclass(frozen=True, slots=True)
class Played:
    """What agent and verifier left. files_digest: of the workspace, before the verifier ran."""

    run: AgentRun
    verdict: Verdict
    agent_seconds: float | None
    verifier_seconds: float | None
    library_writes: tuple[str, ...]
    files_digest: str = ""
    stage_verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True, slots=True)
class Session:
    """Agent and verifier in one sandbox. with_digest: compute a digest of the files that the agent leaves?"""

    sandbox: Sandbox
    library: Files
    watcher: SessionWatcher
    judge: Asked | None
    toolbox: Toolbox
    with_digest: bool

    def play(self, job: AgentJob) -> Played:
        if job.task.stages:
            return self._play_stages(job)
        clean, began = self.toolbox.clean, time.monotonic()
        run = clean.run(self.toolbox.agent.run(job, self.sandbox, self.toolbox.agent_model, self.watcher))
        self.watcher.require_budget()
        ended = time.monotonic()
        writes = tuple(map(clean.text, self._library_writes()))
        left = digest_json(manifest(self.sandbox.files(WORKSPACE))) if self.with_digest else ""
        if run.verified is not None:
            found = run.verified
            return Played(run, clean.verdict(found.verdict), found.agent_seconds, found.verifier_seconds, writes, left)
        verifying = time.monotonic()
        verdict = clean.verdict(self._verify(job.task))
        return Played(run, verdict, ended - began, time.monotonic() - verifying, writes, left)

    def _verify(self, task: Task) -> Verdict:
        """Verify in the agent's sandbox, or in a separate one with the files that the task names."""
        place = task.verifier_place
        if place is None:
            return run_verifier(task, self.sandbox, self.judge)
        apart = replace(task, machine=place.machine)
        name = str(self.sandbox.handle.get("name", ""))
        other = self.toolbox.sandboxes.open_sandbox(apart, name=name, needs=Needs(image_skills=True))
        try:

            def bring() -> None:
                for path in dict.fromkeys((ARTIFACTS, *place.artifacts)):
                    self.sandbox.copy_to(other, path)

            return run_verifier(apart, other, self.judge, bring=bring)
        finally:
            other.close()

    def _library_writes(self) -> tuple[str, ...]:
        """Return the paths that the agent added, changed or removed in its private copy.
        Nothing may still be writing at that time."""
        self.sandbox.end_processes()
        before, after = manifest(self.library), manifest(self.sandbox.files(SKILLS))
        paths = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        more = len(paths) - MAX_LIBRARY_WRITES
        return (*paths[:MAX_LIBRARY_WRITES], *([f"[... {more:,} more ...]"] if more > 0 else []))

    # --- several stages -------------------------------------------------------------------------------------------

    def _play_stages(self, job: AgentJob) -> Played:
        """Run the stages in turn, as Harbor does, until one misses its minimum. Processes of an agent do not outlive
        its stage: the verifier must be alone."""
        played: list[tuple[Stage, Played]] = []
        ending = ""
        for stage in job.task.stages:
            try:
                ending = self._prepare(stage, is_first=not played)
            except SandboxRuined as error:  # by the agent of an earlier stage
                ending = str(error)
            if ending and not played:
                raise SandboxError(f"{job.task.key}: {ending}")
            if ending:
                break
            one = self.play(replace(job, task=stage.task, instruction=_instruct(stage, job)))
            played.append((stage, one))
            if ending := _find_shortfall(stage, one.verdict):
                break
        left_out = len(job.task.stages) - len(played)
        note = f"{ending}: {left_out} of {len(job.task.stages)} stages did not run" if left_out else ""
        return _join(job, played, note)

    def _prepare(self, stage: Stage, *, is_first: bool) -> str:
        """Put a stage's files in and run its setup. Return why it cannot begin, or ""."""
        if not is_first:
            self.sandbox.resume()
        folder = stage.task.folder / "workdir"
        files = read_tree(folder) if folder.is_dir() else {}
        self.sandbox.put(WORKSPACE, files)
        if SETUP not in files:
            return ""
        command = script_command(SETUP, files[SETUP])
        done = self.sandbox.execute(command, timeout_seconds=stage.task.machine.build_timeout_seconds)
        if done.exit_code == 0:
            return ""
        return f"{SETUP} of the stage {stage.name} ended with exit code {done.exit_code}: {done.output[-500:].strip()}"


def _instruct(stage: Stage, job: AgentJob) -> str:
    """Return the stage's own text with the condition's additions to that of the task."""
    added = job.instruction.removeprefix(job.task.instruction.rstrip())
    text = stage.task.instruction
    return f"{text.rstrip()}{added}" if added.strip() else text


def _find_shortfall(stage: Stage, verdict: Verdict) -> str:
    """Return which reward is below the stage's minimum, or ""."""
    rewards = _name_rewards(verdict)
    for name, least in stage.min_reward.items():
        reward = rewards.get(name)
        if reward is None or reward < least:
            return f"{stage.name}: {name} is {'missing' if reward is None else f'{reward:g}'}, below {least:g}"
    return ""


def _name_rewards(verdict: Verdict) -> dict[str, float]:
    known = {name: value for name, value in verdict.rewards.items() if value is not None}
    return known if verdict.reward is None else {**known, "reward": verdict.reward}


def _join(job: AgentJob, played: Sequence[tuple[Stage, Played]], note: str) -> Played:
    """Join all stages into one attempt."""
    runs = [one.run for _, one in played]
    turns = [run.turns for run in runs if run.turns is not None]
    return Played(
        run=AgentRun(
            trajectories=tuple(
                _place_in_stage(trajectory, stage.name) for stage, one in played for trajectory in one.run.trajectories
            ),
            usage=reduce(add, (run.usage for run in runs), Usage()),
            turns=sum(turns) if len(turns) == len(runs) else None,
            failure=next((run.failure for run in runs if run.failure), None),
            queued_seconds=sum(run.queued_seconds for run in runs),
        ),
        verdict=join_verdicts(
            [(stage.name, one.verdict) for stage, one in played],
            last_decides=job.task.last_stage_decides,
            note=note,
        ),
        agent_seconds=sum(one.agent_seconds or 0.0 for _, one in played),
        verifier_seconds=sum(one.verifier_seconds or 0.0 for _, one in played),
        library_writes=played[-1][1].library_writes,
        files_digest=played[-1][1].files_digest,
        stage_verdicts=tuple(
            replace(one.verdict, source=f"{one.verdict.source} stage {stage.name}"[:100]) for stage, one in played
        ),
    )


def _place_in_stage(trajectory: Trajectory, stage: str) -> Trajectory:
    """Name it as in imports: the main one after its stage, the others below it."""
    head, is_main = trajectory.head, trajectory.head.kind is TrajectoryKind.MAIN
    return replace(
        trajectory,
        head=replace(
            head,
            kind=TrajectoryKind.STAGE if is_main else head.kind,
            name=stage if is_main else f"{stage}/{head.name}",
            parent=None if is_main else stage if head.parent in (None, "main") else f"{stage}/{head.parent}",
            extra={**(head.extra or {}), "stage": stage},
        ),
    )


def join_verdicts(verdicts: Sequence[tuple[str, Verdict]], *, last_decides: bool, note: str = "") -> Verdict:
    """Join the verdicts of the stages as Harbor does: the mean of each reward over the stages that ran (0 for a stage
    without it), or the last stage's verdict. `note`: why some did not run. Then the task is not a success."""
    named = [_name_rewards(verdict) for _, verdict in verdicts]
    names = sorted({name for rewards in named for name in rewards})
    rewards = {name: sum(each.get(name, 0.0) for each in named) / len(named) for name in names}
    if last_decides:
        rewards = named[-1]
    reward = choose_reward(rewards)
    outputs = (f"=== {stage}\n{verdict.output}" for stage, verdict in verdicts)
    notes = tuple(f"{stage}: {line}" for stage, verdict in verdicts for line in verdict.notes)
    return Verdict(
        source=SOURCE,
        success=False if note and reward is not None else is_success(reward),
        reward=reward,
        outcome=_mean([verdict.outcome for _, verdict in verdicts]),
        process=_mean([verdict.process for _, verdict in verdicts]),
        overall=_mean([verdict.overall for _, verdict in verdicts]),
        checks=tuple(
            replace(check, name=f"{stage}: {check.name}") for stage, verdict in verdicts for check in verdict.checks
        ),
        rewards={} if set(rewards) == {"reward"} else dict(rewards),  # the one that counts anyway
        output=join_ends("\n".join(outputs), "", 0, MAX_OUTPUT_CHARS)[0],
        verifier_digest=digest_json([verdict.verifier_digest for _, verdict in verdicts]),
        duration_seconds=sum(verdict.duration_seconds or 0.0 for _, verdict in verdicts),
        notes=(*([note] if note else []), *notes),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean; None if one value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def run_trial(step: RunTrial, library: Files, plan: EpisodePlan, recorder: Recorder, toolbox: Toolbox) -> None:
    """Run and record one attempt with a private copy of `library`. An exception abandons it unscored and is raised."""
    if toolbox.agent_model is not None:
        toolbox.budget(Usage())  # start nothing that could not make its first call
    attempt = recorder.start_attempt(step.slot, snapshot=step.snapshot, retrieved=step.retrieved)
    show = partial(recorder.live_step, attempt)
    watcher = SessionWatcher(toolbox, toolbox.agent_model, partial(recorder.bill, attempt), show)
    try:
        result = _attempt(step, attempt, library, watcher, plan, recorder)
    except LeaseLost:
        raise
    except BaseException as error:
        recorder.abandon_attempt(attempt, error, usage=watcher.usage)
        raise
    recorder.finish_attempt(attempt, result)


def _traces(step: RunTrial, plan: EpisodePlan, recorder: Recorder) -> list[Trace]:
    """Return the traces for the condition. Rough ones show verdict and reward.
    Rich ones show as much as an author sees."""
    kind, traces = plan.condition.retrieved_as, []
    for slot in step.retrieved:
        verdict = recorder.verdict(slot)
        shown = show_verdict(verdict, plan.shown) if kind is CompactionKind.RICH else ShownVerdict(verdict)
        traces.append(Trace(slot, shown, recorder.compaction(slot, kind).text))
    return traces


def _attempt(
    step: RunTrial, attempt: str, library: Files, watcher: SessionWatcher, plan: EpisodePlan, recorder: Recorder
) -> AttemptResult:
    task, place = plan.task(step.slot.task), f"{step.slot}/{recorder.attempt_number(attempt)}"
    toolbox = watcher.toolbox
    instruction = build_instruction(
        task,
        library=step.library,
        frozen=step.slot.phase in (Phase.DEPLOYMENT, Phase.REPLAY),
        traces=_traces(step, plan, recorder),
        skills=toolbox.sandboxes.SKILLS_PATH,
        notice=plan.notice,
    )
    job = AgentJob(
        task,
        instruction,
        skills=slugs(library),
        seed=step.slot.seed(plan.run_seed),
        limits=plan.limits,
        before_call=watcher.before_call,
        library=step.library,
        descriptions=read_descriptions(library),
        advised=plan.notice == "ours",
    )
    model = watcher.watched(f"agent/{place}", recorder if plan.record_calls else None)
    needs = watcher.needs(toolbox.agent)
    with toolbox.place():
        started_at = toolbox.clock()
        with closing(toolbox.sandboxes.open_sandbox(task, name=attempt, needs=needs)) as sandbox:
            recorder.note_sandbox(attempt, sandbox.handle)
            sandbox.put(WORKSPACE, read_workspace_files(task))
            sandbox.put(SKILLS, library)
            judge = _judge_with(f"{JUDGE}/{place}", watcher, recorder)
            tools = replace(toolbox, agent_model=model)
            played = Session(sandbox, library, watcher, judge, tools, bool(plan.condition.agent)).play(job)
    run, queued = played.run, watcher.judge_queued
    uses = [
        use
        for number, trajectory in enumerate(run.trajectories)
        for use in skill_uses(trajectory.steps, mounted=job.skills, trajectory=trajectory.head.name)
        if number == 0 or use.step is not None  # mounted once per attempt
    ]
    judging, working = played.verifier_seconds, played.agent_seconds
    return AttemptResult(
        trajectories=run.trajectories,
        verdict=played.verdict,
        compactions=_compactions(run, job, played.verdict, plan.shown, toolbox.clean),
        skill_uses=tuple(uses),
        usage=run.usage,
        turns=run.turns,
        started_at=started_at,
        finished_at=toolbox.clock(),
        agent_seconds=None if working is None else max(working - run.queued_seconds, 0.0),
        verifier_seconds=None if judging is None else max(judging - queued, 0.0),
        failure=run.failure,
        library_writes=played.library_writes,
        price_table=price_table_of(model, run.usage),
        files_digest=played.files_digest,
        stage_verdicts=played.stage_verdicts,
        queued_seconds=run.queued_seconds + queued,
    )


def _judge_with(key: str, watcher: SessionWatcher, recorder: Recorder) -> Asked | None:
    """Return the judging model for the verdict of an attempt.
    Its calls are always kept and billed separately: a judge's usage is not the agent's."""
    toolbox = watcher.toolbox
    if toolbox.judge_model is None:
        return None
    kept = WatchedModel(toolbox.judge_model, key, toolbox.clean, lambda usage, is_part: None, recorder, JUDGE)

    def ask(request: ModelRequest) -> ModelReply:
        toolbox.budget(watcher.usage)
        reply = kept.complete(request)
        watcher.judge_queued += reply.queued_seconds
        return reply

    return ask


def _compactions(
    run: AgentRun, job: AgentJob, verdict: Verdict, feedback: FeedbackLevel, clean: Cleaner
) -> tuple[Compaction, ...]:
    """Build a rich one for the author, with as much of the verdict as the feedback level allows, and a rough one for
    raw-trajectory. Both have the task's own instruction without the additions of the condition."""
    task = job.task
    was_extended = job.instruction != task.instruction
    own = (TrajectoryKind.MAIN, TrajectoryKind.CONTINUATION, TrajectoryKind.STAGE)  # without subagents
    rendering = partial(
        compact,
        tuple(step for each in run.trajectories if each.head.kind in own for step in each.steps),
        title=task.key,
        instruction=clean.text(task.instruction.rstrip()) if was_extended else "",
        ending=run.failure,
    )
    rich = rendering(CompactionKind.RICH, shown=show_verdict(verdict, feedback))
    return rich, rendering(CompactionKind.ROUGH, shown=ShownVerdict(verdict))
