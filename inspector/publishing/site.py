"""`manage.py publish`: the pages of one experiment as files. Each page is asked for in this process, then its links
are made to lead from file to file; so there is one way to draw a page."""

from __future__ import annotations

import posixpath
import re
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import unescape
from pathlib import Path
from typing import IO, cast
from urllib.parse import unquote, urlsplit
from uuid import UUID
from wsgiref.util import setup_testing_defaults

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.exceptions import PermissionDenied
from django.core.handlers.wsgi import WSGIRequest
from django.db.models import prefetch_related_objects
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch, reverse
from django.utils import timezone
from django_htmx.middleware import HtmxMiddleware

from benchapp.deploy.static_files import collect_if_changed
from benchapp.models import Comparison, Experiment, Run, Trial, User
from benchapp.record.collecting import collect_seldom
from benchapp.record.record_digest import record_digest
from benchapp.stats.comparing.choices import parse_choices
from inspector.pages.trials.trial import AROUND
from inspector.publishing.site_files import PublishingError, SiteFiles, put_in_place
from inspector.publishing.site_scope import SiteLink, SiteScope
from inspector.publishing.static_page import Find, join, make_static, make_static_csv, make_static_json
from inspector.reader.reading import read_ahead
from inspector.web.text.visible import VisibleMiddleware
from runner.base.text import parse_count

HOST = "published.invalid"  # of absolute addresses in an answer: never anybody's
ORIGIN = f"http://{HOST}"
MOST_TRIALS = 500  # unless they are named: some 30 MB of pages
MOST_WINDOWS = 20  # pages of one trajectory: a thousand steps
LINKED = re.compile(r' (?:href|data-chart|data-page)="([^"#][^"]*)"')
STEP_ID = re.compile(rb'<li id="step-(\d+)"')
FOLDER = "static"
IN_STYLE = re.compile(r"url\(\s*[\"']?([^\"')#?:]+)[\"']?\s*\)")
GROUP, MOST_READ = 50, 500  # trials that are read at once, and that stay in memory
MORE_BELOW = b'data-way="first"'
relative = lru_cache(20_000)(posixpath.relpath)  # pages of one folder have most of their links in common


class TrialShelf:
    """The trials of a site, read in groups with the rows of their pages.
    Those after `MOST_READ` are read one by one."""

    def __init__(self, trials: Sequence[UUID], runs: Mapping[UUID, Run]) -> None:
        self.trials, self.runs = trials[:MOST_READ], runs
        self.places = {public_id: place // GROUP for place, public_id in enumerate(self.trials)}
        self.groups: dict[int, dict[UUID, Trial]] = {}

    def find(self, public_id: UUID) -> Trial | None:
        """Return None where it is not here."""
        place = self.places.get(public_id)
        if place is None:
            return None
        if place not in self.groups:
            self.groups[place] = self._read(self.trials[place * GROUP : (place + 1) * GROUP])
        return self.groups[place].get(public_id)

    def _read(self, wanted: Sequence[UUID]) -> dict[UUID, Trial]:
        found = list(Trial.objects.for_detail().filter(public_id__in=wanted))
        for trial in found:
            trial.episode.run = self.runs[trial.episode.run.public_id]  # what was read once for it is kept there
        read_ahead(found)
        prefetch_related_objects(found, *AROUND, "refusals")
        return {trial.public_id: trial for trial in found}


@dataclass(frozen=True, slots=True)
class Edition:
    """What the pages of a static site read.
    Pages find it as `static_site`: they leave out what needs a server, and name what they were made from."""

    version: str
    record_digest: str
    home: str  # the address of the experiment
    trials: str  # and of the list of its trials
    runs: Mapping[UUID, Run]  # read once for all pages
    shown: TrialShelf


class PublishedRequest(WSGIRequest):
    """From nobody: no cookie, no session, no host that settings would have to allow."""

    def __init__(self, address: str, edition: Edition) -> None:
        url = urlsplit(address)
        path = unquote(url.path).encode().decode("latin-1")  # as a web server hands it over
        environ: dict[str, object] = {"PATH_INFO": path, "QUERY_STRING": url.query}
        setup_testing_defaults(environ)
        super().__init__(environ)
        # May read and nothing more. It has no row, so it owns no text, review or mention.
        self.user = User(pk=0, username="", level=User.Level.VIEWER)
        self.static_site = edition

    def get_host(self) -> str:
        return HOST


def _ask(address: str, edition: Edition, match: ResolverMatch) -> tuple[str, bytes] | None:
    """The content type without its parameters, and what the page answers; None where it shows nothing to this reader.
    `match`: what its path resolves to."""
    request = PublishedRequest(address, edition)
    request.resolver_match = match

    def view(request: HttpRequest) -> HttpResponse:
        return cast(HttpResponse, match.func(request, *match.args, **match.kwargs))

    try:
        response = cast(HttpResponseBase, HtmxMiddleware(VisibleMiddleware(view))(request))
    except (Http404, PermissionDenied):
        return None
    if response.status_code != 200:
        return None
    content = b"".join(cast(Iterable[bytes], response)) if response.streaming else cast(HttpResponse, response).content
    return response.get("Content-Type", "").partition(";")[0], content


def _name_asset(path: str) -> str | None:
    """Return the site's file for a path of this installation; None if the path is not a static file."""
    return f"{FOLDER}/{path.removeprefix(settings.STATIC_URL)}" if path.startswith(settings.STATIC_URL) else None


def _write_assets(files: SiteFiles, named: set[str]) -> None:
    waiting, written = sorted(named), set()
    while waiting:
        path = waiting.pop(0)
        if path in written:
            continue
        name = path.removeprefix(f"{FOLDER}/")
        collected = Path(settings.STATIC_ROOT) / name
        found = collected if collected.is_file() else finders.find(name)
        if not found:
            raise FileNotFoundError(f"static/{name}: named by a page, and no such file was collected")
        content = Path(str(found)).read_bytes()
        files.write(path, content)
        written.add(path)
        if path.endswith(".css"):
            inner = IN_STYLE.findall(content.decode())
            waiting += [posixpath.normpath(posixpath.join(posixpath.dirname(path), each)) for each in inner]


@dataclass(frozen=True, slots=True)
class WrittenSite:
    """What was written. `trials`: with a page, of how many there are."""

    files: int
    bytes: int
    trials: tuple[int, int]
    site_digest: str
    manifest_sha256: str


Progress = Callable[[int, int], None]  # (pages drawn, pages known so far)


@dataclass(frozen=True, slots=True)
class SitePage:
    """An answer that is kept until every page of the site is known: only then can links be written."""

    place: str
    kind: str
    kept: tuple[int, int]  # where its content begins in the file of all answers, and its bytes
    file: str
    route: str


@dataclass(slots=True)
class Site:
    """Pages by place; `windows`: of a trial's trajectory, the last step on each of its pages."""

    scope: SiteScope
    edition: Edition
    answers: IO[bytes]
    pages: dict[str, SitePage] = field(default_factory=dict)
    windows: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    assets: set[str] = field(default_factory=set)

    # --- asking -------------------------------------------------------------------------------------------------------

    def collect(self, seeds: Sequence[str], progress: Progress | None = None) -> None:
        """Ask for every page of the scope that one of these leads to, over as many links as it takes."""
        waiting, seen = deque(seeds), set(seeds)
        while waiting:
            if progress:
                progress(len(self.pages), len(seen))
            for place in self._ask(waiting.popleft()):
                if place not in seen:
                    seen.add(place)
                    waiting.append(place)
        if progress:
            progress(len(self.pages), len(self.pages))

    def _ask(self, place: str) -> list[str]:
        """Keep the answer, and return the places that it leads to."""
        match = self.scope.match(place.partition("?")[0])
        answer = _ask(self.scope.address_of(place), self.edition, match) if match else None
        if answer is None:
            return []
        kind, content = answer
        kept = self.answers.tell(), len(content)
        self.answers.write(content)
        self.pages[place] = page = SitePage(
            place, kind, kept, self.scope.file_of(place, kind), self.scope.route_of(place)
        )
        return list(self._list_linked(page, content))

    def _list_linked(self, page: SitePage, content: bytes) -> Iterator[str]:
        address = ORIGIN + self.scope.address_of(page.place)
        linked = LINKED.findall(content.decode()) if page.kind == "text/html" else ()
        for href in dict.fromkeys(linked):
            if target := self.scope.settle(join(address, unescape(href))):
                yield target.place
        yield from self._list_windows(page, content)

    def _list_windows(self, page: SitePage, content: bytes) -> Iterator[str]:
        """A trial's page shows some of its steps, and names the next by one of them."""
        path, _, query = page.place.partition("?")
        numbers = STEP_ID.findall(content) if page.route == "trial" else ()
        if not numbers:
            return
        parts = [part for part in query.split("&") if part and not part.startswith("first=")]
        windows = self.windows.setdefault("?".join(filter(None, (path, "&".join(parts)))), [])
        last = int(numbers[-1])
        windows.append((last, page.place))
        if MORE_BELOW in content and len(windows) < MOST_WINDOWS:
            yield f"{path}?{'&'.join(sorted([*parts, f'first={last + 1}']))}"

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, files: SiteFiles) -> None:
        for page in self.pages.values():
            content = self._make_static(page, self._link_from(page))
            files.write(page.file, content, address=page.place)
        _write_assets(files, self.assets)

    def _make_static(self, page: SitePage, find: Find) -> bytes:
        at, size = page.kept
        self.answers.seek(at)
        content, address = self.answers.read(size), ORIGIN + self.scope.address_of(page.place)
        if page.kind == "text/html":
            return make_static(content.decode(), address, find).encode()
        if page.route == "chart-json":
            return make_static_json(content, address, find)
        if page.kind == "text/csv":
            return make_static_csv(content.decode(), address, find).encode()
        if page.kind == "text/plain" and not content.isascii():
            return b"\xef\xbb\xbf" + content  # a plain file host does not say that it is UTF-8
        return content

    def _link_from(self, page: SitePage) -> Find:
        folder = posixpath.dirname(page.file)

        def find(address: str) -> str | None:
            if asset := _name_asset(urlsplit(address).path):
                self.assets.add(asset)
                return relative(asset, folder)
            target = self.scope.settle(address)
            file = self._file_of(target) if target else None
            if target is None or file is None:
                return None
            path = relative(file, folder)
            return f"{path if path.startswith('.') else f'./{path}'}{'#' * bool(target.fragment)}{target.fragment}"

        return find

    def _file_of(self, target: SiteLink) -> str | None:
        place = target.place
        if target.step and (windows := self.windows.get(place)):
            asked = windows[-1][0] if target.step == "last" else parse_count(target.step) or 1
            place = next((held for last, held in windows if asked <= last), "")
        return self.pages[place].file if place in self.pages else None


def publish(
    experiment: Experiment,
    folder: Path,
    trials: Collection[UUID],
    *,
    replace: bool,
    progress: Progress | None = None,
) -> WrittenSite:
    """Write the site. `trials`: public ids of those that get a page, as `choose_trials` finds them."""
    try:
        staticfiles_storage.url("css/base.css")
    except ValueError:  # names with digests are known after files were collected; a checkout may not have done so
        collect_if_changed()
    with put_in_place(folder, replace=replace) as files, tempfile.TemporaryFile() as answers, collect_seldom():
        scope = SiteScope(experiment, frozenset(trials), frozenset(list_comparisons(experiment)))
        digest = record_digest(experiment)
        listed = f"{reverse('compare-trials')}?experiment={experiment.public_id}"
        in_order = (
            Trial.objects.filter(episode__run__experiment=experiment).order_by("pk").values_list("public_id", flat=True)
        )
        shown = TrialShelf([each for each in in_order if each in scope.trials], scope.runs)
        site = Site(scope, Edition(settings.VERSION, digest, scope.home, listed, scope.runs, shown), answers)
        seeds = [scope.home, reverse("published"), *(reverse("comparison", args=[each]) for each in scope.comparisons)]
        site.collect(seeds, progress)
        if record_digest(experiment) != digest:
            raise PublishingError(f"{experiment.name}: the record changed while its pages were drawn; publish it again")
        site.write(files)
        total = Trial.objects.filter(episode__run__experiment=experiment).count()
        manifest = files.write_manifest(
            skillglass=settings.VERSION,
            experiment=str(experiment.public_id),
            name=experiment.name,
            record_digest=digest,
            published_at=timezone.now().isoformat(timespec="seconds"),
            trials={"published": len(scope.trials), "of": total},
        )
        return WrittenSite(len(files.rows) + 1, files.size, (len(scope.trials), total), files.digest, manifest)


def list_comparisons(experiment: Experiment) -> list[UUID]:
    """Saved ones of this experiment alone."""
    own = (experiment.public_id,)
    saved = Comparison.objects.order_by("pk")
    return [each.public_id for each in saved if parse_choices(QueryDict(each.query))[0].experiment == own]


def choose_trials(experiment: Experiment, wanted: Sequence[str]) -> list[UUID]:
    """`wanted`: "all", "failed", "none", or public ids. Of "all" and "failed" at most MOST_TRIALS: failed ones first,
    since readers of results ask for these, then the others, each in the order they were planned."""
    found = Trial.objects.filter(episode__run__experiment=experiment)
    if wanted in (["all"], ["failed"]):
        failed = found.filter(success=False).order_by("pk").values_list("public_id", flat=True)
        others = found.exclude(success=False).order_by("pk").values_list("public_id", flat=True)
        return [*failed, *(others if wanted == ["all"] else ())][:MOST_TRIALS]
    if wanted == ["none"]:
        return []
    known = {str(each): each for each in found.values_list("public_id", flat=True)}
    if strange := next((each for each in wanted if each not in known), None):
        raise PublishingError(f"--trials {strange}: expected all, failed, none, or ids of trials of this experiment")
    return [known[each] for each in dict.fromkeys(wanted)]
