"""No address gives a blind reviewer a word of what they review, or of what it could be.

Addresses are discovered: every pattern of the resolver, filled from a world; what these pages link to; every search
field.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit
from uuid import UUID

import pytest
from django.apps import apps
from django.db import transaction
from django.http import HttpResponseBase
from django.test import Client
from django.urls import Resolver404, ResolverMatch, URLPattern, get_resolver, resolve, reverse
from django.utils import timezone

import inspector
from benchapp.exports.dictionary import EXPORTS
from benchapp.exports.export_run import FORMATS
from benchapp.models import Draft, JudgedUnit, ModelCall, Publication, Queue, QueueItem, Run, Trial
from benchapp.record import live
from inspector.charts import CHARTS
from tests.conftest import IS_FULL
from tests.inspector.people.test_levels import patterns
from tests.worlds.factories import make_user
from tests.worlds.planted import ASKED_PREFIX, HIDDEN_PREFIX, PlantedWorld, make_planted_world

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

PLANTED = re.compile(f"{HIDDEN_PREFIX}[a-z]{{3}}")
# The item's own pages, where the words are what is reviewed.
EXHIBIT = {"review-item", "review-item-json", "review-field"}
# Ways to ask that no page of a small world links to.
ASKED = {
    "trial-field": "step=3&field=message",
    "review-field": "step=3&field=message",
    "trial-outline": "first=1",
    "labels-export": "quotes=1&memos=1",
}
# Parts of pages that a view answers by the id which htmx swaps.
TARGETS = {
    target
    for path in Path(inspector.__file__).parent.rglob("*.py")
    for target in re.findall(r'\.target == "([\w-]+)"', path.read_text())
}

# --- addresses ----------------------------------------------------------------------------------------------------

Fill = dict[tuple[str, str], list[Any]]  # (beginning of the route, argument) -> values


def fill(world: PlantedWorld) -> Fill:
    runs = [found.decision.episode.run for found in world.planted.values()]
    trials = [found.trial for found in world.planted.values()]
    other = Trial.objects.filter(episode=trials[0].episode, phase="replay")[:1]
    draft, suite = Draft.objects.get(), runs[0].experiment.suite

    def ids(model: str, *, most: int = 100) -> list[UUID]:
        return list(apps.get_model("benchapp", model).objects.values_list("public_id", flat=True)[:most])

    publication = Publication.objects.create(
        form="site", title="all pages", experiment=runs[0].experiment, status="done"
    )
    publication.path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(publication.path, "w") as packed:
        packed.writestr("index.html", " ".join(world.words.places))
    queues = [item.queue.public_id for item in world.items.values()]
    queues += Queue.objects.filter(name__startswith="Earlier").values_list("public_id", flat=True)
    return {
        ("experiments/", "public_id"): [run.experiment.public_id for run in runs[:1]],
        ("comparisons/", "public_id"): ids("Comparison"),
        ("drafts/", "public_id"): [draft.public_id],
        ("drafts/", "number"): [draft.steps.order_by("number").values_list("number", flat=True)[0]],
        ("drafts/", "path"): ["tasks/late-fees-2/instruction.md"],
        ("comments/", "public_id"): ids("Comment", most=1),
        ("runs/", "public_id"): [run.public_id for run in [*runs, *Run.objects.filter(probe__origin__run__in=runs)]],
        ("runs/", "unit_id"): list(JudgedUnit.objects.filter(judging__run__in=runs).values_list("public_id", flat=True)),  # noqa: E501
        ("runs/", "call_id"): list(ModelCall.objects.filter(episode__run__in=runs).values_list("public_id", flat=True)),
        ("runs/", "form"): ["zip", "patch", "pull-request"],
        ("runs/", "part"): ["reply", "1", "2"],
        ("trials/", "public_id"): [trial.public_id for trial in [*trials, *other]],
        ("trials/", "other_id"): [trial.public_id for trial in [trials[0], *other]],
        ("trials/", "name"): ["instruction", "output", "exception"],
        ("trials/", "digest"): ["0" * 64],  # images hold no words; test_blind_routes.py has a real one
        ("jobs/", "kind"): ["experiment", "run", "episode"],
        ("jobs/", "public_id"): [runs[0].experiment.public_id, runs[0].public_id, trials[0].episode.public_id],
        ("jobs/", "act"): ["pause"],
        ("compare/charts/", "key"): list(CHARTS),
        ("compare/", "what"): [*EXPORTS, "table"],
        ("compare/", "form"): [*FORMATS, "tex"],
        ("comparisons/", "form"): ["csv"],
        ("review/", "form"): ["csv", "json", "jsonl", "tex"],
        ("review/versions/", "form"): ["yaml"],
        ("docs/", "name"): ["explanation/blindness", "blame-dark"],
        ("suites/", "name"): [suite.key],
        ("suites/", "task"): [trials[0].task.key, "E1-F1-T1"],
        ("people/", "name"): ["ann"],
        ("people/", "public_id"): [UUID(int=7)],  # of invitations and tokens, which hold no words
        ("publish/", "public_id"): [publication.public_id],
        ("imports/", "public_id"): [UUID(int=7)],  # an upload is its sender's alone
        ("imports/", "log"): [UUID(int=7)],
        ("review/queues/", "public_id"): queues,
        ("review/queues/", "key"): ["taxonomy"],
        ("review/items/", "public_id"): list(QueueItem.objects.filter(queue__public_id__in=queues).values_list("public_id", flat=True)),  # noqa: E501
        ("review/versions/", "public_id"): ids("CodebookVersion", most=3),
        ("review/versions/", "queue_id"): queues[-1:],
        ("review/codebooks/", "public_id"): ids("Codebook", most=2),
        ("review/codes/", "public_id"): ids("Code", most=1),
        ("review/codes/", "act"): ["rename"],
        ("review/examples/", "public_id"): ids("CodeExample", most=1),
        ("review/reviews/", "review_id"): ids("Review", most=1),
        ("review/reviews/", "mark_id"): ids("Mark", most=1),
        ("review/reviews/", "code_id"): ids("Code", most=1),
    }  # fmt: skip


def addresses_of(pattern: URLPattern, known: Fill) -> list[str]:
    route, values = str(pattern.pattern), []
    for name in pattern.pattern.converters:
        prefixes = [prefix for prefix, argument in known if argument == name and route.startswith(prefix)]
        assert prefixes, f"the world fills no {name} of {route}: add it to fill()"
        values.append(known[max(prefixes, key=len), name])
    names = list(pattern.pattern.converters)
    query = f"?{ASKED[pattern.name]}" if pattern.name in ASKED else ""
    return [reverse(pattern.name, kwargs=dict(zip(names, chosen, strict=True))) + query for chosen in product(*values)]


def match(address: str) -> ResolverMatch | None:
    try:
        return resolve(urlsplit(address).path)
    except Resolver404:
        return None


def name_of(address: str) -> str:
    found = match(address)
    return found.url_name or "" if found else ""


def links_in(text: str, at: str) -> Iterator[str]:
    """Every address of this site that an answer names, in HTML or JSON."""
    found = re.findall(r"""=["']([/?][^"'<>\s]*)["']""", text) + re.findall(r'"(http://testserver/[^"]*)"', text)
    for link in found:
        parts = urlsplit(urljoin(f"http://testserver{at}", unescape(link)))
        yield f"{parts.path}?{parts.query}" if parts.query else parts.path


def choose_links(links: Iterable[str], about: set[str]) -> list[str]:
    """One for each view and each way to ask it, preferably about what is planted. Values that are no choice of a few,
    such as ids, numbers and moments, make no other way."""
    chosen: dict[object, str] = {}
    for link in sorted(links, key=lambda each: (not any(one in each for one in about), each)):
        pairs = parse_qsl(urlsplit(link).query)
        way = frozenset((name, value if re.fullmatch(r"-?[a-z]{1,16}", value) else "") for name, value in pairs)
        if name := name_of(link):
            chosen.setdefault((name, way), link)
    return list(chosen.values())


def search_fields(text: str, at: str) -> Iterator[tuple[str, str]]:
    """(action, name) of each field for words in the forms that change nothing."""
    for attributes, inside in re.findall(r"<form\b([^>]*)>(.*?)</form>", text, re.DOTALL):
        if "post" not in attributes.lower():
            action = re.search(r'action="([^"]*)"', attributes)
            for field in re.findall(r"<input\b[^>]*>", inside):
                name, kind = re.search(r'\bname="([^"]+)"', field), re.search(r'\btype="([^"]+)"', field)
                if name and (not kind or kind[1] in {"text", "search"}):
                    yield urlsplit(urljoin(at, unescape(action[1]) if action else "")).path, name[1]


# --- the walk -----------------------------------------------------------------------------------------------------


def text_of(response: HttpResponseBase) -> str:
    content = response.getvalue()  # type: ignore[attr-defined]
    if content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            content = b"\n".join(packed.read(name) for name in packed.namelist())
    return content.decode(errors="replace")


class Walk:
    """All addresses, as an admin who reviews nothing finds them, and those at which a planted word is to be read."""

    def __init__(self, world: PlantedWorld) -> None:
        self.world = world
        self.admin = Client()
        self.admin.force_login(make_user(username="root", level="admin"))
        self.statuses: dict[str, set[int]] = defaultdict(set)
        self.telling: dict[str, str] = {}  # address -> text
        self.found: set[str] = set()
        self.fields: set[tuple[str, str]] = set()
        known = fill(world)
        self.first = {pattern.name: addresses_of(pattern, known) for pattern in patterns(get_resolver())}
        links = {link for addresses in self.first.values() for address in addresses for link in self.visit(address)}
        ids = {
            str(key) for one in world.planted.values() for key in (one.trial.public_id, one.trial.episode.run.public_id)
        }
        for address in [*choose_links(links, ids), *self.searches()]:
            self.visit(address)

    def searches(self) -> Iterator[str]:
        """Every search field asked for the planted words, some dozens at a time."""
        beginnings = sorted({ASKED_PREFIX + hidden[len(HIDDEN_PREFIX) : -1] for hidden in self.world.words.places})
        for (action, field), beginning in product(sorted(self.fields), beginnings):
            yield f"{action}?{urlencode({field: f'{beginning}*'})}"

    def visit(self, address: str) -> set[str]:
        response = self.admin.get(address)
        self.statuses[name_of(address)].add(response.status_code)
        if response.status_code != 200:
            return set()
        text = text_of(response)
        self.fields |= set(search_fields(text, urlsplit(address).path))
        if words := set(PLANTED.findall(text)):
            self.found |= words
            self.telling[address] = text
        return set(links_in(text, urlsplit(address).path))

    def answers_to(self, unit: str) -> Iterator[tuple[str, str]]:
        """(address and how it was asked, text) of everything that this blind reviewer asks for. The reviewer of a
        trial asks at every address, the others only about their item; with FULL=1 all ask everywhere."""
        reader, person = Client(), self.world.items[unit].queue.reviewers.get()
        reader.force_login(person)
        reviewed = self.world.planted["item"].trial
        mine = [str(each.public_id) for each in (self.world.items[unit], reviewed, reviewed.episode.run)]
        parted: set[tuple[str, bool]] = set()
        is_everywhere = IS_FULL or unit == "trial"
        for address, text in self.telling.items():
            if not is_everywhere and not any(each in address for each in mine):
                continue
            yield address, text_of(reader.get(address))
            kind = name_of(address), any(each in address for each in mine)
            if text.lstrip().startswith("<") and kind not in parted:  # parts of one page come from one view
                parted.add(kind)
                targets = [{"HX-Target": target} for target in TARGETS if f'id="{target}"' in text]
                for headers in [{}, *targets]:
                    part = text_of(reader.get(address, headers={"HX-Request": "true", **headers}))
                    yield f"{address} by htmx {headers}", part
        for name, addresses in self.first.items() if is_everywhere else ():
            yield addresses[0], text_of(reader.get(addresses[0]))
            if 405 in self.statuses[name]:
                with transaction.atomic():
                    sender = Client()
                    sender.force_login(person)
                    yield f"{addresses[0]} by POST", text_of(sender.post(addresses[0]))
                    transaction.set_rollback(True)

    def leaks_to(self, unit: str) -> dict[str, set[str]]:
        """name of the address and how it was asked -> places of the words that it gave away."""
        leaks: dict[str, set[str]] = defaultdict(set)
        for asked, text in self.answers_to(unit):
            address, _, way = asked.partition(" ")
            found = match(address)
            assert found
            if found.url_name in EXHIBIT and found.kwargs["public_id"] == self.world.items[unit].public_id:
                continue
            for word in PLANTED.findall(text):
                leaks[f"{found.url_name} {way}".strip()].add(self.world.words.places[word])
        return leaks


def test_no_address_gives_a_blind_reviewer_a_word_of_it(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SINGLE_USER = False
    settings.OIDC_ISSUER = (
        "https://login.example.org"  # or its addresses answer nobody; nothing is fetched for who is logged in
    )
    world = make_planted_world()
    steps = {
        str(one.running.public_id): world.words.plant(f"{tag}: step at work") for tag, one in world.planted.items()
    }
    step = {"step_id": 1, "source": "agent"}
    monkeypatch.setattr(
        live, "latest_of",
        lambda asked: {each: live.Seen(timezone.now(), {**step, "message": steps[each]}) for each in asked if each in steps},  # noqa: E501
    )  # fmt: skip
    for way in ("tail", "read"):
        monkeypatch.setattr(live, way, lambda asked, *_, **__: [("1-0", {**step, "message": steps.get(asked, "")})])
    walk = Walk(world)
    unfilled = {name for name, statuses in walk.statuses.items() if statuses <= {400, 404}} - {"trial-image"}
    assert not unfilled, "the world answers nothing there: correct fill()"
    unseen = {place for word, place in world.words.places.items() if word not in walk.found}
    assert not unseen, "nobody would notice if these were given away"
    assert "search" in {name_of(address) for address in walk.telling}
    assert {unit: walk.leaks_to(unit) for unit in world.items} == {unit: {} for unit in world.items}
