"""Readings of the tables of SkillLearnBench: each gives None where a claim of the text holds, else what the tables say.

Where a claim leaves room, the reading that is kindest to it is taken and named. Source: arXiv 2604.20087v1.
"""

from __future__ import annotations

from collections.abc import Callable

from benchapp.papers.published_rows import Cells, PrintedNumber
from benchapp.papers.release import CLAUDE, GEMINI, METHODS, MODELS
from tests.benchapp.errata.arithmetic import mean
from tests.benchapp.errata.skilllearnbench_rows import AVERAGE, overall

Check = Callable[[Cells], str | None]
ONE, SELF, TEACHER, CREATOR = METHODS


def number(cell: PrintedNumber) -> float:
    return float(cell.number)


def column(cells: Cells, metric: str, table: str = "Table 2") -> dict[str, float]:
    """Method -> what the table prints for it over all models."""
    return {method: number(overall(cells, metric, method, table)) for method in METHODS}


def listed(values: dict[str, float], digits: int = 2) -> str:
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in values.items())


def first_is(metric: str, wanted: str, *, table: str = "Table 2", lowest: bool = False) -> Check:
    """One method has the highest (or lowest) value over all models."""

    def check(cells: Cells) -> str | None:
        values = column(cells, metric, table)
        found = (min if lowest else max)(values, key=values.__getitem__)
        return None if found == wanted else f"{'lowest' if lowest else 'highest'} is {found} ({listed(values)})"

    return check


def lowest_are(metric: str, *wanted: str, table: str) -> Check:
    """These methods have the lowest values of the four, in any order."""

    def check(cells: Cells) -> str | None:
        values = column(cells, metric, table)
        found = sorted(values, key=values.__getitem__)[: len(wanted)]
        return None if set(found) == set(wanted) else listed(values)

    return check


def below(table: str, metric: str, limit: Callable[[Cells], float], *, above: bool = False) -> Check:
    """No cell of a generated method, single models included, lies on the wrong side of a limit."""

    def check(cells: Cells) -> str | None:
        bound = limit(cells)
        found = [cell for cell in cells.many(table, metric) if cell.condition in METHODS]
        wrong = [cell for cell in found if (number(cell) <= bound if above else number(cell) >= bound)]
        where = ", ".join(f"{cell.condition} with {cell.model} {cell.printed}" for cell in wrong)
        return f"{where}, against {bound:.2f}" if wrong else None

    return check


def of_reference(condition: str, metric: str, table: str = "Table 2") -> Callable[[Cells], float]:
    return lambda cells: number(overall(cells, metric, condition, table))


def human_costs_more_than_none(cells: Cells) -> str | None:
    human, none = (overall(cells, "tokens", condition, "Table 6") for condition in ("human-authored", "no-skill"))
    if number(human) > number(none):
        return None
    less = 100 * (1 - number(human) / number(none))
    return f"human-authored {human.printed}, no-skill {none.printed}: {less:.0f} % fewer"


def teacher_approaches_none(cells: Cells) -> str | None:
    """Nearer to no-skill than to the other reference, which is the least that approaching it can mean."""
    teacher, human, none = (
        overall(cells, "tokens", condition, "Table 6") for condition in (TEACHER, "human-authored", "no-skill")
    )
    if abs(number(none) - number(teacher)) <= abs(number(human) - number(teacher)):
        return None
    return f"{teacher.printed} is nearer to human-authored {human.printed} than to no-skill {none.printed}"


def orders_agree(cells: Cells) -> str | None:
    single, repeated = column(cells, "accuracy"), column(cells, "accuracy", "Table 7")
    orders = [sorted(values, key=lambda method: -values[method]) for values in (single, repeated)]
    return None if orders[0] == orders[1] else f"Table 2: {listed(single)}; Table 7: {listed(repeated)}"


def spreads_are_as_said(cells: Cells) -> str | None:
    low, high = (number(cells.one("Text", f"accuracy_sd_{end}")) for end in ("lowest", "highest"))
    found = column(cells, "accuracy_sd", "Table 7")
    return None if all(low <= round(value) <= high for value in found.values()) else listed(found)


def human_spans_from_zero_to_perfect(cells: Cells) -> str | None:
    """Near zero is read generously as at most 10 %."""
    found = [cell for cell in cells.many("Table 8", "accuracy", condition="human-authored") if cell.group]
    low, high = min(found, key=number), max(found, key=number)
    if number(low) <= 10 and number(high) == 100:
        return None
    return f"lowest {low.printed} ({low.group}), highest {high.printed}"


def complex_methods_lose_usability(cells: Cells) -> str | None:
    """Teacher feedback and skill creator below one-shot in consistency and in usability."""
    wrong = []
    for metric in ("executability_consistency", "executability_usability"):
        values = column(cells, metric, "Table 10")
        wrong += [f"{metric} {listed(values)}" for method in (TEACHER, CREATOR) if values[method] >= values[ONE]]
    return "; ".join(wrong) or None


def gains_lead(cells: Cells) -> str | None:
    """The two categories with the largest mean gain of the four methods over no skill."""
    gains = {}
    for base in cells.many("Table 3", "accuracy", condition="no-skill"):
        if base.group:
            methods = [cells.one("Table 3", "accuracy", group=base.group, condition=method) for method in METHODS]
            gains[base.group] = float(mean(methods)) - number(base)
    best = sorted(gains, key=gains.__getitem__)[-2:]
    return None if set(best) == {"Software Engineering", "Productivity Tools"} else listed(gains)


def case_rows(cells: Cells, table: str, metric: str) -> dict[str, float]:
    return {cell.condition: number(cell) for cell in cells.many(table, metric)}


def teacher_is_reversed(cells: Cells) -> str | None:
    coverage, accuracy = (case_rows(cells, "Table 13", metric) for metric in ("coverage", "accuracy"))
    lowest, best = min(coverage, key=coverage.__getitem__), max(accuracy, key=accuracy.__getitem__)
    return None if lowest == best == TEACHER else f"lowest coverage {lowest}, highest accuracy {best}"


def covers_less_than_half(cells: Cells) -> str | None:
    """Of the methods that clearly beat no skill (by half at least), in the second case study."""
    base = number(cells.one("Table 8", "accuracy", group="dbscan-parameter-tuning", condition="no-skill"))
    coverage, accuracy = (case_rows(cells, "Table 14", metric) for metric in ("coverage", "accuracy"))
    over = {m: coverage[m] for m in METHODS if accuracy[m] >= 1.5 * base and coverage[m] >= 50}
    return f"coverage of {listed(over)}" if over else None


def creator_follows_but_fails(cells: Cells) -> str | None:
    rows = {metric: case_rows(cells, "Table 15", metric) for metric in ("coverage", "alignment", "use", "accuracy")}
    best = max(METHODS, key=rows["coverage"].__getitem__)
    followed = all(rows[metric][CREATOR] > rows[metric]["human-authored"] for metric in ("alignment", "use"))
    if best == CREATOR and followed and rows["accuracy"][CREATOR] < rows["accuracy"]["human-authored"]:
        return None
    return "; ".join(f"{metric}: {listed(values)}" for metric, values in rows.items())


def fewer_and_lower_with_more_seeds(cells: Cells) -> str | None:
    """Table 4: skills and coverage fall from one to three to five seed instances; accuracy falls from one to three."""
    skills, coverage, accuracy = (
        [number(cell) for cell in cells.many("Table 4", metric)] for metric in ("skills", "coverage", "accuracy")
    )
    falling = all(values == sorted(values, reverse=True) for values in (skills, coverage))
    return (
        None if falling and accuracy[1] < accuracy[0] else f"skills {skills}, coverage {coverage}, accuracy {accuracy}"
    )


def variance_shares(cells: Cells) -> dict[str, float]:
    """Shares of the sum of squares of the 6 x 4 accuracies of Table 2: model, method, rest (interaction and noise)."""
    table = [[number(cells.one("Table 2", "accuracy", model=m, condition=c)) for c in METHODS] for m in MODELS]
    grand = sum(map(sum, table)) / (len(MODELS) * len(METHODS))
    by_model = len(METHODS) * sum((sum(row) / len(METHODS) - grand) ** 2 for row in table)
    by_method = len(MODELS) * sum((sum(col) / len(MODELS) - grand) ** 2 for col in zip(*table, strict=True))
    total = sum((value - grand) ** 2 for row in table for value in row)
    return {
        "model": 100 * by_model / total,
        "method": 100 * by_method / total,
        "rest": 100 * (total - by_model - by_method) / total,
    }


def model_explains_more_than_method(cells: Cells) -> str | None:
    shares = variance_shares(cells)
    return None if shares["model"] > shares["method"] else f"% of the sum of squares: {listed(shares, 0)}"


def model_dominates(cells: Cells) -> str | None:
    """Dominating is read as explaining more than all else together."""
    shares = variance_shares(cells)
    told = f"% of the sum of squares of the 24 accuracies: {listed(shares, 0)} (interaction and noise)"
    return None if shares["model"] > 50 else told


def larger_gemini_improve(cells: Cells) -> str | None:
    small, *larger = GEMINI
    wrong = []
    for method in METHODS:
        base = cells.one("Table 2", "accuracy", model=small, condition=method)
        for model in larger:
            cell = cells.one("Table 2", "accuracy", model=model, condition=method)
            if number(cell) <= number(base):
                wrong.append(f"{method} with {model} {cell.printed}, with {small} {base.printed}")
    return "; ".join(wrong) or None


def teacher_is_steadiest_of_claude(cells: Cells) -> str | None:
    ranges = {}
    for method in METHODS:
        values = [number(cells.one("Table 2", "accuracy", model=model, condition=method)) for model in CLAUDE]
        ranges[method] = max(values) - min(values)
    return None if min(ranges, key=ranges.__getitem__) == TEACHER else f"ranges {listed(ranges)}"


def cost_falls_with_size(cells: Cells) -> str | None:
    """From the smallest to the largest model of each family, for all but one-shot in Gemini, where it rises."""
    rising = []
    for family, models in (("Claude", CLAUDE), ("Gemini", GEMINI)):
        for method in METHODS:
            ends = [number(cells.one("Table 2", "tokens", model=m, condition=method)) for m in (models[0], models[-1])]
            if ends[1] >= ends[0]:
                rising.append(f"{method} in {family}")
    return None if rising == [f"{ONE} in Gemini"] else f"rising: {', '.join(rising) or 'none'}"


def opus_teacher_aligns_best(cells: Cells) -> str | None:
    single = [cell for cell in cells.many("Table 12", "alignment") if cell.model not in ("", AVERAGE)]
    best: PrintedNumber = max(single, key=number)
    return None if (best.model, best.condition) == (CLAUDE[2], TEACHER) else f"{best.model}, {best.condition}"


def against_none(metric: str) -> Check:
    return below("Table 12", metric, of_reference("no-skill", metric, "Table 12"), above=True)


def self_is_first_then_one_shot(cells: Cells) -> str | None:
    values = column(cells, "accuracy")
    order = sorted(values, key=lambda method: -values[method])
    return None if order[:2] == [SELF, ONE] else listed(values)


def mostly_cheaper_than_human(cells: Cells) -> str | None:
    """Mostly: in more than half of the 24 cells of single models."""
    limit = number(overall(cells, "tokens", "human-authored"))
    single = [cell for cell in cells.many("Table 2", "tokens") if cell.model in MODELS]
    cheaper = sum(number(cell) < limit for cell in single)
    return None if 2 * cheaper > len(single) else f"{cheaper} of {len(single)} cells are cheaper"


def best_varies(table: str, metric: str, field: str) -> Check:
    """At least two methods are first somewhere, by model, task or category (`field`)."""

    def check(cells: Cells) -> str | None:
        rows: dict[str, list[PrintedNumber]] = {}
        for cell in cells.many(table, metric):
            if cell.condition in METHODS and getattr(cell, field) not in ("", AVERAGE):
                rows.setdefault(getattr(cell, field), []).append(cell)
        best = {max(found, key=number).condition for found in rows.values()}
        return None if len(best) > 1 else f"{', '.join(best)} is first everywhere"

    return check


def middle_is_competitive(cells: Cells) -> str | None:
    """The middle model of each family within one point of the best mean over the four methods."""
    wrong = []
    for models in (CLAUDE, GEMINI):
        means = {
            m: float(mean([cells.one("Table 2", "accuracy", model=m, condition=c) for c in METHODS])) for m in models
        }
        if means[models[1]] < max(means.values()) - 1:
            wrong.append(listed(means))
    return "; ".join(wrong) or None


def one_shot_degrades_with_opus(cells: Cells) -> str | None:
    small, middle, large = (number(cells.one("Table 2", "accuracy", model=m, condition=ONE)) for m in CLAUDE)
    return None if large < middle else f"{small:.2f}, {middle:.2f}, {large:.2f}"


def surpass_teacher_in_larger_gemini(cells: Cells) -> str | None:
    """Self feedback and skill creator above teacher feedback with Flash and with Pro."""
    wrong = []
    for model in GEMINI[1:]:
        row = {c: cells.one("Table 2", "accuracy", model=model, condition=c) for c in METHODS}
        for method in (SELF, CREATOR):
            if number(row[method]) <= number(row[TEACHER]):
                wrong.append(f"{method} with {model} {row[method].printed}, {TEACHER} {row[TEACHER].printed}")
    return "; ".join(wrong) or None


def teacher_covers_more_and_is_used_less(cells: Cells) -> str | None:
    """Than one-shot, which section 5.3 takes as the point to start from."""
    coverage, use = column(cells, "coverage"), column(cells, "use")
    if coverage[TEACHER] > coverage[ONE] and use[TEACHER] < use[ONE]:
        return None
    return f"coverage {listed(coverage)}; use {listed(use)}"


def all_far_below_human(cells: Cells) -> str | None:
    """No cell of a single model reaches the accuracy with human-authored skills."""
    return below("Table 2", "accuracy", of_reference("human-authored", "accuracy"))(cells)
