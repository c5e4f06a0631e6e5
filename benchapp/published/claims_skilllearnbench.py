"""What the text of SkillLearnBench says about its own tables, recomputed from their cells.

A claim is stated in our words with the place it stands at. Its check gives None where the tables bear it out, else what they say.
Claims about pictures without printed numbers (Figures 2, 4, 5) cannot be checked and are not here.
Source: arXiv 2604.20087v1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchapp.published.cells import Cells, mean
from benchapp.published.checking import Finding
from benchapp.published.rows import Printed
from benchapp.published.skilllearnbench import AVERAGE, CLAUDE, GEMINI, METHODS, MODELS, PAPER, TASKS, overall

Check = Callable[[Cells], str | None]
ONE, SELF, TEACHER, CREATOR = METHODS
LOOSE = "loose wording"  # the kind of a claim that one reading breaks and another keeps


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the text: where it stands, the table it is about, what it says, and its check."""

    place: str
    table: str
    says: str
    check: Check
    kind: str = "text"


def broken_claims(cells: Cells) -> Iterator[Finding]:
    """The claims that the tables do not bear out."""
    for claim in CLAIMS:
        told = claim.check(cells)
        if told is not None:
            sentence = f'{claim.place}, in our words: "{claim.says}" {claim.table} prints otherwise.'
            if claim.kind == LOOSE:
                sentence = f'{claim.place}, in our words: "{claim.says}" {claim.table} bears it out only in part.'
            yield Finding(PAPER, claim.table, claim.place, claim.says, told, claim.kind, sentence)


def number(cell: Printed) -> float:
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


def no_method_leads_everywhere(cells: Cells) -> str | None:
    """At every task of Table 8 the best methods; one of them would have to be among the best of all twenty."""
    groups = {cell.group for cell in cells.many("Table 8", "accuracy") if cell.group}
    for method in METHODS:
        if all(leads(cells, "Table 8", group, method) for group in groups):
            return f"{method} is best or equal at all {TASKS} tasks"
    return None


def leads(cells: Cells, table: str, group: str, method: str) -> bool:
    row = {m: number(cells.one(table, "accuracy", group=group, condition=m)) for m in METHODS}
    return row[method] == max(row.values())


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
    best: Printed = max(single, key=number)
    return None if (best.model, best.condition) == (CLAUDE[2], TEACHER) else f"{best.model}, {best.condition}"


def against_none(metric: str) -> Check:
    return below("Table 12", metric, of_reference("no-skill", metric, "Table 12"), above=True)


ALL_BEAT_NONE = "All methods are more accurate than no skill."
OUTPERFORM = "Trajectories with skills are better aligned than those without"
MORE_COMPLEX = "Teacher feedback and skill creator give up consistency and usability."
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "Section 4.2",
        "Table 2",
        ALL_BEAT_NONE,
        below("Table 2", "accuracy", of_reference("no-skill", "accuracy"), above=True),
    ),
    Claim("Section 4.2", "Table 2", "Self feedback is the most accurate on average.", first_is("accuracy", SELF)),
    Claim("Section 4.2", "Table 2", "Self feedback uses the fewest tokens.", first_is("tokens", SELF, lowest=True)),
    Claim("Section 4.2", "Table 2", "Teacher feedback's skills are used least.", first_is("use", TEACHER, lowest=True)),
    Claim("Section 5.1", "Table 3", "Software engineering and productivity gain most.", gains_lead),
    Claim("Section 5.3", "Table 2", "Skill creator's skills are used most.", first_is("use", CREATOR)),
    Claim("Appendix A", "Table 4", "More seeds: fewer skills, lower coverage.", fewer_and_lower_with_more_seeds),
    Claim(
        "Appendix C", "Table 2", "The model explains more variance than the method.", model_explains_more_than_method
    ),
    Claim("Appendix C", "Table 2", "The model dominates the variance of accuracy.", model_dominates),
    Claim("Appendix C", "Table 2", "Gemini Flash and Pro both improve over Flash Lite.", larger_gemini_improve, LOOSE),
    Claim("Appendix C", "Table 2", "Teacher feedback is steadiest across Claude.", teacher_is_steadiest_of_claude),
    Claim("Appendix C", "Table 2", "Cost falls with size but for one-shot in Gemini.", cost_falls_with_size),
    Claim(
        "Appendix D",
        "Table 6",
        "All methods need fewer tokens than human-authored skills.",
        below("Table 6", "tokens", of_reference("human-authored", "tokens", "Table 6")),
    ),
    Claim("Appendix D", "Table 6", "Human-authored skills cost slightly more than none.", human_costs_more_than_none),
    Claim("Appendix D", "Table 6", "Teacher feedback nears the cost of no skill.", teacher_approaches_none, LOOSE),
    Claim("Appendix E", "Table 7", "Three trials keep the order of the methods.", orders_agree),
    Claim("Appendix E", "Table 7", "The accuracies spread by 13 to 17 points.", spreads_are_as_said),
    Claim(
        "Appendix F", "Table 8", "Human-authored skills reach from near zero to all.", human_spans_from_zero_to_perfect
    ),
    Claim("Appendix F", "Table 8", "No method leads at all tasks.", no_method_leads_everywhere),
    Claim(
        "Appendix G",
        "Table 10",
        "Completeness: the two complex methods lead.",
        lowest_are("executability_completeness", ONE, SELF, table="Table 10"),
    ),
    Claim(
        "Appendix G",
        "Table 10",
        "Determinism: teacher feedback leads.",
        first_is("executability_determinism", TEACHER, table="Table 10"),
    ),
    Claim(
        "Appendix G",
        "Table 10",
        "Consistency: one-shot leads.",
        first_is("executability_consistency", ONE, table="Table 10"),
    ),
    Claim("Appendix G", "Table 10", MORE_COMPLEX, complex_methods_lose_usability),
    *(
        Claim(
            "Appendix H",
            "Table 11",
            f"{metric}: {method} leads.",
            first_is(f"safety_{metric}", method, table="Table 11"),
        )
        for method, metrics in (
            (ONE, ("privacy", "injection", "integrity")),
            (CREATOR, ("bias", "illegal", "untrusted")),
        )
        for metric in metrics
    ),
    Claim(
        "Appendix H",
        "Table 11",
        "Teacher feedback is worst at prompt injection.",
        first_is("safety_injection", TEACHER, table="Table 11", lowest=True),
    ),
    Claim(
        "Appendix H",
        "Table 11",
        "Teacher feedback is worst at integrity.",
        first_is("safety_integrity", TEACHER, table="Table 11", lowest=True),
    ),
    *(
        Claim("Appendix I", "Table 12", f"{OUTPERFORM} ({metric}).", against_none(metric), LOOSE)
        for metric in ("alignment", "alignment_order", "alignment_keypoint", "alignment_completeness")
    ),
    Claim("Appendix I", "Table 12", "Teacher feedback with Opus aligns best.", opus_teacher_aligns_best),
    Claim(
        "Appendix J, case 1", "Table 13", "Lowest coverage, highest accuracy: teacher feedback.", teacher_is_reversed
    ),
    Claim("Appendix J, case 2", "Table 14", "Methods that beat no skill cover less than half.", covers_less_than_half),
    Claim("Appendix J, case 3", "Table 15", "Skill creator is followed and still fails.", creator_follows_but_fails),
)
