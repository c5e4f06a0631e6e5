"""`/search/`: full text over steps, skills, decisions, checks and notes. The query is the state; a hit opens at its step."""

from __future__ import annotations

from itertools import islice
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.models import User
from benchapp.record.json_shape import JsonShape
from benchapp.search.hit_marks import Excerpt
from benchapp.search.indexing import IndexProgress, progress
from benchapp.search.query import MAX_QUERY, SearchQuery, parse
from benchapp.search.search_hits import Found, HitPlace, documents_for, find, has_hits
from benchapp.stats.learning.computed_runs import Recent
from inspector.pages.search.search import SearchHit, chips, facets, gather, help_rows, hits, point_out
from inspector.web.access import user_of
from inspector.web.responses import next_url, paginate, render_page
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


@require_safe
def search(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    reader = user_of(request)
    query = parse(request.GET.get("q", ""))
    after = HitPlace.read(request.GET.get("after", ""))
    found, known = find(query, reader, after), progress()
    page = paginate(request, found.numbers, per_page=PER_PAGE)
    shown = hits(list(page), query)
    listed = facets(query, found)
    onward = _query(query.text, found.last) if found.last and not page.has_next() else ""
    data = {
        "query": query.text,
        "problems": PROBLEM.read_all(query.problems),
        "total": len(found.numbers),
        "capped": found.last is not None,
        "indexed": known.indexed,
        "to_index": known.total,
        "unread": known.unread,
        "facets": {facet.name: {each.value: each.count for each in facet.values} for facet in listed},
        "hits": [_hit_twin(request, hit) for hit in shown],
        "next": request.build_absolute_uri(f"{request.path}{onward}") if onward else next_url(request, page),
    }
    context = {
        "section": "search",
        "page": page,
        "gathered": gather(shown),
        "listed": [(facet, [(each, _address(each.query)) for each in facet.values]) for facet in listed],
        "chips": [(chip.text, _address(chip.without)) for chip in chips(query)],
        "wrong": [(each.message, *point_out(query, each)) for each in query.problems],
        "says": _says(query, found, known, after),
        "onward": onward,
        "is_further": after is not None,
        "known": known,
        "is_empty": query.is_empty,
        "examples": [] if shown or as_json else _list_examples(reader, known),
        "help": help_rows(),
        "max_query": MAX_QUERY,
    }
    status = 400 if query.problems else 200
    return render_page(request, "search/search.html", data=data, context=context, as_json=as_json, status=status)


def _address(text: str) -> str:
    return f"{reverse('search')}{_query(text)}" if text else ""


def _query(text: str, after: HitPlace | None = None) -> str:
    return f"?{urlencode({'q': text, **({'after': after} if after else {})})}"


# Examples by person and rough size of the index: to find out that something finds nothing, the whole index is asked.
KEPT: Recent[tuple[int, str], list[tuple[str, str, str]]] = Recent(50)


def _list_examples(reader: User, known: IndexProgress) -> list[tuple[str, str, str]]:
    """All of them where none finds anything: they still show how to write. Found again when the index has grown by a tenth."""
    key = reader.pk, f"{known.indexed:.1e}"
    found = KEPT.get(key) or _find_examples(reader)
    KEPT.put(key, found)
    return found


def _find_examples(reader: User) -> list[tuple[str, str, str]]:
    visible = documents_for(reader)
    finding = ((text, means) for text, means in EXAMPLES if has_hits(parse(text), visible))
    shown = list(islice(finding, SHOWN_EXAMPLES)) or EXAMPLES[:SHOWN_EXAMPLES]
    return [(text, means, _address(text)) for text, means in shown]


def _says(query: SearchQuery, found: Found, known: IndexProgress, after: HitPlace | None) -> str:
    """The answer in a sentence; what is not indexed yet is no "not found"."""
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
    return f"{total:,} hit{'' if total == 1 else 's'}, {order}."


def _excerpt_twin(excerpt: Excerpt) -> dict[str, object]:
    text = "".join(text for text, _ in excerpt.pieces)
    return {"in": excerpt.section, "text": text, "marks": _marks(excerpt.pieces)}


PROBLEM = JsonShape("start", "end", "message")
HIT = JsonShape(
    *("step", "trial", "status=trial.status", "phase=trial.phase", "role=trial.task.role?", "run"),
    *("condition=run.condition", "agent_model=run.agent_model", "scripted=run.scripted", "by=said_by?"),
    *("terms=shown.terms", ("excerpts", lambda hit: [_excerpt_twin(excerpt) for excerpt in hit.excerpts])),
)


def _hit_twin(request: HttpRequest, hit: SearchHit) -> dict[str, object]:
    url = request.build_absolute_uri(hit.url) if hit.url else None
    return {"kind": hit.kind, "title": hit.title, "url": url, **HIT.read(hit)}


def _marks(pieces: tuple[tuple[str, bool], ...]) -> list[list[int]]:
    """[start, end] of what is marked, in characters of the excerpt."""
    found, at = [], 0
    for text, is_marked in pieces:
        if is_marked:
            found.append([at, at + len(text)])
        at += len(text)
    return found
