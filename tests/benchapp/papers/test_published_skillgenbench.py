"""The stored numbers of SkillGenBench are the ones of its running text, and the checker finds what does not add up."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchapp.papers.published_rows import Cells, PrintedNumber, read_published_rows
from tests.benchapp.errata.skillgenbench import SOURCES, possible_totals, skillgenbench_findings

PAPER = Path(__file__).parents[4] / "shared" / "papers" / "skillgenbench.txt"
SIX = "average of six models"
SHARE = r"(?:\((\d+), (\d+)%\)|\((\d+) failures \((\d+)%\))"
NUMBER = r"([\d.,]*\d)"

# A pattern of the running text -> the keys of the numbers it captures: (row, model, condition, group, metric).
IN_TEXT: dict[str, list[tuple[str, str, str, str, str]]] = {
    rf"performance \({NUMBER}% on Code and {NUMBER}% on Doc\)": [
        ("Section 4.2", SIX, "SkillSeekers", "Code", "pass@3"),
        ("Section 4.2", SIX, "SkillSeekers", "Doc", "pass@3"),
    ],
    rf"remains low \({NUMBER}%–{NUMBER}%\), while Doc performance is significantly higher \({NUMBER}%–{NUMBER}%\)": [
        ("Section 4.2, lowest generator", SIX, "", "Code", "pass@3_lowest"),
        ("Section 4.2, highest generator", SIX, "", "Code", "pass@3_highest"),
        ("Section 4.2, lowest generator", SIX, "", "Doc", "pass@3_lowest"),
        ("Section 4.2, highest generator", SIX, "", "Doc", "pass@3_highest"),
    ],
    rf"SkillNet leads on Qwen3\.6 Plus \({NUMBER}%\)": [("Appendix A.1", "Qwen3.6-Plus", "SkillNet", "", "pass@3")],
    rf"SkillCreator is on par with SkillSeekers on GLM-5 \({NUMBER}% vs\. {NUMBER}%\)": [
        ("Appendix A.1", "GLM-5", "SkillCreator", "", "pass@3"),
        ("Appendix A.1", "GLM-5", "SkillSeekers", "", "pass@3"),
    ],
    rf"SkillSeekers stays within a {NUMBER}–{NUMBER}% band": [
        ("Appendix A.1", "", "SkillSeekers", "", "pass@3_lowest"),
        ("Appendix A.1", "", "SkillSeekers", "", "pass@3_highest"),
    ],
    rf"EvoSkill ranges from {NUMBER}% \(Kimi K2\.5\) to {NUMBER}% \(GPT-5\)": [
        ("Appendix A.1", "Kimi K2.5", "EvoSkill", "", "pass@3"),
        ("Appendix A.1", "GPT-5", "EvoSkill", "", "pass@3"),
    ],
    rf"GPT-5 and GLM-5 saturate near {NUMBER}–{NUMBER}% pass@3": [
        ("Appendix A.2", "GPT-5 / GLM-5", "", "", "pass@3_plateau_lowest"),
        ("Appendix A.2", "GPT-5 / GLM-5", "", "", "pass@3_plateau_highest"),
    ],
    rf"Kimi K2\.5 and MiniMax M2\.7 plateau between {NUMBER}% and {NUMBER}%": [
        ("Appendix A.2", "Kimi K2.5 / MiniMax-M2.7", "", "", "pass@3_plateau_lowest"),
        ("Appendix A.2", "Kimi K2.5 / MiniMax-M2.7", "", "", "pass@3_plateau_highest"),
    ],
    rf"up to a point \(roughly {NUMBER}K–{NUMBER}K tokens\)": [
        ("Section 4.2", "", "", "", "budget_gain_ends_from"),
        ("Section 4.2", "", "", "", "budget_gain_ends_to"),
    ],
    rf"rises steeply up to roughly {NUMBER}K–{NUMBER}K tokens, then flattens between {NUMBER}K and {NUMBER}K": [
        ("Appendix A.2", "", "", "", "budget_steep_to_from"),
        ("Appendix A.2", "", "", "", "budget_steep_to_to"),
        ("Appendix A.2", "", "", "", "budget_flat_from"),
        ("Appendix A.2", "", "", "", "budget_flat_to"),
    ],
    rf"sweep token budgets from {NUMBER}K to {NUMBER}K": [
        ("Appendix A.2", "", "", "", "budget_lowest"),
        ("Appendix A.2", "", "", "", "budget_highest"),
    ],
    rf"draw B\{{=\}}{NUMBER} bootstrap resamples": [("Appendix A.3", "", "", "", "resamples")],
    rf"half-width is approximately \\pm {NUMBER} percentage points": [
        ("Appendix A.3", "", "", "", "pass@3_half_width")
    ],
    rf"dominated by runtime or dependency issues {SHARE}": [
        ("Section 4.4, runtime or dependency", "", "", "Code Repo", "failures"),
        ("Section 4.4, runtime or dependency", "", "", "Code Repo", "failure_share"),
    ],
    rf"followed by interface or schema errors {SHARE}": [
        ("Section 4.4, interface or schema", "", "", "Code Repo", "failures"),
        ("Section 4.4, interface or schema", "", "", "Code Repo", "failure_share"),
    ],
    rf"asset or artifact issues {SHARE}": [
        ("Section 4.4, asset or artifact", "", "", "Code Repo", "failures"),
        ("Section 4.4, asset or artifact", "", "", "Code Repo", "failure_share"),
    ],
    r"interface or schema errors account for (\d+) failures \((\d+)%\)": [
        ("Section 4.4, interface or schema", "", "", "Code Doc", "failures"),
        ("Section 4.4, interface or schema", "", "", "Code Doc", "failure_share"),
    ],
    rf"smaller runtime or dependency bucket {SHARE}": [
        ("Section 4.4, runtime or dependency", "", "", "Code Doc", "failures"),
        ("Section 4.4, runtime or dependency", "", "", "Code Doc", "failure_share"),
    ],
    rf"state or rule errors {SHARE}": [
        ("Section 4.4, state or rule", "", "", "Domain Knowledge Doc", "failures"),
        ("Section 4.4, state or rule", "", "", "Domain Knowledge Doc", "failure_share"),
    ],
    rf"numeric or formula errors {SHARE}": [
        ("Section 4.4, numeric or formula", "", "", "Domain Knowledge Doc", "failures"),
        ("Section 4.4, numeric or formula", "", "", "Domain Knowledge Doc", "failure_share"),
    ],
    rf"fewer interface or schema errors {SHARE}": [
        ("Section 4.4, interface or schema", "", "", "Domain Knowledge Doc", "failures"),
        ("Section 4.4, interface or schema", "", "", "Domain Knowledge Doc", "failure_share"),
    ],
    rf"summarizes the {NUMBER}-task benchmark composition": [("Section 3.1", "", "", "", "tasks")],
    rf"inspected {NUMBER} candidate tasks .*? retained {NUMBER} that .*? acceptance rate of {NUMBER}%": [
        ("Appendix F.1", "", "", "", "candidates"),
        ("Appendix F.1", "", "", "", "retained"),
        ("Appendix F.1", "", "", "", "acceptance"),
    ],
    r"we report pass@(\d) as the primary metric": [("Section 4.1", "", "", "", "trials")],
    rf"results use a {NUMBER}-second per-instance budget": [("Section 4.1", "", "", "", "time_limit")],
    rf"(?s)Skill-generation stage.*?Max output tokens: {NUMBER}": [("Appendix B", "", "", "", "max_output_tokens")],
    rf"Max rounds: {NUMBER} refinement iterations / {NUMBER} agent turns": [
        ("Appendix B", "", "", "", "refinement_rounds"),
        ("Appendix B", "", "", "", "turns_limit"),
    ],
}


def key(row: PrintedNumber) -> tuple[str, str, str, str, str]:
    return (row.row, row.model, row.condition, row.group, row.metric)


def read_from_the_paper() -> dict[tuple[str, str, str, str, str], str]:
    """Every number a pattern of IN_TEXT captures; a pair of models said together stands for each of them."""
    text, found = PAPER.read_text(encoding="utf-8"), {}
    for pattern, keys in IN_TEXT.items():
        match = re.search(pattern, text)
        assert match, pattern
        numbers = [number for number in match.groups() if number is not None]
        assert len(numbers) == len(keys), (pattern, numbers)
        for (row, models, condition, group, metric), number in zip(keys, numbers, strict=True):
            for model in models.split(" / "):
                found[row, model, condition, group, metric] = number
    return found


@pytest.mark.shared_data
def test_it_holds_every_number_read_from_the_text() -> None:
    stored = {key(row): row.printed for row in read_published_rows("skillgenbench") if row.table == "Text"}
    assert stored == read_from_the_paper()


@pytest.mark.shared_data
def test_it_misses_no_percentage_that_the_results_print() -> None:
    """Every percentage of the results is stored,
    but for the thresholds of section 3.3 and the level of the interval."""
    text = PAPER.read_text(encoding="utf-8")
    results = text[text.index("## 4 Experiments") : text.index("## References")]
    results += text[text.index("## Appendix A") : text.index("### F.2")]
    stored = {row.printed for row in read_published_rows("skillgenbench")}
    assert set(re.findall(r"(?<![\w.])(\d+(?:\.\d+)?)\\?%", results)) - {"95"} <= stored


def test_it_has_as_many_numbers_as_the_text() -> None:
    rows = read_published_rows("skillgenbench")
    found = Counter(row.metric.split("_")[0] for row in rows if row.table == "Text")
    assert found == {
        "pass@3": 2 + 4 + 5 + 2 + 8 + 1,
        "budget": 8,
        "failures": 8,
        "failure": 8,
        "resamples": 1,
        "tasks": 1,
        "candidates": 1,
        "retained": 1,
        "acceptance": 1,
        "trials": 1,
        "time": 1,
        "max": 1,
        "refinement": 1,
        "turns": 1,
    }


def test_it_names_each_number_once_and_every_value_is_what_is_printed() -> None:
    rows = read_published_rows("skillgenbench")
    assert len({key(row) for row in rows}) == len(rows) == 59
    assert [row for row in rows if row.value != float(row.printed.replace(",", ""))] == []
    assert Counter(row.table for row in rows) == {"Text": 56, "Figure 3": 3}


def test_it_has_the_tasks_of_each_source_and_says_that_they_are_second_hand() -> None:
    rows = [row for row in read_published_rows("skillgenbench") if row.table == "Figure 3"]
    assert {row.group: row.value for row in rows} == dict(zip(SOURCES, (123, 28, 36), strict=True))
    assert all("second-hand" in row.note for row in rows)


def test_it_counts_the_tasks_behind_each_rate() -> None:
    """Of one backbone over the whole suite only; the averages of Code and Doc have no count."""
    counts = {
        (row.condition, row.model): row.k
        for row in read_published_rows("skillgenbench")
        if row.metric == "pass@3" and row.n
    }
    assert counts == {
        ("SkillNet", "Qwen3.6-Plus"): 38,
        ("SkillCreator", "GLM-5"): 37,
        ("SkillSeekers", "GLM-5"): 36,
        ("EvoSkill", "Kimi K2.5"): 19,
        ("EvoSkill", "GPT-5"): 38,
    }


def test_it_says_of_each_rate_that_the_regime_is_unknown() -> None:
    rates = [row for row in read_published_rows("skillgenbench") if row.metric == "pass@3"]
    assert len(rates) == 7
    assert all("regime" in row.note for row in rates)


KNOWN = [
    ("Appendix A.1, GPT-5, EvoSkill, pass@3", "20.3", "18 to 20", "loose wording"),
    ("Section 4.2, budget_gain_ends_to", "64", "32", "loose wording"),
    ("Appendix B, max_output_tokens", "16,384", "128K", "unclear"),
]


def test_it_lists_what_does_not_add_up() -> None:
    found = skillgenbench_findings(read_published_rows("skillgenbench"))
    assert [(f.place, f.printed, f.recomputed, f.kind) for f in found] == KNOWN


@pytest.mark.parametrize(
    ("metric", "where", "printed", "kind"),
    [
        ("pass@3", {"model": "GLM-5", "condition": "SkillCreator"}, "19.7", "no k of n"),
        ("pass@3", {"model": "GLM-5", "condition": "SkillSeekers"}, "13.9", "text"),
        ("pass@3", {"group": "Doc"}, "24.9", "text"),
        ("pass@3", {"model": "GPT-5", "condition": "EvoSkill"}, "21.4", "text"),
        ("pass@3_lowest", {"condition": "SkillSeekers"}, "14.5", "no k of n"),
        ("pass@3_lowest", {"group": "Doc"}, "21.5", "no k of n"),
        ("pass@3_highest", {"group": "Code"}, "14.3", "no k of n"),
        ("acceptance", {}, "27.5", "share"),
        ("retained", {}, "186", "table against table"),
        ("failure_share", {"group": "Code Doc", "row": "Section 4.4, runtime or dependency"}, "13", "share"),
        ("failures", {"group": "Domain Knowledge Doc", "row": "Section 4.4, state or rule"}, "396", "share"),
        ("pass@3_half_width", {}, "8", "interval"),
    ],
)
def test_it_notices_another_number(metric: str, where: dict[str, str], printed: str, kind: str) -> None:
    rows = read_published_rows("skillgenbench")
    row = Cells(rows).one("Text", metric, **where)
    other = [replace(row, value=float(printed), printed=printed) if one is row else one for one in rows]
    found = set(skillgenbench_findings(other)) - set(skillgenbench_findings(rows))
    assert kind in {finding.kind for finding in found}


@pytest.mark.parametrize(
    ("source", "printed", "kinds"), [("Code Repo", "128", {"sum", "no k of n"}), ("Code Doc", "27", {"sum"})]
)
def test_it_notices_another_number_of_tasks(source: str, printed: str, kinds: set[str]) -> None:
    rows = read_published_rows("skillgenbench")
    row = Cells(rows).one("Figure 3", "tasks", group=source)
    other = [replace(row, value=float(printed), printed=printed) if one is row else one for one in rows]
    found = set(skillgenbench_findings(other)) - set(skillgenbench_findings(rows))
    assert kinds <= {finding.kind for finding in found}


def test_it_finds_the_totals_that_the_shares_of_failures_allow() -> None:
    cells, totals = Cells(read_published_rows("skillgenbench")), {}
    for source in SOURCES:
        shares = cells.many("Text", "failure_share", group=source)
        counts = [int(cells.one("Text", "failures", group=source, row=share.row).value or 0) for share in shares]
        totals[source] = possible_totals(counts, shares)
    assert totals == {
        "Code Repo": range(2346, 2363),  # 2,346 is the sum of its three counts, whose shares make 100
        "Code Doc": range(531, 533),
        "Domain Knowledge Doc": range(833, 839),
    }
