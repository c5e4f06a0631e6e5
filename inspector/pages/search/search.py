"""Hits as the search page shows them: what it is, where it opens, and the marked text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode
from uuid import UUID

from django.urls import reverse

from benchapp.models import Run, SearchDocument, Trial
from benchapp.search.hit_marks import Excerpt, Shown, show
from benchapp.search.query import FIELDS, Filter, QueryProblem, SearchQuery, Value, render_filter, without
from benchapp.search.search_hits import FACETS, Found, read_hits
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.metrics.catalogue import name_role
from inspector.web.text.formats import status_word
from inspector.web.text.visible import one_line, visible

FACET_VALUES = 8
MAX_TITLE = 160
MAX_QUOTE = 80
WORDS = {"step": "steps", "file": "skill files", "decision": "decisions", "check": "checks", "note": "notes"}
NAMES: Mapping[str, Callable[[str], str]] = {
    "kind": lambda kind: WORDS.get(kind, kind),
    "is": status_word,
    "role": name_role,
    "condition": lambda code: "condition unknown" if code == Run.UNKNOWN else name_condition(code).title,
}
HEADS = {"kind": "Found in", "is": "Trial ended", "phase": "Phase", "role": "Role", "condition": "Condition"}


@dataclass(frozen=True, slots=True)
class SearchHit:
    """`url` opens the place of the words. `trial`, `run`: None if the document has none."""

    kind: str
    title: str
    url: str
    step: int | None
    last_step: int | None
    trial: Trial | None
    run: Run | None
    said_by: str
    shown: Shown

    @property
    def excerpts(self) -> tuple[Excerpt, ...]:
        return self.shown.excerpts

    @property
    def run_id(self) -> UUID | None:
        return self.run.public_id if self.run else None


def hits(numbers: list[int], query: SearchQuery) -> list[SearchHit]:
    return [_hit(document, show(sections, query)) for document, sections in read_hits(numbers)]


def _hit(document: SearchDocument, shown: Shown) -> SearchHit:
    run = document.run
    step = shown.step if document.kind == SearchDocument.Kind.STEP else None
    comment = document.source.comment
    return SearchHit(
        kind=document.kind,
        title=one_line(_title(document), MAX_TITLE) or "(no title)",
        url=_address(document, step, shown.quote),
        step=step,
        last_step=document.last_step if document.first_step != document.last_step else None,
        trial=document.trial,
        run=run,
        said_by=comment.author.username if comment else "",
        shown=shown,
    )


def _title(document: SearchDocument) -> str:
    if document.kind == SearchDocument.Kind.FILE:
        return document.path
    decision = document.source.decision
    if decision:
        return f"Decision {decision.number} · {decision.family.name}"
    return document.trial.task.title if document.trial else "Note"


def _address(document: SearchDocument, step: int | None, text: str) -> str:
    source = document.source
    if source.comment:
        return source.comment.address
    if document.trial:
        return _trial_address(document, document.trial, step, text)
    if not (document.run and document.episode):
        return ""
    query: dict[str, object] = {"episode": document.episode.public_id}
    if source.decision:
        query["decision"] = source.decision.number
    if document.path:
        query["file"] = document.path
    return f"{reverse('library', args=[document.run.public_id])}?{urlencode(query)}{_fragment('', text)}"


def _trial_address(document: SearchDocument, trial: Trial, step: int | None, text: str) -> str:
    trajectory, verdict = document.source.trajectory, document.source.verdict
    query: dict[str, object] = {}
    attempt = trajectory.attempt if trajectory else verdict.attempt if verdict else None
    if attempt and not attempt.counts:
        query["attempt"] = attempt.number
    if trajectory and (trajectory.kind != "main" or query):
        query["trajectory"] = trajectory.public_id
    if step:
        query["step"] = step
    address = trial.get_absolute_url()
    return f"{address}{'?' * bool(query)}{urlencode(query)}{_fragment(f'step-{step}' if step else '', text)}"


def _fragment(anchor: str, text: str) -> str:
    """The anchor and, for browsers that know it, the text to mark (URL fragment text directive)."""
    word = " ".join(visible(text[:MAX_QUOTE]).split())
    told = f":~:text={quote(word, safe='').replace('-', '%2D')}" if word and len(text) <= MAX_QUOTE else ""
    return f"#{anchor}{told}" if anchor or told else ""


@dataclass(frozen=True, slots=True)
class SameHits:
    """The first of the hits of a page that show the same text, and the others: of other trials, or other libraries."""

    first: SearchHit
    others: tuple[SearchHit, ...]


def gather(shown: Iterable[SearchHit]) -> list[SameHits]:
    found: dict[tuple[object, ...], list[SearchHit]] = {}
    for hit in shown:
        found.setdefault((hit.kind, hit.excerpts or hit.url), []).append(hit)
    return [SameHits(first, tuple(others)) for first, *others in found.values()]


# --- around the hits ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FacetValue:
    value: str
    word: str  # what pages call it
    count: int
    query: str  # the search narrowed to it; empty where it is narrowed so already


@dataclass(frozen=True, slots=True)
class SearchFacet:
    name: str
    head: str
    values: list[FacetValue]
    more: int  # values that are not listed


def facets(query: SearchQuery, found: Found) -> list[SearchFacet]:
    """Return facets with more than one value; `more` is the number of values not listed."""
    listed = [_facet(name, found.facets.get(name, Counter()), query) for name in FACETS]
    return [facet for facet in listed if facet.values]


def _facet(name: str, counts: Mapping[str, int], query: SearchQuery) -> SearchFacet:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    chosen = {value.text.lower() for part in query.filters if part.name == name for value in part.values}
    values = [
        FacetValue(
            value,
            visible(NAMES.get(name, str)(value)),
            count,
            "" if value.lower() in chosen else _narrow(query, name, value),
        )
        for value, count in ordered[:FACET_VALUES]
    ]
    return SearchFacet(name, HEADS.get(name, name.capitalize()), values, max(0, len(ordered) - FACET_VALUES))


def _narrow(query: SearchQuery, name: str, value: str) -> str:
    part = render_filter(Filter(name, (Value("is", value),)))
    return f"{part} {query.text.strip()}".strip()


@dataclass(frozen=True, slots=True)
class SearchChip:
    text: str
    without: str


def chips(query: SearchQuery) -> list[SearchChip]:
    return [SearchChip(query.text[part.start : part.end], without(query, part)) for part in query.filters]


def point_out(query: SearchQuery, problem: QueryProblem) -> tuple[str, str, str]:
    """The query before, at and after what is wrong."""
    return query.text[: problem.start], query.text[problem.start : problem.end] or "␣", query.text[problem.end :]


def help_rows() -> list[tuple[str, str, str]]:
    """(filter as one writes it, what it means, what it takes)."""
    return [
        (f"{each.name}:{each.values[0] if each.values else each.example}", each.means, ", ".join(each.values))
        for each in FIELDS.values()
    ]
