"""One answer of the skill author: what it is shown, the call, and the decision from its reply."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from runner.authoring.author import Occasion, PatchJudgement, judge_reply, request_for
from runner.authoring.fitting import findings_of
from runner.authoring.packs.chosen_prompts import ChosenPrompts
from runner.base.digests import library_digest
from runner.base.errors import ContextExceeded
from runner.base.types import AuthorMode, CompactionKind, Decision, DecisionStatus, Evidence, Finding, ModelRequest
from runner.engine.agent_author import answer_by_agent, judge_session
from runner.engine.author_calls import AUTHOR, AuthorCalls
from runner.engine.generator_step import answer_by_generator, judge_output
from runner.engine.teacher_talk import advise
from runner.engine.toolbox import Toolbox
from runner.protocols.history import EpisodeState, family_skills
from runner.protocols.plan import EpisodePlan
from runner.protocols.recorder import Decided, Recorder
from runner.protocols.steps import Ask
from runner.suites.tasks.task_files import read_tree

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
