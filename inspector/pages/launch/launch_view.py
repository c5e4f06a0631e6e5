"""`/launch/`: the experiment file as a form and as text, checked as a whole before anything is launched."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from benchapp.experiments.example_experiment import DEMO
from benchapp.experiments.foresight import describe_design, estimate, foresee
from benchapp.experiments.launch import launch as launch_experiment
from benchapp.experiments.launch_spec import FIRST, LaunchSpec, SpecProblem, Unlaunchable, describe_launched
from benchapp.experiments.plans import author_limits_of, list_conditions
from benchapp.experiments.preparation import prepare, schedule
from benchapp.experiments.qualification import write_file as write_qualification
from benchapp.experiments.work.progress import workforce
from benchapp.models import Experiment, User
from benchapp.models import Suite as SuiteRow
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.sets.suite_files import find_suite
from benchapp.stats.comparing.condition_names import name_condition
from inspector.pages.launch import launch_form as form
from inspector.pages.launch.launch_steps import (
    FRONT,
    build_way_table,
    describe_preset,
    draw_fields,
    draw_stated,
    find_field,
    has_same_author,
    read_stated,
    split_models,
)
from inspector.web.access import needs, user_of
from inspector.web.responses import PageLink, render_page
from runner import protocols
from runner.agents import MODELLESS, agent_title
from runner.agents.oracle import has_solution
from runner.base.errors import RunnerError, SetupError
from runner.base.suite import Suite
from runner.base.text import parse_id
from runner.models import is_small
from runner.models.presets import preset_files
from runner.protocols.conditions import conditions_of
from runner.protocols.qualification import NO_SKILL
from runner.protocols.registry import OFFERED, QUALIFICATION
from runner.protocols.suitable import find_fitting_protocol, first_conditions, keep_known_conditions
from runner.suites import SUITES

PROTOCOL = LaunchSpec.model_fields["protocol"].default  # of a file that names none
BUNDLED_FORMATS = {"starter-learning": "skilllearnbench"}  # in another format's shape
FIRST_TRIALS = 12  # of the schedule, shown; the command line prints it all
FEW = ("no-skill", "raw-trajectory", "selfgen-always")  # ways to begin with; of other protocols the first three


def find_new_suite(asked: str = "") -> str:
    """Return the suite to open with: the one that is asked for, else the newest that was loaded and never launched;
    "" if none."""
    loaded = SuiteRow.objects.exclude(path="")
    if asked in SUITES or loaded.filter(key=asked).exists():
        return asked
    newest = loaded.order_by("-pk").first()
    return newest.key if newest and not newest.experiments.exists() else ""


def follow_choice(
    before: Mapping[str, object], after: Mapping[str, object]
) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return `after` with what its new suite or its new protocol asks for, where `before` had another, and what was
    changed for that, in sentences. Only what did not change itself follows."""
    file, notes = dict(after), list[str]()
    try:
        suite = find_suite(str(file.get("suite", "")))
    except RunnerError:  # the check says so
        return file, ()
    if before.get("suite") != file.get("suite"):
        notes += _follow_suite(file, before, suite)
    if before.get("protocol") != file.get("protocol"):
        notes += _drop_unknown_ways(file)
    if before.get("agents") != file.get("agents"):
        notes += _drop_unused_models(file)
    if before.get("suite") != file.get("suite") or before.get("protocol") != file.get("protocol"):
        notes += _drop_unknown_parts(file, suite)
    return file, tuple(notes)


def _follow_suite(file: dict[str, object], before: Mapping[str, object], suite: Suite) -> list[str]:
    """Choose the protocol and the sandbox that fit the suite: own tasks run in containers; the bundled ones where
    they did before somebody tried own ones."""
    notes = []
    row = SuiteRow.objects.filter(key=suite.key).first()
    fitting = find_fitting_protocol(suite, BUNDLED_FORMATS.get(suite.key) or (row.format if row else ""))
    if file.get("protocol", PROTOCOL) == before.get("protocol", PROTOCOL) != fitting:
        file["protocol"] = fitting
        notes.append(f"Protocol: {fitting}. It fits the tasks of {suite.key}.")
    sandbox = file.get("sandbox", "local")
    if sandbox != before.get("sandbox", "local"):
        return notes
    if not suite.trusted and sandbox == "local":
        file["sandbox"] = "docker"
        notes.append("Sandbox: docker. Your own tasks run in containers only.")
    elif suite.trusted and before.get("suite") not in SUITES and file.pop("sandbox", "local") != "local":
        notes.append("Sandbox: local, as bundled tasks may.")
    return notes


def _drop_unknown_ways(file: dict[str, object]) -> list[str]:
    protocol, chosen = str(file.get("protocol", PROTOCOL)), file.get("conditions")
    if protocol not in OFFERED or not isinstance(chosen, list):
        return []
    kept, dropped = keep_known_conditions(map(str, chosen), protocol)
    added = [name for name in first_conditions(protocol) if name not in kept] if dropped and len(kept) < 2 else []
    file["conditions"] = kept + added
    if not dropped:
        return []
    gone, come = (", ".join(name_condition(name).title for name in names) for names in (dropped, added))
    if gone == come:
        return [f"Conditions follow the protocol: {gone} is {protocol}'s own."]
    return [f"Conditions follow the protocol: {protocol} does not have {gone}.{f' Added: {come}.' if come else ''}"]


def drop_models(file: dict[str, object]) -> None:
    """Drop the models, and the agent that writes for one."""
    file |= {"agent_models": [None], "author_models": [None]}
    file.pop("author_agents", None)


def _drop_unused_models(file: dict[str, object]) -> list[str]:
    """Remove the models and the author if no agent asks a model: the author would learn from trials that nobody
    thought about."""
    agents, chosen = file.get("agents"), file.get("conditions")
    if not isinstance(agents, list) or not agents or not set(map(str, agents)) <= MODELLESS:
        return []
    drop_models(file)
    notes = [f"Models: none. {' and '.join(map(str, agents))} use{'s' if len(agents) == 1 else ''} no model."]
    try:
        known = conditions_of(str(file.get("protocol", PROTOCOL)))
    except SetupError:
        return notes
    names = [str(name) for name in chosen] if isinstance(chosen, list) else []
    dropped = [name for name in names if (base := name.partition("@")[0]) in known and known[base].has_author]
    if dropped:
        file["conditions"] = [name for name in names if name not in dropped] or [next(iter(known))]
        notes.append(f"Dropped {', '.join(dropped)}: without a model nobody writes a skill.")
    return notes


def _drop_unknown_parts(file: dict[str, object], suite: Suite) -> list[str]:
    parts = file.get("environments")
    if not isinstance(parts, list) or not parts:
        return []
    try:
        known = {unit.key for unit in protocols.units(str(file.get("protocol", PROTOCOL)), suite)}
    except RunnerError:
        return []
    dropped = [str(part) for part in parts if part not in known]
    if not dropped:
        return []
    file["environments"] = [part for part in parts if part in known]
    if not file["environments"]:
        del file["environments"]
    return [f"Dropped parts {', '.join(dropped)}: {suite.key} has other parts now."]


EXAMPLES = Path(settings.BASE_DIR) / "examples" / "experiments"
START: dict[str, object] = {
    "name": "Two ways to remember",
    "suite": "starter",
    "protocol": "skillevolbench",
    "conditions": ["no-skill", "selfgen-always"],
    "agents": ["shell"],
    "agent_models": ["scripted/apprentice"],
    "author_models": ["scripted/apprentice"],
    "replicates": 3,
}


@dataclass(slots=True)
class LaunchDraft:
    """What the page shows: the file, the values of its fields, and what is wrong with it.

    `drawn`: the file that the fields differ from by what somebody changed in them; None where they show this file.
    """

    text: str
    values: Mapping[str, form.Value]
    file: Mapping[str, object] | None  # None: no YAML
    problems: tuple[SpecProblem, ...] = ()
    drawn: str | None = None
    notes: tuple[str, ...] = ()  # what followed a choice without being chosen

    @classmethod
    def of(cls, file: Mapping[str, object], notes: tuple[str, ...] = ()) -> LaunchDraft:
        return cls(form.write(file), form.values_of(file), file, notes=notes)

    @property
    def fields_from(self) -> str:
        return self.text if self.drawn is None else self.drawn

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:24]

    @property
    def billed(self) -> str:
        """Return a digest of everything the bill depends on; the experiment's name is not part of it."""
        text = form.write({**form.name_in_plural(self.file), "name": ""}) if self.file else self.text
        return hashlib.sha256(text.encode()).hexdigest()[:24]


class CheckedLaunch(Shaped):
    """What would be launched, for what, and what it can find out. Nothing is written. `stated`: numbers of the plan, in
    place of what was measured or guessed. Unlaunchable has every problem.

    `asks_models`: some agent does; if the tasks' own solutions run, or nothing, tasks are tried and no conditions are
    compared. `untried`: arms that never ran here. `models`: of agents and authors; none if no agent asks any.
    `author_works`: how authors answer, if an agent is among them. `fails_own_tasks`: a script is to solve tasks that it
    does not know. `can_try_solutions`: somebody without a key can see the tasks run, as each has a solution of its own.
    `units`: keys of all parts that the protocol makes of the suite, also of those that were left out."""

    json_shape = JsonShape(
        ("runs", lambda checked: len(checked.prepared.plans)),
        "estimate first_trials=first cannot_run=foreseen.problems notes=foreseen.notes design",
    )

    def __init__(self, file: Mapping[str, object], stated: Mapping[str, float]) -> None:
        # The workers have the keys; whether this process has them says nothing about those.
        self.prepared = prepare(dict(file), keys_elsewhere=True)
        self.foreseen = foresee(self.prepared, runs_here=False)
        self.foreseen.require_hope()
        self.crew, self.estimate = workforce(), estimate(self.prepared)
        self.first = list(islice(schedule(self.prepared), FIRST_TRIALS))
        workers = max(1, len(self.crew.workers or ()))
        self.design = describe_design(self.prepared, self.estimate, workers, stated)
        spec, suite, agents = self.prepared.spec, self.prepared.suite, self.prepared.spec.author_agents
        self.asks_models = any(arm.agent_model for arm in self.prepared.setups)
        self.lacks_labels = self.crew.lacks(frozenset(spec.worker_labels))
        self.untried = sum(not each.basis for each in self.estimate.arms.values())
        self.author_limits = author_limits_of(spec)
        self.author_works = [agent_title(name) if name else "one call" for name in agents] if any(agents) else []
        has_models = not set(spec.agents) <= MODELLESS
        self.models = [*map(str, (*spec.agent_models, *spec.author_models))] if has_models else []
        self.scripted = any(name.startswith("scripted/") for name in self.models)
        self.small = any(map(is_small, self.models))
        self.fails_own_tasks = self.scripted and not suite.trusted
        self.can_try_solutions = self.fails_own_tasks and all(map(has_solution, suite.tasks))
        self.units = [unit.key for unit in protocols.units(spec.protocol, suite)]
        self.can_narrow = self.design.episodes > 1 or self.design.replicates > 1

    @property
    def tasks(self) -> int:
        return len({(planned.unit, planned.slot.task) for planned in schedule(self.prepared)})

    @property
    def factors(self) -> list[tuple[int, str]]:
        """Say what the runs are made of, "2 conditions x 3 replicates". Except for conditions, a factor with one
        value is left out. A condition with two choices of prompts counts twice."""
        spec = self.prepared.spec
        counted = (
            (len(spec.agents), "agents"),
            (len(spec.agent_models), "agent models"),
            (len(spec.author_agents), "ways of the author"),
            (len(spec.author_models), "author models"),
            (spec.replicates, "replicates"),
        )
        names = list_conditions(spec)
        conditions = (len(names), "condition" if len(names) == 1 else "conditions")
        return [conditions, *(each for each in counted if each[0] > 1)]


@needs(User.Level.OPERATOR, to_change=True)
def launch(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    if request.method != "POST":
        draft = _build_start(request)
        return _render(request, draft, _check(draft, {}), as_json=as_json)
    act = request.POST.get("act", "check")
    stated = {name: each / 100 for name, each in read_stated(request.POST.dict()).items() if isinstance(each, float)}
    draft = _change(_read_sent(request), act)
    checked = _check(draft, stated)
    if act == "launch" and checked:
        if request.POST.get("checked") == draft.billed:
            # Once, however often the button was pressed: a file without a key gets one of this page and this text.
            token = f"{request.POST.get('once', '')[:64]}:{draft.digest}"
            key = "form-" + hashlib.sha256(token.encode()).hexdigest()[:24]
            try:
                experiment = launch_experiment(
                    {"key": key, **(draft.file or {})}, by=user_of(request), keys_elsewhere=True
                )
            except Unlaunchable as error:  # its key was launched, with another file or deleted since
                draft.problems, checked = error.problems, None
            else:
                messages.success(request, f"{experiment.name} is launched and waits for a worker.")
                return redirect(experiment)
        else:
            messages.warning(request, "Nothing was launched: a setting changed. Check the new estimate.")
    return _render(request, draft, checked, act=act, as_json=as_json)


def _read_sent(request: HttpRequest) -> LaunchDraft:
    """Return the file as sent, with what was changed in fields since they were drawn."""
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
    unchanged, merged = form.write_changes(file, sent, sent), form.write_changes(file, drawn, sent)
    if merged == unchanged:
        return LaunchDraft(text, form.values_of(merged), merged)
    return LaunchDraft.of(*follow_choice(unchanged, merged))


def _change(draft: LaunchDraft, act: str) -> LaunchDraft:
    """Return what a button next to a step writes into the file: all conditions, a few, the tasks' own solutions, or
    one episode to try first."""
    file = dict(draft.file or {})
    try:
        known = list(conditions_of(str(draft.values["protocol"])))
    except SetupError:
        return draft
    if act == "all-ways":
        file["conditions"] = [name for name in known if name != "plug-in"]  # that one needs a program of your own
    elif act == "few-ways":
        file["conditions"] = [name for name in FEW if name in known] if set(FEW) <= set(known) else known[:3]
    elif act == "solutions":
        file |= {"agents": ["oracle"], "conditions": known[:1], "replicates": 1}
        drop_models(file)
        file.pop("hypotheses", None)  # about conditions that are left out now
    elif act == "one-episode":
        file |= {"environments": form.units(draft.values)[:1], "replicates": 1}
    if draft.file is None or file == draft.file:
        return draft
    return LaunchDraft.of(file, draft.notes)


def _check(draft: LaunchDraft, stated: Mapping[str, float]) -> CheckedLaunch | None:
    """Return the bill; else the draft has every problem."""
    try:
        return None if draft.file is None else CheckedLaunch(draft.file, stated)
    except Unlaunchable as error:
        draft.problems = error.problems
    except RunnerError as error:  # a suite that cannot be read
        draft.problems = (SpecProblem("suite", str(error)),)
    return None


def _build_start(request: HttpRequest) -> LaunchDraft:
    """A new file, a bundled example (`?example=`), or that of an earlier experiment (`?from=`) without its key, or
    the qualification of a suite (`?qualify=`). A new file is over the suite that is asked for (`?suite=`), or that
    was loaded and never launched. `?model=`: a preset that agents and authors use."""
    file, text = dict(START), ""
    notes: tuple[str, ...] = ()
    try:
        presets = preset_files()
    except SetupError:
        presets = {}
    if (name := request.GET.get("example", "")) in _read_examples():
        text = _read_examples()[name]
        file = form.read(text)
    elif (earlier := _find_earlier(request.GET.get("from", ""))) is not None:
        launched = describe_launched(earlier.spec)
        file = {name: value for name, value in launched.items() if name != "key" and not _is_default(name, value)}
    elif name := request.GET.get("qualify", ""):
        try:
            suite = find_suite(name)
            file = write_qualification(suite, model="scripted/apprentice" if suite.trusted else None)
        except SetupError:  # the form says so at the field of the suite
            file |= {"suite": name, "protocol": QUALIFICATION, "conditions": [NO_SKILL], "replicates": 1}
    elif (key := find_new_suite(request.GET.get("suite", ""))) not in ("", START["suite"]):
        file, notes = follow_choice(file, {**file, "suite": key, "name": f"First run of {key}"})
    model = request.GET.get("model", "")
    if model in presets and file.get("protocol") != QUALIFICATION:
        file |= {"agent_models": [model], "author_models": [model]}
    if file.pop("key", None) or model in presets or not text:
        text = form.write(file)
    return LaunchDraft(text, form.values_of(file), file, notes=notes)


def _is_default(name: str, value: object) -> bool:
    if name in FIRST or name not in LaunchSpec.model_fields:
        return False
    found = LaunchSpec.model_fields[name]
    default = found.default.model_dump(mode="json") if hasattr(found.default, "model_dump") else found.default
    return not found.is_required() and value == (list(default) if isinstance(default, tuple) else default)


def _find_earlier(text: str) -> Experiment | None:
    own = Experiment.objects.not_deleted().filter(origin=Experiment.Origin.RUN).exclude(spec={})
    return own.filter(public_id=wanted).first() if (wanted := parse_id(text)) else None


@cache
def _read_examples() -> dict[str, str]:
    """Name -> text, of the files that come along."""
    return {"demo": form.write(DEMO), **{path.stem: path.read_text() for path in sorted(EXAMPLES.glob("*.yaml"))}}


@cache
def _describe_examples() -> list[dict[str, object]]:
    return [describe_preset(name, form.read(text)) for name, text in _read_examples().items()]


def _render(
    request: HttpRequest, draft: LaunchDraft, checked: CheckedLaunch | None, *, act: str = "", as_json: bool
) -> HttpResponse:
    status = 422 if draft.problems and act in ("check", "launch") else 200
    by_field: dict[str, list[str]] = {}
    for problem in draft.problems:
        by_field.setdefault(problem.field, []).append(problem.message)
    data = {
        "file": draft.text,
        "problems": draft.problems,
        "checked": checked,
        "followed": draft.notes,
        "examples": [{"name": name, "url": PageLink("launch-json", example=name)} for name in _read_examples()],
    }
    if as_json:
        return render_page(request, "launch/launch.html", data=data, as_json=True, status=status)
    fields = draw_fields(draft.values, by_field)
    presets = _describe_examples()
    qualifies = draft.values.get("protocol") == QUALIFICATION
    context = {
        "draft": draft,
        "faults": [(find_field(problem.field), problem) for problem in draft.problems],
        "fields": {name.replace(".", "_"): shown for name, shown in fields.items()},
        "more": [fields[name] for name in form.MORE],
        "more_is_open": any(fields[name].errors for name in form.MORE)
        or any(form.is_set(draft.values, name) for name in form.AUTHOR_SETTINGS),
        "ways": build_way_table(fields["conditions"]),
        "models": split_models(fields["agent_models"]),
        "authors": split_models(fields["author_models"]),
        "same_author": has_same_author(draft.values) and (request.method != "POST" or form.SAME_AUTHOR in request.POST),
        "author_works": {"shown": fields["author_agents"], "is_set": form.is_set(draft.values, "author_agents")},
        "units": checked.units if checked else form.units(draft.values),
        "check": checked,
        "stated": draw_stated(request.POST.dict(), checked.design if checked else None),
        "act": act,
        "once": request.POST.get("once") or uuid.uuid4().hex,
        "presets": [each for each in presets if each["name"] in FRONT],
        "more_presets": [each for each in presets if each["name"] not in FRONT],
        "qualifies": qualifies,
        **({"section": "draft"} if qualifies else {}),  # it belongs to the suites
        "chosen_example": request.GET.get("example", ""),
    }
    return render_page(request, "launch/launch.html", data=data, context=context, status=status)
