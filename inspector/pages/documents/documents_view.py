"""`/docs/`: the project's own documents, for readers of an installation."""

from __future__ import annotations

from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.pages.documents.documents import INDEX, find_picture, read_document
from inspector.web.responses import render_page


@require_safe
def document(request: HttpRequest, name: str = INDEX, *, as_json: bool = False) -> HttpResponse:
    try:
        found = read_document(name)
    except KeyError as error:
        raise Http404(f"There is no document {name}.") from error
    data = {"name": found.name, "title": found.title, "text": found.text, "next": None}
    return render_page(request, "documents/document.html", data=data, context={"html": found.html}, as_json=as_json)


@require_safe
def picture(request: HttpRequest, name: str) -> FileResponse:
    try:
        path = find_picture(name)
    except KeyError as error:
        raise Http404(f"There is no picture {name}.") from error
    return FileResponse(path.open("rb"), content_type="image/png")
