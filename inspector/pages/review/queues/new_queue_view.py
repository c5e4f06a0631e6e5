"""`/review/queues/new/`: what would be drawn, before anything is saved. The address names the selection, as on Compare."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.views.decorators.http import require_http_methods

from benchapp.models import User
from benchapp.record.json_shape import JsonShape
from benchapp.review.queues.populations import Population, parse_population
from benchapp.review.queues.queue_making import QueueRefused, Sketch, make_queue, seconds_per_item
from benchapp.stats.comparing.axis_facets import facets_of
from inspector.pages.review.queues.kept_filter import PRESET, drop_filter, keep_filter
from inspector.pages.review.queues.queue_form import (
    FACETS,
    DrawForm,
    QueueForm,
    defaults,
    frozen_versions,
    may_review,
    read_waiting,
    what_choices,
)
from inspector.web.access import needs, user_of
from inspector.web.responses import render_page

HOUR = 3600
SHOW = "show"  # the button that only looks; every other way to send the form makes the queue


@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.REVIEWER)
def queue_new(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    user = user_of(request)
    selection, problems = parse_population(request.GET, preset=PRESET)
    posted = request.method == "POST"
    makes = posted and SHOW not in request.POST
    given = request.POST if posted else _build_posted(defaults(selection, user))
    form, drawn = QueueForm(given), DrawForm(given)
    refused = ""
    if makes and not problems and form.is_valid():
        try:
            made = HttpResponseRedirect(make_queue(form.spec(selection), user=user).get_absolute_url())
            drop_filter(made)
            return made
        except QueueRefused as error:
            refused = str(error)
    sketch = None
    try:
        sketch = _draw_sketch(drawn, selection) if not problems else None
    except QueueRefused as error:
        refused = str(error)
    waiting = read_waiting(given)
    data = {
        **{"problems": problems, "refused": refused or None, **_read_numbers(sketch)},
        **{"codes_that_wait": waiting.names, "codes": waiting.total, "next": None},
    }
    context = {
        "form": form,
        "errors": form.errors if makes else drawn.errors if posted else {},
        "ticked": given.getlist("reviewers"),
        "query": request.GET.urlencode(),
        "selection": selection,
        "chips": _chips(selection),
        "facets": facets_of(selection.choices),
        "kept": [*selection.narrowing.pairs(), ("unit", selection.unit), ("preset", selection.preset)],
        "whats": what_choices(),
        "strata": list(FACETS.items()),
        "versions": list(frozen_versions()),
        "people": list(may_review()),
        "sketch": sketch,
        "waiting": waiting,
    }
    status = 400 if problems or makes else 200
    response = render_page(request, "review/queue_new.html", data=data, context=context, as_json=as_json, status=status)
    if not posted and not problems and not as_json:
        keep_filter(request, response)
    return response


def _build_posted(values: dict[str, object]) -> QueryDict:
    given = QueryDict(mutable=True)
    for name, value in values.items():
        if isinstance(value, list):
            given.setlist(name, value)
        elif value is not False:
            given[name] = "on" if value is True else str(value)
    return given


def _draw_sketch(form: DrawForm, selection: Population) -> Sketch | None:
    """What it would give, drawn; None while the form is not understood. Raises QueueRefused."""
    if not form.is_valid():
        return None
    sketch = Sketch(form.population(selection), form.draw(), len(form.cleaned_data["reviewers"]))
    return sketch if sketch.items else None  # drawn here, so that a refusal comes now


def _read_numbers(sketch: Sketch | None) -> dict[str, object]:
    """What the sketch says, None for all that is not known."""
    seconds = seconds_per_item(sketch.population.unit) if sketch else None
    hours = sketch.per_person * seconds / HOUR if sketch and sketch.per_person and seconds else None
    return {**SKETCH.read(sketch), "median_seconds": seconds, "hours_per_person": hours}


def _list_strata(sketch: Sketch | None) -> list[dict[str, object]]:
    return [{"stratum": name, "drawn": n, "of": total} for name, n, total in sketch.by_stratum] if sketch else []


SKETCH = JsonShape(
    ("from", lambda sketch: sketch and sketch.population.says()),
    *("population_total=total", ("strata", _list_strata), ("items", lambda sketch: sketch and len(sketch.items))),
    *("controls", "overlap", "reviews", "reviews_per_person=per_person"),
)


def _chips(selection: Population) -> list[tuple[str, str]]:
    """(what narrows, the address without it)."""
    own = [("unit", selection.unit), ("preset", selection.preset)]
    pairs = [*selection.choices.pairs(), *selection.narrowing.pairs()]
    found = []
    for name, value, text in selection.narrowed_by():
        left = [pair for pair in pairs if pair != (name, str(value))]
        found.append((text, "?" + urlencode([*left, *own])))
    return found
