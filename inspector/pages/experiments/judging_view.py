"""`/experiments/<id>/judgements/`: has a model judge the runs, and how far that is."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from benchapp.judges.judging_orders import JudgingWish, order_judging, progress_of_judging
from benchapp.models import Experiment, Judging, JudgingOrder, Run, User
from benchapp.record.json_shape import JsonShape
from benchapp.record.writing.human_acts import note_activity
from inspector.web.access import needs, user_of
from inspector.web.responses import link_to, render_page, wants_fragment
from runner.base.errors import SetupError
from runner.judging.metrics import SCORED
from runner.models.presets import preset_files
from runner.prompts.roles import OWN

FIRST_CALLS = 200  # offered as limit: there is a call for each key point, and nobody should be surprised by the bill
PASS = JsonShape(
    "run",
    "model",
    "prompts=prompt_version",
    "repeat",
    "scripted",
    "finished_at",
    "stopped?",
    link_to("judgements-json", "run.public_id"),
)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.OPERATOR, to_change=True)
def experiment_judging(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    found = get_object_or_404(Experiment.objects.standing(), public_id=public_id)
    problem = _order(request, found) if request.method == "POST" else ""
    if request.method == "POST" and not problem:
        return redirect("experiment-judging", public_id)
    progress = progress_of_judging(JudgingOrder.objects.filter(run__experiment=found))
    passes = Judging.objects.filter(run__experiment=found).select_related("run").order_by("-started_at", "-pk")[:100]
    data = {"experiment": found, "judging": progress, "passes": PASS.read_all(passes), "next": None}
    context = {
        "experiment": found,
        "judging": progress,
        "passes": passes,
        "is_live": any(each.is_open for each in progress),
        "problem": problem,
        "asked": request.POST if problem else {"prompts": OWN, "calls": FIRST_CALLS},
        "metrics": [(metric.value, not problem or metric in request.POST.getlist("metrics")) for metric in SCORED],
        "presets": sorted(preset_files()),
        "runs": found.runs.count(),
        "ended": found.runs.filter(status=Run.Status.DONE).count(),
        "live_url": reverse("experiment-judging", args=[public_id]),
    }
    template = "experiments/_judging_live.html" if wants_fragment(request) else "experiments/judging.html"
    return render_page(request, template, data=data, context=context, as_json=as_json, status=422 if problem else 200)


def _order(request: HttpRequest, found: Experiment) -> str:
    """What is wrong with what was sent; empty: it is ordered."""
    wish, problem = _read_wish(request.POST)
    if wish is None:
        return problem
    try:
        wish.check()
    except SetupError as error:
        return str(error)
    by = user_of(request)
    ordered = order_judging(found.runs.all(), wish, by)
    detail = {"model": wish.model, "prompts": wish.prompts, "metrics": list(wish.metrics)}
    note_activity(by, "experiment.judged", found, detail={**detail, "calls": wish.max_calls, "usd": wish.max_usd})
    messages.success(request, f"{wish.model} judges {ordered} run{'' if ordered == 1 else 's'}, each after its end.")
    return ""


def _read_wish(sent: QueryDict) -> tuple[JudgingWish | None, str]:
    """Or what is wrong with a field, and what was expected."""
    calls, usd = sent.get("calls", "").strip(), sent.get("usd", "").strip()
    try:
        max_calls, max_usd = int(calls) if calls else None, float(usd) if usd else None
    except ValueError:
        return None, "Limits: expected a whole number of calls and an amount in dollars, or nothing."
    if (max_calls is not None and not 0 < max_calls < 2**31) or (max_usd is not None and not 0 < max_usd < 1e9):
        return None, "Limits: expected more than 0, or nothing."
    model = sent.get("model", "").strip()
    if not model or len(model) > 200:
        return None, "Model: expected a preset, or a model with its provider."
    chosen = tuple(sent.getlist("metrics"))
    metrics = () if set(chosen) >= set(SCORED) else chosen
    if not chosen:
        return None, "Metrics: expected one at least."
    return JudgingWish(model, sent.get("prompts", "").strip() or OWN, metrics, max_calls, max_usd), ""
