"""`/palette/?q=`: what the palette finds by name, for the signed-in person.
`>` before the words asks for acts alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from django.http import HttpRequest, JsonResponse
from django.urls import reverse
from django.utils.http import urlencode

from benchapp.models import Episode, Experiment, Run, Task, User
from benchapp.record.visible import one_line
from benchapp.stats.comparing.condition_names import KNOWN, name_run
from inspector.pages.documents.documents import list_entries
from inspector.web.access import user_of
from inspector.web.navigation import ACTS, PLACES, Place
from inspector.web.subject import review_access
from runner.base.text import plural

SHOWN = 3  # rows of a kind; acts alone are all shown
MOST_WORDS, LONGEST, MAX_TITLE = 6, 100, 120
Row = Mapping[str, str]


def palette(request: HttpRequest) -> JsonResponse:
    """Answer the palette, in at most six queries: one a kind, two for skills, and one for what the reader may not see
    yet."""
    text = request.GET.get("q", "").strip()[:LONGEST]
    asked = text.removeprefix(">").lower().split()[:MOST_WORDS]
    user = user_of(request)
    groups: dict[str, Iterable[Row]] = {"Do": _list_places(ACTS, asked, user)}
    if asked and not text.startswith(">"):
        conditions = {word: [code for code, name in KNOWN.items() if word in name.title.lower()] for word in asked}
        groups = {
            "Experiments": [
                _build_row(each.name, each.suite.name if each.suite else "", each.get_absolute_url())
                for each in Experiment.objects.named(asked)[:SHOWN]
            ],
            "Runs": [
                _build_row(name_run(run.condition, run.replicate), run.experiment.name, run.get_absolute_url())
                for run in Run.objects.named(conditions)[:SHOWN]
            ],
            "Skills": _list_skills(request, asked),
            "Tasks": [
                _build_row(task.title, task.suite.name, reverse("suite", args=[task.suite.key]), task=task.key)
                for task in Task.objects.named(asked)[:SHOWN]
            ],
            "Pages": [*_list_places(PLACES, asked, user), *_list_documents(asked)],
            **groups,
        }
    most = SHOWN if len(groups) > 1 else None
    found = [{"title": title, "rows": list(rows)[:most]} for title, rows in groups.items()]
    return JsonResponse({"groups": [group for group in found if group["rows"]]})


def _build_row(title: str, about: str, url: str, **query: str) -> Row:
    address = f"{url}?{urlencode(query)}" if query else url
    return {"title": one_line(title, MAX_TITLE), "about": one_line(about, MAX_TITLE), "url": address}


def _list_skills(request: HttpRequest, asked: Sequence[str]) -> Iterator[Row]:
    """List skills, each with the newest library that has it, among those open to the reader."""
    seen = Episode.objects.exclude(pk__in=review_access(request).closed_episodes())
    rows = seen.count_libraries(asked)[:SHOWN]
    episodes = Episode.objects.select_related("run__experiment").in_bulk([newest for *_, newest in rows])
    for skill, libraries, newest in rows:
        episode = episodes[newest]
        about = f"{plural(libraries, 'library', 'libraries')}, the newest in {episode.run.experiment.name}"
        address = reverse("library", args=[episode.run.public_id])
        yield _build_row(skill, about, address, episode=str(episode.public_id), file=f"{skill}/SKILL.md")


def _list_documents(asked: Sequence[str]) -> Iterator[Row]:
    titles = {entry.name: entry.title for entry in list_entries()}
    for name in _sort_named(titles, asked):
        yield _build_row(titles[name], PLACES["documents"].words, reverse("document", args=[name]))


def _list_places(places: Mapping[str, Place], asked: Sequence[str], user: User) -> Iterator[Row]:
    titles = {name: place.words for name, place in places.items() if user.may(place.level)}
    for name in _sort_named(titles, asked):
        yield _build_row(titles[name], "", reverse(name))


def _sort_named(titles: Mapping[str, str], asked: Sequence[str]) -> Iterable[str]:
    """Return the names whose title has every word, those that begin with the first one before the others."""
    found = (name for name, title in titles.items() if all(word in title.lower() for word in asked))
    return sorted(found, key=lambda name: not titles[name].lower().startswith(tuple(asked[:1])))
