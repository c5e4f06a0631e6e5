"""The stored numbers of SkillFlow are the paper's, cell by cell and delta by delta."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest

from benchapp.papers.published_rows import PrintedNumber, read_published_rows

PAPER = Path(__file__).parents[4] / "shared" / "papers" / "skillflow.txt"
VANILLA, SKILLS, HISTORY = "no-skill", "skill-evolution", "history-context"
EFFICIENCY = ("completion", "turns", "cost", "output_tokens")
UNITS = {"completion": "%", "use": "%", "turns": "turns", "cost": "USD", "output_tokens": "k tokens"}
UNITS |= {"skills": "skills per family"}
Cell = tuple[str, str, str, str, str, str]  # harness, model, condition, metric, printed, printed delta


@pytest.fixture(scope="module")
def text() -> str:
    if not PAPER.exists():
        pytest.skip("the paper's text is not beside the project")
    return PAPER.read_text(encoding="utf-8")


def rows(table: str) -> list[PrintedNumber]:
    return [row for row in read_published_rows("skillflow") if row.table == table]


def stored(table: str) -> list[Cell]:
    return [(r.harness, r.model, r.condition, r.metric, r.printed, r.printed_delta) for r in rows(table)]


def names(text: str, sentence: str) -> list[str]:
    """What a sentence of section 3.1 lists, without the numbers of its references."""
    listed = re.search(sentence, text)
    assert listed
    return [name.strip() for name in re.split(r", and |, ", re.sub(r"\s\[\d+\]", "", listed[1]))]


def first_table(text: str) -> list[Cell]:
    """Table 1 read from the right of each model's name, which section 3.1 lists;
    harnesses by the place of their name."""
    models = names(text, r"we evaluate 11 model variants: (.+?)\.(?:\n| [A-Z])")
    harness, found = "", []
    table = text[text.index("Table 1: Main Experimental Results") : text.index("Figure 5: Completion")]
    for model in models:
        line = re.search(rf"^(.*?) ?{re.escape(model)} (\d[^A-Za-z]+)$", table, re.M)
        assert line, model
        harness = line[1] or harness
        numbers = line[2].split()
        assert len(numbers) == 14, model
        vanilla, evolved, deltas = numbers[:4], numbers[4:10], [*numbers[10:], "", ""]
        found += [(harness, model, VANILLA, *cell, "") for cell in zip(EFFICIENCY, vanilla, strict=True)]
        evolved_metrics = (*EFFICIENCY, "skills", "use")
        found += [(harness, model, SKILLS, *cell) for cell in zip(evolved_metrics, evolved, deltas, strict=True)]
    return found


@pytest.mark.shared_data
def test_it_holds_every_cell_and_every_delta_of_table_1(text: str) -> None:
    printed = first_table(text)
    assert len(printed) == 11 * 10
    assert Counter(stored("Table 1")) == Counter(printed)
    harnesses = names(text, r"The main experiments use (.+?) as evaluation harnesses")
    assert {harness.replace("-", " ") for harness in harnesses} == {
        harness.replace("-", " ") for harness, *_ in printed
    }


@pytest.mark.shared_data
def test_it_holds_every_cell_and_every_delta_of_table_6(text: str) -> None:
    table = text[text.index("Table 6: Single-model control") : text.index("C.3 Additional Efficiency")]
    printed = re.findall(r"^([^\d\n]+?) (\d\d\.\d\d)(?: ([+-]\d+\.\d\d))?$", table, re.M)
    assert [(row.row, row.printed, row.printed_delta) for row in rows("Table 6")] == printed
    assert len(printed) == 3


O46, O45, S46, S45 = (f"Claude {name}" for name in ("Opus 4.6", "Opus 4.5", "Sonnet 4.6", "Sonnet 4.5"))
RATE, DELTA = r"([\d.]+)%", r"\(([+-][\d.]+) points\)"
CHANGE = "completion_change"


def both(place: str, model: str, *, change: bool = True) -> list[tuple[str, str, str, str]]:
    keys = [(place, model, VANILLA, "completion"), (place, model, SKILLS, "completion")]
    return [*keys, (place, model, SKILLS, CHANGE)] if change else keys


def of_benchmark(place: str, *metrics: str) -> list[tuple[str, str, str, str]]:
    return [(place, "", "", metric) for metric in metrics]


# A pattern of the running text -> place, model, condition and metric of each number it captures; a number that the text
# repeats is captured at each place and must be the same.
IN_TEXT: dict[str, list[tuple[str, str, str, str]]] = {
    rf"improves task success from {RATE} to {RATE} {DELTA}\.": both("Abstract, Section 1", O46),
    rf"Kimi K2\.5 gains only ([+-][\d.]+) points despite (?:a )?{RATE} skill usage": [
        ("Abstract, Section 1", "Kimi K2.5", SKILLS, CHANGE),
        ("Abstract, Section 1", "Kimi K2.5", SKILLS, "use"),
    ],
    rf"Qwen-Coder-Next reaches only a {RATE} task completion": [
        ("Abstract, Section 1", "Qwen-Coder-Next", SKILLS, "completion")
    ],
    r"increases completed tasks from (\d+) to (\d+) out of 166": [
        ("Section 3.2", O46, VANILLA, "completed"),
        ("Section 3.2", O46, SKILLS, "completed"),
    ],
    rf"raises mean task success from {RATE} to {RATE} {DELTA}": both("Section 3.2", O46),
    rf"MiniMax M2\.5, which improves from {RATE} to {RATE} {DELTA}": both("Section 3.2", "MiniMax M2.5"),
    rf"for Claude Sonnet 4\.5, which improves from {RATE} to {RATE} {DELTA}": both("Section 3.2", S45),
    rf"for GPT 5\.4, which rises from {RATE} to {RATE} {DELTA}": both("Section 3.2", "GPT 5.4"),
    rf"for Claude Opus 4\.5, which rises from {RATE} to {RATE} {DELTA}": both("Section 3.2", O45),
    rf"for Kimi K2\.5, which increases modestly from {RATE} to {RATE} {DELTA}": both("Section 3.2", "Kimi K2.5"),
    rf"GPT 5\.3 Codex declines from {RATE} to {RATE} {DELTA}": both("Section 3.2", "GPT 5.3 Codex"),
    rf"Qwen-Coder-Next declines from {RATE} to {RATE} {DELTA}": both("Section 3.2", "Qwen-Coder-Next"),
    rf"Qwen3-Coder-480B declines from {RATE} to {RATE} {DELTA}": both("Section 3.2", "Qwen3-Coder-480B"),
    rf"MiniMax M2\.7 declines from {RATE} to {RATE} {DELTA}": both("Section 3.2", "MiniMax M2.7"),
    # said once of both settings, so captured twice
    rf"Claude Sonnet 4\.6 remains unchanged at (?=([\d.]+)){RATE} under both": both("Section 3.2", S46, change=False),
    rf"this setting reaches only {RATE}, below both": [("Section 3.3", O46, HISTORY, "completion")],
    rf"the history-context setting reaches {RATE} completion, which is ([\d.]+) points below vanilla and ([\d.]+) points": [  # noqa: E501
        ("Appendix C.2", O46, HISTORY, "completion"),
        ("Appendix C.2", O46, HISTORY, CHANGE),
        ("Appendix C.2", O46, HISTORY, f"{CHANGE}_to_skills"),
    ],
    r"SkillFlow contains (\d+) workflow families and (\d+) tasks spanning (\w+) broad domains": of_benchmark(
        "Section 2", "families", "tasks", "domains"
    ),
    r"Family sizes range from (\d+) to (\d+) tasks": of_benchmark(
        "Section 2", "family_tasks_lowest", "family_tasks_highest"
    ),
    r"yields (\d+) seed tasks: (\d+) from SkillsBench\s\[19\] and (\d+) from GDPval": of_benchmark(
        "Section 2", "seed_tasks", "seed_tasks_from_skillsbench", "seed_tasks_from_gdpval"
    ),
    r"over ([\d,]+) open-source skills .+? to obtain ([\d,]+) skills": of_benchmark(
        "Section 2", "skills_gathered", "skills_kept"
    ),
    r"we retain (\d+) DAEFs": of_benchmark("Section 2", "flows_kept"),
    r"we evaluate (\d+) model variants": of_benchmark("Section 3.1", "models"),
    r"more than (\d+) candidate tasks are generated\. ([\w-]+) of them are filtered": of_benchmark(
        "Appendix A.2", "candidate_tasks", "tasks_filtered"
    ),
}


@pytest.mark.shared_data
def test_it_holds_the_numbers_of_the_running_text(text: str) -> None:
    printed: dict[tuple[str, str, str, str], set[str]] = {}
    for pattern, keys in IN_TEXT.items():
        matches = list(re.finditer(pattern, text))
        assert matches, pattern
        for match in matches:
            for key, value in zip(keys, match.groups(), strict=True):
                printed.setdefault(key, set()).add(value)
    assert {(row.row, row.model, row.condition, row.metric): {row.printed} for row in rows("Text")} == printed


@pytest.mark.shared_data
def test_it_leaves_out_no_percentage_of_the_text(text: str) -> None:
    """Every number with a percent sign or points after it, outside the captions and lists, is in a row."""
    body = text[: text.index("\nReferences\n")] + text[text.index("C.1 Metric Notes") : text.index("Appendix D")]
    told = set(re.findall(r"\d+\.\d+(?=%| points)", body))
    assert told == {row.printed.lstrip("+-") for row in rows("Text") if row.unit in ("%", "points")}


def test_it_holds_eleven_models_in_four_harnesses() -> None:
    models = {(row.harness, row.model) for row in rows("Table 1")}
    assert Counter(harness for harness, _ in models) == {
        "Claude Code": 6,
        "Codex CLI": 2,
        "Qwen Coder": 2,
        "Kimi CLI": 1,
    }
    cells = Counter((row.condition, row.metric) for row in rows("Table 1"))
    assert cells == {(VANILLA, metric): 11 for metric in EFFICIENCY} | {
        (SKILLS, metric): 11 for metric in (*EFFICIENCY, "skills", "use")
    }
    assert {(row.metric, row.unit) for row in rows("Table 1")} == set(UNITS.items())


def test_it_holds_absolute_and_relative_deltas_apart() -> None:
    references = Counter(row.reference for row in rows("Table 1") if row.printed_delta)
    assert references == {
        "no-skill completion": 11,
        "no-skill turns": 11,
        "no-skill cost, relative in %": 11,
        "no-skill output_tokens, relative in %": 11,
    }


def test_every_share_of_table_1_is_a_count_of_its_tasks() -> None:
    shares = [row for row in rows("Table 1") if row.unit == "%"]
    assert len(shares) == 33
    assert all(row.n == 166 and row.k is not None for row in shares)
    opus = {row.condition: row.k for row in shares if row.model == O46 and row.metric == "completion"}
    assert opus == {VANILLA: 104, SKILLS: 118}


@pytest.mark.parametrize(
    ("model", "vanilla", "evolved"),
    [
        (O46, "62.65 17.34 0.665 3.00", "71.08 +8.43 19.00 1.66 0.615 -7.52 2.39 -20.33 1.05  45.78 "),
        ("MiniMax M2.7", "37.35 25.44 0.012 0.5", "36.75 -0.6 27.42 +1.98 0.017 +41.67 0.96 +92 4.6  51.2 "),
        ("Kimi K2.5", "55.42 12.62 0.103 7.31", "56.02 +0.60 11.51 -1.11 0.104 +0.97 7.10 -2.87 1.50  66.87 "),
    ],
)
def test_it_holds_these_rows(model: str, vanilla: str, evolved: str) -> None:
    found = [row for row in rows("Table 1") if row.model == model]
    assert " ".join(row.printed for row in found if row.condition == VANILLA) == vanilla
    assert " ".join(f"{row.printed} {row.printed_delta}" for row in found if row.condition == SKILLS) == evolved


@pytest.mark.parametrize(
    ("table", "digest"),
    [("Table 1", "58b480298ce13c7f"), ("Table 6", "fbec669d9515f9c6"), ("Text", "fe3eb1fb232c87c1")],
)
def test_no_cell_has_changed_since_it_was_compared_with_the_paper(table: str, digest: str) -> None:
    told = "\n".join("\t".join(cell) for cell in stored(table))
    assert hashlib.sha256(told.encode()).hexdigest()[:16] == digest


def test_every_value_is_what_is_printed() -> None:
    words = {"five": 5.0, "Thirty-three": 33.0}
    turned = [row for row in read_published_rows("skillflow") if row.value != _printed_number(row, words)]
    assert [(row.metric, row.printed, row.value) for row in turned] == [
        ("completion_change", "15.24", -15.24),
        ("completion_change_to_skills", "23.67", -23.67),
    ]
    assert all("stored with a minus" in row.note for row in turned)


def _printed_number(row: PrintedNumber, words: dict[str, float]) -> float:
    return words[row.printed] if row.printed in words else float(row.printed.replace(",", ""))
