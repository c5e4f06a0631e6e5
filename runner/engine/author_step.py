"""One answer of the skill author: what it is shown, the call, and the decision from its reply.

An author that is an agent has one session in a fresh sandbox for each answer, and the folder it leaves is the patch.
What a session did is committed as the reply to its call, with its trajectories, before it is judged. A limit ends the
session and not the answer: the folder then counts as it is. A program that crashes has answered badly. If the sandbox
or the provider is unavailable, that is a failure of the machine: a new session begins.

Before a corrected skill is written, the student asks, the teacher answers, and a program may block the answer. Every
turn of that talk is a committed call, so it happens only once, and the advice follows from the record alone."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from runner.agents import PROGRAM_FAILED, Agent, AgentJob, AgentRun
from runner.authoring.agent_prompts import CORPUS, FOLDER, SUMMARY, AuthorKit, below
from runner.authoring.author import judge_reply, request_for
from runner.authoring.author_prompts import chat
from runner.authoring.author_reply import changed_texts, explain_too_much, name_left_out, write_patch
from runner.authoring.chosen_prompts import ADVICE, QUESTIONS
from runner.authoring.contract.skill_file import read_descriptions
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
from runner.base.trees import slugs
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
    Task,
    Trajectory,
    TrajectoryKind,
    TrialSlot,
    derive_seed,
)
from runner.engine.attempts import SessionWatcher
from runner.engine.generator_step import FAILED, answer_by_generator, judge_output
from runner.engine.model_calls import AuthorCalls
from runner.engine.toolbox import Toolbox
from runner.protocols.history import EpisodeState, family_skills
from runner.protocols.plan import Ask, EpisodePlan
from runner.protocols.recorder import AUTHOR, STUDENT, TEACHER, Decided, Recorder
from runner.sandboxes import SKILLS, WORKSPACE, Sandbox
from runner.suites.tasks.task_files import read_tree


def advise(occasion: Occasion, slot: TrialSlot, run_seed: int, calls: AuthorCalls) -> Advice:
    """Return the advice after the failed trial of `slot`. Every answer to the occasion gets the same. No student is
    asked if the teacher's prompt has no place for questions."""
    family, chosen = occasion.family.key, calls.toolbox.prompts
    questions: tuple[str, ...] = ()
    findings: list[Finding] = []
    if chosen.asks_questions:
        asked = questions_key(family, slot)

        def request_questions(shown: Occasion, max_tokens: int) -> ModelRequest:
            messages = chosen.fill(QUESTIONS, shown) or student_messages(shown)
            return calls.request(messages, derive_seed(run_seed, asked, STUDENT), max_tokens)

        reply = calls.ask_fitting(asked, STUDENT, occasion, request_questions)
        questions, findings = questions_of(reply.text), [*findings_of(reply, "the student's")]
    refused = ""
    for number in range(1, MOST_TRIES + 1):
        key = advice_key(family, slot, number)

        def request_advice(shown: Occasion, max_tokens: int, key: str = key, refused: str = refused) -> ModelRequest:
            first = chosen.fill(ADVICE, shown, questions=render_questions(questions))
            messages = teacher_messages(shown, questions, refused, first)
            return calls.request(messages, derive_seed(run_seed, key, TEACHER), max_tokens)

        reply = calls.ask_fitting(key, TEACHER, occasion, request_advice)
        findings += findings_of(reply, "the teacher's")
        advice = advice_of(reply.text)
        leak = leak_finding(compare_with_reference(advice, occasion, questions), number)
        if leak is None:
            return Advice(advice, tuple(findings))
        findings.append(leak)
        refused = advice
    return Advice("", tuple(findings))


RULE = "author-session"
SETUP_SECONDS = 60.0
MEMORY_MB = 4_096  # of a sandbox that no task describes; programs on node want more than the default
MAX_SUMMARY_CHARS = 1_000
_NOWHERE = Path("/nonexistent")  # the synthetic task has no folder


def answer_by_agent(step: Ask, occasion: Occasion, plan: EpisodePlan, calls: AuthorCalls) -> ModelReply:
    """Return the reply on record, or the result of a session now. InfrastructureError: begin it again."""
    toolbox, agent, key = calls.toolbox, calls.toolbox.author_agent, step.key
    if agent is None:
        raise SetupError(f"{plan.condition.name} needs the author agent {plan.author_agent}")
    if (found := calls.recorder.reply(key)) is not None:
        return found
    kit, task, seed = (
        AuthorKit(occasion, toolbox.prompts.instruct(occasion)),
        _place_of(occasion),
        step.seed(plan.run_seed),
    )
    with calls.open(key, AUTHOR, session_request(plan, agent, kit, seed=seed)) as call:
        # A session is shown only when it has ended; its cost is shown earlier.
        watcher = SessionWatcher(toolbox, call.model, partial(calls.recorder.bill_call, key), lambda step: None)
        name = session_name(plan, step)
        toolbox.sandboxes.end_named(name)
        needs = watcher.needs(agent)
        with toolbox.place(), closing(toolbox.sandboxes.open_sandbox(task, name=name, needs=needs)) as sandbox:
            sandbox.execute(f"mkdir -p {FOLDER}", timeout_seconds=SETUP_SECONDS)
            sandbox.put(WORKSPACE, {**kit.material, **below(CORPUS, kit.corpus), **below(FOLDER, kit.skills)})
            sandbox.put(SKILLS, kit.own_skills)
            before = sandbox.tree(WORKSPACE, FOLDER).files  # may include files of the image
            job = AgentJob(
                task,
                str(call.request.messages[-1]["content"]),
                skills=slugs(kit.own_skills),
                seed=seed,
                limits=plan.author_limits,
                before_call=watcher.before_call,
                library=bool(kit.own_skills),
                descriptions=read_descriptions(kit.own_skills),
            )
            run = toolbox.clean.run(agent.run(job, sandbox, watcher.watched(key, None), watcher))
            watcher.require_budget()
            call.trajectories = tuple(_note_turns(each, run.turns) for each in run.trajectories)
            reply = _read_answer(run, sandbox, before, occasion, kit, agent.name)
            call.reply = replace(reply, usage=run.usage, model=call.model.name, queued_seconds=run.queued_seconds)
    return call.reply


def _note_turns(trajectory: Trajectory, turns: int | None) -> Trajectory:
    """Note them with the main one: a call has no attempt that would count them."""
    if trajectory.head.kind is not TrajectoryKind.MAIN or turns is None:
        return trajectory
    return replace(trajectory, head=replace(trajectory.head, extra={**(trajectory.head.extra or {}), "turns": turns}))


def _read_answer(
    run: AgentRun, sandbox: Sandbox, before: Files, occasion: Occasion, kit: AuthorKit, agent: str
) -> ModelReply:
    """Make a reply of what differs in the folder of skills."""
    failure = run.failure
    try:
        sandbox.end_processes()  # nothing may still be writing when we look
        # SandboxError if the machine failed: a removed container would look like an emptied folder.
        sandbox.execute("true", timeout_seconds=SETUP_SECONDS)
        if failure is not None and failure.type == PROGRAM_FAILED:
            return ModelReply(f"{agent}: {failure.message}", finish_reason=FAILED)
        tree = sandbox.tree(WORKSPACE, FOLDER)
        file = sandbox.tree(WORKSPACE, names=frozenset({SUMMARY})).files.get(SUMMARY)
    except SandboxRuined as error:
        return ModelReply(f"{agent} left a sandbox that cannot be read: {error}", finish_reason=FAILED)
    written, deleted, left_out = changed_texts(before, tree)
    deleted = [path for path in deleted if path in kit.skills]
    if too_much := explain_too_much(written, agent):
        return ModelReply(too_much, finish_reason=FAILED)
    notes = []
    if failure is not None:
        notes.append(f"{failure.type}: {failure.message} What lay in the folder then counts.")
    if left_out:
        notes.append(f"not taken: {name_left_out(left_out)}")
    summary = " ".join(((text_of(file) if file else "") or "").split())[:MAX_SUMMARY_CHARS]
    summary = summary or f"{agent} wrote {len(written):,} files and deleted {len(deleted):,}."
    operation = ""
    if not occasion.mode.names_skills:  # a single call names it; a folder shows only whether a skill is new
        is_new = set(map(slug_of, written)) - set(map(slug_of, occasion.library))
        operation = "create" if is_new else "revise"
    text = write_patch(summary, written, deleted, operation)
    return ModelReply(text, finish_reason=failure.type if failure else "stop", notes=tuple(notes))


def session_name(plan: EpisodePlan, step: Ask) -> str:
    """Return the name of an answer's sandbox, which lets a successor find what an interrupted session left."""
    return f"author-{digest_json([plan.episode, step.key])[:32]}"


def session_request(plan: EpisodePlan, agent: Agent, kit: AuthorKit, *, seed: int) -> ModelRequest:
    """Return the request for the record: who works within which limits, the files by name and digest, the
    instruction."""
    variables = {
        "agent": agent.name,
        "version": agent.version,
        "limits": {name: value for name, value in encode(plan.author_limits).items() if name != "type"},
        FOLDER: manifest(kit.skills),
        "files": manifest(kit.material),
        "own skills": manifest(kit.own_skills),
        **({"corpus": {"files": len(kit.corpus), "digest": digest_json(manifest(kit.corpus))}} if kit.corpus else {}),
    }
    system = f"An agent was given these files (digest, mode) and what follows as its instruction.\n\n{json.dumps(variables, indent=1)}\n"  # noqa: E501
    return ModelRequest(chat(system, kit.instruction), seed=seed)


def _place_of(occasion: Occasion) -> Task:
    """Return the seed task's own machine and files, as its agent has them.
    With a corpus or without a task, a bare sandbox."""
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


# A result of the author, like an agent's ContextLimit: asking again or waiting would not help, and an episode that
# stopped here would lose the trials that the other decisions are for.
TOO_LONG = "the prompt does not fit the author model's context window, with no evidence left to cut"
BUDGET_SPENT = "the generation budget is spent: no answer was asked for"
LEFT_OUT = "left out by "  # begins the error of an answer that an operator skipped


def ask(step: Ask, plan: EpisodePlan, recorder: Recorder, toolbox: Toolbox, state: EpisodeState) -> None:
    """Ask, judge the reply and record the decision. A reply on record is judged unchanged."""
    occasion = occasion_of(step, plan, recorder, state)
    left = _count_tokens_left(step, plan, recorder, toolbox)
    calls = AuthorCalls(recorder, toolbox, plan.condition.name, plan.author_sampling)
    findings: tuple[Finding, ...] = ()

    def request(shown: Occasion, room: int) -> ModelRequest:
        seed, temperature = step.seed(plan.run_seed), plan.author_sampling.temperature
        return request_for(shown, seed=seed, temperature=temperature, max_tokens=room, chosen=toolbox.prompts)

    try:
        if left is not None and left <= 0 and recorder.reply(step.key) is None:
            judgement = PatchJudgement.failure(BUDGET_SPENT)
        elif step.mode is AuthorMode.OUTSIDE:
            reply = answer_by_generator(step, occasion, plan, calls, left)
            judgement = judge_output(occasion, reply)
        else:
            if step.mode is AuthorMode.CORRECT and step.after_trial is not None:
                advice = advise(occasion, step.after_trial, plan.run_seed, calls)
                occasion, findings = replace(occasion, advice=advice.text), advice.findings
            if plan.author_agent is not None:
                judgement = judge_output(occasion, answer_by_agent(step, occasion, plan, calls), RULE)
            else:
                reply = calls.ask_fitting(step.key, AUTHOR, occasion, request, left)
                judgement, findings = judge_reply(occasion, reply), (*findings, *findings_of(reply, "the author's"))
            judgement = replace(judgement, findings=(*judgement.findings, *findings))
    except ContextExceeded as error:
        judgement = PatchJudgement.failure(f"{TOO_LONG}: {error}")
    recorder.decide(_decision(step, judgement, state), judgement.files)


def leave_out(step: Ask, recorder: Recorder, state: EpisodeState, *, who: str, why: str) -> None:
    """Record that this answer was skipped, as an operator decided. The library stays as it is."""
    judgement = PatchJudgement.failure(f"{LEFT_OUT}{who}: {why}")
    recorder.decide(_decision(step, judgement, state), None)


def _count_tokens_left(step: Ask, plan: EpisodePlan, recorder: Recorder, toolbox: Toolbox) -> int | None:
    """Return the output tokens that the author may still write for this library; None without a limit. An answer
    without usage counts by its length. An author in a sandbox (an agent, or a program without a model) is limited by
    the size of its result, not by tokens."""
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
            for shown in _list_evidence(step)
        ),
        reserved_slugs=tuple(family.slug for family in plan.environment.families if family.key != step.family),
        task=plan.task(step.task) if step.task else None,
        further=tuple(map(plan.task, step.further)),
        corpus={} if corpus is None or not step.mode.names_skills else read_tree(corpus.folder),
        budget_tokens=plan.condition.generation_tokens,
        in_folder=plan.author_agent is not None,
    )


def _list_evidence(step: Ask) -> tuple[Evidence, ...]:
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
        evidence=_list_evidence(step),
        call=step.key,
        before=state.snapshot,
        after=after,
        error=judgement.error,
    )
