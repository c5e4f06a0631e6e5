"""A NUL character in a request means nothing and fits into no database: it is refused before a view looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse

from inspector.web.access import wants_page

NUL = "\x00"


class NulMiddleware:
    """Answer 400 and name the part. Runs before anything that reads a session, a form or an address."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: object, args: object, kwargs: object) -> HttpResponse | None:
        part = next(_find_parts(request), None)
        if part is None:
            return None
        said = f"There is a NUL character in {part}, where no text may have one."
        if wants_page(request):
            return HttpResponseBadRequest(said, content_type="text/plain; charset=utf-8")
        return JsonResponse({"error": said}, status=400)


def _find_parts(request: HttpRequest) -> Iterator[str]:
    if NUL in request.path:
        yield "the address"
    for words, fields in (("the address", request.GET), ("the form", request.POST)):
        for name, values in fields.lists():
            if any(NUL in text for text in (name, *values)):
                yield f"the part “{name[:80].replace(NUL, '')}” of {words}"
    if any(NUL in text for text in request.COOKIES.values()):
        yield "a cookie"
