"""The form that makes a queue: from what people send to a population, a draw and a spec."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import QueryDict

from benchapp.models import CodebookVersion, Experiment, Queue, User
from benchapp.people.accounts import LOCAL_USER
from benchapp.review.codebooks.codebook_versions import freeze_starter
from benchapp.review.codebooks.hierarchy import in_order
from benchapp.review.codebooks.skill_codes import judging_skills, judging_texts
from benchapp.review.codebooks.starters import Starter, starters
from benchapp.review.queues.item_drawing import EQUAL, PROPORTIONAL, Draw
from benchapp.review.queues.populations import NARROWED_BY, NOUNS, PRESETS, STRATA, Population
from benchapp.review.queues.queue_making import MAX_REVIEWS, QueueSpec
from inspector.pages.review.offered_rows import offer_rows
from inspector.pages.review.queues.queue_selection import AT_ONCE, QueueSelection

STARTER = "starter:"
FACETS = {
    "condition": "condition",
    "agent_model": "agent model",
    "author_model": "author model",
    "environment": "environment",
    "family": "family",
    "role": "role",
    "phase": "phase",
    "status": "the decision's outcome",
}
SEED_LIMIT = 10**6
MAX_SEED = 2**31
MAX_SIZE = 100_000
MINUTES = 24 * 60
TEAM = 8  # up to so many people are all assigned, unless somebody unticks them


def what_choices() -> list[tuple[str, list[tuple[str, str]]]]:
    """Unit and preset in one list, by unit: "trial:failed"."""
    return [
        (NOUNS[Queue.Unit(unit)].capitalize(), [(f"{unit}:{key}", _says(unit, key)) for key in presets])
        for unit, presets in PRESETS.items()
    ]


def _says(unit: str, preset: str) -> str:
    return Population(unit=unit, preset=preset).says().capitalize()


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

    def __init__(self, given: QueryDict) -> None:
        super().__init__(given)
        offer_rows(self, "reviewers", may_review())

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
        """The selection, taken as what the form asks for; what narrows trials alone is dropped for other units."""
        unit, _, preset = self.cleaned_data["what"].partition(":")
        narrowing = selection.narrowing
        for name, _ in narrowing.pairs():
            if name not in NARROWED_BY.get(Queue.Unit(unit), (name,)):
                narrowing = narrowing.without(name)
        return Population(unit, selection.choices, narrowing, preset)

    def draw(self) -> Draw:
        """One reviewer shares with nobody: what stands in the fields for shared items is left aside then."""
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
    """All that fixes a queue."""

    name = forms.CharField(max_length=200, error_messages={"required": "Give it a name, so that others find it."})
    version = CodebookField(
        queryset=CodebookVersion.objects.none(),
        to_field_name="public_id",
        error_messages={"required": "Choose a frozen version of a codebook."},
    )
    instructions = forms.CharField(required=False, max_length=20_000)
    hides_labels = forms.BooleanField(required=False)
    hides_suggestions = forms.BooleanField(required=False)
    hides_conditions = forms.BooleanField(required=False)
    hides_models = forms.BooleanField(required=False)
    reservation = forms.IntegerField(min_value=1, max_value=MINUTES)

    def __init__(self, given: QueryDict) -> None:
        super().__init__(given)
        offer_rows(self, "version", frozen_versions())

    def spec(self, selection: Population, user: User) -> QueueSpec:
        """A chosen starter becomes a codebook here: make the queue in the same transaction."""
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


def defaults(asked: QueueSelection, user: User, *, shows_skills: bool) -> dict[str, object]:
    """What stands in the form before anybody wrote into it. Skills are shown where codes judge them: a form does not warn
    against what it proposes. It proposes to hide what differs, and nothing of the record from somebody who is alone:
    hiding closes pages, and here they would close to the only person who reads them."""
    selection, total = asked.population, 0 if asked.problems else asked.population.total()
    newest = frozen_versions().order_by("-frozen_at").first()
    offered = offered_starters()
    starter = f"{STARTER}{offered[0].key}" if offered else ""
    people = [person.get_username() for person in may_review()]
    is_alone = len(people) < 2
    version = str(newest.public_id) if newest else starter
    what = f"{selection.unit}:{selection.preset}"
    hides_conditions = not shows_skills and proposes_to_hide_conditions(what, version, selection)
    name = "" if asked.problems else propose_name(what, selection)
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
        "reviewers": _choose_team(people, user),
        "name": name,
        "proposed": name,
        "version": version,
        "instructions": "",
        "hides_labels": True,
        "hides_suggestions": True,
        "hides_conditions": hides_conditions,
        "proposed_hides_conditions": hides_conditions,
        "hides_models": not is_alone and selection.has_several_models(),
        "reservation": 30,
    }


def proposes_to_hide_conditions(what: str, version: str, selection: Population) -> bool:
    """Where several people compare several conditions by codes that do not judge skills."""
    judges_skills = what.startswith(Queue.Unit.TRIAL) and bool(_judging_skills(version)[0])
    return not judges_skills and may_review().count() > 1 and selection.has_several_conditions()


def propose_name(what: str, selection: Population) -> str:
    """What it reviews, and of which experiments: "Trials that failed: Example"."""
    labels = {value: label for _, options in what_choices() for value, label in options}
    names = Experiment.objects.filter(public_id__in=selection.choices.experiment).values_list("name", flat=True)
    return f"{labels.get(what, what)}: {', '.join(names)}"[:200] if names else labels.get(what, what)


@dataclass(frozen=True, slots=True)
class ClosingChoice:
    """What of the record the form hides, so that pages close (benchapp.review.blinding). hidden: the names of its boxes."""

    hidden: list[str]

    @property
    def switches(self) -> list[tuple[str, str]]:
        """(id of the box, what it hides)."""
        return [(f"id_hides_{name}", CLOSING[name]) for name in self.hidden]

    @property
    def words(self) -> str:
        return " and ".join(CLOSING[name] for name in self.hidden)


CLOSING = {"conditions": "the condition", "models": "the models"}


def read_closing(given: QueryDict) -> ClosingChoice:
    """Of the form as it stands, complete or not."""
    return ClosingChoice([name for name in CLOSING if given.get(f"hides_{name}")])


@dataclass(frozen=True, slots=True)
class SkillCodes:
    """Codes of the chosen version that judge skills, of how many, and whether the form hides the skills from them."""

    names: list[str]
    total: int
    are_hidden: bool

    @property
    def waiting(self) -> list[str]:
        """Those that nobody can judge in this queue."""
        return self.names if self.are_hidden else []


def read_skill_codes(given: QueryDict) -> SkillCodes:
    """Of the form as it stands, complete or not. Two queries, none where trials are not reviewed or a starter is chosen."""
    if not given.get("what", "").startswith(Queue.Unit.TRIAL):  # decisions and libraries are about nothing else
        return SkillCodes([], 0, are_hidden=False)
    return SkillCodes(*_judging_skills(given.get("version", "")), are_hidden=bool(given.get("hides_conditions")))


def _judging_skills(value: str) -> tuple[list[str], int]:
    """(names of the codes that judge skills, codes in all) of a frozen version or of a starter."""
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
    """The starter of "starter:KEY"."""
    return starters().get(value.removeprefix(STARTER)) if isinstance(value, str) and value.startswith(STARTER) else None


def offered_starters() -> list[Starter]:
    """Those of which no copy is frozen yet."""
    copies = set(frozen_versions().values_list("codebook__cloned_from", flat=True))
    return [starter for starter in starters().values() if f"starter {starter.key}" not in copies]


def may_review() -> QuerySet[User]:
    """Those who can code here: nobody logs in as the one person of single-user mode."""
    levels = User.Level.values[User.Level.values.index(User.Level.REVIEWER) :]
    people = User.objects.filter(is_active=True, level__in=levels).order_by("username")
    return people if settings.SINGLE_USER else people.exclude(username=LOCAL_USER)


def frozen_versions() -> QuerySet[CodebookVersion]:
    return CodebookVersion.objects.exclude(frozen_at=None).select_related("codebook").order_by("codebook", "-number")


def _choose_team(people: Sequence[str], user: User) -> Sequence[str]:
    """Everybody of a small team; the local user only while there is nobody else."""
    named = [name for name in people if name != LOCAL_USER]
    if len(named) > TEAM:
        return [user.get_username()]
    return named or people
