"""Printed numbers: what a print allows, the files they stand in, the deltas, the command."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from benchapp.papers.published_rows import (
    COLUMNS,
    DATA,
    PrintedNumber,
    PublishedDataError,
    References,
    format_signed,
    read_published_rows,
    read_rows,
)
from tests.benchapp.errata.checks import is_no_count

RATE = PrintedNumber(
    "skillevolbench", "Table 1", "+ ALWAYS", "Codex CLI", "GPT-5.4", "curated-always", "", "ESR", "%", 38.9, "38.9"
)
CELLS = {name: str(value if value is not None else "") for name, value in asdict(RATE).items()}


def file_of(folder: Path, *rows: dict[str, str], header: tuple[str, ...] = COLUMNS) -> Path:
    path = folder / "skillevolbench-table-01.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, header, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("published", *arguments, stdout=out)
    return out.getvalue()


@given(k=st.integers(0, 166), n=st.sampled_from([30, 90, 166]), places=st.integers(1, 2))
def test_it_finds_the_count_behind_a_percentage(k: int, n: int, places: int) -> None:
    k = min(k, n)
    metric = {30: "CSSR", 90: "LSR", 166: "completion"}[n]
    paper = "skillflow" if n == 166 else "skillevolbench"
    printed = f"{100 * k / n:.{places}f}"
    row = replace(RATE, paper=paper, metric=metric, printed=printed, value=float(printed))
    assert (row.k, row.n, is_no_count(row)) == (k, n, False)
    assert row.possible == (Fraction(100 * k, n), Fraction(100 * k, n))


@pytest.mark.parametrize(
    "change", [{"model": "average of ten models"}, {"group": "E1"}, {"unit": "points"}, {"model": ""}]
)
def test_it_knows_no_count_behind_means_and_parts(change: dict[str, str]) -> None:
    row = replace(RATE, **change)
    assert (row.k, row.n, is_no_count(row)) == (None, None, False)
    assert row.possible == row.span == (Fraction("38.85"), Fraction("38.95"))


def test_it_says_where_no_count_gives_a_percentage() -> None:
    row = replace(RATE, printed="38.5", value=38.5)
    assert row.k is None
    assert is_no_count(row)
    assert not is_no_count(replace(RATE, printed="-", value=None))


@given(value=st.decimals(-200, 200, places=4), places=st.integers(0, 3))
def test_it_rounds_and_signs_like_a_table(value: object, places: int) -> None:
    exact = Fraction(str(value))
    text = format_signed(exact, places)
    assert re.fullmatch(r"[+-]\d+(\.\d+)?|0(\.0+)?", text)
    assert len(text.partition(".")[2]) == places
    assert abs(Fraction(text) - exact) <= Fraction(1, 2 * 10**places)
    assert (text[0] in "+-") == (Fraction(text) != 0)


def delta_of(row: PrintedNumber, *others: PrintedNumber) -> tuple[str, bool]:
    delta = References([row, *others]).recompute(row)
    assert delta is not None
    return delta.text, delta.adds_up


def test_it_lets_the_counts_decide_whether_a_delta_adds_up() -> None:
    base = replace(RATE, condition="no-skill", printed="33.3", value=33.3)  # 30 of 90, against 35 of 90
    assert delta_of(replace(RATE, printed_delta="+5.6", reference="no-skill ESR"), base) == ("+5.6", True)
    half = replace(base, printed="33.4", value=33.4)  # no count of 90: only its rounding is known
    assert delta_of(replace(RATE, printed_delta="+5.5", reference="no-skill ESR"), base) == ("+5.6", False)
    assert delta_of(replace(RATE, printed_delta="+5.4", reference="no-skill ESR"), half) == ("+5.5", True)
    assert delta_of(replace(RATE, printed_delta="+5.3", reference="no-skill ESR"), half) == ("+5.5", False)


def test_it_holds_a_delta_against_the_metric_its_reference_names() -> None:
    base = replace(RATE, condition="no-skill", metric="LSR", printed="40.0", value=40.0)
    other = replace(RATE, condition="no-skill", metric="RSR", printed="10.0", value=10.0)
    replay = replace(RATE, metric="RSR", printed_delta="-1.1", reference="no-skill LSR")
    assert delta_of(replay, base, other) == ("-1.1", True)


def test_it_recomputes_a_relative_delta_within_what_rounding_allows() -> None:
    cost = replace(
        RATE, metric="cost", unit="USD", printed="0.010", value=0.01, reference="no-skill cost, relative in %"
    )
    base = replace(cost, condition="no-skill", printed="0.010", reference="")
    assert delta_of(replace(cost, printed_delta="0"), base) == ("0", True)
    assert delta_of(replace(cost, printed_delta="+10"), base) == ("0", True)  # 0.0105 against 0.0095
    assert delta_of(replace(cost, printed_delta="+12"), base) == ("0", False)


def test_it_refuses_a_delta_whose_reference_is_not_there() -> None:
    with pytest.raises(LookupError, match="no 'no-skill ESR' for the delta of ESR"):
        delta_of(replace(RATE, printed_delta="+1.0", reference="no-skill ESR"))


def test_it_reads_a_file_of_printed_numbers(tmp_path: Path) -> None:
    blank = CELLS | {"value": "", "printed": "-", "note": "no replay"}
    assert read_rows(file_of(tmp_path, CELLS, blank)) == (
        RATE,
        replace(RATE, value=None, printed="-", note="no replay"),
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"value": "", "printed": "38.9"}, "line 3: expected a value, because '38.9' is printed"),
        ({"value": "", "printed": "-"}, "line 3: expected a note that says why there is no value"),
        ({"value": "much"}, "line 3: could not convert string to float: 'much'"),
        ({"value": "nan"}, "line 3: expected a finite number, found 'nan'"),
        ({"metric": "", "unit": ""}, "line 3: expected something in metric, unit"),
        ({"paper": "skillflow"}, "line 3: expected a row of the paper the file is named after, found 'skillflow'"),
        ({"printed_delta": "+1.0"}, "line 3: expected a reference where there is a printed delta, and only there"),
        (
            {"printed_delta": "up", "reference": "no-skill ESR"},
            "line 3: expected a number as printed delta, found 'up'",
        ),
    ],
)
def test_it_names_file_and_line_of_a_bad_row(tmp_path: Path, change: dict[str, str], said: str) -> None:
    with pytest.raises(PublishedDataError, match=re.escape(f"skillevolbench-table-01.csv, {said}")):
        read_rows(file_of(tmp_path, CELLS, CELLS | change))


def test_it_names_a_wrong_header_and_a_short_row(tmp_path: Path) -> None:
    with pytest.raises(PublishedDataError, match="line 1: expected the columns paper,table,row"):
        read_rows(file_of(tmp_path, header=COLUMNS[:-1]))
    path = file_of(tmp_path, CELLS)
    path.write_text(path.read_text() + "skillevolbench,Table 1\n")
    with pytest.raises(PublishedDataError, match="line 3: expected 14 cells"):
        read_rows(path)


def test_it_loads_every_file_and_each_paper_alone() -> None:
    everything = read_published_rows()
    assert {row.paper for row in everything} == {"skillevolbench", "skillflow", "skillgenbench", "skilllearnbench"}
    assert sum(len(read_published_rows(paper)) for paper in {row.paper for row in everything}) == len(everything)
    assert len(list(DATA.glob("*.csv"))) == len({(row.paper, row.table) for row in everything})
    with pytest.raises(PublishedDataError, match="no published numbers of 'skillbench'; known: skillevolbench, "):
        read_published_rows("skillbench")


def test_the_command_prints_rows_for_programs() -> None:
    rows = json.loads(run("--paper", "skillevolbench", "--table", "1", "--json"))
    assert len(rows) == 240
    found = next(row for row in rows if row["printed_delta"] == "-3.4" and row["metric"] == "ESR")
    assert (found["model"], found["condition"], found["value"]) == ("Claude Opus 4.6", "curated-static", 34.4)
    assert (found["recomputed_delta"], found["delta_adds_up"], found["k"], found["n"]) == ("-3.3", False, 31, 90)
    assert [row["value"] for row in rows if row["printed"] == "-"] == [None] * 20
    lines = list(csv.DictReader(io.StringIO(run("--paper", "skillevolbench", "--table", "Table 1", "--csv"))))
    assert [line["printed"] for line in lines] == [row["printed"] for row in rows]


def test_the_command_prints_tables_for_readers() -> None:
    lines = run("--paper", "skillflow", "--table", "1").splitlines()
    assert re.split(r"  +", lines[2])[:4] == ["harness", "model", "condition", "completion (%)"]
    assert next(line for line in lines if "GPT 5.4" in line and "skill-evolution" in line).count("+3.62*") == 1
    assert lines[-2:] == [
        "110 printed numbers and blanks",
        "* 1 printed deltas contradict their own columns. List them with --check.",
    ]


def test_the_command_lists_findings() -> None:
    found = json.loads(run("--check", "--json"))
    assert {row["paper"] for row in found} == {row.paper for row in read_published_rows()}
    text = run("--check", "--paper", "skillflow", "--table", "text")
    assert "printed 47.41, recomputed 51.04 [table against text]" in text
    assert "skillevolbench" not in text


@pytest.mark.parametrize("arguments", [("--paper", "other"), ("--paper", "skillflow", "--table", "9")])
def test_the_command_names_what_it_knows_when_asked_for_something_else(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="known: "):
        run(*arguments)
