"""`/publish/`: publish an experiment, a comparison or a taxonomy as one file, and the files that were made."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django import forms
from django.core.exceptions import PermissionDenied
from django.db.models import Case, Count, Exists, OuterRef, Q, QuerySet, When
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.text import slugify

from benchapp.exports.publications import delete_publication, order_publication
from benchapp.models import Comparison, Decision, Experiment, Publication, Queue, Review, Trial, User
from benchapp.record.json_shape import JsonShape
from benchapp.review.blinding import ReviewAccess, asked_elsewhere, still_to_code, too_early
from benchapp.review.queues.review_progress import awaiting
from benchapp.stats.comparing.choices import parse_choices
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.comparing.narrowing import Narrowing, trials_behind
from benchapp.stats.comparing.selection import select_runs
from inspector.pages.compare.report import title_of
from inspector.pages.compare.results import read_parent
from inspector.publishing.site import MOST_TRIALS
from inspector.web.access import needs, user_of
from inspector.web.responses import PathLink, paginate, render_page, wants_fragment
from runner.base.text import parse_id, plural

PER_PAGE = 30
OFFERED = 8  # experiments and queues to choose from
FOUND = 100  # of them that a filter lists
MAX_FIND = 100
Form = Publication.Form
SAYS = {  # of each form its name, its use and its parts; `_describe_offers` fills in the numbers
    Form.SITE: (
        "Static site",
        "For a link. Any file host serves it.",
        (
            "the answer, its charts and tables",
            "{all_runs} with libraries, and {edits}",
            "every step of the trials you choose",
        ),
    ),
    Form.REPORT: (
        "Report",
        "For an email. One page as HTML and Markdown, and as PDF where a browser is installed.",
        ("the answer, from {trials} in {runs}", "its tables and charts"),
    ),
    Form.DATA: (
        "Data package",
        "For analysis. CSV, JSON and Parquet.",
        ("a row for each of {trials}", "every value and difference", "a codebook of the columns"),
    ),
    Form.TAXONOMY: (
        "Taxonomy",
        "What a paper can cite. A page, CSV, LaTeX and the codebook as YAML and JSON.",
        (
            "{codes} with definitions and examples",
            "counts over {items}, with intervals where there are enough",
            "agreement from before the discussion",
        ),
    ),
}
TRIALS = {"failed": "failed trials", "all": "all trials", "none": "no trial"}


@dataclass(frozen=True, slots=True)
class Subject:
    """What can be published: a queue, or the runs that `query` chooses, which may be those of one experiment."""

    title: str
    url: str
    forms: tuple[Publication.Form, ...]
    query: str = ""
    queue: Queue | None = None
    experiment: Experiment | None = None


class PublishForm(forms.Form):
    form = forms.ChoiceField(choices=Form.choices)
    trials = forms.ChoiceField(choices=TRIALS.items(), required=False)


@needs(User.Level.REVIEWER, to_change=True)
def publish(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    """Show the forms that can be published. The address names the subject: `queue=`, `saved=`, or the choices of a
    comparison. Only a single experiment also has a site."""
    subject = _read_subject(request)
    if request.method == "POST":
        form = PublishForm(request.POST)
        if subject is None or not form.is_valid() or form.cleaned_data["form"] not in subject.forms:
            raise Http404("Nothing to publish in this form.")
        order_publication(
            user_of(request),
            form=form.cleaned_data["form"],
            trials=form.cleaned_data["trials"] or "failed",
            title=subject.title[:300],
            origin=request.build_absolute_uri("/").rstrip("/")[:300],
            query=subject.query,
            queue=subject.queue,
            experiment=subject.experiment,
        )
        return redirect(f"{request.get_full_path()}#made")
    page = paginate(request, _list_publications(subject), per_page=PER_PAGE)
    is_fragment = wants_fragment(request)
    context = {
        "section": "review" if subject and subject.queue else "publish",
        **({} if subject or is_fragment else _offer_subjects(request.GET.get("find", "").strip()[:MAX_FIND])),
        "live": any(row.status == Publication.Status.WAITING for row in page),
        "subject": subject,
        **(_describe_offers(subject, ReviewAccess(user_of(request))) if subject and not is_fragment else {}),
        "unresolved": _count_unresolved(subject, user_of(request)),
    }
    template = "publish/_publications.html" if is_fragment else "publish/publish.html"
    data = {"publications": PUBLICATION.read_all(page)}
    return render_page(request, template, data=data, context=context, page=page, as_json=as_json)


def _list_publications(subject: Subject | None) -> QuerySet[Publication]:
    """List the publications of the subject.
    A comparison, whose query is pinned again each time, is found by its title."""
    rows = Publication.objects.select_related("made_by")
    if subject is None:
        return rows
    rows = rows.filter(queue=subject.queue, experiment=subject.experiment)
    return rows if subject.queue or subject.experiment else rows.filter(title=subject.title[:300])


def _describe_offers(subject: Subject, access: ReviewAccess) -> dict[str, object]:
    """Describe each form with what it contains, in numbers, and the last file of its kind. `trials`: each choice of
    trials for a site, and how many it is."""
    parts, trials = dict[str, str](), dict[str, str]()
    if queue := subject.queue:
        parts["codes"] = plural(queue.version.codes.count(), "code")
        parts["items"] = plural(queue.items.count(), "item")
    else:
        choices, _ = parse_choices(QueryDict(subject.query))
        parts["runs"] = plural(select_runs(choices).count(), "run")
        parts["trials"] = plural(trials_behind(choices, Narrowing()).count(), "trial")
    if experiment := subject.experiment:
        own = Trial.objects.filter(episode__run__experiment=experiment)
        counts = own.aggregate(all=Count("pk"), failed=Count("pk", filter=Q(success=False)))
        if own.filter(pk__in=access.closed_trials()).exists():
            del counts["failed"]  # they still code it blind
        trials = {name: shown + _say_chosen(counts.get(name, 0)) for name, shown in TRIALS.items()}
        parts["all_runs"] = plural(experiment.runs.count(), "run")
        parts["edits"] = plural(Decision.objects.filter(episode__run__experiment=experiment).count(), "edit")
    offers = []
    for form in subject.forms:
        title, use, holds = SAYS[form]
        offers.append((form, title, use, [each.format(**parts) for each in holds], _find_last(form, subject)))
    return {"offers": offers, "trials": trials}


def _find_last(form: Publication.Form, subject: Subject) -> dict[str, object] | None:
    """Return the last file of this form that was made here, of this subject where there is one,
    with the seconds from its order to its end."""
    made = Publication.objects.filter(form=form, status=Publication.Status.DONE).exclude(finished_at=None)
    own = _list_publications(subject).filter(pk__in=made).first()
    last = own or made.first()
    if last is None or last.finished_at is None:
        return None
    chosen = TRIALS.get(last.trials, "") if form == Form.SITE else ""
    return {"row": last, "own": own, "trials": chosen, "seconds": (last.finished_at - last.made_at).total_seconds()}


def _say_chosen(number: int) -> str:
    """Say how many trials are chosen, and how many of these a site takes."""
    if not number:
        return ""
    return f" ({MOST_TRIALS} of {number:,}, failed ones first)" if number > MOST_TRIALS else f" ({number:,})"


def _count_unresolved(subject: Subject | None, user: User) -> int:
    """Open disagreements of the queue to publish, for readers who may know them."""
    queue = subject.queue if subject else None
    return awaiting([queue]).get(queue.pk, 0) if queue and not too_early([queue], user) else 0


def _offer_subjects(find: str) -> dict[str, object]:
    """List experiments that compare conditions, then the others, and review queues, the newest first.
    `find`: part of the name."""
    experiments = Experiment.objects.not_deleted().comparing().filter(name__icontains=find)
    experiments = experiments.annotate(conditions=Count("runs__condition", distinct=True))
    experiments = experiments.annotate(single=Case(When(conditions__gt=1, then=0), default=1)).only("public_id", "name")
    submitted = Review.objects.filter(item__queue=OuterRef("pk"), state=Review.State.SUBMITTED)
    queues = (
        Queue.objects.filter(Exists(submitted), name__icontains=find)
        .order_by("-created_at", "-pk")
        .only("public_id", "name")
    )
    queues = queues.annotate(items_total=Count("items"))
    listed = FOUND if find else OFFERED
    more = max(0, experiments.count() - listed)
    return {
        "experiments": experiments.order_by("single", "-created_at", "-pk")[:listed],
        "queues": queues[:listed],
        "find": find,
        "more": more,
        "is_cut": bool(more) or queues.count() > listed,
    }


def publication_file(request: HttpRequest, public_id: UUID) -> HttpResponseBase:
    """Send the zip, unless this person still has to review, blind, something that it shows."""
    publication = get_object_or_404(Publication, public_id=public_id, status=Publication.Status.DONE)
    _refuse_blind(publication, user_of(request))
    try:
        file = publication.path.open("rb")
    except OSError:
        raise Http404("The file is gone from the data folder. Publish it again.") from None
    name = f"skillglass-{publication.form}-{slugify(publication.title)[:60] or publication.public_id}.zip"
    return FileResponse(file, as_attachment=True, filename=name, content_type="application/zip")


@needs(User.Level.REVIEWER)
def publication_delete(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Delete a publication: by the person who made it, or an admin."""
    found, user = get_object_or_404(Publication, public_id=public_id), user_of(request)
    if found.made_by_id != user.pk and not user.may(User.Level.ADMIN):
        raise PermissionDenied("Only its maker or an admin can delete a publication.")
    delete_publication(found, user)
    return redirect("publish")


def _refuse_blind(publication: Publication, user: User) -> None:
    if (queue := publication.queue) and (still_to_code([queue], user) or asked_elsewhere([queue], user)):
        raise PermissionDenied("You still have items of this queue to code. The file opens after that.")
    access = ReviewAccess(user)
    if not access.hides_nothing and publication.form != Form.TAXONOMY:
        closed = access.closed_trials()
        if publication.experiment_id:
            closed = closed.filter(episode__run__experiment=publication.experiment_id)
        if closed.exists():
            raise PermissionDenied("You still review trials of it. The file opens after that.")


def _read_subject(request: HttpRequest) -> Subject | None:
    """Return the subject that the address names; None without one: the page then lists what was published."""
    query = request.GET.copy()
    query.pop("page", None)
    query.pop("find", None)
    if number := query.get("queue", ""):
        queue = get_object_or_404(Queue.objects.select_related("version__codebook"), public_id=parse_id(number))
        url = reverse("results", args=[queue.public_id])
        return Subject(f"{queue.version.codebook.name}: {queue.name}", url, (Form.TAXONOMY,), queue=queue)
    if not query:
        return None
    if number := query.get("saved", ""):
        saved = get_object_or_404(Comparison, public_id=parse_id(number))
        return Subject(saved.name, saved.get_absolute_url(), (Form.REPORT, Form.DATA), saved.query)
    choices, problems = parse_choices(query)
    if problems:
        raise Http404("; ".join(problems))
    comparison = comparison_of(choices)
    if not comparison.runs:
        raise Http404("No run matches.")
    pinned = choices.but(as_of=choices.as_of or timezone.now(), seen=comparison.fingerprint).query()
    forms_ = (Form.REPORT, Form.DATA)
    experiment = read_parent(choices)
    url = f"{reverse('compare')}?{choices.query()}"
    if experiment is not None:
        return Subject(experiment.name, url, (Form.SITE, *forms_), pinned, experiment=experiment)
    return Subject(title_of(comparison), url, forms_, pinned)


PUBLICATION = JsonShape(
    "id=public_id form title status reason? made_at finished_at pages_drawn pages_known facts",
    (
        "url",
        lambda row: (
            PathLink(reverse("publication-file", args=[row.public_id]))
            if row.status == Publication.Status.DONE
            else None
        ),
    ),
)
