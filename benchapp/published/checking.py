"""What in printed numbers does not add up: the checks every paper gets. Its own checks stand in checking_<paper>."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchapp.published.deltas import References
from benchapp.published.rows import Printed


@dataclass(frozen=True, slots=True)
class Finding:
    """One contradiction. `place`: row and column as a reader finds them; `printed` and `recomputed` as text.

    `kind`: a short word for its sort ("delta", "average", "text", "no k of n", ...); `sentence`: plain words.
    """

    paper: str
    table: str
    place: str
    printed: str
    recomputed: str
    kind: str
    sentence: str


def place_of(row: Printed) -> str:
    """Where a number stands, for a reader: model, condition, group and metric, each once."""
    where = (row.row if row.table == "Text" else "", row.model, row.condition or row.row, row.group, row.metric)
    return ", ".join(dict.fromkeys(part for part in where if part))


def delta_findings(rows: Iterable[Printed]) -> Iterator[Finding]:
    """Every printed delta that its own columns contradict, by the counts behind them where these are known."""
    rows = list(rows)
    references = References(rows)
    for row in rows:
        delta = references.recomputed(row)
        if delta is None or delta.adds_up:
            continue
        if delta.of_prints == row.printed_delta:
            kind = "delta of rounded numbers"
            sentence = f"It is the difference of the rounded columns; the counts behind them give {delta.text}."
        else:
            kind = "delta"
            sentence = f"Against {row.reference} its columns give {delta.text}."
        yield Finding(row.paper, row.table, place_of(row), row.printed_delta, delta.text, kind, sentence)


def count_findings(rows: Iterable[Printed]) -> Iterator[Finding]:
    """Every percentage that is no k of its n."""
    for row in rows:
        if row.is_no_count:
            assert row.n is not None
            near = int(row.number * row.n / 100)
            around = " and ".join(f"{k}/{row.n} = {100 * k / row.n:.2f}" for k in (near, near + 1))
            sentence = f"No count of {row.n} attempts gives it; the nearest are {around}."
            yield Finding(row.paper, row.table, place_of(row), row.printed, around, "no k of n", sentence)
