"""What does not add up in the numbers that the running text of SkillGenBench prints, and in its public numbers of
tasks.

The cells of its tables are not in our copy of the text, so nothing is said about them.
Source: arXiv 2605.18693v1, sections 3 and 4, appendices A, B and F. pass@3: solved in at least one of three trials.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import sqrt

from benchapp.papers.published_rows import Cells, PrintedNumber, find_count, rounds_to
from tests.benchapp.errata.checks import TracedErratum, count_findings, erratum, names_of

PAPER = "skillgenbench"
TEXT = "Text"
SOURCES = ("Code Repo", "Code Doc", "Domain Knowledge Doc")
FIGURE = "Figure 3"
SOURCES_OF_RATES = {"Code": SOURCES[:1], "Doc": SOURCES[1:]}  # what the rates of section 4.2 are over
BACKBONES = 6
Z_95 = 1.96


def skillgenbench_findings(rows: Iterable[PrintedNumber]) -> list[TracedErratum]:
    """Every contradiction of the text with itself."""
    own = [row for row in rows if row.paper == PAPER]
    cells = Cells(own)
    checks = (
        tasks_of_sources,
        averages_of_sources,
        ends_of_bands,
        acceptance,
        failure_shares,
        best_on_average,
        bands,
        plateaus,
        saturation,
        output_limit,
        half_width,
    )
    return [*count_findings(own), *(finding for check in checks for finding in check(cells))]


def tasks_of_sources(cells: Cells) -> Iterator[TracedErratum]:
    """The tasks of the three sources are those of the suite."""
    parts, whole = [cells.one(FIGURE, "tasks", group=source) for source in SOURCES], cells.one(TEXT, "tasks")
    total = sum(part.number for part in parts)
    if total != whole.number:
        yield erratum(whole, str(total), "sum", "The three sources have another number of tasks together.", *parts)


def averages_of_sources(cells: Cells) -> Iterator[TracedErratum]:
    """A mean of six backbones over Code or Doc is k of six times its tasks."""
    for group, sources in SOURCES_OF_RATES.items():
        n = BACKBONES * sum(int(cells.one(FIGURE, "tasks", group=source).number) for source in sources)
        for metric in ("pass@3", "pass@3_lowest", "pass@3_highest"):
            for cell in cells.many(TEXT, metric, group=group):
                if find_count(cell, n) is None:
                    yield erratum(cell, "", "no k of n", f"No count of {BACKBONES} x {n // BACKBONES} tasks gives it.")


def ends_of_bands(cells: Cells) -> Iterator[TracedErratum]:
    """The lowest and highest rate over the whole suite are k of 187, whichever backbone has them."""
    n = int(cells.one(TEXT, "tasks").number)
    for metric in ("pass@3_lowest", "pass@3_highest"):
        for cell in cells.many(TEXT, metric, group=""):
            if find_count(cell, n) is None:
                yield erratum(cell, "", "no k of n", f"No count of {n} tasks has this rate.")


def acceptance(cells: Cells) -> Iterator[TracedErratum]:
    kept, seen, share = (cells.one(TEXT, metric) for metric in ("retained", "candidates", "acceptance"))
    exact = Fraction(100 * int(kept.number), int(seen.number))
    if not rounds_to(exact, share):
        yield erratum(
            share, f"{float(exact):.1f}", "share", f"{kept.printed} of {seen.printed} is another share.", kept, seen
        )
    tasks = cells.one(TEXT, "tasks")
    if kept.number != tasks.number:
        yield erratum(kept, tasks.printed, "table against table", "The suite has another number of tasks.", tasks)


def failure_shares(cells: Cells) -> Iterator[TracedErratum]:
    """Some total must give all shares of a source; where the shares make 100 it is the sum of the counts."""
    for source in SOURCES:
        shares = cells.many(TEXT, "failure_share", group=source)
        counts = [int(cells.one(TEXT, "failures", group=source, row=share.row).number) for share in shares]
        if not possible_totals(counts, shares):
            told = " / ".join(share.printed for share in shares)
            sentence = f"No total gives these shares to {', '.join(map(str, counts))} failures."
            yield TracedErratum(PAPER, TEXT, f"Section 4.4, {source}", told, "", "share", sentence, names_of(shares))


def possible_totals(counts: list[int], shares: list[PrintedNumber]) -> range:
    """Totals of failures for which every count has the share printed beside it; empty where there is none."""
    fits = [
        total
        for total in range(sum(counts), 2 * sum(counts) + 1)
        if all(rounds_to(Fraction(100 * k, total), share) for k, share in zip(counts, shares, strict=True))
    ]
    return range(fits[0], fits[-1] + 1) if fits else range(0)


def best_on_average(cells: Cells) -> Iterator[TracedErratum]:
    """SkillSeekers is called best on average, so its averages are the upper ends of the ranges."""
    for group in ("Code", "Doc"):
        own = cells.one(TEXT, "pass@3", group=group, condition="SkillSeekers")
        top = cells.one(TEXT, "pass@3_highest", group=group)
        if own.printed != top.printed:
            yield erratum(
                own, top.printed, "text", "It is called the best on average, but the range ends elsewhere.", top
            )


def bands(cells: Cells) -> Iterator[TracedErratum]:
    """SkillSeekers' printed rate is within its band, and the band reaches EvoSkill's on GPT-5, where SkillSeekers
    leads."""
    low, high = (cells.one(TEXT, f"pass@3_{end}", condition="SkillSeekers") for end in ("lowest", "highest"))
    for cell in cells.many(TEXT, "pass@3", condition="SkillSeekers", group=""):
        if not low.number <= cell.number <= high.number:
            yield erratum(
                cell,
                f"{low.printed} to {high.printed}",
                "text",
                "It lies outside the band of its generator.",
                low,
                high,
            )
    rival = cells.one(TEXT, "pass@3", model="GPT-5", condition="EvoSkill")
    if rival.number > high.number:
        sentence = "SkillSeekers is said to lead on GPT-5, but its band ends lower."
        yield erratum(rival, high.printed, "text", sentence, high)


def plateaus(cells: Cells) -> Iterator[TracedErratum]:
    """Rates printed for single generators against the plateau given for their backbone."""
    for cell in cells.many(TEXT, "pass@3", group=""):
        low = cells.many(TEXT, "pass@3_plateau_lowest", model=cell.model)
        high = cells.many(TEXT, "pass@3_plateau_highest", model=cell.model)
        if low and high and not low[0].number <= cell.number <= high[0].number:
            others = (low[0], high[0])
            sentence = "It lies outside the plateau that Appendix A.2 gives, roughly, for this backbone."
            yield erratum(cell, f"{low[0].printed} to {high[0].printed}", "loose wording", sentence, *others)


def saturation(cells: Cells) -> Iterator[TracedErratum]:
    """Two places say up to which budget more tokens help."""
    ends = cells.one(TEXT, "budget_gain_ends_to")
    steep, flat = cells.one(TEXT, "budget_steep_to_to"), cells.one(TEXT, "budget_flat_from")
    if ends.number > flat.number:
        sentence = f"Appendix A.2 sees a steep rise to {steep.printed}K only and a flat line from {flat.printed}K on."
        others = (steep, flat)
        yield erratum(ends, flat.printed, "loose wording", sentence, *others)


def output_limit(cells: Cells) -> Iterator[TracedErratum]:
    """A sweep beyond the configured number of output tokens needs another meaning of one of the two."""
    limit, top = cells.one(TEXT, "max_output_tokens"), cells.one(TEXT, "budget_highest")
    if top.number * 1000 > limit.number:
        sentence = f"The sweep goes to {top.printed}K; whether this limit holds per reply or was lifted is not said."
        yield erratum(limit, f"{top.printed}K", "unclear", sentence, top)


def half_width(cells: Cells) -> Iterator[TracedErratum]:
    """The half-width of a 95 % interval for the extreme printed rates at 187 tasks (normal approximation),
    to a point."""
    told, tasks = cells.one(TEXT, "pass@3_half_width"), int(cells.one(TEXT, "tasks").number)
    shares = [
        cell.number / 100 for metric in ("pass@3", "pass@3_highest") for cell in cells.many(TEXT, metric, group="")
    ]
    widths = [100 * Z_95 * sqrt(share * (1 - share) / tasks) for share in (min(shares), max(shares))]
    if any(abs(width - float(told.number)) > 1 for width in widths):
        yield erratum(
            told, f"{widths[0]:.1f} to {widths[1]:.1f}", "interval", "The printed rates have other half-widths."
        )
