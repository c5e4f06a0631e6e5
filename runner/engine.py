"""Carries an episode forward, one recorded step at a time.

All state is the recorder's history: each step is found with the protocol's `next_step`, done, and recorded before
the next is looked for. A process may die anywhere; the next one continues where the record ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from runner.attempts import run_trial
from runner.authoring.author import Judgement, Occasion, judge_reply, request_for
from runner.digests import digest_json, library_digest
from runner.errors import FrozenLibrary, InfrastructureError, ModelUnavailable, SetupError
from runner.history import State, family_skills, fold
from runner.models import price_table_of
from runner.protocols import next_step
from runner.protocols.plan import EpisodePlan
from runner.protocols.sampling import AUTHOR_MAX_TOKENS, AUTHOR_TEMPERATURE
from runner.protocols.steps import Ask, Freeze, NextStep, RunTrial, SeedLibrary, SeedSkill
from runner.recorder import Decided, Frozen, Recorder, Refused
from runner.suites.task_files import read_tree
from runner.toolbox import Toolbox
from runner.types import CompactionKind, Decision, DecisionStatus, Evidence, Files, ModelReply, Phase, Slot, Usage

BUDGET_SPENT = "the generation budget is spent: no answer was asked for"
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 2.0, 300.0


def advance(plan: EpisodePlan, recorder: Recorder, toolbox: Toolbox) -> bool:
    """Does what comes before the next trial, that trial, and the authoring after it. True while more remains.

    InfrastructureError: nothing was scored, try again after `retry_delay`. Anything else that is raised blocks the
    episode until an operator acts.
    """
    ran: Slot | None = None
    while (step := next_step(plan, recorder.history())) is not None:
        if ran is not None and not (isinstance(step, Ask) and step.after_trial == ran):
            return True
        perform(step, plan, recorder, toolbox)
        if isinstance(step, RunTrial):
            ran = step.slot
    return False


def run_episode(
    plan: EpisodePlan,
    recorder: Recorder,
    toolbox: Toolbox,
    *,
    retries: int = 3,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Runs to the end. After `retries` infrastructure failures in a row at one place the last one is raised."""
    failures = 0
    more = True
    while more:
        length = len(recorder.history())
        try:
            more = advance(plan, recorder, toolbox)
            failures = 0
        except InfrastructureError as error:
            failures = 1 if len(recorder.history()) > length else failures + 1
            if failures > retries:
                raise
            sleep(retry_delay(failures, error))


def retry_delay(failures: int, error: BaseException | None = None) -> float:
    """Seconds to wait after the n-th failure in a row: doubling from 2 to 300, or longer where the provider says so."""
    delay = min(FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 16), LONGEST_DELAY_SECONDS)
    told = error.retry_after_seconds if isinstance(error, ModelUnavailable) else None
    return max(delay, told or 0.0)


def perform(step: NextStep, plan: EpisodePlan, recorder: Recorder, toolbox: Toolbox) -> None:
    """Does and records one step. FrozenLibrary when it would write to, or read from, a library that broke its seal."""
    state = fold(recorder.history())
    match step:
        case SeedSkill():
            _refuse_write_when_frozen(state, recorder, None, f"seed of {step.family}")
            _seed(step, plan, recorder, state)
        case SeedLibrary():
            _refuse_write_when_frozen(state, recorder, None, f"library {step.snapshot}")
            _seed_library(step, recorder)
        case RunTrial():
            library = recorder.library(step.snapshot)
            _check_seal(step, library, state, recorder)
            run_trial(step, library, plan, recorder, toolbox)
        case Ask():
            _refuse_write_when_frozen(state, recorder, step.after_trial, f"author's answer {step.key}")
            _ask(step, plan, recorder, toolbox, state)
        case Freeze():
            recorder.freeze(_sealed(plan, recorder, state))


def _seed(step: SeedSkill, plan: EpisodePlan, recorder: Recorder, state: State) -> None:
    recorder.seed(step.family, {**recorder.library(state.snapshot), **plan.family(step.family).curated})


def _seed_library(step: SeedLibrary, recorder: Recorder) -> None:
    """The files, not their name: a recorded library whose contents are no longer what they were is not tried."""
    files = recorder.library(step.snapshot)
    if (found := library_digest(files)) != step.snapshot:
        raise FrozenLibrary(f"the library's files have digest {found}, but {step.snapshot} was to be frozen")
    recorder.seed(step.family, files)


def _sealed(plan: EpisodePlan, recorder: Recorder, state: State) -> Frozen:
    digest = library_digest(recorder.library(state.snapshot))
    return Frozen(state.snapshot, digest, plan.setup_digest, seal(plan.setup_digest, digest))


def seal(setup_digest: str, library: str) -> str:
    """What deployment stands on: the setup as launched and the files as frozen, in one digest."""
    return digest_json([setup_digest, library])


# --- what a frozen library refuses --------------------------------------------------------------------------------


def _refuse_write_when_frozen(state: State, recorder: Recorder, slot: Slot | None, what: str) -> None:
    try:
        state.require_open_library(what)
    except FrozenLibrary as error:
        recorder.refuse(Refused(slot, (), str(error)))
        raise


def _check_seal(step: RunTrial, library: Files, state: State, recorder: Recorder) -> None:
    """Holds the files that the agent would be given against the digest taken at freeze: the files, not a log of them."""
    if state.frozen is None or step.slot.phase is Phase.ACQUISITION:
        return
    found = library_digest(library)
    if found != state.frozen.library_digest:
        reason = f"the library's files have digest {found}, but {state.frozen.library_digest} was frozen"
        refused = Refused(step.slot, (), reason)
        history = recorder.history()
        if history[-1].event != refused:  # an operator's retries need not repeat it
            recorder.refuse(refused)
        raise FrozenLibrary(reason)


# --- the author ---------------------------------------------------------------------------------------------------


def _ask(step: Ask, plan: EpisodePlan, recorder: Recorder, toolbox: Toolbox, state: State) -> None:
    occasion = _occasion(step, plan, recorder, state)
    reply = recorder.reply(step.key)
    if reply is None and tokens_left(step, plan, recorder) <= 0:
        judgement = Judgement(DecisionStatus.FAILED, "", "", None, (), None, BUDGET_SPENT)
    else:
        judgement = judge_reply(occasion, reply or _complete(step, occasion, plan, recorder, toolbox))
    recorder.decide(_decision(step, occasion, judgement, state), judgement.files)


def tokens_left(step: Ask, plan: EpisodePlan, recorder: Recorder) -> int:
    """Output tokens that the author may still write for this library; an answer that did not tell counts by its length."""
    limit = plan.condition.generation_tokens
    if limit is None:
        return AUTHOR_MAX_TOKENS
    decided = [entry.event for entry in recorder.history() if isinstance(entry.event, Decided)]
    earlier = [Ask(event.mode, event.family, event.after_trial, event.answer).key for event in decided]
    replies = [reply for key in earlier if key != step.key and (reply := recorder.reply(key)) is not None]
    return limit - sum(reply.usage.output_tokens or -(-len(reply.text) // 4) for reply in replies)


def _occasion(step: Ask, plan: EpisodePlan, recorder: Recorder, state: State) -> Occasion:
    own = family_skills(recorder.history(), recorder.library)
    kind = CompactionKind.RICH
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
            (Evidence(slot, kind), recorder.compaction(slot, kind), recorder.verdict(slot)) for slot in step.evidence
        ),
        reserved_slugs=tuple(family.slug for family in plan.environment.families if family.key != step.family),
        task=plan.task(step.task) if step.task else None,
        corpus={} if corpus is None or not step.mode.names_skills else read_tree(corpus.folder),
        budget_tokens=plan.condition.generation_tokens,
    )


def _complete(step: Ask, occasion: Occasion, plan: EpisodePlan, recorder: Recorder, toolbox: Toolbox) -> ModelReply:
    """Asks the model and commits its reply before anything is done with it."""
    model = toolbox.author_model
    if model is None:
        raise SetupError(f"{plan.condition.name} needs an author model")
    room = min(AUTHOR_MAX_TOKENS, tokens_left(step, plan, recorder))
    asked = request_for(occasion, seed=step.seed(plan.run_seed), temperature=AUTHOR_TEMPERATURE, max_tokens=room)
    request = toolbox.clean.request(asked)
    toolbox.budget(Usage())
    recorder.start_call(step.key, purpose="author", model=model.name, request=request)
    try:
        reply = toolbox.clean.reply(model.complete(request))
    except Exception as error:
        recorder.finish_call(step.key, None, error)
        raise
    recorder.finish_call(step.key, reply, price_table=price_table_of(model, reply.usage))
    return reply


def _decision(step: Ask, occasion: Occasion, judgement: Judgement, state: State) -> Decision:
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
        evidence=tuple(evidence for evidence, _, _ in occasion.evidence),
        call=step.key,
        before=state.snapshot,
        after=after,
        error=judgement.error,
    )
