"""What the results page shows of one queue, or of several of one version: everything chosen in its address."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from urllib.parse import urlencode
from uuid import UUID

from django.db.models.functions import Left
from django.http import QueryDict
from django.urls import reverse

from benchapp.models import Attribution, Code, CodeExample, Label, Mark, Queue, Review, User
from benchapp.review.blinding import ReviewAccess, unsaid_by
from benchapp.review.codebooks.hierarchy import keys_of
from benchapp.review.queues.populations import FACETS
from benchapp.review.queues.review_progress import count_reviews
from benchapp.review.results.code_counts import Guesses, Saturation, guesses_of, saturation_of
from benchapp.review.results.population_shares import Share
from benchapp.review.results.queue_results import (
    Basis,
    Coded,
    Heading,
    Per,
    QueueCoding,
    Taxonomy,
    TaxonomyRow,
    blame,
    coding_of,
    drop_undecided,
    extent_if_known,
    heading_of,
    uncoded_strata,
)
from benchapp.stats.inference.interval import Interval

COVERS = {"clusters": "other episodes of the same kind", "population": "this whole population"}
COUNTS = {"fractions": "by the share of reviewers", "settled": "left out"}
MAX_GROUPS = 8  # columns of the table by facet
MAX_EXAMPLES = 3  # of a code
QUOTE_CHARS = 140
MAX_CHOSEN = 50  # values of one facet
NOT_REPORTED = "(not told)"  # in the address, where an empty text means "all"
TENTHS = 10
ATTRIBUTIONS = [*Attribution.choices, ("", "not said")]
NO_EXTENT = "What the queue was drawn from can no longer be counted, so nothing is given per 100 failed or attempted."


@dataclass(frozen=True, slots=True)
class ResultsChoices:
    """The choices of the address. also: further queues; covers: which interval; counts: what unresolved items count."""

    also: tuple[UUID, ...] = ()
    chosen: Mapping[str, frozenset[str]] = field(default_factory=dict)
    per: str = ""
    covers: str = "clusters"
    counts: str = "fractions"
    by: str = "condition"

    def query(self, **changes: str) -> str:
        """Return the query string of these choices with some changed; an empty text removes the choice of a facet."""
        pairs = [("also", str(each)) for each in self.also]
        kept = {name: values for name, values in self.chosen.items() if name not in changes}
        pairs += [(name, value or NOT_REPORTED) for name, values in kept.items() for value in sorted(values)]
        plain = {"per": self.per, "covers": self.covers, "counts": self.counts, "by": self.by, **changes}
        defaults = {"per": "", "covers": "clusters", "counts": "fractions", "by": "condition"}
        pairs += [(name, value) for name, value in plain.items() if value != defaults.get(name, "")]
        return urlencode(pairs)


def parse_choices(query: QueryDict) -> tuple[ResultsChoices, list[str]]:
    """Parse the choices, with a sentence for each part that means nothing; then nothing is shown, since fewer choices
    would show more than was asked for."""
    problems: list[str] = []
    also = []
    for text in query.getlist("also"):
        try:
            also.append(UUID(text))
        except ValueError:
            problems.append(f"also: {text[:80]!r} is not the id of a queue")
    known: dict[str, Sequence[str]] = {
        "per": list(Per),
        "covers": list(COVERS),
        "counts": list(COUNTS),
        "by": list(FACETS),
    }
    given: dict[str, str] = {}
    for name, values in known.items():
        if value := query.get(name):
            if value in values:
                given[name] = value
            else:
                problems.append(f"{name}: {value[:80]!r} is unknown, expected one of {', '.join(values)}")
    chosen = {name: [value for value in query.getlist(name)[:MAX_CHOSEN] if value] for name in FACETS}
    asked = {
        name: frozenset("" if value == NOT_REPORTED else value for value in values)
        for name, values in chosen.items()
        if values
    }
    return ResultsChoices(tuple(dict.fromkeys(also)), asked, **given), problems


@dataclass(frozen=True, slots=True)
class Example:
    """A place in the evidence that shows a code. quote: the memo, else the marked words; by: a reviewer's name, or the
    codebook."""

    trial: UUID
    url: str
    where: str
    quote: str
    by: str
    task: str
    condition: str


class FirstFailures:
    """shares: of the items with a mark, weighted, by tenths of the trajectory; counts: marks;
    an item's marks share it."""

    def __init__(self, shares: Sequence[float], counts: Sequence[int], items: int) -> None:
        self.shares, self.counts, self.items, self.marks = shares, counts, items, sum(counts)


class Results:
    """The results of these queues. NotTogether if they cannot be counted together."""

    def __init__(self, queues: Sequence[Queue], asked: ResultsChoices) -> None:
        self.queues, self.asked = queues, asked
        self.coding, self.extent = coding_of(queues), extent_if_known(queues)
        self.problems = []
        if self.extent is None and self.coding.unit == Queue.Unit.TRIAL:
            self.problems = [NO_EXTENT]

    @cached_property
    def taxonomy(self) -> Taxonomy:
        counted = drop_undecided(self.coding) if self.asked.counts == "settled" else self.coding
        return Taxonomy(counted, self.extent, self.asked.chosen)

    @cached_property
    def keys(self) -> dict[int, str]:
        """Return key of a code's row -> the keyboard key for it."""
        return keys_of(self.coding.version)

    @cached_property
    def heading(self) -> Heading:
        return heading_of(self.coding)

    @cached_property
    def reviews(self) -> tuple[int, int]:
        """Return (submitted, needed), as on the pages of queues."""
        return count_reviews(self.queues)

    @property
    def reviews_left(self) -> int:
        """Return how many reviews can still come in."""
        filled, needed = self.reviews
        return needed - filled if any(queue.is_open for queue in self.queues) else 0

    @property
    def per(self) -> Per:
        """Return the base of the shares: as asked; else per 100 failed, which is comparable between queues."""
        asked = Per(self.asked.per) if self.asked.per else Per.FAILED
        return asked if asked in self.taxonomy.pers else Per.POPULATION

    @property
    def rows(self) -> list[TaxonomyRow]:
        return self.taxonomy.ranked

    @cached_property
    def chosen_items(self) -> list[Coded]:
        inside = self.taxonomy.inside(self.taxonomy.chosen)
        return [item for item, is_in in zip(self.taxonomy.sampled, inside, strict=True) if is_in]

    def interval(self, share: Share) -> Interval | None:
        return share.interval if self.asked.covers == "clusters" else share.sampling

    @property
    def url(self) -> str:
        query = self.asked.query()
        return reverse("results", args=[self.queues[0].public_id]) + (f"?{query}" if query else "")

    def link(self, code: Code) -> str:
        return f"{self.url}#code-{code.public_id}"

    def items_url(self, code: Code) -> str:
        """Return the page of the items with the code; empty for several queues, which no page lists together."""
        if len(self.queues) > 1:
            return ""
        return f"{self.queues[0].get_absolute_url()}?code={code.public_id}#items"

    @cached_property
    def saturation(self) -> Saturation:
        """Measure saturation over the reviews as submitted: what was resolved later found no new code."""
        kept = {item.pk for item in self.chosen_items}
        codes: dict[int, frozenset[int]] = {}
        for review in self.coding.reviews:
            if review.item in kept:
                codes[review.item] = codes.get(review.item, frozenset()) | review.codes
        return saturation_of(list(codes.values()))

    @cached_property
    def first_failures(self) -> FirstFailures:
        weights = dict(zip((item.pk for item in self.taxonomy.sampled), self.taxonomy.sample.weights, strict=True))
        kept = {item.pk for item in self.chosen_items}
        marks = [mark for mark in self.coding.first_failures if mark[0] in kept]
        times = Counter(item for item, _, _ in marks)
        heights, counts = [0.0] * TENTHS, [0] * TENTHS
        for item, step, steps in marks:
            tenth = (step - 1) * TENTHS // steps
            heights[tenth] += float(weights[item]) / times[item]
            counts[tenth] += 1
        total = sum(heights) or 1.0
        return FirstFailures([height / total for height in heights], counts, len(times))

    @cached_property
    def guesses(self) -> Guesses:
        truths = {item.pk: item.facts.condition for item in self.coding.items}
        asked = ((review.guess, truths[review.item]) for review in self.coding.reviews if review.guess is not None)
        return guesses_of(asked)

    @property
    def seconds(self) -> tuple[float | None, int]:
        """Return the median time of a review, and over how many; carried ones took their time elsewhere."""
        known = [review.seconds for review in self.coding.reviews if review.seconds > 0 and not review.is_carried]
        return (median(known) if known else None), len(known)

    @cached_property
    def attributions(self) -> list[tuple[TaxonomyRow, dict[str, float]]]:
        """Return the used codes with the items that blame each cause."""
        rows = [row for row in self.rows if row.is_used]
        return [(row, blame(self.chosen_items, self.coding.within(row.code))) for row in rows]

    @cached_property
    def uncoded_memos(self) -> list[tuple[str, str]]:
        """Return (address, name) of the marks that have a memo and no code, so that no cause counts them."""
        kept = {item.pk for item in self.chosen_items}
        marks = Mark.objects.filter(
            review__item__queue__in=self.queues, review__state=Review.State.SUBMITTED, labels=None
        )
        marks = marks.exclude(memo="").order_by("review__item__queue", "review__item__ordinal", "pk")
        rows = marks.values_list("review__item", "review__item__public_id", "review__item__ordinal", "step")
        places = []
        for item, public_id, ordinal, step in rows:
            if item in kept:
                url, name = reverse("review-item", args=[public_id]), f"item {ordinal + 1}"
                places.append((f"{url}?step={step}#step-{step}", f"{name}, step {step}") if step else (url, name))
        return places

    @property
    def groups(self) -> dict[str, list[Share]]:
        """Return the largest groups of the chosen facet; shares in the order of the taxonomy's own tree."""
        found = self.taxonomy.groups(self.asked.by, self.per)
        return dict(list(found.items())[:MAX_GROUPS])

    def examples(self, user: User) -> dict[int, list[Example]]:
        """Return code -> places that show it: the codebook's own first, then marks of reviewers, steps before whole
        trials, sure ones first, a trial once. Never a trial that is still closed to this person."""
        found: dict[int, list[Example]] = defaultdict(list)
        for code, example in (*_of_codebook(self.coding, user), *_of_reviewers(self.coding, user)):
            if len(found[code]) < MAX_EXAMPLES and all(each.trial != example.trial for each in found[code]):
                found[code].append(example)
        return dict(found)

    def notes(self) -> Iterator[str]:
        """Say what these numbers count, in sentences."""
        taxonomy, heading, asked = self.taxonomy, self.heading, self.asked
        counted = heading.counted
        if heading.unit == Queue.Unit.TRIAL and (cell := taxonomy.counts):
            yield (
                f"In the whole selection {cell.attempted:,} trials ran and {cell.failed:,} failed. The population holds"
                f" {cell.population:,} of them now ({heading.population_total:,} when the queue was made)."
            )
        yield "A cause counts every cause below it. An item may carry several, so shares add up to more than 100."
        yield "For a settled item, the settled codes count. Shares are weighted by how each item was drawn."
        if counted[Basis.SPLIT]:
            await_one = "item is" if counted[Basis.SPLIT] == 1 else "items are"
            yield f"{counted[Basis.SPLIT]} {await_one} not settled yet: counted {COUNTS[asked.counts]}."
        if counted[Basis.SKIPPED] + counted[Basis.OPEN]:
            yield (
                f"{counted[Basis.SKIPPED]} skipped and {counted[Basis.OPEN]} open items are missing, not zero."
                " The reviewed ones of their stratum count for them."
            )
        if left := uncoded_strata(self.coding.drawn):
            yield f"No item of {', '.join(left)} is reviewed yet: these numbers leave it out."
        if asked.covers == "clusters":
            yield (
                "95 % intervals cover other episodes of the same kind (tasks, for plain imports)."
                " Trials of one episode share a library, so they count together. No interval below six episodes."
            )
        else:
            yield "95 % intervals cover this whole population. They say nothing about other runs."
        if taxonomy.chosen:
            yield "You chose a part of the population; its size is estimated too."


def _of_codebook(coding: QueueCoding, user: User) -> Iterable[tuple[int, Example]]:
    shown = CodeExample.objects.filter(code__version=coding.version, is_counter=False).exclude(trial=None)
    shown = shown.exclude(trial__in=unsaid_by(user).exclude(trial=None).values("trial"))
    shown = shown.exclude(trial__in=ReviewAccess(user).closed_trials().values("pk"))
    names = ("code_id", "trial__public_id", "step", "trial__task__title", "trial__episode__run__condition")
    rows = shown.values_list(*names, Left("note", QUOTE_CHARS), Left("quote", QUOTE_CHARS))
    for code, trial, step, task, condition, note, quote in rows:
        yield code, _example(trial, step, note or quote, "codebook", task, condition)


def _of_reviewers(coding: QueueCoding, user: User) -> Iterable[tuple[int, Example]]:
    """Read the examples of reviewers, without labels that a resolution left out, since they do not count."""
    resolved = [item for item in coding.items if item.basis is Basis.RESOLVED]
    members = {code.pk: coding.within(code) for code in coding.codes} if resolved else {}
    # of a resolved item the codes that count: its resolution's, and those above them
    counted = {item.pk: {pk for pk, below in members.items() if item.share(below)} for item in resolved}
    labels = Label.objects.filter(
        mark__review__item__queue__in=coding.queues, mark__review__state=Review.State.SUBMITTED
    )
    labels = labels.exclude(mark__review__item__trial=None)
    labels = labels.exclude(mark__review__item__trial__in=ReviewAccess(user).closed_trials().values("pk"))
    labels = labels.order_by("-mark__review__confidence", "pk")
    trial_of = "mark__review__item__trial"
    names = ("code_id", "mark__review__item_id", f"{trial_of}__public_id", "mark__step")
    columns = ("mark__review__reviewer__username", f"{trial_of}__task__title", f"{trial_of}__episode__run__condition")
    rows = labels.values_list(*names, *columns, Left("mark__memo", QUOTE_CHARS), Left("mark__quote", QUOTE_CHARS))
    for code, item, trial, step, *described, memo, quote in sorted(rows, key=lambda row: row[3] is None):
        if item not in counted or code in counted[item]:
            yield code, _example(trial, step, memo or quote, *described)


def _example(trial: UUID, step: int | None, quote: str, by: str, task: str, condition: str) -> Example:
    url = reverse("trial", args=[trial]) + (f"?step={step}" if step else "")
    return Example(trial, url, f"step {step}" if step else "trial", quote, by, task, condition)
