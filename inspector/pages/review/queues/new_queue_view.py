"""`/review/queues/new/`: the form that makes a queue, and what would be drawn, before anything is saved.
The address names the selection, as on Compare."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.dateformat import format as date_format
from django.utils.text import Truncator

from benchapp.models import CodebookVersion, Experiment, Queue, QueueItem, User
from benchapp.people.accounts import LOCAL_USER
from benchapp.record.json_shape import JsonShape
from benchapp.review.blinding import drawn_elsewhere, too_early
from benchapp.review.codebooks.codebook_file import Starter, starters
from benchapp.review.codebooks.codebook_versions import CodebookRefused, freeze_starter
from benchapp.review.codebooks.hierarchy import in_order
from benchapp.review.queues.item_drawing import EQUAL, PROPORTIONAL, Draw
from benchapp.review.queues.passes import judging_skills, judging_texts
from benchapp.review.queues.populations import NARROWED_BY, NOUNS, PRESETS, STRATA, Population
from benchapp.review.queues.queue_making import (
    MAX_REVIEWS,
    QueueRefused,
    QueueSpec,
    Sketch,
    make_queue,
    seconds_per_item,
)
from benchapp.stats.comparing.selection import AXES, facets_of
from benchapp.stats.metrics.amounts import MINUTE, render_rough_duration
from inspector.pages.review.queues.queues import (
    AT_ONCE,
    FACETS,
    SHOWN,
    QueueSelection,
    count_settleable,
    drop_filter,
    keep_filter,
    may_review,
    read_selection,
)
from inspector.web.access import needs, user_of
from inspector.web.responses import render_page

HOUR = 3600
SHOW = "show"  # the button that only looks; every other way to send the form makes the queue
STARTER = "starter:"
SEED_LIMIT = 10**6
MAX_SEED = 2**31
MAX_SIZE = 100_000
MINUTES = 24 * 60
TEAM = 8  # a team up to this size is assigned whole, unless somebody unticks a person
CLOSING = {"conditions": "the condition", "models": "the models"}


@needs(User.Level.REVIEWER)
def queue_new(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    user, asked = user_of(request), read_selection(request)
    posted, makes = request.method == "POST", request.method == "POST" and SHOW not in request.POST
    shows_skills = request.GET.get(SHOWN) == "skills"
    given: Mapping[str, object] = (
        _read_posted(request, asked) if posted else _propose_form(asked, user, shows_skills=shows_skills)
    )
    form, drawn = QueueForm(given), DrawForm(given)
    sketch, refused = None, ""
    try:
        if makes and not asked.problems and form.is_valid():
            with transaction.atomic():  # the queue and, if a starter was chosen, its codebook: both or none
                queue = make_queue(form.spec(asked.population, user), user=user)
            made = HttpResponseRedirect(queue.get_absolute_url())
            drop_filter(made)
            return made
        if not asked.problems and drawn.is_valid():
            found = Sketch(drawn.population(asked.population), drawn.draw(), len(drawn.cleaned_data["reviewers"]))
            sketch = found if found.items else None  # drawn here, so that a refusal comes now
    except (QueueRefused, CodebookRefused) as error:
        refused = str(error)
    # Of the form as it is, complete or not. Decisions and libraries are about nothing but skills.
    of_trials = str(given.get("what", "")).startswith(Queue.Unit.TRIAL)
    judging, codes_total = _judging_skills(str(given.get("version", ""))) if of_trials else ([], 0)
    waiting = judging if given.get("hides_conditions") else []  # that nobody can judge in this queue
    hidden = [name for name in CLOSING if given.get(f"hides_{name}")]
    seconds = seconds_per_item(sketch.population.unit) if sketch else None
    person_seconds = sketch.per_person * seconds if sketch and sketch.per_person and seconds else None
    data = {
        "problems": asked.problems,
        "refused": refused or None,
        **SKETCH.read(sketch),
        "median_seconds": seconds,
        "hours_per_person": None if person_seconds is None else person_seconds / HOUR,
        "codes_that_wait": waiting,
        "codes": codes_total,
        "closes_pages_because_it_hides": hidden,
    }
    context = {
        **_offer(asked),
        "form": form,
        "makes": makes,
        "errors": form.errors if makes else drawn.errors if posted else {},
        "sketch": sketch,
        "judging": judging,
        "closing": [(f"id_hides_{name}", CLOSING[name]) for name in hidden],
        "ticked": drawn["reviewers"].value() or [],
        "delayed": _count_delayed(sketch, drawn, user) if sketch and not refused else 0,
        "person_time": _say_minutes(person_seconds),
        "item_time": _say_minutes(seconds),
    }
    status = 400 if asked.problems or makes else 200
    response = render_page(request, "review/queue_new.html", data=data, context=context, as_json=as_json, status=status)
    if not posted and not asked.problems and not asked.is_default and not as_json:
        keep_filter(request, response, asked.query)
    return response


@needs(User.Level.REVIEWER)
def queue_forget(request: HttpRequest) -> HttpResponse:
    """Forget the filter: the reader makes a codebook and no queue."""
    back = HttpResponseRedirect(reverse("codebooks"))
    drop_filter(back)
    return back


def _say_minutes(seconds: float | None) -> str:
    return "" if seconds is None else render_rough_duration(MINUTE * max(1, round(seconds / MINUTE)))


def _count_delayed(sketch: Sketch, form: DrawForm, user: User) -> int:
    """Count the open disagreements that this person may settle now, and not again before they have coded this queue."""
    if not form.data.get("hides_labels") or user not in form.cleaned_data["reviewers"]:
        return 0
    is_blind = bool(form.data.get("hides_conditions") or form.data.get("hides_models"))
    alike = drawn_elsewhere(sketch.population.unit, [item.public_id for item in sketch.items], is_blind=is_blind)
    queues = list(Queue.objects.filter(pk__in=QueueItem.objects.filter(alike).values("queue")))
    early = too_early(queues, user)
    return sum(count_settleable([queue for queue in queues if queue.pk not in early], user).values())


# A Sketch; null for everything unknown.
SKETCH = JsonShape(
    ("from", lambda sketch: sketch and sketch.population.noun()),
    "population_total=total",
    (
        "strata",
        lambda sketch: [
            {"stratum": name, "drawn": n, "of": total} for name, n, total in (sketch.by_stratum if sketch else ())
        ],
    ),
    ("items", lambda sketch: sketch and len(sketch.items)),
    "controls overlap reviews reviews_per_person=per_person",
)


def _offer(asked: QueueSelection) -> dict[str, object]:
    """Return what there is to choose from. kept: what the address asks for and the form has no box for."""
    selection = asked.population
    narrowed = [(name, value, text) for name, value, text in selection.narrowed_by() if name not in AXES]
    shown = {(name, str(value)) for name, value, _ in narrowed}
    pairs = [*selection.choices.pairs(), *selection.narrowing.pairs()]
    kept = [pair for pair in pairs if pair not in shown and pair[0] not in (*AXES, "baseline")]
    probes = set(map(str, Experiment.objects.probes().values_list("public_id", flat=True)))
    facets = []
    for facet in facets_of(selection.choices):
        values = sorted(facet.values, key=lambda value: not value.chosen)
        folded = [value for value in values if value.value in probes and not value.chosen]
        facets.append((facet, [value for value in values if value not in folded], folded))
    return {
        "query": asked.query,
        "selection": selection,
        "is_default": asked.is_default,
        "narrowed": narrowed,
        "kept": [*kept, ("unit", selection.unit), ("preset", selection.preset)],
        "facets": facets,
        "whats": what_choices(),
        "strata": list(FACETS.items()),
        "versions": list(frozen_versions()),
        "starters": offered_starters(),
        "people": list(may_review()),
    }


# --- the form -------------------------------------------------------------------------------------------------------


def what_choices() -> list[tuple[str, list[tuple[str, str]]]]:
    """List unit and preset in one list, by unit: "trial:failed"."""
    whats = []
    for unit, presets in PRESETS.items():
        options = [(f"{unit}:{key}", Population(unit=unit, preset=key).noun().capitalize()) for key in presets]
        whats.append((NOUNS[Queue.Unit(unit)].capitalize(), options))
    return whats


def frozen_versions() -> QuerySet[CodebookVersion]:
    return CodebookVersion.objects.exclude(frozen_at=None).select_related("codebook").order_by("codebook", "-number")


class CodebookField(forms.ModelChoiceField):  # type: ignore[type-arg]
    """A frozen version, or a starter ("starter:skillflow") whose copy is frozen when the queue is made."""

    def to_python(self, value: str | None) -> CodebookVersion | Starter | None:
        return find_starter(value) or super().to_python(value)


class DrawForm(forms.Form):
    """What is drawn and how: all that a sketch needs."""

    what = forms.ChoiceField(choices=what_choices)
    sampling = forms.ChoiceField(choices=Queue.Sampling.choices)
    size = forms.IntegerField(required=False, min_value=1, max_value=MAX_SIZE)
    facet = forms.ChoiceField(required=False, choices=[("", ""), *FACETS.items()])
    allocation = forms.ChoiceField(required=False, choices=[(EQUAL, "each"), (PROPORTIONAL, "in all")])
    controls = forms.IntegerField(required=False, min_value=0, max_value=MAX_SIZE)
    reviews = forms.IntegerField(min_value=1, max_value=MAX_REVIEWS)
    overlap = forms.IntegerField(min_value=0, max_value=100)
    seed = forms.IntegerField(min_value=0, max_value=MAX_SEED)
    reviewers = forms.ModelMultipleChoiceField(
        queryset=User.objects.none(),
        to_field_name="username",
        error_messages={"required": "Assign at least one reviewer."},
    )

    def __init__(self, given: Mapping[str, object]) -> None:
        super().__init__(given)
        people = self.fields["reviewers"]
        assert isinstance(people, forms.ModelMultipleChoiceField)
        people.queryset = may_review()

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        sampling, unit = given.get("sampling"), given.get("what", "").partition(":")[0]
        if sampling in (Queue.Sampling.RANDOM, Queue.Sampling.STRATIFIED) and not given.get("size"):
            self.add_error("size", "Say how many items to draw.")
        if sampling == Queue.Sampling.STRATIFIED and given.get("facet") not in STRATA.get(unit, {}):
            known = ", ".join(FACETS[key] for key in STRATA.get(unit, {}))
            self.add_error("facet", f"Choose what makes the strata: {known}.")
        return given

    def population(self, selection: Population) -> Population:
        """Return the selection that the form asks for, without what narrows trials alone for other units."""
        unit, _, preset = self.cleaned_data["what"].partition(":")
        narrowing = selection.narrowing
        for name, _ in narrowing.pairs():
            if name not in NARROWED_BY.get(Queue.Unit(unit), (name,)):
                narrowing = narrowing.without(name)
        return Population(unit, selection.choices, narrowing, preset)

    def draw(self) -> Draw:
        """Return how to draw. One reviewer shares with nobody: the fields for shared items do not count then."""
        given = self.cleaned_data
        stratified = given["sampling"] == Queue.Sampling.STRATIFIED
        is_alone = len(given["reviewers"]) == 1
        return Draw(
            sampling=given["sampling"],
            size=given["size"] or 0,
            facet=given["facet"] if stratified else "",
            allocation=given["allocation"] or EQUAL,
            controls=given["controls"] or 0,
            reviews=1 if is_alone else given["reviews"],
            overlap=given["overlap"] / 100,
            seed=given["seed"],
        )


class QueueForm(DrawForm):
    """Everything that fixes a queue."""

    name = forms.CharField(max_length=200, error_messages={"required": "Give it a name, so that others find it."})
    version = CodebookField(
        queryset=frozen_versions(),
        to_field_name="public_id",
        error_messages={"required": "Choose a frozen version of a codebook."},
    )
    instructions = forms.CharField(required=False, max_length=20_000)
    hides_labels = forms.BooleanField(required=False)
    hides_suggestions = forms.BooleanField(required=False)
    hides_conditions = forms.BooleanField(required=False)
    hides_models = forms.BooleanField(required=False)
    reservation = forms.IntegerField(min_value=1, max_value=MINUTES)

    def spec(self, selection: Population, user: User) -> QueueSpec:
        """Return the queue's settings.
        A chosen starter becomes a codebook here: make the queue in the same transaction."""
        given = self.cleaned_data
        chosen = given["version"]
        return QueueSpec(
            name=given["name"],
            version=freeze_starter(chosen.key, user) if isinstance(chosen, Starter) else chosen,
            population=self.population(selection),
            draw=self.draw(),
            reviewers=tuple(given["reviewers"]),
            instructions=given["instructions"],
            hides_labels=given["hides_labels"],
            hides_suggestions=given["hides_suggestions"],
            hides_conditions=given["hides_conditions"],
            hides_models=given["hides_models"],
            reservation_seconds=60 * given["reservation"],
        )


# --- what is in the form --------------------------------------------------------------------------------------------


def _read_posted(request: HttpRequest, asked: QueueSelection) -> QueryDict:
    """Read the form as sent. While somebody still chooses, what nobody changed follows the choice: the name, and
    whether the condition is hidden."""
    given, what = request.POST.copy(), request.POST.get("what", "")
    if asked.problems:
        return given
    if given.get("name") == given.get("proposed"):
        given["name"] = given["proposed"] = propose_name(what, asked.population)
    hides = "hides_conditions" in given
    if SHOW in given and hides == bool(given.get("proposed_hides_conditions")):
        hides = proposes_to_hide_conditions(what, given.get("version", ""), asked.population)
        for name in ("hides_conditions", "proposed_hides_conditions"):
            given.pop(name, None)
            given.update({name: "on"} if hides else {})
    return given


def _propose_form(asked: QueueSelection, user: User, *, shows_skills: bool) -> dict[str, object]:
    """The form before anybody wrote into it. Skills are shown where codes judge them: a form does not warn against
    what it proposes. It proposes to hide what differs, and no part of the record from somebody who is alone: hiding
    closes pages, and here they would close to the only person who reads them."""
    selection, total = asked.population, 0 if asked.problems else asked.population.total()
    newest = frozen_versions().order_by("-frozen_at").first()
    offered = offered_starters()
    people = [person.get_username() for person in may_review()]
    named = [name for name in people if name != LOCAL_USER]  # who is chosen only while there is nobody else
    version = str(newest.public_id) if newest else f"{STARTER}{offered[0].key}" if offered else ""
    what = f"{selection.unit}:{selection.preset}"
    name = "" if asked.problems else propose_name(what, selection)
    hides_conditions = not shows_skills and proposes_to_hide_conditions(what, version, selection)
    return {
        "what": what,
        "sampling": Queue.Sampling.RANDOM if total > AT_ONCE else Queue.Sampling.ALL,
        "size": AT_ONCE,
        "facet": "condition",
        "allocation": EQUAL,
        "controls": 0,
        "reviews": 2 if len(people) > 1 else 1,
        "overlap": 100,
        "seed": secrets.randbelow(SEED_LIMIT),  # another draw each time; stored with the queue
        "name": name,
        "proposed": name,
        "version": version,
        "instructions": "",
        "reservation": 30,
        "reviewers": [user.get_username()] if len(named) > TEAM else named or people,
        "hides_labels": True,
        "hides_suggestions": True,
        "hides_conditions": hides_conditions,
        "proposed_hides_conditions": "on" if hides_conditions else "",
        "hides_models": len(people) > 1 and selection.has_several_models(),
    }


def proposes_to_hide_conditions(what: str, version: str, selection: Population) -> bool:
    """Do several people compare several conditions by codes that do not judge skills?"""
    judges_skills = what.startswith(Queue.Unit.TRIAL) and bool(_judging_skills(version)[0])
    return not judges_skills and may_review().count() > 1 and selection.has_several_conditions()


def propose_name(what: str, selection: Population) -> str:
    """Propose a name: what it reviews, the experiment or how many, and the day: "Trials that failed: Example, 3 May
    2026"."""
    labels = {value: label for _, options in what_choices() for value, label in options}
    names = list(Experiment.objects.filter(public_id__in=selection.choices.experiment).values_list("name", flat=True))
    where = f"{len(names)} experiments" if len(names) > 1 else "".join(names)
    about = labels.get(what, what) + (f": {Truncator(Truncator(where).words(6)).chars(60)}" if where else "")
    return f"{about}, {date_format(timezone.localdate(), 'j M Y')}"


def _judging_skills(value: str) -> tuple[list[str], int]:
    """Return (names of the codes that judge skills, number of codes) of a frozen version or of a starter.
    Two queries, none for a starter."""
    if starter := find_starter(value):
        return list(judging_texts(starter.text)), starter.codes_total
    try:
        version = frozen_versions().filter(public_id=value).first()
    except ValidationError:  # no id at all
        version = None
    codes = list(version.codes.all()) if version else []
    judging = judging_skills(codes)
    return [code.name for code, _ in in_order(codes) if code.pk in judging], len(codes)


def find_starter(value: object) -> Starter | None:
    """Return the starter of "starter:KEY"."""
    return starters().get(value.removeprefix(STARTER)) if isinstance(value, str) and value.startswith(STARTER) else None


def offered_starters() -> list[Starter]:
    """List the starters without a frozen copy."""
    copies = set(frozen_versions().values_list("codebook__cloned_from", flat=True))
    return [starter for starter in starters().values() if f"starter {starter.key}" not in copies]
