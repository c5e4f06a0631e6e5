"""Results as the template and as the JSON twin say them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse

from benchapp.models import Queue, QueueItem, User
from benchapp.record.json_shape import JsonShape
from benchapp.review.blinding import Words, open_to
from benchapp.review.coding.queue_agreement import standing_report
from benchapp.review.queues.review_facets import FACETS
from benchapp.review.results.cooccurrence import count_together
from benchapp.review.results.population_shares import Share
from benchapp.review.results.queue_results import Basis
from benchapp.review.results.review_exports import number
from benchapp.review.results.taxonomy import Per, TaxonomyRow
from benchapp.stats.inference.interval import Interval
from benchapp.stats.inference.shares import half_up
from inspector.pages.review.results.agreement import SURE
from inspector.pages.review.results.cause_answer import answer_of
from inspector.pages.review.results.causes import RankedCauses, count_text
from inspector.pages.review.results.results import (
    ATTRIBUTIONS,
    COUNTS,
    COVERS,
    MAX_GROUPS,
    NOT_TOLD,
    Example,
    Results,
    group_values,
)
from inspector.pages.review.results.results_charts import PER_SAID, choose_rows, most_used
from inspector.web.access import user_of
from inspector.web.responses import PageLink


@dataclass(frozen=True, slots=True)
class ShareText:
    """A share as the page writes it: `value` is empty below ten coded, where the counts say it all."""

    value: str
    ends: str
    counts: str
    note: str


@dataclass(frozen=True, slots=True)
class RowText:
    row: TaxonomyRow
    cells: tuple[ShareText, ...]
    whole: str  # the other interval
    estimated: str
    controls: str
    examples: tuple[Example, ...]

    @property
    def level(self) -> int:
        return min(self.row.depth, 4)


PAIRED = 7  # causes of the table that says which come together
SHARED = 20  # items that two people reviewed, before agreement on single causes says anything


def context_of(request: HttpRequest, results: Results) -> dict[str, object]:
    user = user_of(request)
    examples = results.examples(user) if isinstance(user, User) else {}
    pers = results.taxonomy.pers
    causes = RankedCauses(results, examples)
    heads = causes.heads()
    return {
        "section": "review",
        "results": results,
        "queue": results.queues[0],
        "heading": results.heading,
        "causes": causes,
        "answer": answer_of(results, causes),
        "examples_missing": _explain_missing(causes, user),
        "group_heads": heads,
        "group_rows": causes.group_rows(heads),
        "groups_left": max(0, len(results.taxonomy.values(results.asked.by)) - MAX_GROUPS),
        "together": _pairs(results),
        "agreed": _agreed(results, causes),
        "reviewers": len({review.reviewer for review in results.coding.reviews}),
        "may_go_on": user.may(User.Level.REVIEWER) and open_to(user).filter(queue=results.queues[0]).exists(),
        "taxonomy_rows": [_row_text(results, row, pers, examples) for row in results.rows],
        "undrawn": len(results.rows) - len(choose_rows(results.rows)),
        "pers": [(per, PER_SAID[per], f"?{results.asked.query(per=per)}") for per in pers],
        "per": results.per,
        "asked": results.asked,
        "controls": any(row.controls for row in results.rows),
        "facets": _facets(results),
        "by": [(name, title, f"?{results.asked.query(by=name)}#by") for name, title in FACETS.items()],
        "by_title": FACETS[results.asked.by],
        "attributions": _attributions(results),
        "attribution_heads": [title for value, title in ATTRIBUTIONS],
        "covers": list(COVERS.items()),
        "covered": COVERS[results.asked.covers],
        "counts": list(COUNTS.items()),
        "unresolved": results.heading.counted[Basis.SPLIT],
        "guesses": results.guesses,
        "seconds": results.seconds,
        "notes": results.notes(),
        "export_query": results.asked.query(),
    }


def _explain_missing(causes: RankedCauses, user: User) -> str:
    """Why a cause has no example; only trials have any. Two queries, none where every cause has one."""
    results = causes.results
    if results.coding.unit != Queue.Unit.TRIAL or all(cause.examples for cause in causes.top):
        return ""
    if QueueItem.objects.filter(queue__in=results.queues, trial__in=Words(user).closed_trials().values("pk")).exists():
        return "You cannot see examples yet: another queue still asks you about these trials."
    return "No review holds an example."


@dataclass(frozen=True, slots=True)
class Pairs:
    """Items that carry both of two causes. rows: name, and a (text, strength from 0 to 3) for each cause up to its own,
    whose strength is None. most: the two names that meet most."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, int | None], ...]], ...]
    most: tuple[str, str] | None


def _pairs(results: Results) -> Pairs:
    codes = most_used(results)[:PAIRED]
    found = count_together(results.chosen_items, [results.coding.within(code) for code in codes])
    top = max((pair.both for (row, column), pair in found.items() if row != column), default=0.0)
    rows = []
    for row, code in enumerate(codes):
        cells: list[tuple[str, int | None]] = [
            (count_text(found[row, column].both), _strength(found[row, column].both, top)) for column in range(row)
        ]
        rows.append((code.name, (*cells, (count_text(found[row, row].both), None))))
    names = tuple(code.name for code in codes)
    most = max(found, key=lambda pair: found[pair].both if pair[0] < pair[1] else -1, default=None)
    return Pairs(names, tuple(rows), (names[most[0]], names[most[1]]) if most and top else None)


def _strength(both: float, top: float) -> int:
    return int(-(-3 * both // top)) if both else 0


@dataclass(frozen=True, slots=True)
class AgreedCause:
    """How far reviewers agreed on one cause. place: percent of the way from chance to always."""

    name: str
    place: str
    value: str
    is_low: bool


def _agreed(results: Results, causes: RankedCauses) -> list[AgreedCause]:
    """Of the causes at the top that came up, from the report before discussion; best first. Empty below SHARED items."""
    is_one = len(results.queues) == 1 and results.heading.overlap >= SHARED
    report = standing_report(results.queues[0]) if is_one else None
    if report is None or report.items_total < SHARED:
        return []
    told = {row["code"]: row["value"] for row in report.values["by_code"] if row["value"] is not None}
    found = [(cause.code.name, told[key]) for cause in causes.top if (key := str(cause.code.public_id)) in told]
    return [
        AgreedCause(name, f"{100 * min(max(value, 0.0), 1.0):.1f}", _alpha_text(value), value < SURE)
        for name, value in sorted(found, key=lambda each: -each[1])
    ]


def _alpha_text(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _row_text(
    results: Results, row: TaxonomyRow, pers: Sequence[Per], examples: Mapping[int, list[Example]]
) -> RowText:
    other = row.shares[results.per]
    unused = other.sampling if results.asked.covers == "clusters" else other.interval
    return RowText(
        row,
        tuple(cell_text(row.shares[per], results.interval(row.shares[per])) for per in pers),
        _ends(unused),
        "" if row.shown_total is None else f"{row.shown_total:,.0f}",
        f"{number(row.controls[0])}/{row.controls[1]}" if row.controls else "",
        tuple(examples.get(row.code.pk, ())),
    )


def cell_text(share: Share, around: Interval | None) -> ShareText:
    counts = f"{number(share.k)}/{share.n}" if share.n else "none coded"
    if share.shown is None:
        return ShareText("", "", counts, share.note)
    return ShareText(str(half_up(100 * share.shown, 1)), _ends(around), counts, share.note if around is None else "")


def _ends(around: Interval | None) -> str:
    if around is None:
        return ""
    if around.low == around.high:
        return "exact"
    return f"{half_up(100 * around.low, 1)}–{half_up(100 * around.high, 1)}"


def _facets(results: Results) -> list[tuple[str, str, list[tuple[str, str, bool]]]]:
    """(name, title, (value in the address, label, is chosen)) for the form."""
    chosen = results.asked.chosen
    return [
        (
            name,
            FACETS[name],
            [(value or NOT_TOLD, value or "not reported", value in chosen.get(name, ())) for value in values],
        )
        for name, values in group_values(results).items()
    ]


def _attributions(results: Results) -> list[tuple[TaxonomyRow, int, list[str]]]:
    """Items per cause, empty where none."""
    values = [value for value, _ in ATTRIBUTIONS]
    return [
        (
            row,
            min(row.depth, 4),
            [number(round(blamed.get(value, 0.0), 1)) if blamed.get(value) else "" for value in values],
        )
        for row, blamed in results.attributions
    ]


# --- the twin ----------------------------------------------------------------------------------------------------------


SHARE = JsonShape("k", "n", "clusters", "value", "interval", "sampling", "note?")
"""Of a Share."""

ROW = JsonShape(
    *("code=code.name", "id=code.public_id", "depth", "definition=code.definition?"),
    ("shares", lambda row: {per.value: SHARE.read(share) for per, share in row.shares.items()}),
    "estimated_total=estimated",
    ("controls", lambda row: dict(zip(("k", "n"), row.controls, strict=True)) if row.controls else None),
)
GUESSES = JsonShape("right", "named", "unsure", "chance", "p")
FIRST_FAILURES = JsonShape("shares_by_tenth=shares", "marks_by_tenth=counts", "items")
SATURATION = JsonShape(
    *("codes_after_each_item=found", ("says", lambda found: found.says())),
    *("items_with_a_code_of_their_own=lone", "next_brings_a_new_one=chance", "at_most"),
)
SELECTION = JsonShape("attempted", "failed", "population")


def read_twin(results: Results) -> dict[str, object]:
    saturation = results.saturation
    seconds, timed = results.seconds
    return {
        **results.heading.as_json(),
        "queue_urls": [PageLink("queue-json", queue.public_id) for queue in results.queues],
        "problems": results.problems,
        "reviews": dict(zip(("submitted", "needed"), results.reviews, strict=True)),
        "items_shared": results.coding.shared,
        "choices": {**_choices(results), "per": results.per, "covers": results.asked.covers},
        "selection": _read_selection(results),
        "codes": [
            {**ROW.read(row), "keys": results.keys[row.code.pk], "label_url": _label_url(results, row)}
            for row in results.rows
        ],
        "groups": {"facet": results.asked.by, "per": results.per, "values": _read_groups(results)},
        "attributions": [{"code": row.code.name, "items": blamed} for row, blamed in results.attributions],
        "saturation": SATURATION.read(saturation),
        "first_failures": FIRST_FAILURES.read(results.first_failures),
        "guesses": GUESSES.read(results.guesses),
        "seconds_per_item": {"median": seconds, "reviews": timed},
        "notes": results.notes(),
        "next": None,
    }


def _choices(results: Results) -> dict[str, object]:
    chosen = {name: sorted(values) for name, values in results.asked.chosen.items()}
    return {"chosen": chosen, "unresolved": results.asked.counts}


def _read_selection(results: Results) -> dict[str, int] | None:
    cell = results.taxonomy.counts
    return SELECTION.read(cell) if cell else None


def _label_url(results: Results, row: TaxonomyRow) -> str:
    return reverse("results", args=[results.queues[0].public_id]) + f"#code-{row.code.public_id}"


def _read_groups(results: Results) -> list[dict[str, object]]:
    codes = [code.name for code, _ in results.taxonomy.tree]
    return [
        {
            "value": value or None,
            "codes": {name: SHARE.read(share) for name, share in zip(codes, shares, strict=True)},
        }
        for value, shares in results.groups.items()
    ]
