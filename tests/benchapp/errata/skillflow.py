"""What does not add up in the printed numbers of SkillFlow beyond its deltas.

Completion and use are shares of 166 tasks (`published_rows.DENOMINATORS`), #Skills a mean over 20 families.
Source: SkillFlow, Tables 1 and 6; sections 1 to 3; appendices A.2, C.1 and C.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from benchapp.papers.published_rows import Cells, PrintedNumber, format_signed
from tests.benchapp.errata.checks import TracedErratum, count_findings, delta_findings, erratum, names_of

PAPER = "skillflow"
VANILLA, SKILLS, HISTORY = "no-skill", "skill-evolution", "history-context"
LEADER = "Claude Opus 4.6"  # the model of the text's first finding and of Table 6


def skillflow_findings(rows: Iterable[PrintedNumber]) -> list[TracedErratum]:
    """Every contradiction of the paper with itself, in the order of its tables and then of its text."""
    own = [row for row in rows if row.paper == PAPER]
    cells = Cells(own)
    found = [*delta_findings(own), *count_findings(own)]
    for check in (
        skills_of_families,
        use_after_the_first_task,
        cells_of_the_text,
        changes_of_the_text,
        completed_tasks,
        history_context,
        sizes_of_the_benchmark,
        leader,
        meaning_of_skills,
    ):
        found += check(cells)
    return found


def told(cells: Cells, metric: str) -> Fraction:
    """A number of the text that is said once."""
    return cells.one("Text", metric).number


def skills_of_families(cells: Cells) -> Iterator[TracedErratum]:
    """#Skills is a mean over the families, so a multiple of 1/20."""
    families = told(cells, "families")
    for cell in cells.many("Table 1", "skills"):
        k = round(cell.number * families)
        low, high = cell.span
        if not low <= k / families <= high:
            yield erratum(cell, f"{float(k / families):g}", "no k of n", f"It is no mean over {families} families.")


def use_after_the_first_task(cells: Cells) -> Iterator[TracedErratum]:
    """The first task of a family has no skill to use, so at most tasks less families can use one."""
    most = told(cells, "tasks") - told(cells, "families")
    for cell in cells.many("Table 1", "use"):
        if cell.k is not None and cell.k > most:
            sentence = f"Only {most} tasks come after the first of their family and can use a skill."
            yield erratum(cell, f"at most {most} tasks", "out of range", sentence)


def cells_of_the_text(cells: Cells) -> Iterator[TracedErratum]:
    """Rates that the text repeats from the tables, and Table 6 from Table 1."""
    for table in ("Text", "Table 6"):
        for cell in (row for metric in ("completion", "use") for row in cells.many(table, metric)):
            for first in cells.many("Table 1", cell.metric, model=cell.model, condition=cell.condition):
                if first.number != cell.number:
                    yield erratum(cell, first.printed, "text", f"Table 1 prints {first.printed}.", first)


def changes_of_the_text(cells: Cells) -> Iterator[TracedErratum]:
    """Differences in completion that the text states, by the counts behind Table 1."""
    for change in cells.many("Text", "completion_change", condition=SKILLS):
        own, base = (
            cells.one("Table 1", "completion", model=change.model, condition=condition)
            for condition in (SKILLS, VANILLA)
        )
        low, high = own.possible[0] - base.possible[1], own.possible[1] - base.possible[0]
        if not (low <= change.span[1] and change.span[0] <= high):
            best = format_signed(low, 2)
            sentence = f"The counts behind Table 1, {base.k} and {own.k} of {own.n}, give {best}."
            yield erratum(change, best, "text", sentence, own, base)


def completed_tasks(cells: Cells) -> Iterator[TracedErratum]:
    """Section 3.2 gives two rates also as counts."""
    for count in cells.many("Text", "completed"):
        cell = cells.one("Table 1", "completion", model=count.model, condition=count.condition)
        if cell.k != count.number:
            yield erratum(count, str(cell.k), "text", f"Table 1 prints {cell.printed} %.", cell)


def history_context(cells: Cells) -> Iterator[TracedErratum]:
    """Appendix C.2, section 3.3 and Table 6 print the rate of one setting, and its distance to the two others."""
    table = cells.one("Table 6", "completion", condition=HISTORY)
    others = {"completion_change": VANILLA, "completion_change_to_skills": SKILLS}
    for cell in cells.many("Text", "completion", condition=HISTORY):
        if cell.number != table.number:
            yield erratum(
                cell,
                table.printed,
                "table against text",
                f"Table 6 prints {table.printed} for the same setting.",
                table,
            )
    for metric, other in others.items():
        change = cells.one("Text", metric, condition=HISTORY)
        base = cells.one("Table 6", "completion", condition=other)
        if table.number - base.number != change.number:
            best = format_signed(table.number - base.number, 2)
            sentence = f"The rates of Table 6 differ by {best}; the text goes with the other rate it prints."
            yield erratum(change, best, "table against text", sentence, table, base)


def sizes_of_the_benchmark(cells: Cells) -> Iterator[TracedErratum]:
    """Tasks, families and seeds that must fit each other."""
    tasks, families = told(cells, "tasks"), told(cells, "families")
    if not families * told(cells, "family_tasks_lowest") <= tasks <= families * told(cells, "family_tasks_highest"):
        yield erratum(
            cells.one("Text", "tasks"), "", "sum", "Families of the stated sizes cannot hold this many tasks."
        )
    seeds = [told(cells, f"seed_tasks_from_{source}") for source in ("skillsbench", "gdpval")]
    if sum(seeds) != told(cells, "seed_tasks"):
        yield erratum(cells.one("Text", "seed_tasks"), str(sum(seeds)), "sum", "The two sources give another number.")
    candidates, filtered = cells.one("Text", "candidate_tasks"), told(cells, "tasks_filtered")
    if tasks + filtered <= candidates.number:
        sentence = (
            f"More than {candidates.printed} candidates are said to be left with {tasks} after {filtered} were "
            f"filtered out, but {tasks} and {filtered} make {tasks + filtered}, unless others were dropped that the "
            "text does not count."
        )
        others = (cells.one("Text", metric) for metric in ("tasks", "tasks_filtered"))
        yield erratum(candidates, str(tasks + filtered), "sum", sentence, *others)
    models = len({row.model for row in cells.many("Table 1", "completion")})
    if models != told(cells, "models"):
        yield erratum(cells.one("Text", "models"), str(models), "text", "Table 1 has another number of models.")


def leader(cells: Cells) -> Iterator[TracedErratum]:
    """Section 3: one model gains most, at lower cost; the others' gains lie below its."""
    gains = {
        row.model: row.number - cells.one("Table 1", "completion", model=row.model, condition=VANILLA).number
        for row in cells.many("Table 1", "completion", condition=SKILLS)
    }
    best = max(gains, key=lambda model: gains[model])
    costs = [cells.one("Table 1", "cost", model=LEADER, condition=name) for name in (SKILLS, VANILLA)]
    if best != LEADER:
        yield erratum(costs[0], best, "text", f"Said to gain most; {best} gains more.")
    if costs[0].number >= costs[1].number:
        yield erratum(costs[0], costs[1].printed, "text", "Said to cost less with skills than without.")


def meaning_of_skills(cells: Cells) -> Iterator[TracedErratum]:
    """#Skills is given two meanings; no number of the paper decides between them."""
    if column := cells.many("Table 1", "skills"):
        sentence = (
            "Section 2.5 means the skills a family's library keeps at the end; the caption of Table 1 and appendix C.1 "
            "mean all skills ever generated. The two differ wherever a skill was deleted."
        )
        yield TracedErratum(
            PAPER, "Table 1", "#Skills", "kept at the end", "ever generated", "two meanings", sentence, names_of(column)
        )
