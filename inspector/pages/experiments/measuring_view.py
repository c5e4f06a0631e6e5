"""`/experiments/<id>/rounds/`: has libraries tried on all deployed tasks: of each round, or the last without each of its skills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods

from benchapp.experiments.library_probes import (
    ROUNDS_REASON,
    SKILLS_REASON,
    RoundsPreview,
    RunRounds,
    cancel_rounds,
    launch_rounds,
    list_judges,
    list_learning_runs,
    preview_rounds,
    preview_skills,
)
from benchapp.models import Experiment, User
from benchapp.record.json_shape import JsonShape
from inspector.web.access import needs, user_of
from inspector.web.responses import PageLink, render_page
from inspector.web.text.row_shapes import RUN_HEAD
from runner.base.errors import RunnerError

ROUNDS, SKILLS = "rounds", "skills"
TIMES = 1  # as the deployment of most protocols
PREVIEW = JsonShape(("probes", lambda found: len(found.probes)), "trials", "estimate")


@dataclass(frozen=True, slots=True)
class AskedMeasuring:
    """`runs`: public ids; none: all. `max_usd`: of all probes together; None: each as its run. `design`: each round's library, or the
    last one without each of its skills."""

    runs: tuple[str, ...] = ()
    times: int = TIMES
    max_usd: float | None = None
    design: str = ROUNDS

    def takes(self, found: RunRounds) -> bool:
        return not self.runs or str(found.run.public_id) in self.runs


@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.OPERATOR, to_change=True)
def experiment_rounds(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    """`?times=` asks for the estimate as well, which reads the suite."""
    experiment = get_object_or_404(Experiment.objects.standing(), public_id=public_id)
    is_post = request.method == "POST"
    if is_post and request.POST.get("act") == "cancel":
        return _cancel(request, experiment)
    if is_post and _launch(request, experiment):
        return redirect("experiment-rounds", public_id)
    query = request.POST if is_post else request.GET
    asked, problem = _read_asked(query)
    runs = list_learning_runs(experiment)
    preview = None
    if query.get("times") and not problem:
        try:
            preview = _preview(runs, asked)
        except RunnerError as error:
            problem = str(error)
    shown = [(each, not each.run.is_open and asked.takes(each)) for each in runs]
    data = {
        "experiment": experiment,
        "problem": problem or None,
        "measured": sum(each.measured for each in runs),
        "libraries": sum(each.libraries for each in runs),
        "times": asked.times,
        "max_usd": asked.max_usd,
        "design": asked.design,
        "judges": list(list_judges(each.run for each in runs if asked.takes(each))) if preview else [],
        "runs": [_read_run(each, is_chosen=is_chosen) for each, is_chosen in shown],
        "preview": preview and PREVIEW.read(preview),
        "next": None,
    }
    context = {
        "runs": shown,
        "preview": preview,
        "asked": asked,
        "under_way": sum(len(each.under_way) for each in runs),
        "has_open": any(each.open for each in runs),
        "has_ended": any(not each.run.is_open for each in runs),
        "reason": query.get("reason", SKILLS_REASON if asked.design == SKILLS else ROUNDS_REASON),
        "wants_judged": request.method == "GET" or "judged" in query,
    }
    status = 422 if is_post else 200
    return render_page(
        request, "experiments/measuring.html", data=data, context=context, as_json=as_json, status=status
    )


def _read_run(found: RunRounds, *, is_chosen: bool) -> dict[str, object]:
    return {
        "run": RUN_HEAD.read(found.run),
        "chosen": is_chosen,
        "episodes": len(found.episodes),
        "rounds": found.most_rounds,
        "libraries": found.libraries,
        "measured": found.measured,
        "under_way": found.coming,
        "open": len(found.open),
        "probe_trials": found.probed,
        "url": PageLink("run-json", found.run.public_id),
    }


def _read_asked(query: QueryDict) -> tuple[AskedMeasuring, str]:
    """Return what an address or a form asks for, and the parts that are not numbers."""
    times, usd = query.get("times", "").strip(), query.get("usd", "").strip()
    runs = tuple(dict.fromkeys(query.getlist("run")))
    if times and not (times.isascii() and times.isdigit() and len(times) < 7):
        return AskedMeasuring(runs), f"Trials of each task: expected a whole number, found {times[:40]!r}."
    try:
        limit = float(usd) if usd else None
    except ValueError:
        limit = -1.0
    if limit is not None and not (isfinite(limit) and 0 < limit < 1e9):
        return AskedMeasuring(runs), f"Dollars at most: expected more than 0, or nothing; found {usd[:40]!r}."
    design = SKILLS if query.get("design") == SKILLS else ROUNDS
    return AskedMeasuring(runs, int(times) if times else TIMES, limit, design), ""


def _preview(runs: Sequence[RunRounds], asked: AskedMeasuring) -> RoundsPreview:
    """Raise NotPossible and SetupError as `round_probes.preview_rounds`."""
    chosen = [each for each in runs if asked.takes(each)]
    if asked.design == SKILLS:
        return preview_skills([each.run for each in chosen], times=asked.times, max_usd=asked.max_usd)
    return preview_rounds(chosen, times=asked.times, max_usd=asked.max_usd)


def _launch(request: HttpRequest, found: Experiment) -> bool:
    """Launch what was estimated. False where it is refused: the page says why."""
    asked, problem = _read_asked(request.POST)
    try:
        if problem:
            raise RunnerError(problem)
        wanted = _preview(list_learning_runs(found), asked)
        judged = bool(request.POST.get("judged"))
        probes = launch_rounds(wanted, reason=request.POST.get("reason", ""), by=user_of(request), judged=judged)
    except RunnerError as error:
        messages.error(request, f"Nothing was launched. {error}")
        return False
    told = f"{len(probes)} probe{'' if len(probes) == 1 else 's'}, {wanted.trials} trials"
    place = "What skills add" if asked.design == SKILLS else "The learning curve"
    messages.success(request, f"Launched: {told}. {place} appears when they have ended.")
    return True


def _cancel(request: HttpRequest, found: Experiment) -> HttpResponse:
    reason = request.POST.get("reason", "")
    try:
        stopped = cancel_rounds(list_learning_runs(found), reason=reason, by=user_of(request))
    except RunnerError as error:
        messages.error(request, f"Nothing was cancelled. {error}")
    else:
        messages.success(request, f"Cancelled: {stopped} probe{'' if stopped == 1 else 's'}. What they recorded stays.")
    return redirect("experiment-rounds", found.public_id)
