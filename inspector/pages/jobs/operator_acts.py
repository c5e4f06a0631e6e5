"""What an operator can do with an experiment, a run or an episode: which acts fit its state, and what each one says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.db.models import Q, QuerySet
from django.db.models.functions import Left

from benchapp.experiments.work import budgets, operations
from benchapp.models import Episode, Experiment, Run
from benchapp.models.episodes import REASON
from runner.base.errors import RunnerError
from runner.protocols.plan import Ask, RunTrial

Target = Experiment | Run | Episode
KINDS: dict[str, type[Target]] = {"experiment": Experiment, "run": Run, "episode": Episode}


@dataclass(frozen=True, slots=True)
class Act:
    """`form`: what it asks for in addition to a reason. `grave`: it cannot be undone."""

    key: str  # in the address
    title: str
    about: str
    needs_reason: bool = False
    grave: bool = False
    form: str = ""  # "budget", "fork", "skip" or "answer"


RETRY = Act(
    "retry",
    "Retry",
    "Continues where it stopped. Keeps every score. Fix the cause first, or it stops again.",
)
ASK_AGAIN = replace(
    RETRY,
    title="Ask the author again",
    about="Sends the author's call again. Fix the cause first: key, model name, address or server limit.",
)
SKIP = Act(
    "skip",
    "Skip the trial",
    "Leaves out an open trial and continues. A running trial ends without a score. If later trials learn from it, "
    "comparisons leave the episode out.",
    needs_reason=True,
    grave=True,
    form="skip",
)
SKIP_ANSWER = Act(
    "skip-answer",
    "Skip the author's answer",
    "Records the answer as failed, with your name and reason. The library does not change. Comparisons leave the "
    "episode out.",
    needs_reason=True,
    grave=True,
    form="answer",
)
PAUSE = Act("pause", "Pause", "Running trials finish. Nothing new starts until you resume.")
RESUME = Act("resume", "Resume", "Continues where it stopped.")
CANCEL_LATER = Act("cancel-later", "Cancel after the trial", "Running trials finish. The rest never runs.", grave=True)
CANCEL = Act(
    "cancel",
    "Cancel now",
    "Stops running trials without a score. The rest never runs. The record stays.",
    grave=True,
)
BUDGET = Act("budget", "Raise the budget", "Continues at once where the budget stopped it.", form="budget")
FORK = Act(
    "fork",
    "Fork",
    "Makes a new run: copies the record up to one place, then runs the rest again. The old run does not change.",
    needs_reason=True,
    form="fork",
)
ACTS = {act.key: act for act in (RETRY, SKIP, SKIP_ANSWER, PAUSE, RESUME, CANCEL_LATER, CANCEL, BUDGET, FORK)}


@dataclass(frozen=True, slots=True)
class ActState:
    """The states of a target's episodes. `answer`: key of the author's answer that an episode waits for;
    `can_skip_trial`: it waits for a trial, or some were set aside. `spent`: episodes blocked because a budget is spent.
    `no_plan`: why the plan of an episode is not available, so that no part of it can be skipped.
    """

    kind: str
    statuses: tuple[str, ...]
    wishes: tuple[str, ...] = ()
    has_budget: bool = False
    is_ours: bool = True  # imports and synthetic records are not run here
    has_scored: bool = False
    answer: str = ""
    can_skip_trial: bool = False
    spent: int = 0
    no_plan: str = ""

    def count(self, status: str) -> int:
        return self.statuses.count(status)

    @property
    def open(self) -> int:
        return self.count(Episode.Status.WAITING) + self.count(Episode.Status.RUNNING)


def possible(state: ActState) -> Iterator[Act]:
    """List the acts that would change something, the mildest first."""
    if not state.is_ours:
        return
    blocked, paused = state.count(Episode.Status.BLOCKED), state.count(Episode.Status.PAUSED)
    if blocked > state.spent:  # raising the budget lets the others continue
        yield ASK_AGAIN if state.answer else RETRY
    if paused or Episode.Wish.PAUSE in state.wishes:
        yield RESUME
    if state.open:
        yield PAUSE
    if state.has_budget and state.kind == "run" and state.open + blocked + paused:
        yield BUDGET
    if state.has_scored and state.kind == "episode":
        yield FORK
    if state.answer and not state.spent:
        yield SKIP_ANSWER
    if state.can_skip_trial and not state.spent:
        yield SKIP
    if state.open:
        yield CANCEL_LATER
    if state.open + blocked + paused:
        yield CANCEL


def episodes_of(target: Target) -> QuerySet[Episode]:
    """Return every episode of the target, in the order of the plan, with the run as far as a row names it."""
    own = Episode.objects.select_related("run").defer("run__setup")
    if isinstance(target, Experiment):
        return own.filter(run__experiment=target).order_by("run_id", "ordinal", "id")
    if isinstance(target, Run):
        return own.filter(run=target).order_by("ordinal", "id")
    return own.filter(pk=target.pk)


def in_lines(episodes: QuerySet[Episode]) -> QuerySet[Episode]:
    """Load the episodes for a page with a line for each.
    `reason`: the beginning of what stopped it or failed last, without whole tracebacks."""
    return episodes.defer("run__setup", "blocked_reason", "last_failure").annotate(reason=Left(REASON, 500))


def read_act_state(kind: str, target: Target, episodes: QuerySet[Episode]) -> ActState:
    run = target if isinstance(target, Run) else None
    experiment = experiment_of(target)
    how = list(episodes.order_by().values_list("status", "wish"))
    spent = Q(status=Episode.Status.BLOCKED, blocked_reason__startswith=budgets.REASON)
    answer, can_skip_trial, no_plan = _find_place(target) if isinstance(target, Episode) else ("", False, "")
    return ActState(
        kind,
        tuple(status for status, _ in how),
        tuple(wish for _, wish in how if wish),
        answer=answer,
        can_skip_trial=can_skip_trial,
        no_plan=no_plan,
        spent=episodes.filter(spent).count() if Episode.Status.BLOCKED in {status for status, _ in how} else 0,
        has_budget=run is not None and (run.budget_usd is not None or run.budget_tokens is not None),
        is_ours=experiment.origin == Experiment.Origin.RUN,
        has_scored=isinstance(target, Episode) and target.trials.scored().exists(),
    )


def _find_place(episode: Episode) -> tuple[str, bool, str]:
    """Return (key of the author's answer that is due or "", whether a trial can be skipped, why nothing can be). The
    last if the episode cannot continue: its suite or setup is no longer that of the launch, or not on this
    machine."""
    ended = episode.status in (Episode.Status.DONE, Episode.Status.CANCELLED)
    if ended or experiment_of(episode).origin != Experiment.Origin.RUN:
        return "", False, ""
    try:
        step = operations.stands_at(episode)
    except RunnerError as error:
        return "", False, str(error)[:1_000]
    can_skip_trial = isinstance(step, RunTrial) or episode.trials.blocked().exists()
    return step.key if isinstance(step, Ask) else "", can_skip_trial, ""


def experiment_of(target: Target) -> Experiment:
    if isinstance(target, Experiment):
        return target
    return target.experiment if isinstance(target, Run) else target.run.experiment
