"""An attempt inside its sandbox: the agent works, then the verifier; in a task of several stages, in turns."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

from runner.agents import AgentJob, AgentRun
from runner.base.digests import digest_json, manifest
from runner.base.errors import SandboxError, SandboxRuined
from runner.base.text import join_ends
from runner.base.types import Files, Stage, Task, Trajectory, TrajectoryKind, Usage, Verdict
from runner.engine.session_watch import SessionWatcher
from runner.engine.toolbox import Toolbox
from runner.evaluating.judged_artifact import Asked
from runner.sandboxes import SKILLS, WORKSPACE, Sandbox
from runner.sandboxes.needs import Needs
from runner.suites.tasks.task_files import read_tree, script_command
from runner.verifying.verifier import FULL_REWARD, MAX_OUTPUT_CHARS, SOURCE, run_verifier

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
        """Paths the agent added, changed or removed in its private copy. Nothing may still be writing when we look."""
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
    """The stage's own text with the condition's additions to that of the task."""
    added = job.instruction.removeprefix(job.task.instruction.rstrip())
    text = stage.task.instruction
    return f"{text.rstrip()}{added}" if added.strip() else text


def _find_shortfall(stage: Stage, verdict: Verdict) -> str:
    """The reward below the stage's minimum, or ""."""
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
    """All stages as one attempt."""
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
    reward = rewards.get("reward", next(iter(rewards.values())) if len(rewards) == 1 else None)
    outputs = (f"=== {stage}\n{verdict.output}" for stage, verdict in verdicts)
    notes = tuple(f"{stage}: {line}" for stage, verdict in verdicts for line in verdict.notes)
    return Verdict(
        source=SOURCE,
        success=None if reward is None else reward >= FULL_REWARD and not note,
        reward=reward,
        outcome=_mean([verdict.outcome for _, verdict in verdicts]),
        process=_mean([verdict.process for _, verdict in verdicts]),
        overall=_mean([verdict.overall for _, verdict in verdicts]),
        checks=tuple(
            replace(check, name=f"{stage}: {check.name}") for stage, verdict in verdicts for check in verdict.checks
        ),
        rewards=_without_reward(rewards),
        output=join_ends("\n".join(outputs), "", 0, MAX_OUTPUT_CHARS)[0],
        verifier_digest=digest_json([verdict.verifier_digest for _, verdict in verdicts]),
        duration_seconds=sum(verdict.duration_seconds or 0.0 for _, verdict in verdicts),
        notes=(*([note] if note else []), *notes),
    )


def _without_reward(rewards: Mapping[str, float]) -> dict[str, float]:
    """Leave out the rewards if there is only the one that counts anyway."""
    return {} if set(rewards) == {"reward"} else dict(rewards)


def _mean(values: Sequence[float | None]) -> float | None:
    """None if one of them is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
