"""How every page answers: HTML for readers, a JSON twin with the same facts for programs, fragments for htmx."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, TypeVar, cast
from urllib.parse import urlencode
from uuid import UUID

import orjson
from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django_htmx.middleware import HtmxDetails

from benchapp.record.json_shape import encode

Row = TypeVar("Row")
PER_PAGE = 100
UNFOLDED = 6  # rows of a group in a table that folds
View = Callable[..., HttpResponseBase]
TWIN_OPTIONS = orjson.OPT_INDENT_2 | orjson.OPT_PASSTHROUGH_DATACLASS


def render_page(
    request: HttpRequest,
    template: str,
    *,
    data: Mapping[str, object] | None = None,
    context: Mapping[str, object] | None = None,
    page: Page[Row] | None = None,
    as_json: bool = False,
    status: int = 200,
) -> HttpResponse:
    """`data` is the JSON twin, key for key, with rows and links that its encoder writes; the template gets it together
    with `context`. A view whose template does not read it gives one or the other. Every twin ends with `next`: the
    address of the twin after this `page` of a list, else null."""
    data = data or {}
    if as_json:
        ending = {} if "next" in data else {"next": next_url(request, page) if page is not None else None}
        return HttpResponse(render_twin(request, {**data, **ending}), "application/json", status)
    frame = {"json_url": json_url(request)}
    response = render(request, template, {"page": page, **data, **(context or {}), **frame}, status=status)
    patch_vary_headers(response, ["Cookie", "HX-Request"])
    return response


class PathLink:
    """An address in a twin. The encoder makes it absolute with the request's host."""

    def __init__(self, path: str) -> None:
        self.path = path


class PageLink(PathLink):
    """The address of a named page."""

    def __init__(self, name: str, *args: object, **query: object) -> None:
        super().__init__(reverse(name, args=args) + (f"?{urlencode(query)}" if query else ""))


def link_to(name: str, path: str = "public_id") -> tuple[str, Callable[[object], PageLink]]:
    """Build the entry "url" of a JsonShape: the page of the row's attribute `path`, usually its public id."""
    find_id = attrgetter(path)
    return "url", lambda row: PageLink(name, find_id(row))


def render_twin(request: HttpRequest, data: Mapping[str, object]) -> bytes:
    """Render a JSON twin.
    The only encoder of twins: indented, ids and times as orjson writes them, the rest as `encode` does."""

    def default(value: object) -> object:
        return request.build_absolute_uri(value.path) if isinstance(value, PathLink) else encode(value)

    return orjson.dumps(data, default=default, option=TWIN_OPTIONS)


def json_url(request: HttpRequest) -> str:
    """Return the address of the JSON twin in the same state; empty if there is none."""
    match = request.resolver_match
    if match is None or not match.url_name or request.method not in {"GET", "HEAD"}:
        return ""
    query = request.META.get("QUERY_STRING", "")
    route = request.path.rstrip("/") or "/index"
    return f"{route}.json" + (f"?{query}" if query else "")


def attach(name: str) -> dict[str, str]:
    """Return the headers of an answer that a browser saves as a file of this name."""
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def read_htmx(request: HttpRequest) -> HtmxDetails:
    """Return the headers of htmx; false if a browser asks. Its middleware puts it on every request."""
    return cast(HtmxDetails, request.htmx)  # type: ignore[attr-defined]


def is_published(request: HttpRequest) -> bool:
    """Is this a page of a static site? It shows no comments."""
    return hasattr(request, "static_site")


def wants_fragment(request: HttpRequest) -> bool:
    """Does htmx ask for a part of a page? A history restore needs the whole page."""
    htmx = read_htmx(request)
    return bool(htmx) and not htmx.boosted and not htmx.history_restore_request


def paginate(
    request: HttpRequest, rows: QuerySet[Any, Row] | list[Row], *, per_page: int = PER_PAGE, name: str = "page"
) -> Page[Row]:
    """Return the page that `?page=` asks for: the first for nonsense, the last for a number that is too large."""
    return Paginator(rows, per_page).get_page(request.GET.get(name))


def count_unfolded(total: int) -> int:
    """Return how many rows of a group are shown before a tick shows all. One or two more are no reason to fold."""
    return UNFOLDED if total > UNFOLDED + 2 else total


def next_url(request: HttpRequest, page: Page[Row], *, name: str = "page") -> str | None:
    """Return the address of the next page's twin: the `next` of a JSON list."""
    if not page.has_next():
        return None
    query = request.GET.copy()
    query[name] = str(page.next_page_number())
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")


def address_of_any_trial() -> str:
    """Return the address of a trial with {} in place of its id: one look-up for a page that links to hundreds."""
    nobody = UUID(int=0)
    return reverse("trial", args=[nobody]).replace(str(nobody), "{}")


def absolute(request: HttpRequest, name: str, *args: object) -> str:
    return request.build_absolute_uri(reverse(name, args=args))
