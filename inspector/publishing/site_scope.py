"""Which addresses belong to a published site, and the file that each becomes.

A page is known by its *place*: its path and what of its query changes what it shows, in a fixed order. Two addresses
of one page have one place. Everything that is not listed here is left out, and links to it become plain text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import UUID

from django.urls import Resolver404, ResolverMatch, resolve, reverse

from benchapp.models import Experiment, Run
from inspector.pages.library.rail import choose_episode

SUFFIXES = {
    "text/html": ".html",
    "text/plain": ".txt",
    "text/csv": ".csv",
    "application/json": ".json",
    "application/octet-stream": ".bin",
    **{f"image/{name}": f".{name}" for name in ("png", "jpeg", "gif", "webp")},
}
STEP_KEYS = ("at", "step")  # which step of a trial; the page that holds it is found by its windows


def _views(*views: str) -> frozenset[frozenset[str]]:
    """The sets of names that a query may have: "episode decision" is one of them, "" stands for no query."""
    return frozenset(frozenset(view.split()) for view in views)


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page by the name of its address. `of`: what its path names, or "compare" where its query names the experiment.
    `ignored`: what of the query only marks a place in the page."""

    of: str
    views: frozenset[frozenset[str]] = frozenset({frozenset()})
    ignored: Collection[str] = ()


_GROUP = "condition agent_model harness"  # with `author_model` where a condition has an author
PAGES: Mapping[str, ShownPage] = {
    "experiment": ShownPage("experiment", _views("", "metric")),
    "run": ShownPage("run", _views("", "episode", "page")),
    "skills": ShownPage("run", _views("", "episode skill")),
    "library": ShownPage("run", _views("", "episode", "episode decision", "episode decision file")),
    "library-file": ShownPage("run", _views("episode file", "episode decision file")),
    "blame": ShownPage(
        "run",
        _views("", "episode", "episode skill", "episode file", "at episode", "at episode file"),
        ignored=("line",),
    ),
    "findings": ShownPage("run", _views("", "episode", "episode round")),
    "author-call": ShownPage("run", _views("episode decision", "episode decision show")),
    "author-text": ShownPage("run"),
    "trial": ShownPage(
        "trial",
        _views("", "first", "attempt", "attempt first", "trajectory", "trajectory first"),
        ignored=STEP_KEYS,
    ),
    "trial-text": ShownPage("trial", _views("", "attempt")),
    "trial-field": ShownPage("trial", _views("trajectory step field", "trajectory step field start end")),
    "trial-image": ShownPage("trial"),
    "trial-trajectory": ShownPage("trial", _views("", "attempt")),
    "chart": ShownPage("compare"),
    "chart-json": ShownPage("compare"),
    "chart-csv": ShownPage("compare"),
    "compare-trials": ShownPage(
        "compare",
        _views(
            "", "page", "outcome", _GROUP, f"{_GROUP} author_model", f"{_GROUP} metric", f"{_GROUP} author_model metric"
        ),
    ),
    "compare-failures": ShownPage("compare", _views("", "page", "class", "class page")),
    "compare-lines": ShownPage("compare", _views("", "condition agent_model")),
    "compare-where": ShownPage("compare", _views("", "page", "groups", "groups page")),
    "compare-cost": ShownPage("compare"),
    "compare-certainty": ShownPage("compare", _views("", "page")),
    "compare-runs": ShownPage("compare", _views("", "page")),
    "compare-replay": ShownPage("compare"),
    "compare-libraries": ShownPage("compare"),
    "compare-dictionary": ShownPage(""),
    "comparison": ShownPage("comparison"),
    "published": ShownPage("", _views("", "paper")),
    "document": ShownPage("document"),
}
DOCUMENTS = ("glossary",)


@dataclass(frozen=True, slots=True)
class SiteLink:
    """Where a link leads: a place, the part of the page, and for a trial the step ("14", "last") that must be on it."""

    place: str
    fragment: str = ""
    step: str = ""


@dataclass(slots=True)
class SiteScope:
    """`trials`, `comparisons`: public ids of those that are published."""

    experiment: Experiment
    trials: Collection[UUID]
    comparisons: Collection[UUID]
    runs: Mapping[UUID, Run] = field(init=False)
    _episodes: dict[UUID, str] = field(default_factory=dict)
    _settled: dict[str, SiteLink | None] = field(default_factory=dict)  # a link of the frame is on every page
    _matches: dict[str, ResolverMatch | None] = field(default_factory=dict)  # by path: many links differ in their query

    def __post_init__(self) -> None:
        self.runs = {run.public_id: run for run in self.experiment.runs.for_detail()}

    @property
    def home(self) -> str:
        return self.experiment.get_absolute_url()

    def settle(self, address: str) -> SiteLink | None:
        """Of an address of this installation, whole or from its root; None where no page of the site answers it."""
        if address not in self._settled:
            self._settled[address] = self._settle(address)
        return self._settled[address]

    def _settle(self, address: str) -> SiteLink | None:
        url = urlsplit(address)
        match = self.match(url.path)
        if match is None:
            return None
        name, query = match.url_name or "", parse_qsl(url.query, keep_blank_values=True)
        if name == "run" and (moved := self._follow_cursor(match.kwargs["public_id"], dict(query))):
            return self.settle(moved)
        shown = PAGES.get(name)
        if shown is None or not self._owns(shown, match.kwargs) or not self._chooses_only_this(shown, query):
            return None
        kept = [(key, value) for key, value in query if key != "experiment" and key not in shown.ignored]
        kept = self._name_episode(name, match.kwargs, kept)
        if frozenset(key for key, _ in kept) not in shown.views:
            return None
        step = next((value for key, value in query if key in STEP_KEYS), "") if name == "trial" else ""
        return SiteLink(url.path + (f"?{urlencode(sorted(kept))}" if kept else ""), url.fragment, step)

    def match(self, path: str) -> ResolverMatch | None:
        if path not in self._matches:
            try:
                self._matches[path] = resolve(path)
            except Resolver404:
                self._matches[path] = None
        return self._matches[path]

    def route_of(self, place: str) -> str:
        match = self.match(place.partition("?")[0])
        return (match and match.url_name) or ""

    def address_of(self, place: str) -> str:
        """What answers it: a page of several experiments is asked for this one."""
        path, _, query = place.partition("?")
        if PAGES[self.route_of(place)].of != "compare":
            return place
        return f"{path}?experiment={self.experiment.public_id}" + (f"&{query}" if query else "")

    def file_of(self, place: str, kind: str) -> str:
        """`runs/ID/index.html`; with a query `runs/ID/q-DIGEST.html`. The experiment's pages are at the root."""
        path, _, query = place.partition("?")
        folder, _, name = path.removeprefix(self.home).lstrip("/").rpartition("/")
        mark = f"q-{hashlib.sha256(query.encode()).hexdigest()[:16]}" if query else ""
        stem, dot, ending = name.rpartition(".")
        file = "-".join(filter(None, (stem, mark))) + dot + ending if dot else (mark or "index") + SUFFIXES[kind]
        return f"{folder}/{file}" if folder else file

    def _owns(self, shown: ShownPage, named: Mapping[str, object]) -> bool:
        owned: Mapping[str, Collection[object]] = {
            "experiment": (self.experiment.public_id,),
            "run": self.runs,
            "trial": self.trials,
            "comparison": self.comparisons,
        }
        if shown.of == "document":
            return named["name"] in DOCUMENTS
        return shown.of not in owned or named["public_id"] in owned[shown.of]

    def _chooses_only_this(self, shown: ShownPage, query: Iterable[tuple[str, str]]) -> bool:
        chosen = {value for key, value in query if key == "experiment"}
        own = {str(self.experiment.public_id)}
        return chosen == own if shown.of == "compare" else chosen <= own

    def _follow_cursor(self, run: UUID, query: Mapping[str, str]) -> str:
        """The strip of a run moves a cursor, with a page for each place.
        Here it leads to the trial or change itself."""
        at, episode = query.get("at", ""), query.get("episode", "")
        if at.startswith("d") and at[1:].isdecimal():
            return f"{reverse('library', args=[run])}?{urlencode({'episode': episode, 'decision': at[1:]})}"
        return reverse("trial", args=[at]) if len(at) == 36 else ""

    def _name_episode(
        self, name: str, named: Mapping[str, UUID], query: list[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        """A library's page shows one episode whether or not the address says which."""
        if name not in ("library", "blame") or not query or any(key == "episode" for key, _ in query):
            return query
        run = named["public_id"]
        if run not in self._episodes:
            _, chosen = choose_episode(self.runs[run])
            self._episodes[run] = str(chosen.public_id) if chosen else ""
        return [("episode", self._episodes[run]), *query]
