"""What the page that resolves an item draws beside the evidence: the reviews side by side, and what may be chosen."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from benchapp.models import Attribution, Code, Mark, QueueItem, Resolution, Review
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.codebooks.code_keys import keys_of
from benchapp.review.codebooks.hierarchy import in_order
from benchapp.review.codebooks.skill_codes import NONE_MOUNTED, judging_skills, lacks_skills
from benchapp.review.coding.answer_overlap import attribution_of
from benchapp.review.coding.resolutions import DISAGREED
from inspector.web.text.visible import visible

FIRST_REVIEW = 3  # its key; 1 and 2 start from all codes and from the shared ones
MAX_QUOTE = 400


@dataclass(frozen=True, slots=True)
class MarkView:
    codes: list[str]
    attribution: str
    step: int | None
    query: str  # of the page of the evidence that shows it
    place: str
    quote: str
    memo: str
    is_first: bool


@dataclass(frozen=True, slots=True)
class ReviewView(Shaped):
    """One review. own: names of codes that not all reviews of the item have."""

    review: Review
    codes: list[str]
    own: frozenset[str]
    marks: list[MarkView]
    start: str  # public ids of its codes, as the form takes them
    key: str

    json_shape = JsonShape("reviewer=review.reviewer.pseudonym", "codes", ("marks", lambda view: len(view.marks)))


@dataclass(frozen=True, slots=True)
class ResolveChoice:
    """One thing to tick. said: how many of the reviews say it. about, include, exclude: of a code, its definition and when
    to use it."""

    value: str
    text: str
    key: str
    is_chosen: bool
    depth: int = 0
    said: int = 0
    about: str = ""
    include: str = ""
    exclude: str = ""
    is_group: bool = False
    barred: str = ""  # why the server would refuse it

    @property
    def keys(self) -> list[str]:
        return list(self.key)


@dataclass(frozen=True, slots=True)
class Sheet:
    """Everything beside the evidence. all_codes, shared_codes: public ids to start from."""

    reviews: list[ReviewView]
    skipped: list[Review]
    codes: list[ResolveChoice]
    attributions: list[ResolveChoice]
    categories: list[ResolveChoice]
    all_codes: str
    shared_codes: str
    memo: str
    nothing_wrong: bool

    @property
    def disputed_step(self) -> int | None:
        """The first step to which somebody gave a code that others did not give: where the evidence opens."""
        marks = ((mark, view.own) for view in self.reviews for mark in view.marks)
        return min((mark.step for mark, own in marks if mark.step is not None and own & set(mark.codes)), default=None)


@dataclass(frozen=True, slots=True)
class Filled:
    """What the form shows as chosen: what stands, what was just sent, or what all reviews share."""

    codes: frozenset[UUID]
    category: str = ""
    attribution: str = ""
    memo: str = ""
    nothing_wrong: bool = False


def read_standing(standing: Resolution | None) -> Filled | None:
    if standing is None:
        return None
    codes = frozenset(code.public_id for code in standing.codes.all())
    return Filled(codes, standing.category, standing.attribution, standing.memo, nothing_wrong=not codes)


def sheet_of(item: QueueItem, filled: Filled | None) -> Sheet:
    """Five queries with the codes and their keys; the reviews with their marks and labels."""
    reviews = item.reviews.exclude(state=Review.State.DRAFT).select_related("reviewer").order_by("reviewer")
    final = list(reviews.prefetch_related("marks__labels__code"))
    told = [review for review in final if review.state == Review.State.SUBMITTED]
    sets = {review.pk: _codes_of(review) for review in told}
    shared = frozenset.intersection(*sets.values()) if sets else frozenset()
    every: frozenset[Code] = frozenset().union(*sets.values())
    filled = filled or Filled(
        frozenset(code.public_id for code in shared),
        attribution=_find_shared_attribution(told),
        nothing_wrong=bool(sets) and not every,
    )
    views = [
        _review_view(review, sets[review.pk], shared, number) for number, review in enumerate(told, start=FIRST_REVIEW)
    ]
    return Sheet(
        reviews=views,
        skipped=[review for review in final if review.state == Review.State.SKIPPED],
        codes=_code_choices(item, sets.values(), filled),
        attributions=_attribution_choices(told, filled),
        categories=_category_choices(filled, are_split=len(set(sets.values())) > 1),
        all_codes=_ids(every),
        shared_codes=_ids(shared),
        memo=filled.memo,
        nothing_wrong=filled.nothing_wrong,
    )


def _find_shared_attribution(reviews: list[Review]) -> str:
    """Where all reviews blame the same; empty where they do not, or where one is silent."""
    found = {attribution_of(review.marks.all()) or "" for review in reviews}
    return found.pop() if len(found) == 1 else ""


def _codes_of(review: Review) -> frozenset[Code]:
    return frozenset(label.code for mark in review.marks.all() for label in mark.labels.all())


def _ids(codes: Collection[Code]) -> str:
    return " ".join(sorted(str(code.public_id) for code in codes))


def _review_view(review: Review, codes: frozenset[Code], shared: frozenset[Code], number: int) -> ReviewView:
    names = [code.name for code in sorted(codes, key=lambda code: (code.ordinal, code.pk))]
    own = frozenset(code.name for code in codes - shared)
    marks = [_mark_view(mark) for mark in review.marks.all()]
    return ReviewView(review, names, own, marks, _ids(codes), str(number))


def _mark_view(mark: Mark) -> MarkView:
    labels = dict(Attribution.choices)
    place = f"step {mark.step}" if mark.step is not None else visible(mark.path)
    if mark.path and mark.start:
        place = f"{place}, line {mark.start}"
    query = f"step={mark.step}#step-{mark.step}" if mark.step is not None else ""
    return MarkView(
        codes=[label.code.name for label in mark.labels.all()],
        attribution=labels.get(mark.attribution, ""),
        step=mark.step,
        query=query,
        place=place or "the whole item",
        quote=visible(mark.quote[:MAX_QUOTE]) + ("…" if len(mark.quote) > MAX_QUOTE else ""),
        memo=visible(mark.memo),
        is_first=mark.is_first_failure,
    )


def _code_choices(item: QueueItem, sets: Collection[frozenset[Code]], filled: Filled) -> list[ResolveChoice]:
    said = {code.pk: sum(code in codes for codes in sets) for codes in sets for code in codes}
    keys, ordered = keys_of(item.queue.version), in_order(item.queue.version.codes.all())
    parents = {code.parent_id for code, _ in ordered}
    barred = judging_skills(code for code, _ in ordered) if lacks_skills(item) else frozenset()
    return [
        ResolveChoice(
            value=str(code.public_id),
            text=code.name,
            key=keys[code.pk],
            is_chosen=code.public_id in filled.codes,
            depth=depth,
            said=said.get(code.pk, 0),
            about=code.definition,
            include=code.include,
            exclude=code.exclude,
            is_group=code.pk in parents,
            barred=f"Not here: {NONE_MOUNTED}." if code.pk in barred else "",
        )
        for code, depth in ordered
    ]


def _attribution_choices(reviews: list[Review], filled: Filled) -> list[ResolveChoice]:
    named: dict[str, int] = {}
    for review in reviews:
        for attribution in {mark.attribution for mark in review.marks.all() if mark.attribution}:
            named[attribution] = named.get(attribution, 0) + 1
    return [
        ResolveChoice(value, text, str(number), value == filled.attribution, said=named.get(value, 0))
        for number, (value, text) in enumerate([*Attribution.choices, ("", "not given")], start=1)
    ]


def _category_choices(filled: Filled, *, are_split: bool) -> list[ResolveChoice]:
    barred = {Resolution.Category.AGREED.value: DISAGREED} if are_split else {}
    return [
        ResolveChoice(value, text, str(number), value == filled.category, barred=barred.get(value, ""))
        for number, (value, text) in enumerate(Resolution.Category.choices, start=1)
    ]
