"""`/launch/`: the experiment file as a form and as text, checked as a whole before anything is launched."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.http import require_http_methods

from benchapp.experiments.demo_experiment import DEMO
from benchapp.experiments.estimate import ExperimentEstimate, estimate
from benchapp.experiments.experiment_file import FIRST
from benchapp.experiments.foresight import Foresight, foresee
from benchapp.experiments.launch import launch as launch_experiment
from benchapp.experiments.launch_spec import LaunchSpec, SpecProblem, Unlaunchable
from benchapp.experiments.preparation import Prepared, prepare
from benchapp.experiments.schedule import Planned, schedule
from benchapp.experiments.work.progress import workforce
from benchapp.models import Experiment, User
from benchapp.record.json_shape import JsonShape, Shaped
from inspector.pages.launch import launch as form
from inspector.web.access import needs, user_of
from inspector.web.forms import parse_id
from inspector.web.responses import PageLink, render_page
from runner.base.errors import RunnerError, SetupError

FIRST_TRIALS = 12  # of the schedule, shown; the command line prints it all
EXAMPLES = Path(settings.BASE_DIR) / "examples" / "experiments"
START: dict[str, object] = {
    "name": "",
    "suite": "starter",
    "protocol": "skillevolbench",
    "conditions": ["no-skill", "selfgen-always"],
    "agents": ["shell"],
    "agent_models": ["scripted/apprentice"],
    "author_models": ["scripted/apprentice"],
    "replicates": 3,
}


@dataclass(frozen=True, slots=True)
class LaunchDraft:
    """What stands on the page: the file, what its fields show, and what is wrong with it.

    `drawn`: the file that the fields differ from by what somebody changed in them; None where they show this file.
    """

    text: str
    values: Mapping[str, form.Value]
    file: Mapping[str, object] | None  # None: no YAML
    problems: tuple[SpecProblem, ...] = ()
    drawn: str | None = None

    @property
    def fields_from(self) -> str:
        return self.text if self.drawn is None else self.drawn

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class CheckedLaunch(Shaped):
    """What would be launched."""

    prepared: Prepared
    estimate: ExperimentEstimate
    first: list[Planned]
    foreseen: Foresight

    json_shape = JsonShape(
        ("runs", lambda checked: len(checked.prepared.plans)),
        *("estimate", "first_trials=first", "cannot_run=foreseen.problems", "notes=foreseen.notes"),
    )

    @property
    def wall_seconds(self) -> float | None:
        crew = workforce()
        return self.estimate.whole.wall_seconds(len(crew.workers)) if crew.workers else None


@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.OPERATOR, to_change=True)
def launch(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    if request.method != "POST":
        return _render(request, _build_start(request), as_json=as_json)
    draft, act = _read_sent(request), request.POST.get("act", "check")
    checked: CheckedLaunch | None = None
    if draft.file is not None and act in ("check", "launch"):
        draft, checked = _check(draft)
    if act == "launch" and checked:
        if request.POST.get("checked") == draft.digest:
            try:
                return _launch(request, draft)
            except Unlaunchable as error:  # its key was launched, with another file or deleted since
                draft, checked = replace(draft, problems=error.problems), None
        else:
            messages.warning(
                request, "The file changed since it was checked: nothing was launched. This is what it says now."
            )
    status = 422 if draft.problems and act != "write" else 200
    return _render(request, draft, checked=checked, act=act, as_json=as_json, status=status)


def _read_sent(request: HttpRequest) -> LaunchDraft:
    """The file as sent, with what was changed in fields since they were drawn."""
    text, earlier = (request.POST.get(name, "").replace("\r\n", "\n") for name in ("file", "drawn"))
    sent = form.values_sent(request.POST)
    try:
        file = form.read(text)
    except SetupError as error:  # what was changed in fields is written once there is a file to write it into
        return LaunchDraft(text, sent, None, (SpecProblem("the file", str(error)),), drawn=earlier)
    try:
        drawn = form.values_of(form.read(earlier))
    except SetupError:  # sent without: what was changed is unknown
        drawn = sent
    merged = form.write_changes(file, drawn, sent)
    if merged != form.write_changes(file, sent, sent):
        text = form.write(merged)
    return LaunchDraft(text, form.values_of(merged), merged)


def _check(draft: LaunchDraft) -> tuple[LaunchDraft, CheckedLaunch | None]:
    try:
        # The workers have the keys; whether this process has them says nothing about those.
        prepared = prepare(dict(draft.file or {}), keys_elsewhere=True)
    except Unlaunchable as error:
        return LaunchDraft(draft.text, draft.values, draft.file, error.problems), None
    except RunnerError as error:  # a suite that cannot be read
        return LaunchDraft(draft.text, draft.values, draft.file, (SpecProblem("suite", str(error)),)), None
    foreseen = foresee(prepared, runs_here=False)
    try:
        foreseen.require_hope()
    except Unlaunchable as error:
        return LaunchDraft(draft.text, draft.values, draft.file, error.problems), None
    return draft, CheckedLaunch(prepared, estimate(prepared), list(islice(schedule(prepared), FIRST_TRIALS)), foreseen)


def _launch(request: HttpRequest, draft: LaunchDraft) -> HttpResponse:
    """Once, however often the button was pressed: a file without a key gets one that this page and this text make."""
    file = dict(draft.file or {})
    token = f"{request.POST.get('once', '')[:64]}:{draft.digest}"
    file.setdefault("key", "form-" + hashlib.sha256(token.encode()).hexdigest()[:24])
    experiment = launch_experiment(file, by=user_of(request), keys_elsewhere=True)
    messages.success(request, f"{experiment.name} is launched: workers take it up in turn.")
    return HttpResponseRedirect(experiment.get_absolute_url())


def _build_start(request: HttpRequest) -> LaunchDraft:
    """A new file, a bundled example (`?example=`), or that of an earlier experiment (`?from=`) without its key."""
    file, text = dict(START), ""
    if (name := request.GET.get("example", "")) in _read_examples():
        text = _read_examples()[name]
        file = form.read(text)
    elif (earlier := _find_earlier(request.GET.get("from", ""))) is not None:
        file = {name: value for name, value in earlier.spec.items() if name != "key" and not _is_default(name, value)}
    if file.pop("key", None) or not text:
        text = form.write(file)
    return LaunchDraft(text, form.values_of(file), file)


def _is_default(name: str, value: object) -> bool:
    if name in FIRST or name not in LaunchSpec.model_fields:
        return False
    found = LaunchSpec.model_fields[name]
    default = found.default.model_dump(mode="json") if hasattr(found.default, "model_dump") else found.default
    return not found.is_required() and value == (list(default) if isinstance(default, tuple) else default)


def _find_earlier(text: str) -> Experiment | None:
    own = Experiment.objects.standing().filter(origin=Experiment.Origin.RUN).exclude(spec={})
    return own.filter(public_id=wanted).first() if (wanted := parse_id(text)) else None


def _read_examples() -> dict[str, str]:
    """Name -> text, of the files that come along."""
    found = {"demo": form.write(DEMO)}
    for path in sorted(EXAMPLES.glob("*.yaml")):
        found[path.stem] = path.read_text()
    return found


def _render(
    request: HttpRequest,
    draft: LaunchDraft,
    *,
    checked: CheckedLaunch | None = None,
    act: str = "",
    as_json: bool,
    status: int = 200,
) -> HttpResponse:
    by_field: dict[str, list[str]] = {}
    for problem in draft.problems:
        by_field.setdefault(problem.field, []).append(problem.message)
    data = {
        "file": draft.text,
        "problems": draft.problems,
        "checked": checked,
        "examples": [{"name": name, "url": PageLink("launch-json", example=name)} for name in _read_examples()],
        "next": None,
    }
    if as_json:
        return render_page(request, "launch/launch.html", data=data, as_json=True, status=status)
    context = {
        "draft": draft,
        "groups": form.group_fields(draft.values, by_field),
        "units": form.units(draft.values),
        "check": checked,
        "act": act,
        "once": request.POST.get("once") or uuid.uuid4().hex,
        "chosen_example": request.GET.get("example", ""),
    }
    return render_page(request, "launch/launch.html", data=data, context=context, as_json=False, status=status)
