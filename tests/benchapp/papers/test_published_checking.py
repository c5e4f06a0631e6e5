"""The checker finds what is wrong in SkillEvolBench and SkillFlow as printed,
and notices any number that is changed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

from benchapp.papers.published_rows import Cells, Erratum, PrintedNumber, read_errata, read_published_rows
from tests.benchapp.errata.papers import CHECKS
from tests.benchapp.errata.skillevolbench import skillevolbench_findings
from tests.benchapp.errata.skillflow import skillflow_findings
from tests.cases import every

ROUNDED, TWO_DELTAS = "rounded before subtracting", "two deltas for one"
O46, O45 = "Claude Opus 4.6", "Claude Opus 4.5"
TEN = "average of ten models"


def told(found: Erratum) -> tuple[str, str, str, str]:
    return found.place, found.printed, found.recomputed, found.kind


def test_it_counts_the_deltas_of_skillevolbench_that_its_columns_contradict() -> None:
    found = Counter((finding.table, finding.kind) for finding in read_errata("skillevolbench"))
    assert found == {
        ("Table 1", ROUNDED): 35,
        ("Table 2", ROUNDED): 33,
        ("Table 9", TWO_DELTAS): 22,
        ("Text", "text"): 1,
        ("Text", "text against text"): 1,
        ("Text", "implied by its parts"): 1,
        ("Text", "unclear"): 2,
    }


def slow_delta(row: PrintedNumber, rows: tuple[PrintedNumber, ...]) -> str:
    """The delta by counts, the long way: find both cells, count tasks, divide, round half up."""
    metric = "LSR" if row.metric == "RSR" else row.metric
    (base,) = [
        other
        for other in rows
        if (other.table, other.model, other.condition, other.metric) == (row.table, row.model, "no-skill", metric)
    ]
    n = 90 if row.metric in ("LSR", "RSR", "ESR") else 30
    own, reference = (
        min(range(n + 1), key=lambda k: abs(100 * k / n - cell.value))  # type: ignore[operator]
        for cell in (row, base)
    )
    return f"{100 * (own - reference) / n:+.1f}".replace("+0.0", "0.0")


def test_it_finds_just_the_deltas_that_the_counts_contradict() -> None:
    rows = read_published_rows("skillevolbench")
    wrong = [
        (row.table, row.model, row.condition, row.metric, row.printed_delta, slow_delta(row, rows))
        for row in rows
        if row.printed_delta and row.printed_delta != slow_delta(row, rows)
    ]
    found = [
        (finding.table, *finding.place.split(", "), finding.printed, finding.recomputed)
        for finding in read_errata("skillevolbench")
        if finding.kind == ROUNDED
    ]
    assert found == wrong


def test_a_delta_printed_twice_differs_just_where_one_is_of_rounded_numbers() -> None:
    found = read_errata("skillevolbench")
    rounded = {finding.place: finding.printed for finding in found if finding.kind == ROUNDED}
    twice = {finding.place: finding.recomputed for finding in found if finding.kind == TWO_DELTAS}
    assert twice == {place: rounded[place] for place in twice}
    assert len([place for place in rounded if "-always," in place]) == len(twice)


def test_it_lists_what_else_does_not_add_up_in_skillevolbench() -> None:
    found = [told(finding) for finding in read_errata("skillevolbench") if finding.table == "Text"]
    assert found == [
        ("Section 5.3, Claude Opus 4.6, selfgen-revision, LSR_change", "5.5", "+5.6", "text"),
        ("Section 5.4, GPT-5.4, curated-always", "highest ESR", "raw-trajectory 42.2", "text against text"),
        ("Section 5.5, average of ten models, raw-trajectory, ESR", "37.6", "CSSR 42.3", "implied by its parts"),
        (f"Section 5.5, {TEN}, E2 Tool & API Orchestration, CSSR", "84.7", "", "unclear"),
        (f"Section 5.5, {TEN}, E3 Data Processing & Structured Query, CompSR", "4.5", "", "unclear"),
    ]


def test_it_lists_what_does_not_add_up_in_skillflow() -> None:
    history = "Claude Opus 4.6, history-context, completion"
    assert [told(finding) for finding in read_errata("skillflow")] == [
        ("Claude Opus 4.5, skill-evolution, cost", "-32.87", "-32.75", "unrounded numbers"),
        ("GPT 5.4, skill-evolution, completion", "+3.62", "+3.61", ROUNDED),
        (history, "51.04", "84/166 = 50.60 and 85/166 = 51.20", "no k of n"),
        (f"Section 3.3, {history}", "51.04", "84/166 = 50.60 and 85/166 = 51.20", "no k of n"),
        (f"Appendix C.2, {history}", "47.41", "78/166 = 46.99 and 79/166 = 47.59", "no k of n"),
        ("Section 3.2, GPT 5.4, skill-evolution, completion_change", "+3.62", "+3.61", "text"),
        (f"Appendix C.2, {history}", "47.41", "51.04", "table against text"),
        (f"Appendix C.2, {history}_change", "15.24", "-11.61", "table against text"),
        (f"Appendix C.2, {history}_change_to_skills", "23.67", "-20.04", "table against text"),
        ("Appendix A.2, candidate_tasks", "200", "199", "sum"),
        ("#Skills", "kept at the end", "ever generated", "two meanings"),
    ]


Change = tuple[str, str, dict[str, str], dict[str, str]]  # table, metric, which cells, what they are made to print
ON_EVOLVING = [
    # a rate that no run of 90 or 30 can have
    ("Table 1", "LSR", {"model": O46, "condition": "curated-static"}, {"printed": "40.5"}, "no k of n"),
    # one more task solved over all than in the three roles
    ("Table 2", "ESR", {"model": "GPT-5.4", "condition": "selfgen-always"}, {"printed": "36.7"}, "parts"),
    ("Table 1", "CSSR", {"model": "GPT-5.4", "condition": "curated-revision"}, {"printed": "53.3"}, "parts"),
    # a delta that neither the counts nor the rounded columns give
    ("Table 9", "RSR", {"model": O45, "condition": "curated-always"}, {"printed_delta": "+2.1"}, "delta"),
    ("Table 9", "RSR", {"model": O45, "condition": "curated-always"}, {"printed": "43.3"}, "table against table"),
    ("Text", "ESR", {"condition": "selfgen-always-tier3", "model": O46}, {"printed": "41.1"}, "text"),
    ("Text", "ESR_change", {"condition": "curated-static"}, {"printed": "-2.45"}, "average"),
    ("Text", "ESR_change", {"condition": "curated-always-tier3"}, {"printed": "+0.01"}, "average"),
    ("Text", "ESR_change", {"condition": "", "model": O45}, {"printed": "+2.65"}, "average"),
    ("Text", "ESR_wins", {"condition": "selfgen-always"}, {"printed": "6"}, "text"),
    ("Text", "ESR_ties", {"condition": "curated-revision"}, {"printed": "3"}, "text"),
    ("Text", "ESR_losses", {"condition": "curated-static"}, {"printed": "8"}, "text"),
    ("Text", "ESR_wins", {"condition": "", "model": O45}, {"printed": "6"}, "text"),
    ("Text", "ESR_losses", {"condition": "", "model": "Gemini 2.5 Pro"}, {"printed": "8"}, "text"),
    ("Text", "LSR_condition_range", {}, {"printed": "1.7"}, "range"),
    ("Text", "ESR_condition_range", {}, {"printed": "5.6"}, "range"),
    ("Text", "RSR", {"condition": "raw-trajectory"}, {"printed": "45.9"}, "text"),
    ("Text", "ARSR", {"group": "E3 Data Processing & Structured Query"}, {"printed": "69.9"}, "no k of n"),
    ("Text", "CompSR", {"group": "E6 Communication & Scheduling"}, {"printed": "0.1"}, "no k of n"),
]
ON_FLOW = [
    ("Table 1", "completion", {"model": O46, "condition": "skill-evolution"}, {"printed": "71.50"}, "no k of n"),
    ("Table 1", "turns", {"model": O45, "condition": "skill-evolution"}, {"printed_delta": "-0.54"}, "delta"),
    ("Table 1", "cost", {"model": O45, "condition": "skill-evolution"}, {"printed_delta": "-33.07"}, "delta"),
    ("Table 1", "skills", {"model": O45}, {"printed": "1.52"}, "no k of n"),
    ("Table 1", "use", {"model": "GPT 5.3 Codex"}, {"printed": "89.16"}, "out of range"),
    ("Table 6", "completion", {"condition": "no-skill"}, {"printed": "63.25"}, "text"),
    ("Text", "completed", {"condition": "no-skill"}, {"printed": "105"}, "text"),
    ("Text", "completion_change", {"model": "MiniMax M2.7"}, {"printed": "-0.61"}, "text"),
    ("Text", "use", {"model": "Kimi K2.5"}, {"printed": "66.27"}, "text"),
    ("Text", "seed_tasks_from_gdpval", {}, {"printed": "47"}, "sum"),
    ("Text", "families", {}, {"printed": "21"}, "sum"),
    ("Text", "models", {}, {"printed": "12"}, "text"),
    ("Table 1", "completion", {"model": "MiniMax M2.5", "condition": "skill-evolution"}, {"printed": "40.36"}, "text"),
    ("Table 1", "cost", {"model": O46, "condition": "skill-evolution"}, {"printed": "0.675"}, "text"),
]


def notices(paper: str, table: str, metric: str, where: dict[str, str], change: dict[str, str]) -> Counter[str]:
    """Kinds of the findings that appear when one cell prints something else."""
    rows = read_published_rows(paper)
    row = (
        Cells(rows).one(table, metric, **where) if where.get("condition") != "" else _alone(rows, table, metric, where)
    )
    other = replace(row, **change, value=float(change.get("printed", row.value)))  # type: ignore[arg-type]
    changed = [other if one is row else one for one in rows]
    return Counter(found.kind for found in set(CHECKS[paper](changed)) - set(CHECKS[paper](rows)))


def _alone(rows: tuple[PrintedNumber, ...], table: str, metric: str, where: dict[str, str]) -> PrintedNumber:
    (row,) = Cells(rows).many(table, metric, **where)
    return row


@every(*ON_EVOLVING)
def test_it_notices_another_number_in_skillevolbench(
    table: str, metric: str, where: dict[str, str], change: dict[str, str], kind: str
) -> None:
    if table == "Text" and where.get("condition") in ("curated-static", "curated-always-tier3", "selfgen-always"):
        where = {**where, "model": TEN}
    assert kind in notices("skillevolbench", table, metric, where, change)


@every(*ON_FLOW)
def test_it_notices_another_number_in_skillflow(
    table: str, metric: str, where: dict[str, str], change: dict[str, str], kind: str
) -> None:
    assert kind in notices("skillflow", table, metric, where, change)


@every(
    ("GPT-5.4", "curated-always", "CSSR", "46.7"),  # the text: worse than no-skill
    ("Gemini 3 Flash", "curated-always", "CompSR", "23.3"),  # the text: better
    ("Gemini 3.1 Pro", "selfgen-always", "RSR", "54.4"),  # the text: worse than selfgen-revision
    ("GPT-5.4", "curated-revision", "ESR", "41.1"),  # the text: curated-always is the highest
)
def test_it_notices_where_a_cell_breaks_what_the_text_says(
    model: str, condition: str, metric: str, printed: str
) -> None:
    rows = [
        replace(row, printed=printed, value=float(printed))
        if (row.model, row.condition, row.metric) == (model, condition, metric)
        else row
        for row in read_published_rows("skillevolbench")
    ]
    new = set(skillevolbench_findings(rows)) - set(skillevolbench_findings(read_published_rows("skillevolbench")))
    assert any(found.kind == "text" and found.place.startswith("Section 5.") and model in found.place for found in new)


def test_the_means_of_the_text_imply_the_raw_trajectory_runs_they_leave_out() -> None:
    """Opus 4.5's mean over nine conditions, eight of them printed: raw-trajectory solved eight tasks more."""
    rows = read_published_rows("skillevolbench")
    solved = {(row.condition, row.metric): row.k for row in rows if row.model == O45 and row.table != "Text"}
    base = solved["no-skill", "ESR"]
    known = [k - base for (name, metric), k in solved.items() if metric == "ESR" and name != "no-skill"]  # type: ignore[operator]
    assert len(known) == 8
    assert round(Fraction("2.72") * 9 * 90 / 100 - sum(known), 1) == Fraction("8.0")


def test_it_leaves_other_papers_rows_alone() -> None:
    everything = read_published_rows()
    assert skillevolbench_findings(everything) == skillevolbench_findings(read_published_rows("skillevolbench"))
    assert skillflow_findings(everything) == skillflow_findings(read_published_rows("skillflow"))
