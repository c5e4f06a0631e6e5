"""`/jobs/<kind>/<id>/`: the state of an experiment, a run or an episode, and what an operator can do with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from django.contrib import messages
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse

from benchapp.experiments.forks import fork
from benchapp.experiments.qualification import (
    find_rule,
    name_check,
    read_verdicts,
    say_result,
    say_verdicts,
)
from benchapp.experiments.work import advance, budgets, operations
from benchapp.experiments.work.progress import CLOSED, WorkProgress, at_work, progress_of, workforce
from benchapp.models import Activity, Alert, Attempt, Entry, Episode, Experiment, ModelCall, Run, Trial, User
from benchapp.models.episodes import REASON
from benchapp.models.stand_ins import join_stand_ins
from benchapp.record import live
from benchapp.record.json_shape import JsonShape
from benchapp.record.recorded import slot_of
from benchapp.record.visible import visible
from benchapp.record.writing.human_acts import NotPossible
from benchapp.review.blinding import ReviewAccess, hidden_until
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.metrics.tally import TrialTally, tally_by
from inspector.pages.jobs.budget import budget_of
from inspector.pages.jobs.timeline import draw_timeline
from inspector.pages.people.act_words import say_verb
from inspector.web.access import needs, user_of
from inspector.web.responses import PageLink, next_url, paginate, render_page, wants_fragment
from inspector.web.subject import review_access, without_closed
from inspector.web.text.row_shapes import AT_WORK, AUTHOR_CALL
from runner.base.errors import RunnerError, SetupError
from runner.base.text import parse_count, plural
from runner.base.types import TrialSlot
from runner.protocols.plan import Ask, RunTrial
from runner.protocols.qualification import MUST_PASS

EPISODES_PER_PAGE = 50
MAX_ACTIVITY = 20
MAX_ATTEMPTS = 30
MAX_REASON = 1000
NO_RESULT = (None, None)  # verdict and seconds
MAX_OPEN = 500  # trials to choose from; the command takes any


def operate(request: HttpRequest, kind: str, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    return _show(request, kind, _find_target(kind, public_id), as_json=as_json)


def _show(
    request: HttpRequest, kind: str, target: Target, *, refused: Mapping[str, str] | None = None, as_json: bool = False
) -> HttpResponse:
    episodes = episodes_of(target)
    is_live = wants_fragment(request)  # the part without the acts, every three seconds
    state = None if is_live else read_act_state(kind, target, episodes)
    acts = list(possible(state)) if state else []
    page = paginate(request, episodes if as_json else in_lines(episodes), per_page=EPISODES_PER_PAGE)
    within = {Experiment: "episode__run__experiment", Run: "episode__run", Episode: "episode"}[type(target)]
    under_way = at_work(Attempt.objects.under_way().filter(**{f"trial__{within}": target}), MAX_ATTEMPTS)
    working = without_closed(review_access(request), under_way)
    calling = list(ModelCall.objects.of_authors_at_work().filter(**{within: target})[:MAX_ATTEMPTS])
    progress = None
    if not isinstance(target, Episode):
        crew = workforce().workers if target.is_open else None
        progress = progress_of([target], None if crew is None else len(crew))[target.pk]
        if review_access(request).hidden_results().filter(**{within: target}).exists():
            progress = progress.without_results()
    budget = budget_of([target], progress) if isinstance(target, Run) and progress else []
    data = {
        "kind": kind,
        "id": target,
        "status": target.status,
        "acts": [act.key for act in acts],
        "at_work": AT_WORK.read_all(working),
        "authors": AUTHOR_CALL.read_all(calling),
        "progress": progress,
        "budget": budget,
        "next": next_url(request, page),
        **(ONE_EPISODE.read(target) if isinstance(target, Episode) else {}),
    }
    if as_json:
        data["episodes"] = EPISODE.read_all(page)
        return render_page(request, "jobs/operate.html", data=data, as_json=True)
    experiment = experiment_of(target)
    asks_again = request.GET.copy()
    asks_again["was"] = target.status
    tally = TrialTally()
    if isinstance(target, Episode):
        shown = target.trials.exclude(pk__in=review_access(request).closed_trials())
        tally = tally_by(shown, "episode").get(target.pk, tally)
    runs = list(target.runs.all()) if isinstance(target, Experiment) else [_run_of(target)]
    is_qualification = any(run.is_qualification for run in runs)
    verdicts = read_verdicts(target) if is_qualification and isinstance(target, Experiment) else []
    done = None if isinstance(target, Experiment) else progress or tally
    context: dict[str, object] = {
        "target": target,
        "refused": refused,
        "stand_ins": join_stand_ins(runs),
        "live_url": f"{reverse('operate', args=[kind, target.public_id])}?{asks_again.urlencode()}",
        "title": target.title if isinstance(target, Episode) else str(target),
        "run": None if isinstance(target, Experiment) else _run_of(target),
        "experiment": target if isinstance(target, Experiment) else None,
        "working": working,
        "calling": calling,
        "page": page,
        "tally": tally,
        "to_go": target.trials.exclude(CLOSED).count() if isinstance(target, Episode) else 0,
        "is_qualification": is_qualification,
        "verdict": say_verdicts(verdicts).removesuffix(".") if verdicts and not experiment.is_open else "",
        "check": name_check(runs[0].condition) if not isinstance(target, Experiment) else "",
        "result": say_result(runs[0].condition, done.passed, done.scored) if done else "",
        "is_ours": experiment.origin == Experiment.Origin.RUN,
        "newest": Alert.objects.first(),
        "timeline": None
        if isinstance(target, Episode)
        else draw_timeline(target, list(page), review_access(request), progress),
        "possible": acts,
        "act_state": state,
        "activity": _read_activity(target),
        "passes": _count_passes(target, progress),
        "failed": progress.scored - progress.passed
        if isinstance(target, Experiment) and progress and not is_qualification
        else 0,
    }
    if isinstance(target, Episode):
        context |= _read_episode_parts(target, data["attempts"], data["log"], review_access(request))
    template = "jobs/_operate_live.html" if is_live else "jobs/operate.html"
    response = render_page(request, template, data=data, context=context, status=422 if refused else 200)
    if is_live and request.GET.get("was", target.status) != target.status:
        response["HX-Refresh"] = "true"  # other acts fit now
    return response


def _count_passes(target: Target, progress: WorkProgress | None) -> list[tuple[str, TrialTally]]:
    """Return each condition of an ended experiment with its trials, where this reader may see how they ended."""
    if not isinstance(target, Experiment) or target.is_open or progress is None or not progress.scored:
        return []
    found = tally_by(Trial.objects.filter(episode__run__experiment=target), "episode__run__condition")
    by_order = sorted(found.items(), key=lambda each: (name_condition(each[0]).order, each[0]))
    return by_order if len(found) > 1 and not any(map(name_check, found)) else []


def _read_episode_parts(
    episode: Episode, attempts: Sequence[Mapping[str, object]], log: Sequence[str] | None, access: ReviewAccess
) -> dict[str, object]:
    """Return what only the page of one episode shows. `results`: each attempt with the number of trials like its own,
    and with the verdict and the duration of its trial, if it counts and this reader may see it."""
    trials = episode.trials.exclude(pk__in=access.closed_trials())
    found = {pk: rest for pk, *rest in trials.values_list("pk", "success", "duration_seconds")}
    hidden = {trial.pk: trial for trial in access.hidden_results().filter(episode=episode)}
    alike: Counter[tuple[object, object]] = Counter(episode.trials.values_list("task__key", "phase"))
    blocked = []
    for trial, reason in episode.trials.explain_blocked():
        queue = access.closing_trial(trial.task_id, episode.key)
        blocked.append((trial, hidden_until(queue) if queue else reason))
    return {
        "single": True,
        "places": _list_places(episode),
        "open_trials": _list_open_trials(episode),
        "aside": blocked,
        "results": [
            (
                each,
                alike[each["task"], each["phase"]],
                *(found.get(getattr(each["trial"], "pk", 0), NO_RESULT) if each["counts"] else NO_RESULT),
            )
            for each in attempts
        ],
        "must_pass": MUST_PASS.get(episode.run.condition),
        "rule": find_rule(episode),
        "hidden": hidden,
        "hidden_by": next((access.closing_trial(each.task_id, episode.key) for each in hidden.values()), None),
        "lines": [line.replace(f"episode {episode.public_id}", visible(episode.title)) for line in log or ()],
        "phases": len({each["phase"] for each in attempts}) > 1,
        "repeats": any(each["number"] != 1 for each in attempts),
        "exceptions": any(each.get("exception_type") for each in attempts),
    }


@needs(User.Level.OPERATOR)
def operate_act(request: HttpRequest, kind: str, public_id: UUID, act: str) -> HttpResponse:
    """Carry the act out and record who did it and why. A refusal is shown at the form that was sent."""
    if act not in ACTS:
        raise Http404(f"there is no act {act}")
    target = _find_target(kind, public_id)
    reason = request.POST.get("reason", "").strip()[:MAX_REASON]

    def refuse(why: str) -> HttpResponse:
        return _show(request, kind, target, refused={"act": act, "title": ACTS[act].title, "why": why})

    if ACTS[act].needs_reason and not reason:
        return refuse("Say why. It is kept with the act.")
    try:
        message, new_run = _carry_out(act, target, request.POST, reason=reason, by=user_of(request))
    except RunnerError as error:
        return refuse(str(error))
    messages.success(request, message)
    return redirect("operate", "run", new_run.public_id) if new_run else redirect("operate", kind, public_id)


def _find_target(kind: str, public_id: UUID) -> Target:
    if kind == "experiment":
        return get_object_or_404(Experiment.objects.not_deleted(), public_id=public_id)
    if kind == "run":
        return get_object_or_404(Run.objects.for_detail().select_related("forked_from"), public_id=public_id)
    if kind == "episode":
        own = Episode.objects.filter(run__experiment__deleted_at=None).select_related("run__experiment")
        return get_object_or_404(own, public_id=public_id)
    raise Http404(f"there is nothing to operate called {kind}")


def _run_of(target: Run | Episode) -> Run:
    return target if isinstance(target, Run) else target.run


def _read_activity(target: Target) -> list[tuple[Activity, str]]:
    """Return what people did with it, newest first, each in words."""
    kind = type(target).__name__.lower()
    of_itself = Q(target_kind=kind, target_id=target.public_id)
    if isinstance(target, Episode):  # a skip is kept at its trial
        of_itself |= Q(target_kind="trial", target_id__in=target.trials.values("public_id"))
    about = Activity.objects.filter(of_itself).select_related("actor").order_by("-at", "-id")[:MAX_ACTIVITY]
    return [(act, f"{say_verb(act.verb)} {'it' if act.target_kind == kind else 'a trial'}") for act in about]


def _list_places(episode: Episode) -> list[tuple[int, str]]:
    """List where a fork can begin: (sequence, the trial recorded there)."""
    trials = episode.entries.filter(kind=Entry.Kind.TRIAL).select_related("attempt__trial__task").order_by("sequence")
    return [
        (entry.sequence, f"{entry.attempt.trial.phase} · {entry.attempt.trial.task.title}")
        for entry in trials
        if entry.attempt
    ]


def _list_open_trials(episode: Episode) -> list[tuple[str, str]]:
    """List what can be skipped: (slot, the trial in words), blocked ones first."""
    trials = episode.trials.exclude(CLOSED).select_related("task").order_by("pk")[:MAX_OPEN]
    blocked_first = sorted(trials, key=lambda trial: trial.status != Trial.Status.BLOCKED)
    return [
        (
            str(slot_of(trial)),
            " · ".join(
                (trial.phase, trial.task.title, *([f"sample {trial.sample + 1}"] if trial.sample else []), trial.status)
            ),
        )
        for trial in blocked_first
    ]


# --- what fits its state -----------------------------------------------------------------------------------------

Target = Experiment | Run | Episode


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


# --- the acts ---------------------------------------------------------------------------------------------------


def _carry_out(act: str, target: Target, given: Mapping[str, str], *, reason: str, by: User) -> tuple[str, Run | None]:
    """Carry out the act. Return a sentence about it, and the run to continue on if there is a new one.
    RunnerError gives the reason of a refusal."""
    if act == PAUSE.key:
        return (
            f"{plural(operations.pause(target, reason=reason, by=by), 'episode')} paused. Running trials finish first.",
            None,
        )
    if act == RESUME.key:
        return f"{plural(operations.resume(target, reason=reason, by=by), 'episode')} resumed.", None
    if act in (CANCEL.key, CANCEL_LATER.key):
        later = act == CANCEL_LATER.key
        found = operations.cancel(target, reason=reason, by=by, after_trial=later)
        return f"{plural(found, 'episode')} cancelled{' after the running trials' if later else ''}.", None
    if act == RETRY.key:
        problems = [problem for _, problem in operations.retry_blocked(target, reason=reason, by=by)]
        if all(problems):
            raise NotPossible(problems[0])
        return f"{plural(problems.count(''), 'episode')} resumed.", None
    if act == SKIP.key and isinstance(target, Episode):
        slot = operations.skip(target, trial=_parse_slot(given.get("trial", "")), reason=reason, by=by)
        return f"{slot} is skipped. The episode continues.", None
    if act == SKIP_ANSWER.key and isinstance(target, Episode):
        step = operations.skip_answer(target, answer=given.get("answer", ""), reason=reason, by=by)
        return f"The author's answer {step.key} is skipped. The episode continues with the same library.", None
    if act == BUDGET.key and isinstance(target, Run):
        return _raise_budget(target, given, reason, by), None
    if act == FORK.key and isinstance(target, Episode):
        return _fork(target, given, reason, by)
    raise NotPossible(f"{act} does not apply to {type(target).__name__.lower()} {target.public_id}")


def _parse_slot(text: str) -> TrialSlot | None:
    try:
        return TrialSlot.read(text) if text else None
    except ValueError as error:
        raise NotPossible(f"trial {error}") from error


def _fork(episode: Episode, given: Mapping[str, str], reason: str, by: User) -> tuple[str, Run]:
    place = parse_count(sent := given.get("before", "").strip())
    if place is None:
        raise NotPossible(f"expected the place to run again from, found {sent[:60]!r}")
    run = fork(episode, before=place, dice="same" if given.get("dice") == "same" else "new", reason=reason, by=by)
    return "The fork is a new experiment and continues from there. The old run does not change.", run


def _raise_budget(run: Run, given: Mapping[str, str], reason: str, by: User) -> str:
    usd, tokens = _parse_number(given.get("usd", ""), "USD"), _parse_number(given.get("tokens", ""), "tokens")
    if tokens is not None and not tokens.is_integer():
        raise SetupError(f"tokens: expected a whole number, found {given['tokens'][:60]!r}")
    whole = None if tokens is None else int(tokens)
    going_on = budgets.raise_budget(run, usd=usd, tokens=whole, reason=reason, by=by)
    for episode in going_on:
        advance.hint(episode)
    return f"Budget raised. {plural(len(going_on), 'episode')} resumed."


def _parse_number(text: str, unit: str) -> float | None:
    """Return None for an empty field. SetupError for anything but a finite number."""
    if not text.strip():
        return None
    try:
        value = float(text.replace(",", "").strip())
    except ValueError:
        value = float("nan")
    if not 0 < value < 1e15:
        raise SetupError(f"{unit}: expected a number above 0, found {text[:60]!r}")
    return value


# --- the twin ---------------------------------------------------------------------------------------------------


def _build_attempts(episode: Episode) -> list[dict[str, object]]:
    attempts = Attempt.objects.filter(trial__episode=episode).select_related("trial__task")
    return ATTEMPT.read_all(attempts.order_by("-pk")[:MAX_ATTEMPTS])


ATTEMPT = JsonShape(
    "id=public_id trial task=trial.task.key title=trial.task.title phase=trial.phase number status counts",
    "exception_type? started_at",
    ("url", lambda attempt: attempt.trial.get_absolute_url()),
)
LEASE = JsonShape("owner=lease_owner until=lease_until")
EPISODE = JsonShape(
    "id=public_id run title status failures blocked_reason?",
    ("url", lambda episode: PageLink("operate-json", "episode", episode.public_id)),
)
ONE_EPISODE = JsonShape(
    "blocked_reason? last_failure? failures wish?",
    ("lease", lambda episode: LEASE.read(episode) if episode.lease_owner else None),
    ("next_try", lambda episode: episode.lease_until if not episode.lease_owner else None),
    ("log", lambda episode: live.read_log(str(episode.public_id))),
    ("attempts", _build_attempts),
)
