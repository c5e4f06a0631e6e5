"""`/search/`: full text over steps, skills, decisions, checks and notes.
The query is the state; a hit opens at its step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from urllib.parse import quote, urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from benchapp.models import Run, SearchDocument, Trial, User
from benchapp.record.json_shape import JsonShape
from benchapp.record.visible import one_line, visible
from benchapp.search.hit_marks import Excerpt, Shown, show
from benchapp.search.indexing import IndexProgress
from benchapp.search.query import FIELDS, MAX_QUERY, Filter, SearchQuery, Value, parse, render_filter, without
from benchapp.search.search_hits import FACETS, Found, HitPlace, documents_for, find, has_hits, read_hits
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.metrics.catalogue import name_role
from inspector.web.access import user_of
from inspector.web.responses import next_url, paginate, render_page
from inspector.web.text.formats import status_word
from runner.base.recent import Recent
from runner.base.text import plural
from runner.protocols.conditions import unpooled_conditions
from runner.protocols.probe import CONDITION as PROBE

PER_PAGE = 20
SHOWN_EXAMPLES = 6
EXAMPLES = (  # those are shown that find something in the record at hand
    ("failed KeyError", "failed trials whose steps or checks hold the word"),
    ("failed expected", "failed trials whose steps or checks hold the word"),
    ('kind:step is:error "no such file"', "tool errors with these words"),
    ("kind:file missing", "what skills say about what is missing"),
    ("role:trap failed", "failed trials of one role"),
    ("kind:decision trial", "what authors said when they changed a skill"),
    ("condition:selfgen-* -passed error", "self-written skills, without passed trials"),
    ("kind:check expected", "checks with the word"),
)
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


def search(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    reader = user_of(request)
    query = parse(request.GET.get("q", ""))
    text = query.text
    after = HitPlace.read(request.GET.get("after", ""))
    found, known = find(query, reader, after), IndexProgress()
    page = paginate(request, found.numbers, per_page=PER_PAGE)
    shown = [SearchHit(document, show(sections, query)) for document, sections in read_hits(list(page))]
    same: dict[object, list[SearchHit]] = {}  # hits of the page that show the same text
    for hit in shown:
        same.setdefault((hit.kind, hit.excerpts or hit.url), []).append(hit)
    facets = list(_list_facets(query, found))
    onward = _query(text, found.last) if found.last and not page.has_next() else ""
    data = {
        "query": text,
        "problems": PROBLEM.read_all(query.problems),
        "total": len(found.numbers),
        "capped": found.last is not None,
        "indexed": known.indexed,
        "to_index": known.total,
        "unread": known.unread,
        "facets": {name: counts for name, counts, *_ in facets},
        "hits": [HIT.read(hit) | {"url": request.build_absolute_uri(hit.url) if hit.url else None} for hit in shown],
        "next": request.build_absolute_uri(f"{request.path}{onward}") if onward else next_url(request, page),
    }
    context = {
        "section": "search",
        "page": page,
        "gathered": [{"first": first, "others": others} for first, *others in same.values()],
        "listed": [(head, values) for *_, head, values in facets],
        "chips": [(text[part.start : part.end], _address(without(query, part))) for part in query.filters],
        # the query before, at and after what is wrong
        "wrong": [
            (each.message, text[: each.start], text[each.start : each.end] or "␣", text[each.end :])
            for each in query.problems
        ],
        "says": _says(query, found, known, after),
        "onward": onward,
        "is_further": after is not None,
        "known": known,
        "is_empty": query.is_empty,
        "examples": [] if shown or as_json else _list_examples(reader, known),
        "help": [
            (f"{each.name}:{each.values[0] if each.values else each.example}", each.means, ", ".join(each.values))
            for each in FIELDS.values()
        ],
        "max_query": MAX_QUERY,
    }
    status = 400 if query.problems else 200
    return render_page(request, "search/search.html", data=data, context=context, as_json=as_json, status=status)


class SearchHit:
    """`url` opens the place of the words. `trial`, `run`: None if the document has none."""

    def __init__(self, document: SearchDocument, shown: Shown) -> None:
        comment = document.source.comment
        self.kind, self.trial, self.run, self.shown = document.kind, document.trial, document.run, shown
        self.title = one_line(_title(document), MAX_TITLE) or "(no title)"
        self.step = shown.step if document.kind == SearchDocument.Kind.STEP else None
        self.last_step = document.last_step if document.first_step != document.last_step else None
        self.url = _address_of(document, self.step, shown.quote)
        self.said_by = comment.author.username if comment else ""
        self.excerpts = shown.excerpts
        self.run_id = self.run.public_id if self.run else None


def _title(document: SearchDocument) -> str:
    if document.kind == SearchDocument.Kind.FILE:
        return document.path
    decision = document.source.decision
    if decision:
        return f"Decision {decision.number} · {decision.family.name}"
    return document.trial.task.title if document.trial else "Note"


def _address_of(document: SearchDocument, step: int | None, text: str) -> str:
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
    if trajectory and (not trajectory.is_main or query):
        query["trajectory"] = trajectory.public_id
    if step:
        query["step"] = step
    address = trial.get_absolute_url()
    return f"{address}{'?' * bool(query)}{urlencode(query)}{_fragment(f'step-{step}' if step else '', text)}"


def _fragment(anchor: str, text: str) -> str:
    """Return the anchor and, for browsers that know it, the text to mark (URL fragment text directive)."""
    word = " ".join(visible(text[:MAX_QUOTE]).split())
    directive = f":~:text={quote(word, safe='').replace('-', '%2D')}" if word and len(text) <= MAX_QUOTE else ""
    return f"#{anchor}{directive}" if anchor or directive else ""


def _list_facets(
    query: SearchQuery, found: Found
) -> Iterator[tuple[str, dict[str, int], dict[str, object], list[tuple[dict[str, object], str]]]]:
    """Yield the facets with a value: its name, the hits of each value, the head of its list, and its values each with
    the address of the search narrowed to it, "" where it is narrowed so already. `more`: how many values are not
    listed."""
    for name in FACETS:
        ordered = sorted(found.facets.get(name, Counter()).items(), key=lambda item: (-item[1], item[0]))
        chosen = {value.text.lower() for part in query.filters if part.name == name for value in part.values}
        values = list[tuple[dict[str, object], str]]()
        for value, count in ordered[:FACET_VALUES]:
            narrowed = f"{render_filter(Filter(name, (Value('is', value),)))} {query.text.strip()}".strip()
            address = "" if value.lower() in chosen else _address(narrowed)
            values.append(({"value": value, "word": visible(NAMES.get(name, str)(value)), "count": count}, address))
        if values:
            head = {"name": name, "head": HEADS.get(name, name.capitalize())}
            more = max(0, len(ordered) - FACET_VALUES)
            yield name, dict(ordered[:FACET_VALUES]), {**head, "more": more}, values


def _address(text: str) -> str:
    return f"{reverse('search')}{_query(text)}" if text else ""


def _query(text: str, after: HitPlace | None = None) -> str:
    return f"?{urlencode({'q': text, **({'after': after} if after else {})})}"


# Examples by person and rough size of the index: to find out that something finds nothing, the whole index is asked.
KEPT: Recent[tuple[int, str], list[tuple[str, str, str]]] = Recent(50)


def _list_examples(reader: User, known: IndexProgress) -> list[tuple[str, str, str]]:
    """List the examples that find something; all of them if none does: they still show how to write.
    Searched again when the index has grown by a tenth."""
    key = reader.pk, f"{known.indexed:.1e}"
    if not (found := KEPT.get(key)):
        open_to = documents_for(reader)
        finding = ((text, means) for text, means in EXAMPLES if has_hits(parse(text), open_to))
        shown = list(islice(finding, SHOWN_EXAMPLES)) or EXAMPLES[:SHOWN_EXAMPLES]
        found = [(text, means, _address(text)) for text, means in shown]
    KEPT.put(key, found)
    return found


def _says(query: SearchQuery, found: Found, known: IndexProgress, after: HitPlace | None) -> str:
    """Return the answer in a sentence; what is not indexed yet is no "not found"."""
    if query.is_empty or query.problems:
        return ""
    total = len(found.numbers)
    if not total and not after:
        return "No hits" + (". Use fewer words or filters." if known.is_complete else " in the texts indexed so far.")
    extra = sum(found.facets["condition"][name] for name in unpooled_conditions())
    words = "probes" if extra == found.facets["condition"][PROBE] else "probes and qualifications"
    order = "best match first" if any(not term.negated for term in query.terms) else "newest first"
    order += f", {words} last" if 0 < extra < total else ""
    if found.last or after:
        which = f"The next {total:,} hits" if after else f"More than {total:,} hits"
        return f"{which}, {order}. The counts are of {'these' if after else f'the first {total:,}'}."
    return f"{plural(total, 'hit')}, {order}."


def _excerpt_twin(excerpt: Excerpt) -> dict[str, object]:
    """`marks`: [start, end] of what is marked, in characters of the text."""
    marks, text = [], ""
    for piece, is_marked in excerpt.pieces:
        if is_marked:
            marks.append([len(text), len(text) + len(piece)])
        text += piece
    return {"in": excerpt.section, "text": text, "marks": marks}


PROBLEM = JsonShape("start end message")
HIT = JsonShape(
    "kind title url step trial status=trial.status phase=trial.phase role=trial.task.role? run",
    "condition=run.condition agent_model=run.agent_model scripted=run.scripted by=said_by? terms=shown.terms",
    ("excerpts", lambda hit: [_excerpt_twin(excerpt) for excerpt in hit.excerpts]),
)
