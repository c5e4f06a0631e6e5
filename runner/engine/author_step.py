"""One answer of the skill author: what it is shown, the call, and the decision from its reply.

An author that is an agent has one session in a fresh sandbox for each answer, and the folder it leaves is the patch. What a
session did is committed as the reply to its call, with its trajectories, before it is judged. A limit ends the session and
not the answer: the folder then counts as it is. A program that crashes has answered badly. If the sandbox or the provider is
unavailable, that is a failure of the machine: a new session begins.

Before a corrected skill is written, the student asks, the teacher answers, and a program may block the answer. Every turn of
that talk is a committed call, so it happens only once, and the advice follows from the record alone.
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
from runner.authoring.author import judge_reply, request_for
from runner.authoring.author_prompts import chat
from runner.authoring.author_reply import changed_texts, explain_too_much, name_left_out, write_patch
from runner.authoring.chosen_prompts import ADVICE, QUESTIONS, ChosenPrompts
from runner.authoring.fitting import findings_of
from runner.authoring.material import text_of
from runner.authoring.occasion import Occasion, PatchJudgement, slug_of
from runner.authoring.teaching import (
    MOST_TRIES,
    Advice,
    advice_key,
    advice_of,
    compare_with_reference,
    leak_finding,
    questions_key,
    questions_of,
    render_questions,
    student_messages,
    teacher_messages,
)
from runner.base.digests import digest_json, library_digest, manifest
from runner.base.encoding import encode
from runner.base.errors import ContextExceeded, SandboxRuined, SetupError
from runner.base.trees import Tree
from runner.base.types import (
    AuthorMode,
    CompactionKind,
    Decision,
    DecisionStatus,
    Evidence,
    Files,
    Finding,
    Machine,
    ModelReply,
    ModelRequest,
    Step,
    Task,
    Trajectory,
    TrajectoryKind,
    TrialSlot,
    derive_seed,
)
from runner.engine.attempts import SessionWatcher
from runner.engine.generator_step import FAILED, answer_by_generator, judge_output
from runner.engine.model_calls import AUTHOR, STUDENT, TEACHER, AuthorCalls
from runner.engine.toolbox import Toolbox
from runner.models import Model
from runner.protocols.history import EpisodeState, family_skills, slugs
from runner.protocols.plan import Ask, EpisodePlan
from runner.protocols.recorder import Decided, Recorder
from runner.sandboxes import SKILLS, WORKSPACE, Sandbox
from runner.suites.tasks.task_files import read_tree


def advise(occasion: Occasion, slot: TrialSlot, run_seed: int, calls: AuthorCalls) -> Advice:
    """The advice after the failed trial of `slot`. Every answer to the occasion gets the same."""
    family = occasion.family.key
    questions, findings = _ask_student(occasion, slot, run_seed, calls)
    refused = ""
    for number in range(1, MOST_TRIES + 1):
        key = advice_key(family, slot, number)
        build = partial(_request_advice, calls, questions, refused, derive_seed(run_seed, key, TEACHER))
        reply = calls.ask_fitting(key, TEACHER, occasion, build)
        findings += findings_of(reply, "the teacher's")
        advice = advice_of(reply.text)
        leak = leak_finding(compare_with_reference(advice, occasion, questions), number)
        if leak is None:
            return Advice(advice, tuple(findings))
        findings.append(leak)
        refused = advice
    return Advice("", tuple(findings))


def _ask_student(
    occasion: Occasion, slot: TrialSlot, run_seed: int, calls: AuthorCalls
) -> tuple[tuple[str, ...], list[Finding]]:
    """The student's questions, or none if the teacher's prompt has no place for them."""
    if not calls.toolbox.prompts.asks_questions:
        return (), []
    asked = questions_key(occasion.family.key, slot)
    build = partial(_request_questions, calls, derive_seed(run_seed, asked, STUDENT))
    reply = calls.ask_fitting(asked, STUDENT, occasion, build)
    return questions_of(reply.text), [*findings_of(reply, "the student's")]


def _request_questions(calls: AuthorCalls, seed: int, occasion: Occasion, max_tokens: int) -> ModelRequest:
    chosen = calls.toolbox.prompts
    return calls.request(chosen.fill(QUESTIONS, occasion) or student_messages(occasion), seed, max_tokens)


def _request_advice(
    calls: AuthorCalls, questions: tuple[str, ...], refused: str, seed: int, occasion: Occasion, max_tokens: int
) -> ModelRequest:
    first = calls.toolbox.prompts.fill(ADVICE, occasion, questions=render_questions(questions))
    return calls.request(teacher_messages(occasion, questions, refused, first), seed, max_tokens)


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
    request = session_request(plan, agent, kit, seed=step.seed(plan.run_seed))
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


def session_request(plan: EpisodePlan, agent: Agent, kit: AuthorKit, *, seed: int) -> ModelRequest:
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


# A result of the author, like an agent's ContextLimit: asking again or waiting would not help, and an episode that
# stopped here would lose the trials that the other decisions are for.
TOO_LONG = "the prompt does not fit the author model's context window, with no evidence left to cut"
BUDGET_SPENT = "the generation budget is spent: no answer was asked for"
LEFT_OUT = "left out by "  # begins the error of an answer that an operator skipped


def ask(step: Ask, plan: EpisodePlan, recorder: Recorder, toolbox: Toolbox, state: EpisodeState) -> None:
    """Ask, judge the reply and record the decision. A reply on record is judged unchanged."""
    occasion = occasion_of(step, plan, recorder, state)
    left = tokens_left(step, plan, recorder, toolbox)
    if left is not None and left <= 0 and recorder.reply(step.key) is None:
        judgement = PatchJudgement.failure(BUDGET_SPENT)
    else:
        try:
            judgement = _ask_author(step, occasion, plan, recorder, toolbox, left)
        except ContextExceeded as error:
            judgement = PatchJudgement.failure(f"{TOO_LONG}: {error}")
    recorder.decide(_decision(step, judgement, state), judgement.files)


def leave_out(step: Ask, recorder: Recorder, state: EpisodeState, *, who: str, why: str) -> None:
    """Record that this answer was skipped, as an operator decided. The library stays as it is."""
    judgement = PatchJudgement.failure(f"{LEFT_OUT}{who}: {why}")
    recorder.decide(_decision(step, judgement, state), None)


def _ask_author(
    step: Ask, occasion: Occasion, plan: EpisodePlan, recorder: Recorder, toolbox: Toolbox, left: int | None
) -> PatchJudgement:
    calls = AuthorCalls(recorder, toolbox, plan.condition.name, plan.author_sampling)
    if step.mode is AuthorMode.OUTSIDE:
        return judge_output(occasion, answer_by_generator(step, occasion, plan, calls, left))
    occasion, told = _add_advice(step, occasion, plan, calls)
    if plan.author_agent is not None:
        judgement = judge_session(occasion, answer_by_agent(step, occasion, plan, calls))
        return replace(judgement, findings=(*judgement.findings, *told))
    reply = calls.ask_fitting(step.key, AUTHOR, occasion, partial(_request, step, plan, toolbox.prompts), left)
    judgement = judge_reply(occasion, reply)
    return replace(judgement, findings=(*judgement.findings, *told, *findings_of(reply, "the author's")))


def tokens_left(step: Ask, plan: EpisodePlan, recorder: Recorder, toolbox: Toolbox) -> int | None:
    """Output tokens that the author may still write for this library. An answer without usage counts by its length.

    None: no limit. An author in a sandbox (an agent, or a program without a model) is limited by the size of its
    result, not by its number of tries.
    """
    limit, author = plan.condition.generation_tokens, toolbox.author_model
    if limit is None or plan.author_agent is not None:
        return None
    if step.mode is AuthorMode.OUTSIDE and (author is None or author.preset is None):
        return None
    decided = [entry.event for entry in recorder.history() if isinstance(entry.event, Decided)]
    earlier = [Ask(event.mode, event.family, event.after_trial, event.answer).key for event in decided]
    replies = [reply for key in earlier if key != step.key and (reply := recorder.reply(key)) is not None]
    return limit - sum(reply.usage.known_output or -(-len(reply.text) // 4) for reply in replies)


def occasion_of(step: Ask, plan: EpisodePlan, recorder: Recorder, state: EpisodeState) -> Occasion:
    """Read from the record what the author is asked about."""
    own = family_skills(recorder.history(), recorder.library)
    corpus = plan.environment.corpus
    return Occasion(
        mode=step.mode,
        family=plan.family(step.family),
        tier3_required=step.tier3_required,
        after_trial=step.after_trial,
        feedback=plan.shown,
        profile=plan.profile,
        library=recorder.library(state.snapshot),
        family_slugs=own.get(step.family, ()),
        evidence=tuple(
            (shown, recorder.compaction(shown.slot, shown.compaction), recorder.verdict(shown.slot))
            for shown in _evidence(step)
        ),
        reserved_slugs=tuple(family.slug for family in plan.environment.families if family.key != step.family),
        task=plan.task(step.task) if step.task else None,
        further=tuple(map(plan.task, step.further)),
        corpus={} if corpus is None or not step.mode.names_skills else read_tree(corpus.folder),
        budget_tokens=plan.condition.generation_tokens,
        in_folder=plan.author_agent is not None,
    )


def _add_advice(
    step: Ask, occasion: Occasion, plan: EpisodePlan, calls: AuthorCalls
) -> tuple[Occasion, tuple[Finding, ...]]:
    """Add a teacher's advice, if the mode has one, and the findings about that advice."""
    if step.mode is not AuthorMode.CORRECT or step.after_trial is None:
        return occasion, ()
    advice = advise(occasion, step.after_trial, plan.run_seed, calls)
    return replace(occasion, advice=advice.text), advice.findings


def _request(step: Ask, plan: EpisodePlan, chosen: ChosenPrompts, occasion: Occasion, room: int) -> ModelRequest:
    seed, temperature = step.seed(plan.run_seed), plan.author_sampling.temperature
    return request_for(occasion, seed=seed, temperature=temperature, max_tokens=room, chosen=chosen)


def _evidence(step: Ask) -> tuple[Evidence, ...]:
    return tuple(Evidence(slot, CompactionKind.RICH) for slot in step.evidence)


def _decision(step: Ask, judgement: PatchJudgement, state: EpisodeState) -> Decision:
    applied = judgement.status is DecisionStatus.APPLIED
    after = library_digest(judgement.files) if applied and judgement.files is not None else state.snapshot
    return Decision(
        number=state.decisions + 1,
        round=state.rounds + applied,
        family=step.family,
        mode=step.mode,
        after_trial=step.after_trial,
        answer=step.answer,
        status=judgement.status,
        operation_type=judgement.operation_type,
        summary=judgement.summary,
        patch=judgement.patch,
        findings=judgement.findings,
        evidence=_evidence(step),
        call=step.key,
        before=state.snapshot,
        after=after,
        error=judgement.error,
    )
