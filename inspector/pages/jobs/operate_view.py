"""`/jobs/<kind>/<id>/`: the state of an experiment, a run or an episode, and what an operator can do with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from benchapp.experiments.qualification import (
    find_rule,
    name_check,
    read_verdicts,
    say_result,
    say_solved,
    say_verdicts,
)
from benchapp.experiments.work.progress import CLOSED, WorkProgress, at_work, progress_of, workforce
from benchapp.models import Activity, Alert, Attempt, Entry, Episode, Experiment, ModelCall, Run, Trial, User
from benchapp.models.stand_ins import join_stand_ins
from benchapp.record import live
from benchapp.record.json_shape import JsonShape
from benchapp.record.recorded import slot_of
from benchapp.review.blinding import Words, hidden_until
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.metrics.tally import TrialTally, tally_by
from inspector.pages.jobs.budget import budget_of
from inspector.pages.jobs.operate import carry_out
from inspector.pages.jobs.operator_acts import ACTS, Target, episodes_of, experiment_of, in_lines, possible, standing_of
from inspector.pages.jobs.timeline import draw_timeline
from inspector.pages.people.act_words import say_verb
from inspector.web.access import needs, user_of
from inspector.web.closed_pages import without_closed, words_of
from inspector.web.responses import PageLink, next_url, paginate, render_page, wants_fragment
from inspector.web.text.row_shapes import AT_WORK, AUTHOR_CALL
from inspector.web.text.visible import visible
from runner.base.errors import RunnerError
from runner.protocols.qualification import MUST_PASS

EPISODES_PER_PAGE = 50
MAX_ACTIVITY = 20
MAX_ATTEMPTS = 30
MAX_REASON = 1000
NO_RESULT = (None, None)  # verdict and seconds
MAX_OPEN = 500  # trials to choose from; the command takes any


@dataclass(frozen=True, slots=True)
class Refused:
    """An act that was asked for and not done, and why."""

    act: str
    why: str

    @property
    def title(self) -> str:
        return ACTS[self.act].title


@require_safe
def operate(request: HttpRequest, kind: str, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    return _show(request, kind, _find_target(kind, public_id), as_json=as_json)


def _show(
    request: HttpRequest, kind: str, target: Target, *, refused: Refused | None = None, as_json: bool = False
) -> HttpResponse:
    episodes = episodes_of(target)
    is_live = wants_fragment(request)  # the part without the acts, every three seconds
    standing = None if is_live else standing_of(kind, target, episodes)
    acts = list(possible(standing)) if standing else []
    page = paginate(request, episodes if as_json else in_lines(episodes), per_page=EPISODES_PER_PAGE)
    under_way = at_work(_select_attempts(target), MAX_ATTEMPTS)
    working = without_closed(words_of(request), under_way)
    calling = list(_select_calls(target)[:MAX_ATTEMPTS])
    progress = None
    if not isinstance(target, Episode):
        crew = workforce().workers if target.is_open else None
        progress = progress_of([target], None if crew is None else len(crew))[target.pk]
        within = {"episode__run": target} if isinstance(target, Run) else {"episode__run__experiment": target}
        if words_of(request).hidden_results().filter(**within).exists():
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
        shown = target.trials.exclude(pk__in=words_of(request).closed_trials())
        tally = tally_by(shown, "episode").get(target.pk, tally)
    runs = list(target.runs.all()) if isinstance(target, Experiment) else [_run_of(target)]
    is_qualification = any(run.is_qualification for run in runs)
    verdicts = read_verdicts(target) if is_qualification and isinstance(target, Experiment) else []
    done = None if isinstance(target, Experiment) else progress or tally
    context = {
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
        "solved": say_solved(verdicts),
        "check": name_check(runs[0].condition) if not isinstance(target, Experiment) else "",
        "result": say_result(runs[0].condition, done.passed, done.scored) if done else "",
        "is_ours": experiment.origin == Experiment.Origin.RUN,
        "newest": Alert.objects.first(),
        "timeline": None
        if isinstance(target, Episode)
        else draw_timeline(target, list(page), words_of(request), progress),
        "possible": acts,
        "standing": standing,
        "activity": _read_activity(target),
        "progress": progress,
        "passes": _count_passes(target, progress),
        "budget": budget,
        **_read_episode_parts(target, words_of(request)),
        **(
            _read_results(target, data["attempts"], data["log"], words_of(request))
            if isinstance(target, Episode)
            else {}
        ),
    }
    template = "jobs/_operate_live.html" if is_live else "jobs/operate.html"
    response = render_page(request, template, data=data, context=context, as_json=False, status=422 if refused else 200)
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


def _read_episode_parts(target: Target, words: Words) -> dict[str, object]:
    """What only the page of one episode shows."""
    if not isinstance(target, Episode):
        return {"single": False, "places": [], "open_trials": [], "aside": []}
    return {
        "single": True,
        "places": _list_places(target),
        "open_trials": _list_open_trials(target),
        "aside": [(trial, _explain(trial, target, words)) for trial in target.trials.blocked().select_related("task")],
    }


def _read_results(
    episode: Episode, attempts: Sequence[Mapping[str, object]], log: Sequence[str] | None, words: Words
) -> dict[str, object]:
    """Each attempt with the number of trials like its own, and with the verdict and the duration of its trial, if it
    counts and this reader may see it, and which columns differ between attempts."""
    trials = episode.trials.exclude(pk__in=words.closed_trials())
    found = {pk: rest for pk, *rest in trials.values_list("pk", "success", "duration_seconds")}
    hidden = {trial.pk: trial for trial in words.hidden_results().filter(episode=episode)}
    alike: Counter[tuple[object, object]] = Counter(episode.trials.values_list("task__key", "phase"))
    return {
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
        "hidden_by": next((words.closing_trial(each.task_id, episode.key) for each in hidden.values()), None),
        "lines": [line.replace(f"episode {episode.public_id}", visible(episode.title)) for line in log or ()],
        "phases": len({each["phase"] for each in attempts}) > 1,
        "repeats": any(each["number"] != 1 for each in attempts),
        "exceptions": any(each.get("exception_type") for each in attempts),
    }


def _explain(trial: Trial, episode: Episode, words: Words) -> str:
    """Why a trial is blocked, where that is open to the reader."""
    queue = words.closing_trial(trial.task_id, episode.key)
    return hidden_until(queue) if queue else trial.explain_blocked()


@require_POST
@needs(User.Level.OPERATOR)
def operate_act(request: HttpRequest, kind: str, public_id: UUID, act: str) -> HttpResponse:
    """Carry the act out and record who did it and why. A refusal is shown at the form that was sent."""
    if act not in ACTS:
        raise Http404(f"there is no act {act}")
    target = _find_target(kind, public_id)
    reason = request.POST.get("reason", "").strip()[:MAX_REASON]
    if ACTS[act].needs_reason and not reason:
        return _show(request, kind, target, refused=Refused(act, "Say why. It is kept with the act."))
    try:
        said, following = carry_out(act, target, request.POST, reason=reason, by=user_of(request))
    except RunnerError as error:
        return _show(request, kind, target, refused=Refused(act, str(error)))
    messages.success(request, said)
    return (
        redirect("operate", following[0], following[1].public_id) if following else redirect("operate", kind, public_id)
    )


def _find_target(kind: str, public_id: UUID) -> Target:
    if kind == "experiment":
        return get_object_or_404(Experiment.objects.standing(), public_id=public_id)
    if kind == "run":
        return get_object_or_404(Run.objects.for_detail().select_related("forked_from"), public_id=public_id)
    if kind == "episode":
        own = Episode.objects.filter(run__experiment__deleted_at=None).select_related("run__experiment")
        return get_object_or_404(own, public_id=public_id)
    raise Http404(f"there is nothing to operate called {kind}")


def _run_of(target: Run | Episode) -> Run:
    return target if isinstance(target, Run) else target.run


def _select_attempts(target: Target) -> QuerySet[Attempt]:
    where = {Experiment: "trial__episode__run__experiment", Run: "trial__episode__run", Episode: "trial__episode"}
    return Attempt.objects.under_way().filter(**{where[type(target)]: target})


def _select_calls(target: Target) -> QuerySet[ModelCall]:
    where = {Experiment: "episode__run__experiment", Run: "episode__run", Episode: "episode"}
    return ModelCall.objects.of_authors_at_work().filter(**{where[type(target)]: target})


def _read_activity(target: Target) -> list[tuple[Activity, str]]:
    """What people did with it, newest first, each in words."""
    kind = type(target).__name__.lower()
    of_itself = Q(target_kind=kind, target_id=target.public_id)
    if isinstance(target, Episode):  # a skip is kept at its trial
        of_itself |= Q(target_kind="trial", target_id__in=target.trials.values("public_id"))
    about = Activity.objects.filter(of_itself).select_related("actor").order_by("-at", "-id")[:MAX_ACTIVITY]
    return [(act, f"{say_verb(act.verb)} {'it' if act.target_kind == kind else 'a trial'}") for act in about]


def _list_places(episode: Episode) -> list[tuple[int, str]]:
    """Where a fork can begin: (sequence, the trial recorded there)."""
    trials = episode.entries.filter(kind=Entry.Kind.TRIAL).select_related("attempt__trial__task").order_by("sequence")
    return [
        (entry.sequence, f"{entry.attempt.trial.phase} · {entry.attempt.trial.task.title}")
        for entry in trials
        if entry.attempt
    ]


def _list_open_trials(episode: Episode) -> list[tuple[str, str]]:
    """What can be skipped: (slot, the trial in words), blocked ones first."""
    trials = episode.trials.exclude(CLOSED).select_related("task").order_by("pk")[:MAX_OPEN]
    blocked_first = sorted(trials, key=lambda trial: trial.status != Trial.Status.BLOCKED)
    return [
        (str(slot_of(trial)), " · ".join((trial.phase, trial.task.title, *_sample(trial), trial.status)))
        for trial in blocked_first
    ]


def _sample(trial: Trial) -> list[str]:
    return [f"sample {trial.sample + 1}"] if trial.sample else []


# --- the twin ---------------------------------------------------------------------------------------------------


def _build_attempts(episode: Episode) -> list[dict[str, object]]:
    attempts = Attempt.objects.filter(trial__episode=episode).select_related("trial__task")
    return ATTEMPT.read_all(attempts.order_by("-pk")[:MAX_ATTEMPTS])


ATTEMPT = JsonShape(
    *("id=public_id", "trial", "task=trial.task.key", "title=trial.task.title", "phase=trial.phase", "number"),
    *("status", "counts", "exception_type?", "started_at", ("url", lambda attempt: attempt.trial.get_absolute_url())),
)
LEASE = JsonShape("owner=lease_owner", "until=lease_until")
EPISODE = JsonShape(
    *("id=public_id", "run", "title", "status", "failures", "blocked_reason?"),
    ("url", lambda episode: PageLink("operate-json", "episode", episode.public_id)),
)
ONE_EPISODE = JsonShape(
    *("blocked_reason?", "last_failure?", "failures", "wish?"),
    ("lease", lambda episode: LEASE.read(episode) if episode.lease_owner else None),
    ("next_try", lambda episode: episode.lease_until if not episode.lease_owner else None),
    ("log", lambda episode: live.read_log(str(episode.public_id))),
    ("attempts", _build_attempts),
)
