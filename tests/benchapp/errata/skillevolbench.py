"""What does not add up in the printed numbers of SkillEvolBench beyond its deltas: parts, tables, averages, ranges.

Every percentage of one model is k of 90 or k of 30 (`published_rows.DENOMINATORS`), so means over the ten models are
exact. What its text says in words about single cells is checked in skillevolbench_claims. Source: SkillEvolBench,
Tables 1, 2 and 9; sections 5.3 to 5.6; appendix D.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

from benchapp.papers.published_rows import Cells, PrintedNumber, format_signed, half_unit
from tests.benchapp.errata.checks import TracedErratum, count_findings, delta_findings, erratum, names_of
from tests.benchapp.errata.skillevolbench_claims import HIGHEST, broken_claims
from tests.benchapp.errata.skillevolbench_runs import (
    AVERAGE,
    METRICS,
    PAPER,
    RAW,
    ROLES,
    TABLES,
    Span,
    by_table,
    change,
    column,
    conditions,
    mean_over_models,
)

MODELS, FAMILIES_OF_ENVIRONMENT = 10, 5
CONDITIONS_TOLD = (8, 9, 10)  # section 5.2 counts eight, Tables 1, 2 and 9 have nine, all together are ten


def skillevolbench_findings(rows: Iterable[PrintedNumber]) -> list[TracedErratum]:
    """Every contradiction of the paper with itself, in the order of its tables and then of its text."""
    own = [row for row in rows if row.paper == PAPER]
    cells = Cells(own)
    found = [*delta_findings(own), *count_findings(own)]
    for check in (
        sums_of_roles,
        equal_cells,
        cells_of_the_text,
        mean_changes,
        wins_and_losses,
        changes_of_models,
        highest_of_models,
        ranges,
        strongest_raw,
        shares_of_environments,
        broken_claims,
    ):
        found += check(cells)
    return found


def fits(printed: PrintedNumber, low: Fraction, high: Fraction) -> bool:
    """Whether some number of [low, high] rounds to the print."""
    return low <= printed.span[1] and printed.span[0] <= high


def sums_of_roles(cells: Cells) -> Iterator[TracedErratum]:
    """ESR is over the 90 attempts of which CSSR, ARSR and CompSR are over 30 each: its count is the sum of theirs."""
    for table in TABLES:
        for whole in cells.many(table, "ESR"):
            roles = [cells.one(table, role, condition=whole.condition, model=whole.model) for role in ROLES]
            parts = [role.k for role in roles]
            if None in parts or whole.k is None:
                continue
            total = sum(k for k in parts if k is not None)
            if total != whole.k:
                sentence = f"The three roles solved {' + '.join(map(str, parts))} = {total} of 90, ESR says {whole.k}."
                yield erratum(whole, f"{100 * total / 90:.1f}", "parts", sentence, *roles)


def equal_cells(cells: Cells) -> Iterator[TracedErratum]:
    """Runs that stand in several tables: their rates, and the deltas printed beside them."""
    for position, table in enumerate(TABLES[1:], start=1):
        for metric in METRICS:
            for cell in cells.many(table, metric):
                yield from _against(cell, _earlier(cells, cell, TABLES[:position]))


def _earlier(cells: Cells, cell: PrintedNumber, tables: Iterable[str]) -> PrintedNumber | None:
    found = [row for table in tables for row in cells.many(table, cell.metric, condition=cell.condition)]
    return next((row for row in found if row.model == cell.model), None)


def _against(cell: PrintedNumber, first: PrintedNumber | None) -> Iterator[TracedErratum]:
    if first is None:
        return
    if first.printed != cell.printed:
        yield erratum(
            cell, first.printed, "table against table", f"{first.table} prints {first.printed} for the same run.", first
        )
    if first.printed_delta != cell.printed_delta:
        sentence = (
            f"{first.table} prints {first.printed_delta} beside the same rates, {cell.table} {cell.printed_delta}."
        )
        found = erratum(cell, first.printed_delta, "two deltas for one", sentence, first)
        yield replace(found, printed=cell.printed_delta)


def cells_of_the_text(cells: Cells) -> Iterator[TracedErratum]:
    """Rates and changes of single runs that the text repeats from the tables."""
    for metric in METRICS:
        for told in cells.many("Text", metric):
            cell = by_table(cells, metric, told.condition, told.model)
            if cell is not None and cell.printed != told.printed:
                yield erratum(told, cell.printed, "text", f"{cell.table} prints {cell.printed}.", cell)
        for told in cells.many("Text", f"{metric}_change"):
            span = change(cells, metric, told.condition, told.model)
            if span is not None and not fits(told, *span):
                best = format_signed(span[0], 1)
                sentence = (
                    f"The counts behind the tables give {best}; the text repeats a difference of rounded numbers."
                )
                runs = (by_table(cells, metric, name, told.model) for name in (told.condition, "no-skill"))
                yield erratum(told, best, "text", sentence, *filter(None, runs))


def mean_changes(cells: Cells) -> Iterator[TracedErratum]:
    """Section 5.6: mean change of ESR by condition, over the ten models."""
    base = mean_over_models(cells, "ESR", "no-skill")
    for told in cells.many("Text", "ESR_change", model=AVERAGE):
        mean = mean_over_models(cells, "ESR", told.condition)
        low, high = mean[0] - base[1], mean[1] - base[0]
        if not fits(told, low, high):
            sentence = "The ten models' counts of solved tasks give another mean."
            yield erratum(told, format_signed((low + high) / 2, 2), "average", sentence)


def wins_and_losses(cells: Cells) -> Iterator[TracedErratum]:
    """Section 5.6: how many models a condition helps, leaves as they are, hurts."""
    for told in (
        row for kind in ("wins", "ties", "losses") for row in cells.many("Text", f"ESR_{kind}", model=AVERAGE)
    ):
        counts = changes_by_sign(change(cells, "ESR", told.condition, row.model) for row in _models(cells))
        count = counts[told.metric.removeprefix("ESR_")]
        if count != told.number:
            yield erratum(told, str(count), "text", "The tables give another number of models.")


def _models(cells: Cells) -> list[PrintedNumber]:
    return column(cells, "ESR", "no-skill")


def changes_by_sign(changes: Iterable[Span | None]) -> dict[str, int]:
    found = [span for span in changes if span is not None]
    wins, losses = sum(low > 0 for low, _ in found), sum(high < 0 for _, high in found)
    return {"wins": wins, "ties": len(found) - wins - losses, "losses": losses}


def changes_of_models(cells: Cells) -> Iterator[TracedErratum]:
    """Section 5.6: one model over the nine compared conditions. Raw-trajectory is in no table, so it is solved for."""
    compared = cells.one("Text", "conditions_compared").number
    for told in cells.many("Text", "ESR_change", condition=""):
        known = [change(cells, "ESR", name, told.model) for name in conditions(cells, "ESR") if name != "no-skill"]
        implied = implied_raw_change(told, known, compared)
        if implied is None:
            sentence = "With the eight conditions of the tables, no count of 90 for raw-trajectory gives this mean."
            yield erratum(told, "", "average", sentence)
            continue
        counts = changes_by_sign([*known, (Fraction(implied, 90), Fraction(implied, 90))])
        for kind in ("wins", "losses"):
            for said in cells.many("Text", f"ESR_{kind}", model=told.model, condition=""):
                if said.number != counts[kind]:
                    sentence = f"The tables and the raw-trajectory run that the mean implies give {counts[kind]}."
                    yield erratum(said, str(counts[kind]), "text", sentence)


def highest_of_models(cells: Cells) -> Iterator[TracedErratum]:
    """Section 5.4 names a model's highest ESR; section 5.6's mean implies the one of raw-trajectory,
    which no table prints."""
    compared = cells.one("Text", "conditions_compared").number
    for section, model, condition in HIGHEST:
        (told,) = cells.many("Text", "ESR_change", condition="", model=model)
        known = [change(cells, "ESR", name, model) for name in conditions(cells, "ESR") if name != "no-skill"]
        more = implied_raw_change(told, known, compared)
        own, base = (by_table(cells, "ESR", name, model) for name in (condition, "no-skill"))
        if more is None or own is None or base is None or own.k is None or base.k is None or base.k + more <= own.k:
            continue
        implied = f"{100 * (base.k + more) / 90:.1f}"
        sentence = (
            f"Said to be the model's highest ESR, {own.printed}; section 5.6's mean over nine conditions "
            f"implies that {RAW} solved {base.k + more} of 90, {implied}."
        )
        place, names = f"Section {section}, {model}, {condition}", names_of((own, told, base))
        yield TracedErratum(
            PAPER, "Text", place, "highest ESR", f"{RAW} {implied}", "text against text", sentence, names
        )


def implied_raw_change(told: PrintedNumber, known: Iterable[Span | None], compared: Fraction) -> int | None:
    """Tasks of 90 that raw-trajectory must have solved more than no-skill for the printed mean over all conditions.

    None where no whole number fits: then the mean contradicts the tables.
    """
    spans = [span for span in known if span is not None]
    low = (told.span[0] * compared - sum(high for _, high in spans)) * 90 / 100
    high = (told.span[1] * compared - sum(low for low, _ in spans)) * 90 / 100
    whole = round((low + high) / 2)
    return whole if low <= whole <= high and len(spans) == compared - 1 else None


def ranges(cells: Cells) -> Iterator[TracedErratum]:
    """Section 5.5: highest minus lowest mean of a condition; raw-trajectory's is known where the text prints it."""
    for metric in ("LSR", "ESR"):
        told = cells.one("Text", f"{metric}_condition_range")
        means = [mean_over_models(cells, metric, name) for name in conditions(cells, metric)]
        raw = [row.span for row in cells.many("Text", metric, condition=RAW)]
        low = max(low for low, _ in means + raw) - min(high for _, high in means + raw)
        high = max(high for _, high in means + raw) - min(low for low, _ in means + raw)
        told_low, told_high = told.span
        if (raw and not fits(told, low, high)) or told_high < low:
            sentence = "The means over the ten models in the tables lie further apart."
            if told_low > high:
                sentence = "The means over the ten models in the tables lie closer together."
            yield erratum(told, f"{float(low):.2f}", "range", sentence)


def strongest_raw(cells: Cells) -> Iterator[TracedErratum]:
    """Section 5.5: raw-trajectory has the highest mean in four metrics; what its own numbers say about the fifth."""
    told = {metric: row for metric in METRICS for row in cells.many("Text", metric, condition=RAW, model=AVERAGE)}
    for metric, row in told.items():
        best = max(conditions(cells, metric), key=lambda name: mean_over_models(cells, metric, name))
        mean = mean_over_models(cells, metric, best)[0]
        if mean > row.span[1]:
            yield erratum(row, f"{float(mean):.1f}", "text", f"{best} has a higher mean.")
    esr, arsr, comp = (whole_count(told[metric], n) for metric, n in (("ESR", 900), ("ARSR", 300), ("CompSR", 300)))
    if None in (esr, arsr, comp):
        return
    implied = (esr or 0) - (arsr or 0) - (comp or 0)
    best = max(conditions(cells, "CSSR"), key=lambda name: mean_over_models(cells, "CSSR", name))
    mean = mean_over_models(cells, "CSSR", best)[0]
    if Fraction(100 * implied, 300) > mean:
        sentence = (
            "The text names four metrics in which raw-trajectory has the highest mean and leaves CSSR out, but its "
            f"ESR, ARSR and CompSR imply {implied} of 300 there, more than any condition of the tables ({best}, "
            f"{float(mean):.1f})."
        )
        yield erratum(
            told["ESR"],
            f"CSSR {100 * implied / 300:.1f}",
            "implied by its parts",
            sentence,
            told["ARSR"],
            told["CompSR"],
        )


def whole_count(row: PrintedNumber, n: int) -> int | None:
    """The only k for which the printed percentage is k of n; None where none or several are."""
    low, high = row.span
    found = [k for k in range(int(low * n / 100), int(high * n / 100) + 2) if low <= Fraction(100 * k, n) <= high]
    return found[0] if len(found) == 1 else None


def shares_of_environments(cells: Cells) -> Iterator[TracedErratum]:
    """Section 5.5: means over all conditions in one environment and role, which are k of 50 per condition."""
    told = [row for role in ROLES for row in cells.many("Text", role, model=AVERAGE) if row.group]
    wrong = {
        count: [row for row in told if not _is_count(row, count * MODELS * FAMILIES_OF_ENVIRONMENT)]
        for count in CONDITIONS_TOLD
    }
    fitting = [count for count, rows in wrong.items() if not rows]
    if CONDITIONS_TOLD[-1] in fitting:
        return
    for row in wrong[CONDITIONS_TOLD[-1]]:
        bad = _listed([str(count) for count in CONDITIONS_TOLD if row in wrong[count]])
        sentence = f"It is no share of 50 trials for each of {bad} conditions"
        if fitting:
            sentence += (
                f"; all such means of the text are counts only for {_listed([str(count) for count in fitting])}."
            )
            yield erratum(row, "", "unclear", sentence)
        else:
            sentence += ", and no number of conditions makes all such means of the text counts of full runs."
            yield erratum(row, "", "no k of n", sentence)


def _is_count(row: PrintedNumber, n: int) -> bool:
    k = round(row.number * n / 100)
    return abs(Fraction(100 * k, n) - row.number) <= half_unit(row.printed)


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
