"""An author that is an agent: for each answer one session in a fresh sandbox, and the folder it leaves as the patch.

What a session did is committed as the reply to its call, with its trajectories, before it is judged. A limit ends the
session and not the answer: the folder then counts as it is. A program that crashes has answered badly. If the sandbox
or the provider is unavailable, that is a failure of the machine: a new session begins.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from runner.agents import PROGRAM_FAILED, Agent, AgentJob, AgentRun
from runner.agents.skill_list import read_descriptions
from runner.authoring.agent_prompts import CORPUS, FOLDER, SUMMARY, AuthorKit, author_kit, below
from runner.authoring.author import judge_reply
from runner.authoring.author_prompts import chat
from runner.authoring.folder_patch import changed_texts, explain_too_much, name_left_out, write_patch
from runner.authoring.material import text_of
from runner.authoring.occasion import Occasion, PatchJudgement
from runner.authoring.proposal import slug_of
from runner.base.digests import digest_json, manifest
from runner.base.encoding import encode
from runner.base.errors import SandboxRuined, SetupError
from runner.base.trees import Tree
from runner.base.types import Files, Finding, Machine, ModelReply, ModelRequest, Step, Task, Trajectory, TrajectoryKind
from runner.engine.author_calls import AUTHOR, AuthorCalls
from runner.engine.generator_step import FAILED
from runner.engine.session_watch import SessionWatcher
from runner.models import Model
from runner.protocols.history import slugs
from runner.protocols.plan import EpisodePlan
from runner.protocols.steps import Ask
from runner.sandboxes import SKILLS, WORKSPACE, Sandbox

RULE = "author-session"
SETUP_SECONDS = 60.0
MEMORY_MB = 4_096  # of a sandbox that no task describes; programs on node want more than the default
MAX_SUMMARY_CHARS = 1_000
_NOWHERE = Path("/nonexistent")  # the synthetic task has no folder


def answer_by_agent(step: Ask, occasion: Occasion, plan: EpisodePlan, calls: AuthorCalls) -> ModelReply:
    """Return the reply on record, or the result of a session now. InfrastructureError: begin it again."""
    agent = calls.toolbox.author_agent
    if agent is None:
        raise SetupError(f"{plan.condition.name} needs the author agent {plan.author_agent}")
    kit = author_kit(occasion, calls.toolbox.prompts.instruct(occasion))
    session = _AuthorSession(step, occasion, plan, calls, agent, kit)
    request = request_for(plan, agent, kit, seed=step.seed(plan.run_seed))
    return calls.reply(step.key, AUTHOR, request, session.answer, session.list_trajectories)


def judge_session(occasion: Occasion, reply: ModelReply) -> PatchJudgement:
    if reply.finish_reason == FAILED:
        return PatchJudgement.failure(reply.text)
    judgement = judge_reply(occasion, reply)
    notes = (Finding(RULE, "", note, "warning") for note in reply.notes)
    return replace(judgement, findings=(*judgement.findings, *notes))


def session_name(plan: EpisodePlan, step: Ask) -> str:
    """The name of an answer's sandbox, which lets a successor find what an interrupted session left."""
    return f"author-{digest_json([plan.episode, step.key])[:32]}"


def request_for(plan: EpisodePlan, agent: Agent, kit: AuthorKit, *, seed: int) -> ModelRequest:
    """The request for the record: who works within which limits, the files by name and digest, the instruction."""
    told = {
        "agent": agent.name,
        "version": agent.version,
        "limits": {name: value for name, value in encode(plan.author_limits).items() if name != "type"},
        FOLDER: manifest(kit.skills),
        "files": manifest(kit.material),
        "own skills": manifest(kit.own_skills),
        **({"corpus": {"files": len(kit.corpus), "digest": digest_json(manifest(kit.corpus))}} if kit.corpus else {}),
    }
    system = f"An agent was given these files (digest, mode) and what follows as its instruction.\n\n{json.dumps(told, indent=1)}\n"
    return ModelRequest(chat(system, kit.instruction), seed=seed)


@dataclass(slots=True)
class _AuthorSession:
    """One session. Its trajectories are known after it has ended."""

    step: Ask
    occasion: Occasion
    plan: EpisodePlan
    calls: AuthorCalls
    agent: Agent
    kit: AuthorKit
    trajectories: tuple[Trajectory, ...] = ()

    def list_trajectories(self) -> tuple[Trajectory, ...]:
        return self.trajectories

    def answer(self, model: Model, request: ModelRequest) -> ModelReply:
        toolbox, key = self.calls.toolbox, self.step.key
        watcher = SessionWatcher(toolbox, model, partial(self.calls.recorder.bill_call, key), _nobody_watches)
        name = session_name(self.plan, self.step)
        toolbox.sandboxes.end_named(name)
        task = _place_of(self.occasion)
        sandbox = toolbox.sandboxes.open_sandbox(task, name=name, needs=watcher.needs(self.agent))
        try:
            before = self._furnish(sandbox)
            job = self._job(task, str(request.messages[-1]["content"]), watcher)
            run = toolbox.clean.run(self.agent.run(job, sandbox, watcher.watched(key, None), watcher))
            watcher.require_budget()
            self.trajectories = tuple(_with_turns(run))
            reply = self._reply(run, sandbox, before)
            return replace(reply, usage=run.usage, model=model.name, queued_seconds=run.queued_seconds)
        finally:
            sandbox.close()

    def _furnish(self, sandbox: Sandbox) -> Files:
        """Put everything in. Return the folder's content, which may include files of the image."""
        sandbox.execute(f"mkdir -p {FOLDER}", timeout_seconds=SETUP_SECONDS)
        kit = self.kit
        sandbox.put(WORKSPACE, {**kit.material, **below(CORPUS, kit.corpus), **below(FOLDER, kit.skills)})
        sandbox.put(SKILLS, self.kit.own_skills)
        return sandbox.tree(WORKSPACE, FOLDER).files

    def _job(self, task: Task, instruction: str, watcher: SessionWatcher) -> AgentJob:
        own = self.kit.own_skills
        return AgentJob(
            task,
            instruction,
            slugs(own),
            self.step.seed(self.plan.run_seed),
            self.plan.author_limits,
            watcher.before_call,
            bool(own),
            read_descriptions(own),
        )

    def _reply(self, run: AgentRun, sandbox: Sandbox, before: Files) -> ModelReply:
        failure = run.failure
        try:
            sandbox.end_processes()  # nothing may still be writing when we look
            # SandboxError if the machine failed: a removed container would look like an emptied folder.
            sandbox.execute("true", timeout_seconds=SETUP_SECONDS)
            if failure is not None and failure.type == PROGRAM_FAILED:
                return ModelReply(f"{self.agent.name}: {failure.message}", finish_reason=FAILED)
            tree = sandbox.tree(WORKSPACE, FOLDER)
            said = sandbox.tree(WORKSPACE, names=frozenset({SUMMARY}))
        except SandboxRuined as error:
            return ModelReply(f"{self.agent.name} left a sandbox that cannot be read: {error}", finish_reason=FAILED)
        written, deleted, left_out = changed_texts(before, tree)
        deleted = [path for path in deleted if path in self.kit.skills]
        if too_much := explain_too_much(written, self.agent.name):
            return ModelReply(too_much, finish_reason=FAILED)
        notes = []
        if failure is not None:
            notes.append(f"{failure.type}: {failure.message} What lay in the folder then counts.")
        if left_out:
            notes.append(f"not taken: {name_left_out(left_out)}")
        summary = _read_summary(said) or f"{self.agent.name} wrote {len(written):,} files and deleted {len(deleted):,}."
        text = write_patch(summary, written, deleted, self._operation(written))
        return ModelReply(text, finish_reason=failure.type if failure else "stop", notes=tuple(notes))

    def _operation(self, written: dict[str, str]) -> str:
        """The operation, which a single call names with its files. A folder shows only whether a skill is new."""
        if self.occasion.mode.names_skills:
            return ""
        known = {slug_of(path) for path in self.occasion.library}
        return "create" if {slug_of(path) for path in written} - known else "revise"


def _nobody_watches(step: Step) -> None:
    """A session is shown only when it has ended; its cost is shown earlier."""


def _place_of(occasion: Occasion) -> Task:
    """The seed task's own machine and files, as its agent has them. With a corpus or without a task, a bare sandbox."""
    if occasion.task is not None and not occasion.corpus:
        return occasion.task
    return Task(
        key=f"author-{occasion.family.key}",
        title="",
        environment="",
        family=occasion.family.key,
        role=None,
        ordinal=1,
        instruction="",
        digest="",
        folder=_NOWHERE,
        machine=Machine(memory_mb=MEMORY_MB),
    )


def _with_turns(run: AgentRun) -> Iterator[Trajectory]:
    for trajectory in run.trajectories:
        is_main = trajectory.head.kind is TrajectoryKind.MAIN
        told = {**(trajectory.head.extra or {}), **({"turns": run.turns} if is_main and run.turns is not None else {})}
        yield replace(trajectory, head=replace(trajectory.head, extra=told or None))


def _read_summary(tree: Tree) -> str:
    with contextlib.suppress(KeyError):
        return " ".join((text_of(tree.files[SUMMARY]) or "").split())[:MAX_SUMMARY_CHARS]
    return ""
