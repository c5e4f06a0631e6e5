"""How far the people of a queue agree before any discussion, and the reports that keep it.

Only submitted reviews of the queue's own version count, and only items of the overlap, which was drawn when the queue
was made. Answers carried over from another version are counted apart: those people answered other questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Count, F, Q

from benchapp.models import AgreementReport, Code, Queue, Resolution, Review, User
from benchapp.models.base import derived_id
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.codebooks.hierarchy import chains
from benchapp.review.coding.answer_overlap import Answered, OverlapAnswer, Step, answered_items
from benchapp.stats.agreement.alpha import (
    A,
    AgreementEstimate,
    Distance,
    Unit,
    estimate,
    masi_distance,
    nominal_distance,
)
from benchapp.stats.agreement.kappa import Cell, CodeAgreement, Counted, code_agreement, confusion, count_agreed, pairs

Occasion = AgreementReport.Occasion


@dataclass(frozen=True, slots=True)
class QuestionAgreement(Shaped):
    """Alpha of one question, and the pairs of answers that are equal."""

    estimate: AgreementEstimate
    equal: Counted

    json_shape = JsonShape("*estimate", "equal")


@dataclass(frozen=True, slots=True)
class Closeness(Shaped):
    """Pairs of reviews that both name a first upstream failure: at the same step, or at most one step apart in the same
    trajectory. one_only: pairs where just one names it, of pairs where anybody does."""

    same: Counted
    near: Counted
    one_only: Counted


@dataclass(frozen=True, slots=True)
class Carried(Shaped):
    """Answers made under another version, and alpha on codes with them."""

    answers: int
    codes: QuestionAgreement

    json_shape = JsonShape("answers", "codes_with_them=codes")


@dataclass(frozen=True, slots=True)
class Agreement(Shaped):
    """Agreement of one queue now.

    items: of the overlap. complete: of these, with all their reviews. top: codes folded into those at the top of the
    codebook, None where there is no other level. by_code: a code with others beneath it is used where any of these is.
    informed: reviews left out because their authors could read others' before. confusion: of codes as given; (key of a
    code or None, the same) -> pairs of reviews.
    """

    items: int
    complete: int
    double: int
    reviewers: int
    skipped: int
    informed: int
    unit: str
    codes: QuestionAgreement
    top: QuestionAgreement | None
    attribution: QuestionAgreement
    first_failure: Closeness
    by_code: tuple[tuple[Code, CodeAgreement], ...]
    confusion: Counter[Cell]
    carried: Carried | None

    json_shape = JsonShape(
        *("overlap_items=items", "complete_items=complete", "items=double", "reviewers", "skipped_reviews=skipped"),
        *(
            "informed_reviews=informed",
            "drawn_together=cluster",
            "codes",
            "top_codes=top",
            "attribution",
            "first_failure",
        ),
        *(("by_code", lambda found: found.list_codes()), ("confusion", lambda found: found.list_cells()), "carried"),
    )

    @property
    def cluster(self) -> str:
        return "task" if self.unit == Queue.Unit.TRIAL else "episode"

    def list_codes(self) -> list[dict[str, object]]:
        return [{"code": str(code.public_id), "name": code.name, **found.as_json()} for code, found in self.by_code]

    def list_cells(self) -> list[dict[str, object]]:
        """List the cells by public ids, in a fixed order."""
        names: dict[int | None, str] = {code.pk: str(code.public_id) for code, _ in self.by_code}
        cells = [(names.get(a), names.get(b), n) for (a, b), n in self.confusion.items()]
        return [{"code": a, "with": b, "pairs": n} for a, b, n in sorted(cells, key=str)]


def agreement_of(queue: Queue) -> Agreement:
    """Measure the current agreement; six queries."""
    codes = list(queue.version.codes.all())
    return measure_agreement(queue, [item for item in answered_items(queue) if item.is_overlap], codes)


def measure_agreement(queue: Queue, items: Sequence[Answered], codes: Sequence[Code]) -> Agreement:
    """Measure agreement of items with two answers or more; each is one unit: reviewer -> codes. Pure."""
    own = [(item, [answer for answer in item.answers if answer.counts]) for item in items]
    double = [(item, answers) for item, answers in own if len(answers) > 1]
    units = [_unit(answers) for _, answers in double]
    clusters = [item.cluster for item, _ in double]
    above = chains(codes)
    folded = [{who: frozenset(above[code][-1] for code in said) for who, said in unit.items()} for unit in units]
    spread = [
        {who: frozenset(each for code in said for each in above[code]) for who, said in unit.items()} for unit in units
    ]
    blamed: list[Unit[str]] = [
        {answer.reviewer: answer.attribution for answer in answers if answer.attribution} for _, answers in double
    ]
    return Agreement(
        items=len(items),
        complete=sum(item.is_complete for item in items),
        double=len(double),
        reviewers=len({answer.reviewer for _, answers in double for answer in answers}),
        skipped=sum(item.skipped for item in items),
        informed=sum(answer.informed for item in items for answer in item.answers),
        unit=queue.unit,
        codes=_measure(units, clusters, masi_distance),
        top=_measure(folded, clusters, masi_distance) if any(code.parent_id for code in codes) else None,
        attribution=_measure(blamed, clusters, nominal_distance),
        first_failure=closeness([[answer.first for answer in answers] for _, answers in double]),
        by_code=tuple((code, code_agreement(spread, code.pk)) for code in codes),
        confusion=confusion(units),
        carried=_measure_carried(items),
    )


def _unit(answers: Sequence[OverlapAnswer]) -> Unit[frozenset[int]]:
    return {answer.reviewer: answer.codes for answer in answers}


def _measure(units: Sequence[Unit[A]], clusters: Sequence[Hashable], distance: Distance[A]) -> QuestionAgreement:
    return QuestionAgreement(estimate(units, clusters, distance), count_agreed(units))


def _measure_carried(items: Sequence[Answered]) -> Carried | None:
    answers = sum(answer.carried for item in items for answer in item.answers)
    if not answers:
        return None
    units = [_unit([answer for answer in item.answers if not answer.informed]) for item in items]
    return Carried(answers, _measure(units, [item.cluster for item in items], masi_distance))


def closeness(firsts: Sequence[Sequence[Step | None]]) -> Closeness:
    """Measure closeness. `firsts`: per item, the first upstream failure in each of its reviews."""
    found = pairs([dict(enumerate(each)) for each in firsts])
    both = [(one, other) for one, other in found if one and other]
    anyone = [pair for pair in found if any(pair)]
    same = sum(one == other for one, other in both)
    near = sum(one[0] == other[0] and abs(one[1] - other[1]) <= 1 for one, other in both)
    n = len(both)
    return Closeness(Counted(same, n), Counted(near, n), Counted(len(anyone) - n, len(anyone)))


# --- reports ----------------------------------------------------------------------------------------------------------


def take_report(queue: Queue, occasion: str, user: User | None) -> AgreementReport:
    """Keep the current agreement. The queue's completion and the opening of its disagreements happen once each: later
    calls get the report of that moment. Asking makes a new one every time."""
    public_id = None if occasion == Occasion.ASKED else derived_id("agreement report", str(queue.public_id), occasion)
    if public_id and (taken := AgreementReport.objects.filter(public_id=public_id).first()):
        return taken
    found = agreement_of(queue)
    fields = {
        "queue": queue,
        "version": queue.version,
        "occasion": occasion,
        "is_before_discussion": not was_discussed(queue),
        "items_total": found.double,
        "reviewers_total": found.reviewers,
        "values": found.as_json(),
        "taken_by": user,
    }
    with transaction.atomic():
        if public_id is None:
            report, created = AgreementReport.objects.create(**fields), True
        else:
            report, created = AgreementReport.objects.get_or_create(public_id=public_id, defaults=fields)
        if created and user:
            note_activity(user, f"agreement.{_VERBS[Occasion(occasion)]}", queue, detail=_detail(report))
    return report


_VERBS = {Occasion.COMPLETE: "completed", Occasion.DISCUSSION: "opened", Occasion.ASKED: "kept"}


def _detail(report: AgreementReport) -> dict[str, object]:
    return {
        "report": str(report.public_id),
        "items": report.items_total,
        "alpha": report.values["codes"]["alpha"],
        "before_discussion": report.is_before_discussion,
    }


def was_opened(queue: Queue) -> bool:
    """Did anybody open the disagreements?"""
    return AgreementReport.objects.filter(queue=queue, occasion=Occasion.DISCUSSION).exists()


def was_discussed(queue: Queue) -> bool:
    """Could reviewers know each other's answers from here? Conversations elsewhere are unknown."""
    return was_opened(queue) or Resolution.objects.filter(item__queue=queue).exists()


def standing_report(queue: Queue) -> AgreementReport | None:
    """Return the report to publish: the last one from before any discussion."""
    return AgreementReport.objects.filter(queue=queue, is_before_discussion=True).first()


def note_submitted(review: Review) -> AgreementReport | None:
    """Call it after a review is submitted or skipped: takes the report as soon as the overlap has all its reviews."""
    queue = review.item.queue
    if not review.item.is_overlap or not _is_complete(queue):
        return None
    return take_report(queue, Occasion.COMPLETE, review.reviewer)


def _is_complete(queue: Queue) -> bool:
    """Does every item of the overlap have as many final reviews as it needs, and does some item need two?"""
    final = Count("reviews", filter=Q(reviews__state__in=(Review.State.SUBMITTED, Review.State.SKIPPED)))
    overlap = queue.items.filter(is_overlap=True)
    lacking = overlap.annotate(finals=final).filter(finals__lt=F("reviews_needed"))
    return overlap.filter(reviews_needed__gt=1).exists() and not lacking.exists()
