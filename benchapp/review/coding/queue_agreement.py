"""How far the people of a queue agree before any discussion, and the reports that keep it.

Only submitted reviews of the queue's own version count, and only items of the overlap, which was drawn when the queue
was made. Answers carried over from another version are counted apart: those people answered other questions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.db.models import Count, F, Q

from benchapp.models import AgreementReport, Label, Mark, Queue, Resolution, Review, User
from benchapp.models.base import derived_id
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.blinding import open_to
from benchapp.review.codebooks.hierarchy import chains
from benchapp.review.seeing import informed_reviews
from benchapp.stats.agreement import (
    A,
    AgreementEstimate,
    CodeAgreement,
    Counted,
    Distance,
    Unit,
    confusion,
    count_agreed,
    estimate,
    masi_distance,
    nominal_distance,
    pairs,
)

Step = tuple[int | None, int]  # (trajectory, step)


@dataclass(frozen=True, slots=True)
class OverlapAnswer:
    """One submitted review, as far as it can agree with another.

    codes: of all its marks; none means that nothing is wrong. attribution: of the first upstream failure, else the one
    that all marks with an attribution share; None: none, or several. first: where the first upstream failure is.
    carried: made under another version and mapped to this one. informed: its author could read somebody else's answer
    about the unit before.
    """

    review: int
    reviewer: int
    codes: frozenset[int]
    attribution: str | None = None
    first: Step | None = None
    carried: bool = False
    informed: bool = False

    @property
    def counts(self) -> bool:
        """Does it count for agreement? Only an independent answer to the question of this version does."""
        return not self.carried and not self.informed


@dataclass(frozen=True, slots=True)
class Answered:
    """An item with its submitted answers. cluster: the task of a trial, else the episode. skipped: reviews that gave a
    reason and no codes; they are missing, not empty."""

    pk: int
    public_id: UUID
    ordinal: int
    cluster: Hashable
    needed: int
    is_overlap: bool
    skipped: int
    answers: tuple[OverlapAnswer, ...]

    @property
    def is_complete(self) -> bool:
        return len(self.answers) + self.skipped >= self.needed


def answered_items(queue: Queue) -> list[Answered]:
    """Return every item of the overlap, and every other that two people answered; five queries."""
    items = queue.items.alias(finals=_finals()).filter(Q(is_overlap=True) | Q(finals__gt=1))
    keys = ("pk", "public_id", "ordinal", "reviews_needed", "is_overlap")
    rows = list(items.order_by("ordinal").values(*keys, "trial__task", "decision__episode", "episode"))
    answers, skipped = _answers(queue)
    return [
        Answered(
            pk=row["pk"],
            public_id=row["public_id"],
            ordinal=row["ordinal"],
            cluster=(
                ("task", row["trial__task"])
                if row["trial__task"]
                else ("episode", row["decision__episode"] or row["episode"])
            ),
            needed=row["reviews_needed"],
            is_overlap=row["is_overlap"],
            skipped=skipped[row["pk"]],
            answers=tuple(answers[row["pk"]]),
        )
        for row in rows
    ]


def _finals() -> Count:
    final = Q(reviews__state__in=(Review.State.SUBMITTED, Review.State.SKIPPED))
    return Count("reviews", filter=final, distinct=True)


def _answers(queue: Queue) -> tuple[dict[int, list[OverlapAnswer]], dict[int, int]]:
    """Return key of item -> its submitted reviews in the order of their people, and how many skipped it.

    Labels of another version are left out: a review of this queue that carries one was not finished under it.
    """
    reviews = Review.objects.filter(item__queue=queue)
    submitted = reviews.filter(state=Review.State.SUBMITTED)
    codes: dict[int, set[int]] = defaultdict(set)
    labels = Label.objects.filter(mark__review__in=submitted, code__version=queue.version_id).order_by()
    for review, code in labels.values_list("mark__review", "code"):
        codes[review].add(code)
    marks: dict[int, list[Mark]] = defaultdict(list)
    for mark in Mark.objects.filter(review__in=submitted).order_by("ordinal", "id"):
        marks[mark.review_id].append(mark)
    answers: dict[int, list[OverlapAnswer]] = defaultdict(list)
    skipped: dict[int, int] = defaultdict(int)
    informed = informed_reviews(queue)
    final = reviews.exclude(state=Review.State.DRAFT).order_by("reviewer")
    for pk, item, reviewer, state, carried in final.values_list("pk", "item", "reviewer", "state", "carried_from"):
        if state == Review.State.SKIPPED:
            skipped[item] += 1
            continue
        own_marks = marks[pk]
        answer = (frozenset(codes[pk]), attribution_of(own_marks), first_of(own_marks))
        answers[item].append(OverlapAnswer(pk, reviewer, *answer, carried=carried is not None, informed=pk in informed))
    return answers, skipped


def attribution_of(marks: Iterable[Mark]) -> str | None:
    """Return that of the whole review: see OverlapAnswer."""
    marks = list(marks)
    first = next((mark.attribution for mark in marks if mark.is_first_failure and mark.attribution), None)
    named = {mark.attribution for mark in marks if mark.attribution}
    return first or (named.pop() if len(named) == 1 else None)


def first_of(marks: Iterable[Mark]) -> Step | None:
    found = (mark for mark in marks if mark.is_first_failure and mark.step is not None)
    return next(((mark.trajectory_id, mark.step) for mark in found if mark.step is not None), None)


def still_to_review(queue: Queue, user: User) -> int:
    """Count the shared items that this person may still have to answer without knowing the others' answers.

    Above 0 the queue's agreement, disagreements and resolutions are closed to them. One query.
    """
    if not queue.is_open or not queue.hides_labels:
        return 0
    shown = open_to(user).filter(queue=queue).alias(finals=_finals())
    return shown.filter(Q(is_overlap=True) | Q(finals__gt=1)).count()


# --- agreement -------------------------------------------------------------------------------------------------------

Occasion = AgreementReport.Occasion


@dataclass(frozen=True, slots=True)
class QuestionAgreement(Shaped):
    """Alpha of one question, and the pairs of answers that are equal."""

    estimate: AgreementEstimate
    equal: Counted

    json_shape = JsonShape("*estimate equal")


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

    json_shape = JsonShape("answers codes_with_them=codes")


class Agreement(Shaped):
    """Agreement of one queue now, over items with two answers or more; each is one unit: reviewer -> codes.

    items: of the overlap. complete: of these, with all their reviews. top: codes folded into those at the top of the
    codebook, None where there is no other level. by_code: a code with others beneath it is used where any of these is.
    informed: reviews left out because their authors could read others' before. confusion: of codes as given; (key of a
    code or None, the same) -> pairs of reviews.
    """

    json_shape = JsonShape(
        "overlap_items=items complete_items=complete items=double reviewers skipped_reviews=skipped",
        "informed_reviews=informed drawn_together=cluster codes top_codes=top attribution first_failure",
        ("by_code", lambda found: found.list_codes()),
        ("confusion", lambda found: found.list_cells()),
        "carried",
    )

    def __init__(self, queue: Queue) -> None:
        """Measure; six queries."""
        codes = list(queue.version.codes.all())
        items = [item for item in answered_items(queue) if item.is_overlap]
        own = [(item, [answer for answer in item.answers if answer.counts]) for item in items]
        double = [(item, answers) for item, answers in own if len(answers) > 1]
        units = [_unit(answers) for _, answers in double]
        clusters = [item.cluster for item, _ in double]
        above = chains(codes)
        folded = [{who: frozenset(above[code][-1] for code in used) for who, used in unit.items()} for unit in units]
        spread = [
            {who: frozenset(each for code in used for each in above[code]) for who, used in unit.items()}
            for unit in units
        ]
        blamed: list[Unit[str]] = [
            {answer.reviewer: answer.attribution for answer in answers if answer.attribution} for _, answers in double
        ]
        self.items = len(items)
        self.complete = sum(item.is_complete for item in items)
        self.double = len(double)
        self.reviewers = len({answer.reviewer for _, answers in double for answer in answers})
        self.skipped = sum(item.skipped for item in items)
        self.informed = sum(answer.informed for item in items for answer in item.answers)
        self.cluster = "task" if queue.unit == Queue.Unit.TRIAL else "episode"
        self.codes = _measure(units, clusters, masi_distance)
        self.top = _measure(folded, clusters, masi_distance) if any(code.parent_id for code in codes) else None
        self.attribution = _measure(blamed, clusters, nominal_distance)
        self.first_failure = closeness([[answer.first for answer in answers] for _, answers in double])
        self.by_code = [(code, CodeAgreement(spread, code.pk)) for code in codes]
        self.confusion = confusion(units)
        self.carried = _measure_carried(items)

    def list_codes(self) -> list[dict[str, object]]:
        return [{"code": str(code.public_id), "name": code.name, **found.as_json()} for code, found in self.by_code]

    def list_cells(self) -> list[dict[str, object]]:
        """List the cells by public ids, in a fixed order."""
        names: dict[int | None, str] = {code.pk: str(code.public_id) for code, _ in self.by_code}
        cells = [(names.get(a), names.get(b), n) for (a, b), n in self.confusion.items()]
        return [{"code": a, "with": b, "pairs": n} for a, b, n in sorted(cells, key=str)]


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
    found = Agreement(queue)
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
            detail = {
                "report": str(report.public_id),
                "items": report.items_total,
                "alpha": report.values["codes"]["alpha"],
                "before_discussion": report.is_before_discussion,
            }
            note_activity(user, f"agreement.{_VERBS[Occasion(occasion)]}", queue, detail=detail)
    return report


_VERBS = {Occasion.COMPLETE: "completed", Occasion.DISCUSSION: "opened", Occasion.ASKED: "kept"}


def was_opened(queue: Queue) -> bool:
    """Did anybody open the disagreements?"""
    return AgreementReport.objects.filter(queue=queue, occasion=Occasion.DISCUSSION).exists()


def was_discussed(queue: Queue) -> bool:
    """Could reviewers know each other's answers from here? Conversations elsewhere are unknown."""
    return was_opened(queue) or Resolution.objects.filter(item__queue=queue).exists()


def report_to_publish(queue: Queue) -> AgreementReport | None:
    """Return the report to publish: the last one from before any discussion."""
    return AgreementReport.objects.filter(queue=queue, is_before_discussion=True).first()


def note_submitted(review: Review) -> AgreementReport | None:
    """Call it after a review is submitted or skipped: takes the report as soon as every item of the overlap has as many
    final reviews as it needs, and some item needs two."""
    queue = review.item.queue
    overlap = queue.items.filter(is_overlap=True)
    lacking = overlap.alias(finals=_finals()).filter(finals__lt=F("reviews_needed"))
    if not review.item.is_overlap or not overlap.filter(reviews_needed__gt=1).exists() or lacking.exists():
        return None
    return take_report(queue, Occasion.COMPLETE, review.reviewer)
