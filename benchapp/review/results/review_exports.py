r"""Results as files: the taxonomy as rows and as a LaTeX table, and every label with its anchor.

Notes are separate from runs: no export of runs holds any of this, and quotes and memos are exported only on request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import orjson
from django.conf import settings
from django.utils import timezone

from benchapp.exports.dictionary import Column, ValueKind
from benchapp.exports.formats import UTC_Z, csv_pieces, json_pieces
from benchapp.exports.latex import END, escape
from benchapp.models import Label, Queue, QueueItem, Resolution, Review, User
from benchapp.models.stand_ins import StandIn
from benchapp.review.blinding import ReviewAccess
from benchapp.review.results.population_shares import Share
from benchapp.review.results.queue_results import NOT_COMPUTED, Heading, Per, Taxonomy, TaxonomyRow
from benchapp.stats.inference.interval import Interval
from benchapp.stats.inference.shares import half_up

ID, TEXT, TIME = ValueKind.ID, ValueKind.TEXT, ValueKind.TIME
INTEGER, NUMBER, BOOLEAN = ValueKind.INTEGER, ValueKind.NUMBER, ValueKind.BOOLEAN

MISSING_INTERVAL = "fewer than ten coded, or fewer than six clusters"
TOO_FEW = "fewer than ten coded"
NO_TRIALS = "the units are not trials, or the population can no longer be counted"
CARRIED = (  # on every row: a table is copied without its head
    Column("codebook", TEXT, "name of the codebook"),
    Column("version", INTEGER, "its version"),
    Column("version_digest", TEXT, "SHA-256 of the version's codes"),
    Column("queues", TEXT, "queues the numbers are from"),
    Column("items_coded", INTEGER, "items that count, of the part that was chosen or not", "items"),
    Column("items_overlap", INTEGER, "items that at least two people reviewed", "items"),
    Column("alpha", NUMBER, "Krippendorff's alpha over code sets, before discussion", missing=NOT_COMPUTED),
)
RATES: Mapping[Per, str] = {
    Per.POPULATION: "units of the population that carry it, per 100",
    Per.FAILED: "failed trials that carry it, per 100 failed in the same selection",
    Per.ATTEMPTED: "trials of the population that carry it, per 100 trials of the same selection that ran",
}
ENDS = {
    "low": "low end of its 95 % interval, clusters resampled",
    "high": "high end of it",
    "sampling_low": "low end of the 95 % interval for coding every unit of this population",
    "sampling_high": "high end of it",
}


def _rate_fields(per: Per, meaning: str) -> tuple[Column, ...]:
    missing = TOO_FEW if per is Per.POPULATION else f"{TOO_FEW}; or {NO_TRIALS}"
    ends = (Column(f"per_100_{per}_{name}", NUMBER, text, "per 100", MISSING_INTERVAL) for name, text in ENDS.items())
    return Column(f"per_100_{per}", NUMBER, meaning, "per 100", missing), *ends


TAXONOMY = (
    Column("code", TEXT, "name of the code"),
    Column("parent", TEXT, "the code above it, which counts all beneath it", missing="at the top"),
    Column("depth", INTEGER, "levels below the top"),
    Column("definition", TEXT, "what it means", missing="none was written"),
    Column("k", NUMBER, "items that carry it; a fraction where reviewers of an item disagree", "items"),
    Column("n", INTEGER, "items coded", "items"),
    Column("clusters", INTEGER, "episodes (or tasks, for plain imports) they are from"),
    *(field for per, meaning in RATES.items() for field in _rate_fields(per, meaning)),
    Column("estimated_total", NUMBER, "units of the population that carry it (Horvitz-Thompson)", "units", TOO_FEW),
    Column("controls_k", NUMBER, "passes drawn as controls that carry it", "items", "no controls were coded"),
    Column("controls_n", INTEGER, "passes drawn as controls and coded", "items", "no controls were coded"),
    *CARRIED,
)


def taxonomy_rows(taxonomy: Taxonomy, heading: Heading) -> Iterator[Sequence[object]]:
    names = {code.pk: code.name for code in taxonomy.coding.codes}
    alpha = heading.alpha.value if heading.alpha else None
    queues = "; ".join(heading.queues)
    carried = (heading.codebook, heading.version, heading.digest, queues, heading.n, heading.overlap, alpha)
    for row in taxonomy.ranked:
        share = row.shares[Per.POPULATION]
        rates = [value for per in Per for value in _rate(row.shares.get(per))]
        code = (row.code.name, names.get(row.code.parent_id or 0), row.depth, row.code.definition or None)
        yield (
            *code,
            share.k,
            share.n,
            share.clusters,
            *rates,
            row.shown_total,
            *(row.controls or (None, None)),
            *carried,
        )


def _rate(share: Share | None) -> tuple[float | None, ...]:
    if share is None or share.shown is None:
        return (None,) * (1 + len(ENDS))
    return 100 * share.shown, *_ends(share.interval), *_ends(share.sampling)


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (100 * interval.low, 100 * interval.high) if interval else (None, None)


def about(taxonomy: Taxonomy, heading: Heading) -> dict[str, object]:
    """Return what a reader of the file must know in addition to its rows."""
    chosen = {name: sorted(values) for name, values in taxonomy.chosen.items()}
    made = {"skillglass": settings.VERSION, "as_of": timezone.now()}
    return {"export": "taxonomy", "rows_are": "One row per code.", **made, **heading.as_json(), "chosen": chosen}


# --- LaTeX -----------------------------------------------------------------------------------------------------------


def taxonomy_table(taxonomy: Taxonomy, heading: Heading) -> str:
    r"""Render a `table` of codes. Needs \usepackage{booktabs}, and a Unicode engine for names beyond ASCII."""
    pers = taxonomy.pers
    heads = {Per.POPULATION: r"\% of population", Per.FAILED: "per 100 failed", Per.ATTEMPTED: "per 100 attempted"}
    lines = [
        "% needs \\usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_caption(taxonomy, heading)}}}",
        rf"\begin{{tabular}}{{lr{'r' * len(pers)}}}",
        r"\toprule",
        " & ".join(["Code", "$k/n$", *(heads[per] for per in pers)]) + END,
        r"\midrule",
        *(_line(row, pers) + END for row in taxonomy.ranked),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def _line(row: TaxonomyRow, pers: Sequence[Per]) -> str:
    share = row.shares[Per.POPULATION]
    name = rf"\hspace{{{row.depth}em}}" * bool(row.depth) + escape(row.code.name)
    return " & ".join([name, f"{number(share.k)}/{share.n}", *(_value(row.shares[per]) for per in pers)])


def _value(share: Share) -> str:
    if share.shown is None:
        return "--"
    low, high = _ends(share.interval)
    around = "" if low is None or high is None else f" [{half_up(low, 1)}, {half_up(high, 1)}]"
    return f"{half_up(100 * share.shown, 1)}{around}"


def number(count: float) -> str:
    """Format a count that may be a fraction."""
    return f"{count:.0f}" if count == int(count) else f"{count:.1f}"


def _caption(taxonomy: Taxonomy, heading: Heading) -> str:
    noun = {"trial": "trials", "decision": "decisions", "snapshot": "libraries"}[heading.unit]
    chosen = "; ".join(f"{name} {', '.join(sorted(values))}" for name, values in taxonomy.chosen.items())
    sentences = [
        f"Codebook {escape(heading.codebook)}, version {heading.version} ({heading.digest[:12]}).",
        f"$n = {heading.n}$ {noun} coded of {heading.drawn} drawn from {heading.population_total}:"
        f" {escape('; '.join(heading.populations))}.",
        f"Reviewed at least twice: {heading.overlap}; Krippendorff's $\\alpha$ before discussion: "
        f"{escape(heading.alpha_said.replace('−', '-'))}.",
        f"Only {escape(chosen)}." if chosen else "",
        "A code counts everything beneath it; an item may carry several. Weighted by inclusion probability, with"
        r" 95\,\% intervals over clusters (episodes, or tasks of plain imports).",
        *(each.sentence for each in StandIn if each in heading.stand_ins),
    ]
    return " ".join(filter(None, sentences))


# --- labels ---------------------------------------------------------------------------------------------------------

ANCHOR = "the mark applies to the whole item"
LABELS = (
    Column("item", ID, "the item under review"),
    Column("queue", ID, "its queue"),
    Column("unit", TEXT, "trial, decision or snapshot"),
    Column("unit_id", TEXT, "public id of the trial or decision, digest of the snapshot", missing="still blind to you"),
    Column("codebook", TEXT, "name of the codebook"),
    Column("version", INTEGER, "its version"),
    Column("version_digest", TEXT, "SHA-256 of the version's codes"),
    Column("said_by", TEXT, "review, or resolution for an adjudicator's answer"),
    Column("reviewer", TEXT, "pseudonym of the person"),
    Column("state", TEXT, "submitted, skipped or resolved"),
    Column("code", TEXT, "the code", missing="nothing is wrong there, or it was skipped"),
    Column("attribution", TEXT, "who or what failed", missing="not said"),
    Column("first_failure", BOOLEAN, "the mark is the first upstream failure", missing="no mark"),
    Column("trajectory_digest", TEXT, "trajectory of the mark", missing=ANCHOR),
    Column("step", INTEGER, "step from 1", missing=ANCHOR),
    Column("field", TEXT, "field of the step", missing=ANCHOR),
    Column("path", TEXT, "skill file", missing="not a mark in a file"),
    Column("start", INTEGER, "first character of the field's text from 0, or line of the file from 1", missing=ANCHOR),
    Column("end", INTEGER, "end of it", missing=ANCHOR),
    Column("confidence", INTEGER, "1 low to 3 high", missing="not said"),
    Column("category", TEXT, "why reviewers differed, as the adjudicator saw it", missing="not a resolution"),
    Column("at", TIME, "when it was submitted, skipped or resolved"),
    Column("seconds", NUMBER, "active time on the item", "seconds", "not a review"),
    Column("inclusion", NUMBER, "probability with which the item was drawn"),
    Column("is_control", BOOLEAN, "a pass drawn beside the failures"),
    Column("is_overlap", BOOLEAN, "in the overlap"),
    Column("carried", BOOLEAN, "carried over from a queue of another version"),
    Column("hid_labels", BOOLEAN, "other people's labels were hidden until submitted"),
    Column("hid_suggestions", BOOLEAN, "suggestions were hidden until submitted"),
    Column("hid_conditions", BOOLEAN, "conditions were hidden"),
    Column("hid_models", BOOLEAN, "models were hidden"),
)
QUOTE = Column("quote", TEXT, "the marked text, from the trial", missing="no text was marked")
MEMOS = (
    Column("memo", TEXT, "memo of the mark, or of the resolution", missing="none"),
    Column("review_memo", TEXT, "memo of the review, or the reason it was skipped", missing="none"),
)
LABELS_AS = {"csv": "text/csv; charset=utf-8", "json": "application/json", "jsonl": "application/x-ndjson"}
UnitFacts = tuple[UUID, str | None, list[object]]  # the item, its unit unless that is hidden, how it was drawn
MARK_PLACE = ("attribution", "is_first_failure", "trajectory__digest", "step", "field", "path", "start", "end")


@dataclass(frozen=True, slots=True)
class LabelExport:
    """One row per label. A review without any, and a skipped one, have a row of their own: they are answers too. An
    `asker` who is still blind to a unit does not learn which it is; None: the command line."""

    queue: Queue
    asker: User | None
    quotes: bool = False
    memos: bool = False

    @property
    def fields(self) -> tuple[Column, ...]:
        return LABELS + ((QUOTE,) if self.quotes else ()) + (MEMOS if self.memos else ())

    def about(self) -> dict[str, object]:
        version = self.queue.version
        about = {"codebook": version.codebook.name, "version": version.number, "version_digest": version.digest}
        made = {"skillglass": settings.VERSION, "as_of": timezone.now(), "queue": self.queue.public_id}
        rows = "One row per label; reviews without labels, skipped ones and resolutions have rows of their own."
        return {"export": "labels", "rows_are": rows, **made, **about}

    def pieces(self, form: str) -> Iterator[bytes]:
        if form == "csv":
            return csv_pieces(self.fields, self.rows())
        if form == "json":
            return json_pieces(self.fields, self.rows(), self.about())
        names = [field.name for field in self.fields]
        lines = (dict(zip(names, row, strict=True)) for row in self.rows())
        return (orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE | UTC_Z) for line in lines)

    def rows(self) -> Iterator[Sequence[object]]:
        units = dict(self._units())
        yield from self._labels(units)
        yield from self._without_labels(units)
        yield from self._resolutions(units)

    def _units(self) -> Iterator[tuple[int, UnitFacts]]:
        """Yield item -> its columns before and after the label's."""
        closed = self._list_closed()
        names = ("public_id", "trial__public_id", "decision__public_id", "snapshot__digest", "inclusion")
        rows = self.queue.items.values_list("pk", *names, "is_control", "is_overlap")
        for pk, item, trial, decision, digest, *drawn in rows:
            yield pk, (item, None if pk in closed else str(trial or decision or digest), drawn)

    def _list_closed(self) -> frozenset[int]:
        """Return items whose unit the asker may not know yet, because of this queue or of another."""
        if self.asker is None:
            return frozenset()
        items = QueueItem.objects.filter(queue=self.queue).order_by()
        access = ReviewAccess(self.asker)
        runs = access.closed_runs().values("pk")
        hidden = items.filter(trial__in=access.closed_trials().values("pk")).values_list("pk", flat=True)
        of_runs = items.filter(decision__episode__run__in=runs) | items.filter(episode__run__in=runs)
        return frozenset({*hidden, *(of_runs.values_list("pk", flat=True) if self.queue.unit != "trial" else ())})

    def _row(self, unit: UnitFacts, cells: Sequence[object], more: Mapping[str, object]) -> Sequence[object]:
        item, unit_id, drawn = unit
        version, queue = self.queue.version, self.queue
        book = (version.codebook.name, version.number, version.digest)
        hid = (queue.hides_labels, queue.hides_suggestions, queue.hides_conditions, queue.hides_models)
        if unit_id is None:  # their words would reveal as much as its name
            more = {**more, "quote": "", "memo": "", "review_memo": ""}
        asked = ([more["quote"] or None] if self.quotes else []) + (
            [more["memo"] or None, more["review_memo"] or None] if self.memos else []
        )
        carried = (more["carried"],)
        return (str(item), str(queue.public_id), queue.unit, unit_id, *book, *cells, *drawn, *carried, *hid, *asked)

    def _labels(self, units: Mapping[int, UnitFacts]) -> Iterator[Sequence[object]]:
        """Yield rows in the order of the items, the reviews and the marks."""
        final = {"mark__review__item__queue": self.queue, "mark__review__state": Review.State.SUBMITTED}
        anchor = (f"mark__{name}" for name in MARK_PLACE)
        whose = ("item_id", "reviewer__pseudonym", "confidence", "submitted_at", "seconds", "carried_from_id", "memo")
        names = ("code__name", *anchor, "mark__quote", "mark__memo", *(f"mark__review__{name}" for name in whose))
        order = ("mark__review__item__ordinal", "mark__review_id", "mark__ordinal", "mark_id", "pk")
        for code, *mark, quote, memo, item, who, sure, at, seconds, carried, values in (
            Label.objects.filter(**final).order_by(*order).values_list(*names)
        ):
            place = [None if value == "" else value for value in mark]
            given = ("review", who, "submitted", code, *place, sure, None, at, seconds)
            more = {"quote": quote, "memo": memo, "review_memo": values, "carried": carried is not None}
            yield self._row(units[item], given, more)

    def _without_labels(self, units: Mapping[int, UnitFacts]) -> Iterator[Sequence[object]]:
        final = Review.objects.filter(item__queue=self.queue).exclude(state=Review.State.DRAFT)
        labelled = Label.objects.filter(mark__review__item__queue=self.queue).values("mark__review")
        bare = final.exclude(pk__in=labelled) | final.filter(state=Review.State.SKIPPED)
        for review in bare.select_related("reviewer").order_by("item__ordinal", "pk"):
            nothing = (None,) * (1 + len(MARK_PLACE))
            cells = ("review", review.reviewer.pseudonym, review.state, *nothing, review.confidence, None)
            more = {"quote": "", "memo": "", "review_memo": review.memo or review.skip_reason}
            carried = {"carried": review.carried_from_id is not None}
            yield self._row(units[review.item_id], (*cells, review.submitted_at, review.seconds), {**more, **carried})

    def _resolutions(self, units: Mapping[int, UnitFacts]) -> Iterator[Sequence[object]]:
        current = Resolution.objects.filter(item__queue=self.queue, superseded_at=None)
        names = ("item_id", "adjudicator__pseudonym", "attribution", "category", "memo", "resolved_at", "codes__name")
        for item, who, attribution, category, memo, at, code in current.order_by(
            "item__ordinal", "codes__ordinal"
        ).values_list(*names):
            place = (attribution or None, *(None,) * (len(MARK_PLACE) - 1))
            cells = ("resolution", who, "resolved", code, *place, None, category, at, None)
            yield self._row(units[item], cells, {"quote": "", "memo": memo, "review_memo": "", "carried": False})
