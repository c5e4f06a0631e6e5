"""The stored numbers of SkillEvolBench are the paper's, cell by cell and delta by delta."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from benchapp.papers.published_rows import PrintedNumber, read_published_rows

PAPER = Path(__file__).parents[4] / "shared" / "papers" / "skillevolbench.txt"
METRICS = ("LSR", "RSR", "ESR", "CSSR", "ARSR", "CompSR")
LABELS = {
    "Table 1": {
        "No-SKILL": "no-skill",
        "CURATED-STATIC": "curated-static",
        "+ REVISION": "curated-revision",
        "+ ALWAYS": "curated-always",
    },
    "Table 2": {
        "No-SKILL": "no-skill",
        "ZERO-SHOT": "selfgen-zero-shot",
        "EXPERIENCE": "selfgen-revision",
        "+ ALWAYS": "selfgen-always",
    },
    "Table 9": {
        "No-SKILL": "no-skill",
        "CURATED ALWAYS": "curated-always",
        "CURATED ALWAYS+TIER3": "curated-always-tier3",
        "SELFGEN ALWAYS": "selfgen-always",
        "SELFGEN ALWAYS+TIER3": "selfgen-always-tier3",
    },
}
Cell = tuple[str, str, str, str, str, str, str]  # table, harness, model, condition, metric, printed, printed delta


@pytest.fixture(scope="module")
def text() -> str:
    if not PAPER.exists():
        pytest.skip("the paper's text is not beside the project")
    return PAPER.read_text(encoding="utf-8")


def models_of(text: str) -> list[tuple[str, str]]:
    """(harness, model) in the order in which section 5.1 names them, which is the order of the tables."""
    found = []
    for harness, names in re.findall(
        r"(Claude Code|Codex CLI|Gemini CLI) is evaluated with (.+?)\.(?= |$)", text, re.M
    ):
        maker = "Claude " if harness == "Claude Code" else ""
        found += [(harness, maker + name.strip()) for name in re.split(r", and |, ", names)]
    return found


def lines_of(text: str, table: str) -> list[str]:
    """The lines of a table that hold a rate."""
    body = text[re.search(rf"^{table} No-Skill", text, re.M).end() :]  # type: ignore[union-attr]
    block = re.search(r"^\t+%[^\n]*\n(.+?)(\n\n|\Z)", body, re.M | re.S)
    assert block
    return [line for line in block[1].splitlines() if re.search(r"\d\d\.\d", line)]


def numbers_of(line: str, label: str) -> list[tuple[str, str]]:
    """(printed, delta) for each metric. A rate has no sign; what has one, or comes second, is the delta beside it."""
    rest = line[line.rindex(label) + len(label) :]
    rest = re.sub(r"-\s+-(?=\d)", "- - ", rest)  # "-37.8" after a dash: the dash of an empty cell and a rate
    cells: list[tuple[str, str]] = []
    for token in re.findall(r"[+-]?\d+\.\d", rest):
        is_delta = token[0] in "+-" or (token == "0.0" and bool(cells) and not cells[-1][1])
        if is_delta:
            cells[-1] = (cells[-1][0], token)
        else:
            cells.append((token, ""))
    return cells if len(cells) == 6 else [cells[0], ("-", ""), *cells[1:]]


def cells_of(text: str, table: str) -> list[Cell]:
    models, labels = models_of(text), LABELS[table]
    found: list[Cell] = []
    lines = lines_of(text, table)
    blocks = [lines[start : start + len(labels)] for start in range(0, len(lines), len(labels))]
    assert len(blocks) == len(models) == 10
    for (harness, model), block in zip(models, blocks, strict=True):
        assert model in block[0]
        for (label, condition), line in zip(labels.items(), block, strict=True):
            assert re.search(rf"(^|\t){re.escape(label)}\t", line), (table, model, label)
            numbers = numbers_of(line, label)
            found += [
                (table, harness, model, condition, metric, *cell) for metric, cell in zip(METRICS, numbers, strict=True)
            ]
    return found


def stored(tables: Iterable[str] = LABELS) -> list[Cell]:
    return [
        (row.table, row.harness, row.model, row.condition, row.metric, row.printed, row.printed_delta)
        for row in read_published_rows("skillevolbench")
        if row.table in tables
    ]


@pytest.mark.shared_data
@pytest.mark.parametrize("table", LABELS)
def test_it_holds_every_cell_and_every_delta_of_a_table(text: str, table: str) -> None:
    printed = cells_of(text, table)
    assert stored([table]) == printed
    assert len(printed) == 10 * len(LABELS[table]) * 6
    digits = re.findall(
        r"\d+\.\d",
        "\n".join(re.sub(r"(Claude|Gemini|GPT)\S* ?(\w+ )?[\d.]+", "", line) for line in lines_of(text, table)),
    )
    assert len(digits) == sum((value != "-") + (delta != "") for *_, value, delta in printed)


# A pattern of the running text -> place, model, condition, group and metric of each number it captures.
NUMBER = r"([+-]?\d+(?:\.\d+)?)"
TEN = "average of ten models"
O46, O45, S46, S45 = (f"Claude {name}" for name in ("Opus 4.6", "Opus 4.5", "Sonnet 4.6", "Sonnet 4.5"))
CHANGE, WINS, TIES, LOSSES = (f"ESR_{name}" for name in ("change", "wins", "ties", "losses"))
E2, E3 = "E2 Tool & API Orchestration", "E3 Data Processing & Structured Query"
E6 = "E6 Communication & Scheduling"
IN_TEXT: dict[str, list[tuple[str, str, str, str, str]]] = {
    rf"Claude Opus 4\.6 improves LSR by {NUMBER} pp and RSR by {NUMBER} pp": [
        ("5.3", O46, "selfgen-revision", "", "LSR_change"),
        ("5.3", O46, "selfgen-revision", "", "RSR_change"),
    ],
    rf"yet drops by {NUMBER} pp on ARSR": [("5.3", S46, "selfgen-revision", "", "ARSR_change")],
    rf"remains {NUMBER} pp below NO-SKILL on ARSR": [("5.3", "GPT-5.2-Codex", "selfgen-always", "", "ARSR_change")],
    rf"improves under SELFGEN-ALWAYS\+TIER3, from {NUMBER}% to {NUMBER}% ESR": [
        ("5.4", O46, "no-skill", "", "ESR"),
        ("5.4", O46, "selfgen-always-tier3", "", "ESR"),
    ],
    rf"Gemini 3\.1 Pro improves under CURATED-ALWAYS\+TIER3, from {NUMBER}% to {NUMBER}%": [
        ("5.4", "Gemini 3.1 Pro", "no-skill", "", "ESR"),
        ("5.4", "Gemini 3.1 Pro", "curated-always-tier3", "", "ESR"),
    ],
    rf"ESR drops from {NUMBER}% under NO-SKILL to {NUMBER}%": [
        ("5.4", "Gemini 3 Flash", "no-skill", "", "ESR"),
        ("5.4", "Gemini 3 Flash", "selfgen-always-tier3", "", "ESR"),
    ],
    rf"Claude Sonnet 4\.5 likewise drops from {NUMBER}% to {NUMBER}%": [
        ("5.4", S45, "no-skill", "", "ESR"),
        ("5.4", S45, "selfgen-always-tier3", "", "ESR"),
    ],
    rf"hardest environments is {NUMBER} percentage points for LSR and {NUMBER} points for ESR": [
        ("5.5", TEN, "", "", "LSR_environment_gap"),
        ("5.5", TEN, "", "", "ESR_environment_gap"),
    ],
    rf"ranges across baselines are only {NUMBER} and {NUMBER} points": [
        ("5.5", TEN, "", "", "LSR_condition_range"),
        ("5.5", TEN, "", "", "ESR_condition_range"),
    ],
    rf"mean CSSR of {NUMBER}%": [("5.5", TEN, "", E2, "CSSR")],
    rf"mean ARSR of {NUMBER}%, but its mean CompSR is only {NUMBER}%": [
        ("5.5", TEN, "", E3, "ARSR"),
        ("5.5", TEN, "", E3, "CompSR"),
    ],
    rf"E6 obtains {NUMBER}% CompSR": [("5.5", TEN, "", E6, "CompSR")],
    rf"with averages of {NUMBER}%, {NUMBER}%, {NUMBER}%, and {NUMBER}%": [
        ("5.5", TEN, "raw-trajectory", "", metric) for metric in ("RSR", "ESR", "ARSR", "CompSR")
    ],
    rf"It improves {NUMBER} models, ties {NUMBER}, and hurts {NUMBER}, with a mean ESR change of {NUMBER} percentage": [
        ("5.6", TEN, "curated-static", "", metric) for metric in (WINS, TIES, LOSSES, CHANGE)
    ],
    r"increases by \\(\$[\d.]+) per attempted task on average, so": [("5.6", TEN, "curated-static", "", "cost_change")],
    rf"average change of {NUMBER} percentage points, with {NUMBER} wins, {NUMBER} ties, and {NUMBER} losses\.": [
        ("5.6", TEN, "curated-revision", "", metric) for metric in (CHANGE, WINS, TIES, LOSSES)
    ],
    rf"mean gain of {NUMBER} percentage points and {NUMBER} wins, {NUMBER} ties, and {NUMBER} losses": [
        ("5.6", TEN, "curated-always", "", metric) for metric in (CHANGE, WINS, TIES, LOSSES)
    ],
    rf"GPT-5\.4 improves by {NUMBER} percentage points under CURATED-ALWAYS, and Opus 4\.5 improves by {NUMBER} perc": [
        ("5.6", "GPT-5.4", "curated-always", "", CHANGE),
        ("5.6", O45, "curated-always", "", CHANGE),
    ],
    rf"CURATED-TIER3 has a mean ESR change of {NUMBER} .+? with {NUMBER} wins, {NUMBER} ties, and {NUMBER} losses": [
        ("5.6", TEN, "curated-always-tier3", "", metric) for metric in (CHANGE, WINS, TIES, LOSSES)
    ],
    r"while increasing cost by \\(\$[\d.]+) per": [("5.6", TEN, "curated-always-tier3", "", "cost_change")],
    rf"SELFGEN-TIER3 averages {NUMBER} percentage points, with {NUMBER} wins, {NUMBER} tie, and {NUMBER} losses": [
        ("5.6", TEN, "selfgen-always-tier3", "", metric) for metric in (CHANGE, WINS, TIES, LOSSES)
    ],
    rf"improves only {NUMBER} model, ties {NUMBER}, and hurts {NUMBER}, with an average change of {NUMBER} percentage": [  # noqa: E501
        ("5.6", TEN, "selfgen-revision", "", metric) for metric in (WINS, TIES, LOSSES, CHANGE)
    ],
    rf"improving {NUMBER} models, tying {NUMBER}, and hurting {NUMBER}, with an average change of {NUMBER} percentage": [  # noqa: E501
        ("5.6", TEN, "selfgen-always", "", metric) for metric in (WINS, TIES, LOSSES, CHANGE)
    ],
    rf"SELFGEN-ZEROSHOT is also negative on average, with a mean ESR change of {NUMBER} perc": [
        ("5.6", TEN, "selfgen-zero-shot", "", CHANGE)
    ],
    rf"helps Gemini 3 Flash by {NUMBER} percentage points, but hurts Gemini 2\.5 Pro by {NUMBER} perc": [
        ("5.6", "Gemini 3 Flash", "selfgen-zero-shot", "", CHANGE),
        ("5.6", "Gemini 2.5 Pro", "selfgen-zero-shot", "", CHANGE),
    ],
    rf"Opus 4\.5 benefits from {NUMBER} of the {NUMBER} compared variants, with an average ESR change of {NUMBER} perc": [  # noqa: E501
        ("5.6", O45, "", "", WINS),
        ("5.6", "", "", "", "conditions_compared"),
        ("5.6", O45, "", "", CHANGE),
    ],
    rf"GPT-5\.4 benefits from {NUMBER} variants, averaging {NUMBER} perc": [
        ("5.6", "GPT-5.4", "", "", WINS),
        ("5.6", "GPT-5.4", "", "", CHANGE),
    ],
    rf"Gemini 2\.5 Pro is harmed by {NUMBER} variants and averages {NUMBER} perc": [
        ("5.6", "Gemini 2.5 Pro", "", "", LOSSES),
        ("5.6", "Gemini 2.5 Pro", "", "", CHANGE),
    ],
}


@pytest.mark.shared_data
def test_it_holds_the_numbers_of_the_running_text(text: str) -> None:
    printed: dict[tuple[str, str, str, str, str], str] = {}
    for pattern, keys in IN_TEXT.items():
        matches = re.findall(pattern, text)
        assert len(matches) == 1, pattern
        values = matches[0] if isinstance(matches[0], tuple) else (matches[0],)
        printed |= {(f"Section {section}", *rest): value for (section, *rest), value in zip(keys, values, strict=True)}
    rows = {(r.row, r.model, r.condition, r.group, r.metric): r.printed for r in numbers_of_the_text()}
    assert rows == printed


@pytest.mark.shared_data
def test_it_leaves_out_no_percentage_of_the_results(text: str) -> None:
    """Every number with a percent sign or points in sections 5.3 to 5.6 is in a row."""
    results = text[text.index("5.3 Main Comparison") : text.index("6 Conclusion")]
    told = Counter(re.findall(r"\d+\.\d+(?=%| pp| percentage points| points| and 5\.4 points)", results))
    assert told == Counter(row.printed.lstrip("+-") for row in numbers_of_the_text() if row.unit in ("%", "points"))


def numbers_of_the_text() -> list[PrintedNumber]:
    return [row for row in read_published_rows("skillevolbench") if row.table == "Text"]


def test_it_holds_ten_models_under_nine_conditions() -> None:
    runs = {
        (row.harness, row.model, row.condition) for row in read_published_rows("skillevolbench") if row.table in LABELS
    }
    assert len(runs) == 90
    assert Counter(harness for harness, _, _ in runs) == {"Claude Code": 36, "Codex CLI": 27, "Gemini CLI": 27}
    cells = stored()
    assert Counter(table for table, *_ in cells) == {"Table 1": 240, "Table 2": 240, "Table 9": 300}
    assert Counter(table for table, *_, delta in cells if delta) == {"Table 1": 170, "Table 2": 170, "Table 9": 240}
    blanks = Counter(
        (table, condition, metric) for table, _, _, condition, metric, printed, _ in cells if printed == "-"
    )
    assert blanks == {
        ("Table 1", "no-skill", "RSR"): 10,
        ("Table 1", "curated-static", "RSR"): 10,
        ("Table 2", "no-skill", "RSR"): 10,
        ("Table 2", "selfgen-zero-shot", "RSR"): 10,
        ("Table 9", "no-skill", "RSR"): 10,
    }


def test_it_holds_deltas_against_no_skill_and_replay_against_its_first_tries() -> None:
    for row in read_published_rows("skillevolbench"):
        wanted = f"no-skill {'LSR' if row.metric == 'RSR' else row.metric}" if row.printed_delta else ""
        assert row.reference == wanted


def test_every_rate_of_the_tables_is_a_count() -> None:
    rates = [row for row in read_published_rows("skillevolbench") if row.table in LABELS and row.value is not None]
    assert len(rates) == 730
    assert [row for row in rates if row.k is None] == []
    assert {row.unit for row in rates} == {"%"}


@pytest.mark.parametrize(
    ("table", "model", "condition", "printed"),
    [
        ("Table 1", O46, "curated-revision", "44.4 +5.5 56.7 +17.8 38.9 +1.1 40.0 -6.7 43.3 +6.6 33.3 +3.3"),
        ("Table 1", "GPT-5.2-Codex", "curated-static", "51.1 +7.8 -  30.0 -6.7 40.0 0.0 36.7 -16.6 13.3 -3.4"),
        ("Table 2", "Gemini 2.5 Pro", "selfgen-zero-shot", "28.9 -1.1 -  15.6 -11.1 13.3 -13.4 13.3 -16.7 20.0 -3.3"),
        ("Table 2", S46, "no-skill", "37.8  -  38.9  40.0  50.0  26.7 "),
        (
            "Table 9",
            "Gemini 2.5 Pro",
            "selfgen-always-tier3",
            "23.3 -6.7 21.1 -8.9 27.8 +1.1 36.7 +10.0 26.7 -3.3 20.0 -3.3",
        ),
        (
            "Table 9",
            "Gemini 3 Flash",
            "selfgen-always-tier3",
            "43.3 +3.3 40.0 0.0 27.8 -7.8 33.3 +3.3 36.7 -16.7 13.3 -10.0",
        ),
    ],
)
def test_it_holds_these_rows(table: str, model: str, condition: str, printed: str) -> None:
    cells = [cell[5:] for cell in stored([table]) if cell[2:4] == (model, condition)]
    assert " ".join(" ".join(cell) for cell in cells) == printed


DIGESTS = {"Table 1": "10268e16ee9beaff", "Table 2": "0fde430d018c9bb8", "Table 9": "759f90b577bbccea"}


@pytest.mark.parametrize("table", LABELS)
def test_no_cell_has_changed_since_it_was_compared_with_the_paper(table: str) -> None:
    told = "\n".join("\t".join(cell) for cell in stored([table]))
    assert hashlib.sha256(told.encode()).hexdigest()[:16] == DIGESTS[table]


def test_every_value_is_what_is_printed() -> None:
    turned = [row for row in read_published_rows("skillevolbench") if row.value != _printed_number(row)]
    assert [(row.metric, row.printed, row.value) for row in turned] == [("ARSR_change", "10.0", -10.0)] * 2
    assert all("stored with a minus" in row.note for row in turned)


def _printed_number(row: PrintedNumber) -> float | None:
    return None if row.printed == "-" else float(row.printed.lstrip("$"))
