"""How every page answers: HTML for readers, a JSON twin with the same facts for programs, fragments for htmx."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

import orjson
from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.utils.cache import patch_vary_headers

from benchapp.models.base import PublicModel

Chosen = TypeVar("Chosen", bound=PublicModel)
PER_PAGE = 100


def twin(route: str, view: Callable[..., HttpResponse], name: str) -> list[URLPattern]:
    """The page and its JSON twin: the path without its trailing slash, with .json ("/" answers as /index.json)."""
    json_route = f"{route.rstrip('/') or 'index'}.json"
    return [path(route, view, name=name), path(json_route, view, {"as_json": True}, name=f"{name}-json")]


def render_page(
    request: HttpRequest,
    template: str,
    *,
    data: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
    context: Mapping[str, Any] | None = None,
    as_json: bool,
    status: int = 200,
) -> HttpResponse:
    """`data` is what the JSON twin says, key for key; the template gets it together with `context`. Where the template
    reads none of it and it takes time to say, `data` is a function that only the twin calls."""
    if as_json:
        said = data() if callable(data) else data
        return HttpResponse(orjson.dumps(said, option=orjson.OPT_INDENT_2), "application/json", status)
    told = {} if callable(data) else data
    frame = {"json_url": json_url(request)}
    response = render(request, template, {**told, **(context or {}), **frame}, status=status)
    patch_vary_headers(response, ["Cookie", "HX-Request"])
    return response


def json_url(request: HttpRequest) -> str:
    """The address of the JSON twin in the same state; empty where there is none."""
    match = request.resolver_match
    if match is None or not match.url_name or request.method not in {"GET", "HEAD"}:
        return ""
    query = request.META.get("QUERY_STRING", "")
    route = request.path.rstrip("/") or "/index"
    return f"{route}.json" + (f"?{query}" if query else "")


def choose(rows: Sequence[Chosen], public_id: str, *preferred: Callable[[Chosen], object]) -> Chosen | None:
    """The row that an address asks for; else the first row that fits the first preference with any; else the first row."""
    tests = (lambda row: str(row.public_id) == public_id, *preferred)
    return next((row for fits in tests for row in rows if fits(row)), next(iter(rows), None))


def wants_fragment(request: HttpRequest) -> bool:
    """True for an htmx request for a part of a page; a history restore needs the whole page."""
    htmx = request.htmx  # type: ignore[attr-defined]
    return bool(htmx) and not htmx.boosted and not htmx.history_restore_request


def paginate(
    request: HttpRequest, rows: QuerySet[Any] | list[Any], *, per_page: int = PER_PAGE, name: str = "page"
) -> Page[Any]:
    """The page that `?page=` asks for; nonsense gives the first, too much the last."""
    return Paginator(rows, per_page).get_page(request.GET.get(name))


def next_url(request: HttpRequest, page: Page[Any], *, name: str = "page") -> str | None:
    """Where the twin of the next page lies: what a JSON list gives as `next`."""
    if not page.has_next():
        return None
    query = request.GET.copy()
    query[name] = str(page.next_page_number())
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")


def address_of_any(name: str) -> str:
    """The address of a thing with {} where its id belongs: one look-up for a page that links to hundreds."""
    nobody = UUID(int=0)
    return reverse(name, args=[nobody]).replace(str(nobody), "{}")


def absolute(request: HttpRequest, name: str, *args: object) -> str:
    return request.build_absolute_uri(reverse(name, args=args))
