"""Results as the template and as the JSON twin say them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse

from benchapp.models import User
from benchapp.record.json_shape import JsonShape
from benchapp.review.queues.review_facets import FACETS
from benchapp.review.results.population_shares import Share
from benchapp.review.results.queue_results import Basis
from benchapp.review.results.review_exports import number
from benchapp.review.results.taxonomy import Per, TaxonomyRow
from benchapp.stats.inference.interval import Interval
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
from inspector.pages.review.results.results_charts import PER_SAID, choose_rows, is_large
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


def context_of(request: HttpRequest, results: Results) -> dict[str, object]:
    user = user_of(request)
    examples = results.examples(user) if isinstance(user, User) else {}
    pers = results.taxonomy.pers
    return {
        "section": "review",
        "results": results,
        "queue": results.queues[0],
        "heading": results.heading,
        "taxonomy_rows": [_row_text(results, row, pers, examples) for row in results.rows],
        "undrawn": len(results.rows) - len(choose_rows(results.rows)),
        "pers": [(per, PER_SAID[per]) for per in pers],
        "per": results.per,
        "asked": results.asked,
        "controls": any(row.controls for row in results.rows),
        "facets": _facets(results),
        "by": [(name, title, f"?{results.asked.query(by=name)}#groups") for name, title in FACETS.items()],
        "by_title": FACETS[results.asked.by],
        "groups": _groups(results),
        "attributions": _attributions(results),
        "attribution_heads": [title for value, title in ATTRIBUTIONS],
        "covers": list(COVERS.items()),
        "counts": list(COUNTS.items()),
        "unresolved": results.heading.counted[Basis.SPLIT],
        "guesses": results.guesses,
        "seconds": results.seconds,
        "notes": results.notes(),
        "export_query": results.asked.query(),
    }


def _row_text(
    results: Results, row: TaxonomyRow, pers: Sequence[Per], examples: Mapping[int, list[Example]]
) -> RowText:
    other = row.shares[results.per]
    unused = other.sampling if results.asked.covers == "clusters" else other.interval
    return RowText(
        row,
        tuple(cell_text(row.shares[per], results.interval(row.shares[per])) for per in pers),
        _ends(unused) if is_large(other) else "",
        f"{row.estimated:,.0f}",
        f"{number(row.controls[0])}/{row.controls[1]}" if row.controls else "",
        tuple(examples.get(row.code.pk, ())),
    )


def cell_text(share: Share, around: Interval | None) -> ShareText:
    counts = f"{number(share.k)}/{share.n}" if share.n else "none coded"
    if not is_large(share):
        return ShareText("", "", counts, share.note)
    return ShareText(f"{100 * (share.value or 0):.1f}", _ends(around), counts, share.note if around is None else "")


def _ends(around: Interval | None) -> str:
    if around is None:
        return ""
    if around.low == around.high:
        return "exact"
    return f"{100 * around.low:.1f}–{100 * around.high:.1f}"


def _facets(results: Results) -> list[tuple[str, str, list[tuple[str, str, bool]]]]:
    """(name, title, (value in the address, label, is chosen)) for the form."""
    chosen = results.asked.chosen
    return [
        (
            name,
            FACETS[name],
            [(value or NOT_TOLD, value or "not told", value in chosen.get(name, ())) for value in values],
        )
        for name, values in group_values(results).items()
    ]


def _groups(results: Results) -> dict[str, object]:
    """The table by one facet: used codes x its largest groups."""
    total = len(results.taxonomy.values(results.asked.by))
    groups = results.groups
    order = {code.pk: place for place, (code, _) in enumerate(results.taxonomy.tree)}
    rows = []
    for row in results.rows:
        if row.is_used:
            shares = [group[order[row.code.pk]] for group in groups.values()]
            cells = [cell_text(share, results.interval(share)) for share in shares]
            rows.append((row, min(row.depth, 4), cells))
    return {"heads": [name or "not told" for name in groups], "rows": rows, "left": max(0, total - MAX_GROUPS)}


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
SELECTION = JsonShape("attempted", "failed", "population")


def read_twin(results: Results) -> dict[str, object]:
    saturation = results.saturation
    seconds, timed = results.seconds
    return {
        **results.heading.as_json(),
        "queue_urls": [PageLink("queue-json", queue.public_id) for queue in results.queues],
        "problems": results.problems,
        "choices": {**_choices(results), "per": results.per, "covers": results.asked.covers},
        "selection": _read_selection(results),
        "codes": [{**ROW.read(row), "label_url": _label_url(results, row)} for row in results.rows],
        "groups": {"facet": results.asked.by, "per": results.per, "values": _read_groups(results)},
        "attributions": [{"code": row.code.name, "items": blamed} for row, blamed in results.attributions],
        "saturation": {"codes_after_each_item": saturation.found, "says": saturation.says()},
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
