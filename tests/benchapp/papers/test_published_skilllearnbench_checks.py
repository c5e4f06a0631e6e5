"""The checker of SkillLearnBench lists exactly what does not add up, and would notice if anything else did not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from random import Random

import pytest

from benchapp.papers.published_rows import (
    Cells,
    PrintedNumber,
    count_decimals,
    counts_make,
    find_count,
    read_published_rows,
    rounds_to,
)
from benchapp.papers.release import METHODS, MODELS
from tests.benchapp.errata.arithmetic import mean_may_be, sum_may_be
from tests.benchapp.errata.checks import TracedErratum
from tests.benchapp.errata.skilllearnbench import skilllearnbench_findings
from tests.benchapp.errata.skilllearnbench_claims import CLAIMS, Claim
from tests.benchapp.errata.skilllearnbench_readings import variance_shares
from tests.benchapp.errata.skilllearnbench_retest import Retest, retest
from tests.cases import every

ROWS = read_published_rows("skilllearnbench")
AS_PRINTED = set(skilllearnbench_findings(ROWS))
KNOWN = [
    ("Table 10", "average of six models, skill-creator, executability_completeness", "32.54", "32.552"),
    ("Table 10", "average of six models, skill-creator, executability_usability", "55.91", "55.928"),
    ("Table 10", "Gemini 3 Flash, skill-creator, executability", "44.79", "44.810"),
    ("Table 2", "Claude Sonnet 4.6, self-feedback, safety", "93.79", "93.78"),
    ("Table 5", "Human-authored, patterns", "64.3 / 33.3 / 2.4", "41"),
    ("Table 16", "All tasks, safety_rho", "0.61", "0.44 to 0.55"),
    (
        "Table 7",
        "no-skill, seed instances, accuracy_sd",
        "14.43",
        "5 of 20 tasks flipped; one pass varies by 6.5 points",
    ),
]
KNOWN_OF_THE_TEXT = [
    ("Appendix C", "text", "model 26, method 6, rest 68"),
    ("Appendix C", "loose wording", "self-feedback with Gemini 3 Flash 27.67, with Gemini 3.1 Flash Lite 31.50"),
    ("Appendix C", "loose wording", "self-feedback with Gemini 3 Flash 27.67, teacher-feedback 29.00"),
    ("Appendix D", "text", "human-authored 590K, no-skill 727K"),
    ("Appendix D", "loose wording", "528K is nearer to human-authored 590K"),
    ("Appendix E", "loose wording", "one-shot 30.28, self-feedback 29.17"),
    ("Appendix F", "text", "lowest 40.00 (video-object-counting)"),
    ("Appendix G", "loose wording", "executability_usability one-shot 53.75"),
    ("Appendix I", "loose wording", "skill-creator with Claude Sonnet 4.6 60.76, against 61.75"),
    ("Appendix I", "loose wording", "skill-creator with Claude Sonnet 4.6 81.21, against 82.83"),
    ("Appendix J, case 2", "loose wording", "skill-creator 52.78"),
]
DIMENSIONS = ("executability_", "safety_", "alignment_")
AVERAGED = ("Table 2", "Table 3", "Table 6", "Table 8", "Table 9", "Table 10", "Table 11", "Table 12")


def of_the_text(finding: TracedErratum) -> bool:
    return finding.place in {claim.place for claim in CLAIMS}


def test_it_lists_the_numbers_that_do_not_add_up() -> None:
    found = [f for f in skilllearnbench_findings(ROWS) if not of_the_text(f)]
    assert [(f.table, f.place, f.printed, f.recomputed) for f in found] == KNOWN


def test_it_lists_the_claims_that_the_tables_do_not_bear_out() -> None:
    found = [f for f in skilllearnbench_findings(ROWS) if of_the_text(f)]
    assert [(f.place, f.kind) for f in found] == [(place, kind) for place, kind, _ in KNOWN_OF_THE_TEXT]
    assert [
        (f.place, part) for f, (_, _, part) in zip(found, KNOWN_OF_THE_TEXT, strict=True) if part not in f.recomputed
    ] == []


def misprinted(*wrong: PrintedNumber) -> tuple[PrintedNumber, ...]:
    """All rows with some numbers too high by five units (by ten of tokens)."""

    def other(row: PrintedNumber) -> PrintedNumber:
        value = float(row.number) + (10 if row.unit == "k tokens" else 5)
        return replace(row, value=value, printed=f"{value:.{count_decimals(row.printed)}f}")

    return tuple(other(row) if row in wrong else row for row in ROWS)


def new_findings(rows: Iterable[PrintedNumber]) -> set[TracedErratum]:
    return set(skilllearnbench_findings(rows)) - AS_PRINTED


ADDED_UP = {"input_tokens": "tokens", "output_tokens": "tokens"}  # a misprint shows at the total


def shows_by_itself(row: PrintedNumber) -> bool:
    """Of the references, a coverage is printed once, and a dimension shows at the mean of its row only."""
    return row.condition in METHODS or not (row.metric == "coverage" or row.metric.startswith(DIMENSIONS))


@every(*AVERAGED)
def test_it_notices_a_misprint_in_every_column(table: str) -> None:
    """One cell of every (metric, condition) of a table is wrong, each time of another model, task or category."""
    columns: dict[tuple[str, str], list[PrintedNumber]] = {}
    for row in ROWS:
        if row.table == table and row.value is not None and shows_by_itself(row):
            columns.setdefault((row.metric, row.condition), []).append(row)
    picked = [cells[at % len(cells)] for at, cells in enumerate(columns.values())]
    places = [finding.place.split(", ") for finding in new_findings(misprinted(*picked))]
    wanted = {(ADDED_UP.get(metric, metric), condition) for metric, condition in columns}
    assert wanted - {(metric, part) for *where, metric in places for part in where} == set()


@every("executability_usability", "safety_bias", "alignment_order")
def test_it_notices_a_misprinted_dimension_of_a_reference(metric: str) -> None:
    row = next(row for row in ROWS if (row.metric, row.condition) == (metric, "human-authored"))
    (found,) = new_findings(misprinted(row))
    assert (found.table, found.kind) == (row.table, "average")


@pytest.mark.parametrize("table", ["Table 13", "Table 14", "Table 15"])
@pytest.mark.parametrize("metric", ["accuracy", "use"])
def test_it_notices_a_case_that_differs_from_its_table(table: str, metric: str) -> None:
    row = next(row for row in ROWS if (row.table, row.metric, row.condition) == (table, metric, "one-shot"))
    assert "table against table" in {finding.kind for finding in new_findings(misprinted(row))}


@every(
    ("Table 8", "accuracy", {"group": "financial-analysis", "condition": "skill-creator"}, "5.57", "no k of n"),
    ("Table 2", "accuracy", {"model": "Gemini 3.1 Pro", "condition": "one-shot"}, "34.34", "no k of n"),
    ("Table 4", "accuracy", {"row": "3 seed instances"}, "23.34", "no k of n"),
    ("Table 4", "skills", {"row": "5 seed instances"}, "1.8", "no k of n"),
    ("Table 7", "accuracy", {"condition": "one-shot"}, "30.29", "no k of n"),
    ("Table 5", "pattern_b", {"condition": "skill-creator"}, "1.3", "sum"),
    ("Table 1", "instances", {"row": "travel-planning"}, "4", "sum"),
    ("Text", "input_share", {}, "98", "text"),
    ("Text", "safety_rho", {}, "0.60", "table against table"),
    ("Figure 3", "skills", {"condition": "skill-creator"}, "2.40", "table against figure"),
    ("Table 7", "accuracy_sd", {"condition": "one-shot"}, "13.48", "no k of n"),
    ("Table 16", "safety_mae", {"row": "All tasks"}, "0.20", "outside its parts"),
)
def test_it_notices_by_its_own_check(table: str, metric: str, where: dict[str, str], printed: str, kind: str) -> None:
    row = Cells(ROWS).one(table, metric, **where)
    rows = [replace(row, value=float(printed), printed=printed) if other is row else other for other in ROWS]
    assert kind in {finding.kind for finding in new_findings(rows)}


@cache
def turned_around(table: str) -> tuple[Cells, ...]:
    """All cells with those of a table (and of Table 2) turned around in three ways, for the generated methods only."""

    def turned(row: PrintedNumber, way: int) -> PrintedNumber:
        if row.table not in (table, "Table 2") or row.condition not in METHODS or row.value is None:
            return row
        return replace(row, value=(-row.value, 2000 - row.value, 10.0 * METHODS.index(row.condition))[way])

    return tuple(Cells(turned(row, way) for row in ROWS) for way in range(3))


@every(*CLAIMS)
def test_each_claim_can_hold_or_break(claim: Claim) -> None:
    """A claim that holds breaks on the same tables turned around, so its check looks at them."""
    told = [claim.check(cells) for cells in (Cells(ROWS), *turned_around(claim.table))]
    assert any(answer is not None for answer in told)
    assert told[0] is None or claim.place in {place for place, _, _ in KNOWN_OF_THE_TEXT}


def test_it_splits_the_variance_as_a_plain_analysis_does() -> None:
    cells = Cells(ROWS)
    table = {
        (m, c): cells.one("Table 2", "accuracy", model=m, condition=c).value or 0.0 for m in MODELS for c in METHODS
    }
    grand = sum(table.values()) / 24
    rows = {m: sum(table[m, c] for c in METHODS) / 4 - grand for m in MODELS}
    columns = {c: sum(table[m, c] for m in MODELS) / 6 - grand for c in METHODS}
    rest = {key: value - grand - rows[key[0]] - columns[key[1]] for key, value in table.items()}
    parts = {
        "model": sum(rows[m] ** 2 for m, _ in table),
        "method": sum(columns[c] ** 2 for _, c in table),
        "rest": sum(value**2 for value in rest.values()),
    }
    whole = sum(parts.values())
    assert variance_shares(cells) == pytest.approx({name: 100 * part / whole for name, part in parts.items()})


def test_it_reads_the_flips_out_of_the_spreads() -> None:
    found = {condition: retest(Cells(ROWS), condition) for condition in ("no-skill", "human-authored", *METHODS)}
    assert found == {
        "no-skill": Retest("no-skill", 5, 20),
        "human-authored": Retest("human-authored", 9, 20),
        "one-shot": Retest("one-shot", 28, 120),
        "self-feedback": Retest("self-feedback", 36, 120),
        "teacher-feedback": Retest("teacher-feedback", 30, 120),
        "skill-creator": Retest("skill-creator", 35, 120),
    }


def test_the_noise_of_one_pass_is_that_of_simulated_passes() -> None:
    """Cells that truly flip: three trials each, many campaigns; the estimate is right on average."""
    random = Random(5)
    chances = [random.choice([0.0, 0.2, 0.5, 1.0]) for _ in range(40)]
    estimated = []
    for _ in range(3000):
        trials = [[random.random() < chance for _ in range(3)] for chance in chances]
        estimated.append(Retest("", sum(len(set(three)) > 1 for three in trials), 40).noise ** 2)
    truth = 100**2 * sum(chance * (1 - chance) for chance in chances) / 40**2
    assert sum(estimated) / 3000 == pytest.approx(truth, rel=0.02)


def cell(printed: str) -> PrintedNumber:
    return PrintedNumber("p", "Table 1", "row", "", "", "", "", "accuracy", "%", float(printed), printed)


def test_it_allows_what_rounding_allows_and_no_more() -> None:
    parts = [cell("33.33"), cell("33.33"), cell("33.33")]
    assert mean_may_be(parts, cell("33.34"))  # all three may be 33.335
    assert not mean_may_be(parts, cell("33.35"))
    assert sum_may_be(parts, cell("100"))
    assert not sum_may_be(parts, cell("100.1"))
    assert [printed for printed in ("0.11", "0.12", "0.13") if rounds_to(Fraction(1, 8), cell(printed))] == [
        "0.12",
        "0.13",
    ]


def test_it_finds_counts_behind_percentages() -> None:
    assert find_count(cell("38.89"), 18) == 7
    assert find_count(cell("38.90"), 18) is None
    human = [cell("64.3"), cell("33.3"), cell("2.4")]
    assert [n for n in range(1, 60) if counts_make(human, n)] == [42]


def test_it_asks_for_exactly_one_cell() -> None:
    with pytest.raises(LookupError, match="expected one number, found 6"):
        Cells(ROWS).one("Table 8", "accuracy", row="travel-planning")
    with pytest.raises(LookupError, match="found 0"):
        Cells(ROWS).one("Table 2", "coverage", condition="no-skill")
