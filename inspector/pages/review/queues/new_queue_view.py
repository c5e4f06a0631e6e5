"""`/review/queues/new/`: what would be drawn, before anything is saved. The address names the selection, as on Compare."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from benchapp.models import User
from benchapp.record.json_shape import JsonShape
from benchapp.review.codebooks.codebook_versions import CodebookRefused
from benchapp.review.queues.populations import Population
from benchapp.review.queues.queue_making import QueueRefused, Sketch, make_queue, seconds_per_item
from benchapp.stats.comparing.axis_facets import AXES, facets_of
from benchapp.stats.metrics.amounts import render_rough_duration
from inspector.pages.review.queues.kept_filter import drop_filter, keep_filter
from inspector.pages.review.queues.queue_form import (
    FACETS,
    DrawForm,
    QueueForm,
    defaults,
    frozen_versions,
    may_review,
    offered_starters,
    propose_name,
    proposes_to_hide_conditions,
    read_closing,
    read_skill_codes,
    what_choices,
)
from inspector.pages.review.queues.queue_selection import SHOWN, QueueSelection, read_selection
from inspector.web.access import needs, user_of
from inspector.web.responses import render_page

HOUR = 3600
SHOW = "show"  # the button that only looks; every other way to send the form makes the queue


@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.REVIEWER)
def queue_new(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    user, asked = user_of(request), read_selection(request)
    posted, makes = request.method == "POST", request.method == "POST" and SHOW not in request.POST
    given = _read_posted(request, asked) if posted else _build_posted(_read_defaults(request, asked, user))
    form, drawn = QueueForm(given), DrawForm(given)
    sketch, refused = None, ""
    try:
        if makes and not asked.problems and form.is_valid():
            return _make(form, asked.population, user)
        sketch = _draw_sketch(drawn, asked.population) if not asked.problems else None
    except (QueueRefused, CodebookRefused) as error:
        refused = str(error)
    skill_codes, closing = read_skill_codes(given), read_closing(given)
    data = {
        **{"problems": asked.problems, "refused": refused or None, **_read_numbers(sketch)},
        **{"codes_that_wait": skill_codes.waiting, "codes": skill_codes.total},
        **{"closes_pages_because_it_hides": closing.hidden, "next": None},
    }
    errors = form.errors if makes else drawn.errors if posted else {}
    context = {**_offer(asked, given), "form": form, "errors": errors, "sketch": sketch}
    hours = data["hours_per_person"]
    context |= {"skill_codes": skill_codes, "closing": closing}
    context |= {"person_time": render_rough_duration(HOUR * hours) if isinstance(hours, float) else ""}
    status = 400 if asked.problems or makes else 200
    response = render_page(request, "review/queue_new.html", data=data, context=context, as_json=as_json, status=status)
    if not posted and not asked.problems and not asked.is_default and not as_json:
        keep_filter(request, response, asked.query)
    return response


@require_POST
@needs(User.Level.REVIEWER)
def queue_forget(request: HttpRequest) -> HttpResponse:
    """They make a codebook and no queue: the filter they came with is kept no longer."""
    back = HttpResponseRedirect(reverse("codebooks"))
    drop_filter(back)
    return back


def _read_posted(request: HttpRequest, asked: QueueSelection) -> QueryDict:
    """As sent. While somebody still chooses, what nobody changed follows the choice: the name, and whether the condition is
    hidden."""
    given, what = request.POST.copy(), request.POST.get("what", "")
    if asked.problems:
        return given
    if given.get("name") == given.get("proposed"):
        given["name"] = given["proposed"] = propose_name(what, asked.population)
    hides = "hides_conditions" in given
    if SHOW in given and hides == bool(given.get("proposed_hides_conditions")):
        hides = proposes_to_hide_conditions(what, given.get("version", ""), asked.population)
        for name in ("hides_conditions", "proposed_hides_conditions"):
            given.setlist(name, ["on"] if hides else [])
    return given


def _read_defaults(request: HttpRequest, asked: QueueSelection, user: User) -> dict[str, object]:
    return defaults(asked, user, shows_skills=request.GET.get(SHOWN) == "skills")


def _make(form: QueueForm, selection: Population, user: User) -> HttpResponse:
    """The queue and, where a starter was chosen, its codebook: both or none."""
    with transaction.atomic():
        queue = make_queue(form.spec(selection, user), user=user)
    made = HttpResponseRedirect(queue.get_absolute_url())
    drop_filter(made)
    return made


def _offer(asked: QueueSelection, given: QueryDict) -> dict[str, object]:
    """What there is to choose from, and what is chosen."""
    selection = asked.population
    narrowed = [(name, value, text) for name, value, text in selection.narrowed_by() if name not in AXES]
    return {
        "ticked": given.getlist("reviewers"),
        "query": asked.query,
        "selection": selection,
        "is_default": asked.is_default,
        "narrowed": narrowed,
        "kept": _list_kept(selection, narrowed),
        "facets": facets_of(selection.choices),
        "whats": what_choices(),
        "strata": list(FACETS.items()),
        "versions": list(frozen_versions()),
        "starters": offered_starters(),
        "people": list(may_review()),
    }


def _list_kept(selection: Population, narrowed: list[tuple[str, object, str]]) -> list[tuple[str, str]]:
    """What the address asks for and the form has no box for."""
    shown = {(name, str(value)) for name, value, _ in narrowed}
    pairs = [*selection.choices.pairs(), *selection.narrowing.pairs()]
    kept = [pair for pair in pairs if pair not in shown and pair[0] not in (*AXES, "baseline")]
    return [*kept, ("unit", selection.unit), ("preset", selection.preset)]


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
