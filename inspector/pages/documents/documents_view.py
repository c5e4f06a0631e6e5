"""`/docs/`: the project's own documents, for readers of an installation, and the search over them."""

from __future__ import annotations

from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.record.json_shape import JsonShape
from inspector.pages.documents.document_search import LONGEST, search_documents
from inspector.pages.documents.documents import INDEX, find_picture, list_entries, read_document, read_index
from inspector.web.responses import link_to, render_page

LAST_LEVEL = 3  # of the headings that the contents of a page list
FOUND = JsonShape(
    *("name=entry.name", "title=entry.title", ("sections", lambda each: [part.title for part in each.sections])),
    link_to("document", "entry.name"),
)


@require_safe
def document(request: HttpRequest, name: str = INDEX, *, as_json: bool = False) -> HttpResponse:
    try:
        found = read_document(name)
    except KeyError as error:
        raise Http404(f"There is no document {name}.") from error
    asked = request.GET.get("q", "").strip()[:LONGEST] if name == INDEX else ""
    hits = search_documents(asked) if asked else []
    entries = list_entries()
    place = next(
        (place for place, entry in enumerate(entries) if entry.name == name), -1
    )  # -1: the index, before the first
    data = {
        "name": found.name,
        "title": found.title,
        "text": found.text,
        **({"query": asked, "found": FOUND.read_all(hits)} if asked else {}),
        "next": None,
    }
    context = {
        "html": found.html,
        "asked": asked,
        "hits": hits,
        "index": read_index(),
        "group": next((head for head, listed in read_index().items() if any(each.name == name for each in listed)), ""),
        "contents": [each for each in found.sections if 0 < each.level <= LAST_LEVEL],
        "before": entries[place - 1] if place > 0 else None,
        "after": entries[place + 1] if -1 < place < len(entries) - 1 else None,
    }
    return render_page(request, "documents/document.html", data=data, context=context, as_json=as_json)


@require_safe
def picture(request: HttpRequest, name: str) -> FileResponse:
    try:
        path = find_picture(name)
    except KeyError as error:
        raise Http404(f"There is no picture {name}.") from error
    return FileResponse(path.open("rb"), content_type="image/png")
