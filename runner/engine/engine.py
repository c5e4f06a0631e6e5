"""Carries an episode forward, one recorded step at a time.

All state is the recorder's history: each step is found with the protocol's `next_step`, done, and recorded before
the engine finds the next. A process may die anywhere; the next one continues where the record ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from runner.authoring.material import shelve_corpus
from runner.base.digests import digest_json, library_digest
from runner.base.errors import (
    AccountRefused,
    FrozenLibrary,
    InfrastructureError,
    KeyRefused,
    ModelRefused,
    ModelUnavailable,
    NotOnThisMachine,
    SetupError,
    TrialsLeft,
)
from runner.base.types import Files, Phase, TrialSlot
from runner.engine.attempts import run_trial
from runner.engine.author_step import ask
from runner.engine.toolbox import Toolbox
from runner.protocols import next_step
from runner.protocols.conditions import Start
from runner.protocols.history import EpisodeState, fold
from runner.protocols.plan import Ask, EpisodePlan, Freeze, NextStep, RunTrial, SeedLibrary, SeedSkill
from runner.protocols.recorder import Frozen, Recorder, Refused
from runner.suites.tasks.task_files import read_tree

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 2.0, 300.0
# Errors that would repeat for this trial, except those that would hit its whole episode.
_DETERMINISTIC = (SetupError, ModelRefused)
_OF_THE_EPISODE = (NotOnThisMachine, KeyRefused, AccountRefused)


def advance(plan: EpisodePlan, recorder: Recorder, toolbox: Toolbox) -> bool:
    """Run the next trial, with the authoring before and after it. Return True while the episode has more to do.

    A trial is set aside if retrying cannot help and no later step depends on it; the episode continues.
    InfrastructureError: nothing was scored, try again after `retry_delay`. Any other exception blocks the episode until
    an operator acts; TrialsLeft if only trials that were set aside remain.
    """
    ran: TrialSlot | None = None
    while (step := next_step(plan, recorder.history(), recorder.trials_set_aside())) is not None:
        if ran is not None and not (isinstance(step, Ask) and step.after_trial == ran):
            return True
        try:
            perform(step, plan, recorder, toolbox)
        except _DETERMINISTIC as error:
            if isinstance(error, _OF_THE_EPISODE) or not pass_over(plan, recorder, error):
                raise
            return True
        if isinstance(step, RunTrial):
            ran = step.slot
    if reasons := recorder.reasons_set_aside():
        raise TrialsLeft(reasons)
    return False


def pass_over(plan: EpisodePlan, recorder: Recorder, error: Exception) -> bool:
    """Set the next trial aside because of its error. Return False if the next step is not a trial, a later step
    depends on it, or the provider is unreachable, which affects other trials too."""
    step = next_step(plan, recorder.history(), recorder.trials_set_aside())
    if isinstance(error, ModelUnavailable) or not isinstance(step, RunTrial):
        return False
    if plan.condition.feeds(step.slot.phase):
        return False
    recorder.set_aside(step.slot, error)
    return True


def run_episode(
    plan: EpisodePlan,
    recorder: Recorder,
    toolbox: Toolbox,
    *,
    retries: int = 3,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Run to the end. After `retries` infrastructure failures in a row at one place the last one is raised.

    If no later step depends on the trial, it is passed over instead. The next one is tried once: if it fails too, the
    machine is at fault.
    """
    failures = 0
    more = True
    while more:
        length = len(recorder.history())
        try:
            more = advance(plan, recorder, toolbox)
            failures = 0
        except InfrastructureError as error:
            failures = 1 if len(recorder.history()) > length else failures + 1
            if failures > retries and not (failures == retries + 1 and pass_over(plan, recorder, error)):
                raise
            sleep(retry_delay(failures, error))


def retry_delay(failures: int, error: BaseException | None = None) -> float:
    """Return the seconds to wait after the n-th failure in a row: doubling from 2 to 300, or longer if the provider
    says so."""
    delay = min(FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 16), LONGEST_DELAY_SECONDS)
    retry_after = error.retry_after_seconds if isinstance(error, ModelUnavailable) else None
    return max(delay, retry_after or 0.0)


def perform(step: NextStep, plan: EpisodePlan, recorder: Recorder, toolbox: Toolbox) -> None:
    """Do and record one step. FrozenLibrary if it would write to, or read from, a library that broke its seal."""
    state = fold(recorder.history())
    match step:
        case SeedSkill():
            _refuse_write_when_frozen(state, recorder, None, f"seed of {step.family}")
            brought = plan.family(step.family).curated
            if plan.condition.start is Start.CORPUS and (corpus := plan.environment.corpus) is not None:
                brought = shelve_corpus(read_tree(corpus.folder))
            recorder.seed(step.family, {**recorder.library(state.snapshot), **brought})
        case SeedLibrary():
            _refuse_write_when_frozen(state, recorder, None, f"library {step.snapshot}")
            files = recorder.library(step.snapshot)  # the files, not their name: contents may have changed
            if (found := library_digest(files)) != step.snapshot:
                raise FrozenLibrary(f"the library's files have digest {found}, but {step.snapshot} was to be frozen")
            recorder.seed(step.family, files)
        case RunTrial():
            library = recorder.library(step.snapshot)
            _check_seal(step, library, state, recorder)
            run_trial(step, library, plan, recorder, toolbox)
        case Ask():
            _refuse_write_when_frozen(state, recorder, step.after_trial, f"author's answer {step.key}")
            ask(step, plan, recorder, toolbox, state)
        case Freeze():
            recorder.freeze(_seal(plan, recorder, state))


def _seal(plan: EpisodePlan, recorder: Recorder, state: EpisodeState) -> Frozen:
    digest = library_digest(recorder.library(state.snapshot))
    return Frozen(state.snapshot, digest, plan.setup_digest, seal(plan.setup_digest, digest))


def seal(setup_digest: str, library: str) -> str:
    """Return the basis of deployment: the setup as launched and the files as frozen, in one digest."""
    return digest_json([setup_digest, library])


# --- what a frozen library refuses --------------------------------------------------------------------------------


def _refuse_write_when_frozen(state: EpisodeState, recorder: Recorder, slot: TrialSlot | None, what: str) -> None:
    try:
        state.require_open_library(what)
    except FrozenLibrary as error:
        recorder.refuse(Refused(slot, (), str(error)))
        raise


def _check_seal(step: RunTrial, library: Files, state: EpisodeState, recorder: Recorder) -> None:
    """Compare the files that the agent would get with the digest taken at freeze: the files, not a log of them."""
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
