"""What does not add up in the printed numbers of SkillLearnBench: averages, counts, one table against another.

What its text claims about these numbers is checked in skilllearnbench_claims.
Source: arXiv 2604.20087v1, Tables 1 to 16; equation 2 (accuracy is a mean over tasks of the share of instances solved).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from benchapp.papers.published_rows import Cells, PrintedNumber, counts_make, find_count, half_unit, rounds_to
from benchapp.papers.release import METHODS, MODELS, PAPER, REFERENCES, TASKS
from tests.benchapp.errata.arithmetic import mean, mean_may_be, sum_may_be
from tests.benchapp.errata.checks import TracedErratum, erratum, names_of
from tests.benchapp.errata.skilllearnbench_claims import broken_claims
from tests.benchapp.errata.skilllearnbench_retest import retest_findings
from tests.benchapp.errata.skilllearnbench_rows import AVERAGE, overall

BY_MODEL = ("Table 2", "Table 10", "Table 11", "Table 12")
CASES = ("Table 13", "Table 14", "Table 15")
STEP = Fraction(1, 6)  # of a percentage: equation 2 over 20 tasks of 2, 3, 5 or 6 instances gives multiples of 1/600
TRIALS_OF_TABLE_7 = 3


def skilllearnbench_findings(rows: Iterable[PrintedNumber]) -> list[TracedErratum]:
    """Every contradiction of the paper with itself, in the order of its tables."""
    cells = Cells(row for row in rows if row.paper == PAPER)
    checks = (
        averages_over_models,
        averages_over_dimensions,
        averages_over_tasks,
        averages_over_categories,
        equal_cells,
        counts_of_instances,
        sums_of_tokens,
        sums_of_patterns,
        numbers_of_skills,
        judge_over_all_tasks,
        retest_findings,
        broken_claims,
    )
    return [finding for check in checks for finding in check(cells)]


def averages_over_models(cells: Cells) -> Iterator[TracedErratum]:
    """The block "Average Across All LLMs" of Tables 2, 10, 11 and 12 against its six rows."""
    for table in BY_MODEL:
        for metric in cells.metrics(table):
            for condition in METHODS:
                parts = [cells.one(table, metric, condition=condition, model=model) for model in MODELS]
                whole = cells.one(table, metric, condition=condition, model=AVERAGE)
                if not mean_may_be(parts, whole):
                    yield erratum(
                        whole,
                        f"{float(mean(parts)):.3f}",
                        "average",
                        "It is not the mean of the six rows above it.",
                        *parts,
                    )


def averages_over_dimensions(cells: Cells) -> Iterator[TracedErratum]:
    """The last column of Tables 10 to 12 (means of the columns before it) against these columns."""
    for table in BY_MODEL[1:]:
        *dimensions, last = cells.metrics(table)
        for whole in cells.many(table, last):
            where = {"condition": whole.condition, "model": whole.model}
            parts = [cells.one(table, dimension, **where) for dimension in dimensions]
            if not mean_may_be(parts, whole):
                yield erratum(
                    whole,
                    f"{float(mean(parts)):.3f}",
                    "average",
                    "It is not the mean of the dimensions in its row.",
                    *parts,
                )


def averages_over_tasks(cells: Cells) -> Iterator[TracedErratum]:
    """The last rows of Tables 8 and 9; of accuracies exactly, since every cell of Table 8 is a count."""
    for table, metric in (("Table 8", "accuracy"), ("Table 9", "use")):
        for whole in cells.many(table, metric, row="Average"):
            parts = [cell for cell in cells.many(table, metric, condition=whole.condition) if cell.group]
            if not mean_may_be(parts, whole):
                yield erratum(
                    whole, f"{float(mean(parts)):.3f}", "average", "It is not the mean of the twenty tasks.", *parts
                )
    for condition, by_task in exact_accuracies(cells).items():
        exact = sum(by_task.values()) * Fraction(100, TASKS)
        for table, where in (("Table 8", {"row": "Average"}), ("Table 3", {"group": ""}), ("Table 6", {})):
            whole = cells.one(table, "accuracy", condition=condition, **where)
            if not rounds_to(exact, whole):
                sentence = "The counts that Table 8 rounds give another mean over tasks."
                yield erratum(whole, f"{float(exact):.3f}", "average", sentence)
    yield from exact_average_of_models(cells)


def exact_average_of_models(cells: Cells) -> Iterator[TracedErratum]:
    """Table 2's accuracies of single models are multiples of 1/600, so their exact mean must be that of Table 8."""
    accuracies = exact_accuracies(cells)
    for condition in METHODS:
        column = [cells.one("Table 2", "accuracy", condition=condition, model=model) for model in MODELS]
        steps = [round(cell.number / STEP) for cell in column]
        by_model = sum(steps) * STEP / len(MODELS)
        by_task = sum(accuracies[condition].values()) * Fraction(100, TASKS)
        if by_model != by_task:
            whole = cells.one("Table 2", "accuracy", condition=condition, model=AVERAGE)
            sentence = f"The counts behind Table 8 give {float(by_task):.3f}, those behind Table 2 something else."
            yield erratum(whole, f"{float(by_model):.3f}", "table against table", sentence)


def averages_over_categories(cells: Cells) -> Iterator[TracedErratum]:
    """Table 3 against the tasks of each category in Table 8."""
    category = {cell.row: cell.group for cell in cells.many("Table 1", "instances") if cell.group}
    accuracies = exact_accuracies(cells)
    for whole in cells.many("Table 3", "accuracy"):
        if not whole.group:
            continue
        shares = [share for task, share in accuracies[whole.condition].items() if category[task] == whole.group]
        value = sum(shares) * Fraction(100, len(shares))
        if not rounds_to(value, whole):
            sentence = "The tasks of this category in Table 8 give another mean."
            yield erratum(whole, f"{float(value):.3f}", "table against table", sentence)


def instances(cells: Cells) -> dict[str, int]:
    """Task -> number of instances (Table 1)."""
    return {cell.row: int(cell.number) for cell in cells.many("Table 1", "instances") if cell.group}


def exact_accuracies(cells: Cells) -> dict[str, dict[str, Fraction]]:
    """Condition -> task -> the k of n behind Table 8 (what is printed where no count fits)."""
    planned = instances(cells)
    exact: dict[str, dict[str, Fraction]] = {condition: {} for condition in (*REFERENCES, *METHODS)}
    for cell in cells.many("Table 8", "accuracy"):
        if cell.group:
            n = solved_of(cell, planned[cell.group])
            k = find_count(cell, n)
            exact[cell.condition][cell.group] = cell.number / 100 if k is None else Fraction(k, n)
    return exact


def solved_of(cell: PrintedNumber, trials: int) -> int:
    """n of a cell over all models: six times the trials where a model wrote the skills."""
    return trials * (len(MODELS) if cell.condition in METHODS else 1)


def equal_cells(cells: Cells) -> Iterator[TracedErratum]:
    """Numbers that two tables print for the same thing."""
    for first, second in same_things(cells):
        if first.printed != second.printed:
            sentence = f"{second.table} prints {second.printed} for the same number."
            if abs(first.number - second.number) <= 2 * half_unit(first.printed):
                sentence += " They differ by one in the last place, as two roundings of one number may."
            yield erratum(first, second.printed, "table against table", sentence, second)


def same_things(cells: Cells) -> Iterator[tuple[PrintedNumber, PrintedNumber]]:
    for table in BY_MODEL[1:]:
        metric = cells.metrics(table)[-1]
        for cell in cells.many(table, metric):
            yield cells.one("Table 2", metric, model=cell.model, condition=cell.condition), cell
    averages: tuple[tuple[str, str, dict[str, str]], ...] = (
        ("Table 3", "accuracy", {"group": ""}),
        ("Table 8", "accuracy", {"row": "Average"}),
        ("Table 9", "use", {"row": "Average"}),
        ("Table 6", "accuracy", {}),
        ("Table 6", "tokens", {}),
    )
    for table, metric, where in averages:
        for cell in cells.many(table, metric, **where):
            yield overall(cells, metric, cell.condition), cell
    for table in CASES:
        for metric, source in (("accuracy", "Table 8"), ("use", "Table 9")):
            for cell in cells.many(table, metric):
                yield cell, cells.one(source, metric, group=cell.group, condition=cell.condition)
    for cell in said_again(cells):
        where = {"condition": cell.condition} if cell.condition else {"row": "All tasks"}
        yield cell, cells.one("Table 5" if cell.condition else "Table 16", cell.metric, **where)


def said_again(cells: Cells) -> list[PrintedNumber]:
    """Numbers of Tables 5 and 16 that the text repeats; whole percentages are left out, they have other digits."""
    metrics = ("pattern_b", "pattern_c", "executability_rho", "safety_rho", "safety_mae")
    return [cell for metric in metrics for cell in cells.many("Text", metric)]


def counts_of_instances(cells: Cells) -> Iterator[TracedErratum]:
    """Accuracies that are no count of solved instances, and skills per task that are no count of skills."""
    planned = instances(cells)
    for cell in cells.many("Table 8", "accuracy"):
        if cell.group:
            n = solved_of(cell, planned[cell.group])
            yield from no_count(cell, find_count(cell, n) is not None, f"k of {n}")
    for cell in cells.many("Table 2", "accuracy"):
        if cell.model != AVERAGE:
            yield from no_count(cell, fits_step(cell, STEP), "a mean over tasks of 2, 3, 5 and 6 instances")
    for cell in cells.many("Table 4", "accuracy"):  # three tasks of 5, 6 and 6 instances
        yield from no_count(cell, fits_step(cell, Fraction(100, 90)), "a mean over tasks of 5, 6 and 6 instances")
    for cell in cells.many("Table 4", "skills"):
        yield from no_count(cell, fits_step(cell, Fraction(1, 3)), "a whole number of skills over three tasks")
    for cell in cells.many("Table 7", "accuracy"):
        n = solved_of(cell, TASKS * TRIALS_OF_TABLE_7)
        yield from no_count(cell, find_count(cell, n) is not None, f"k of {n}")


def fits_step(cell: PrintedNumber, step: Fraction) -> bool:
    """Whether the number is a rounded multiple of `step`."""
    return rounds_to(round(cell.number / step) * step, cell)


def no_count(cell: PrintedNumber, fits: bool, wanted: str) -> Iterator[TracedErratum]:
    if not fits:
        yield erratum(cell, "", "no k of n", f"No count gives it: it should be {wanted}.")


def sums_of_tokens(cells: Cells) -> Iterator[TracedErratum]:
    """Table 6: input and output make the total; section D's bound on the share of the input."""
    bound = cells.one("Text", "input_share")
    for total in cells.many("Table 6", "tokens"):
        parts = [cells.one("Table 6", m, condition=total.condition) for m in ("input_tokens", "output_tokens")]
        if not sum_may_be(parts, total):
            value = f"{float(sum(part.number for part in parts)):g}K"
            yield erratum(total, value, "sum", "Input and output tokens do not make the total.", *parts)
        share = 100 * parts[0].number / total.number
        if share <= bound.number:
            yield erratum(
                bound, f"{float(share):.1f}", "text", f"The share of input tokens under {total.condition} is lower."
            )


def sums_of_patterns(cells: Cells) -> Iterator[TracedErratum]:
    """Table 5: the three patterns of a method make all of its skills. Table 1: the instances make the total."""
    for first in cells.many("Table 5", "pattern_a"):
        row = [cells.one("Table 5", f"pattern_{letter}", condition=first.condition) for letter in "abc"]
        total = sum((cell.number for cell in row), Fraction(0))
        if abs(total - 100) > sum((half_unit(cell.printed) for cell in row), Fraction(0)):
            yield erratum(first, f"{float(total):.1f}", "sum", "The three shares do not make 100 %.", *row)
    found = {"instances": sum(instances(cells).values()), "tasks": len(instances(cells))}
    for metric, value in found.items():
        whole = cells.one("Table 1", metric, row="Total")
        if whole.number != value:
            yield erratum(whole, str(value), "sum", "The rows of the table give another total.")


def numbers_of_skills(cells: Cells) -> Iterator[TracedErratum]:
    """Table 5's shares are counts of skills; Figure 3 prints how many skills a task has, so how many there are."""
    for per_task in cells.many("Figure 3", "skills"):
        libraries = solved_of(per_task, TASKS)
        shares = [cells.one("Table 5", f"pattern_{letter}", condition=per_task.condition) for letter in "abc"]
        about = round(per_task.number * libraries)
        possible = [n for n in range(max(about - 5, 1), about + 5) if rounds_to(Fraction(n, libraries), per_task)]
        if any(counts_make(shares, n) for n in possible):
            continue
        fitting = [n for n in range(1, 2 * about) if counts_make(shares, n)]
        told = " or ".join(str(n) for n in possible)
        sentence = f"Figure 3 gives {told} skills for {libraries} libraries, but no counts of {told} have these shares"
        nearest = min(fitting, key=lambda n: abs(n - about), default=None)
        sentence += f"; {nearest} skills would." if nearest else "."
        printed = " / ".join(share.printed for share in shares)
        concerned = names_of([*shares, per_task])
        yield TracedErratum(
            PAPER, "Table 5", f"{shares[0].row}, patterns", printed, told, "table against figure", sentence, concerned
        )


def judge_over_all_tasks(cells: Cells) -> Iterator[TracedErratum]:
    """Table 16: the row over all tasks pools the pairs, so a mean error must lie between those of the tasks."""
    for metric in cells.metrics("Table 16"):
        *tasks, pooled = cells.many("Table 16", metric)
        low, high = float(min(cell.number for cell in tasks)), float(max(cell.number for cell in tasks))
        if not low <= float(pooled.number) <= high:
            sentence = f"The three tasks lie between {low:g} and {high:g}; pooling tasks of different level can do this"
            sentence += " to a correlation, so it says little about agreement inside a task."
            yield erratum(pooled, f"{low:g} to {high:g}", "outside its parts", sentence, *tasks)
