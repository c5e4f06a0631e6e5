"""Compare a release's folder with SkillLearnBench's numbers. Explain differences where a reason can be computed.

Source: arXiv 2604.20087, Table 5 (patterns), Figure 3 (skills per task), over six models and twenty tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from benchapp.papers.printed_cells import Cells, counts_make, find_count, rounds_to
from benchapp.papers.published_rows import PrintedNumber, count_decimals
from benchapp.papers.released.examined_tally import Tally
from benchapp.papers.skilllearnbench import METHODS, MODELS, REFERENCES, TASKS


@dataclass(frozen=True, slots=True)
class Beside:
    """`printed` as in the paper, `here` and `difference` with one digit more; `why` empty where they agree."""

    method: str
    what: str
    printed: str
    here: str
    difference: str
    why: str


def count_paper_libraries(method: str) -> int:
    """Return the number of libraries behind the paper's numbers."""
    return TASKS * (len(MODELS) if method in METHODS else 1)


def compare_with_paper(tallies: Sequence[Tally], cells: Cells) -> Iterator[Beside]:
    """Compare every method that the paper has. A method of another name has no lines."""
    for tally in tallies:
        if tally.name in (*METHODS, *REFERENCES) and tally.skills:
            yield _compare_skills_per_task(tally, cells.one("Figure 3", "skills", condition=tally.name))
            yield from _compare_patterns(tally, cells)


def _compare_skills_per_task(tally: Tally, cell: PrintedNumber) -> Beside:
    here = Fraction(tally.skills, tally.libraries)
    wanted = count_paper_libraries(tally.name)
    why = ""
    if tally.libraries != wanted:
        why = _describe_coverage(tally)
    elif not rounds_to(here, cell):
        why = f"printed {cell.printed} x {wanted} is {round(cell.number * wanted)} skills, {tally.skills} are here"
    return _compare(tally, "skills per task", cell, here, why)


def _compare_patterns(tally: Tally, cells: Cells) -> Iterator[Beside]:
    shares = {letter: cells.one("Table 5", f"pattern_{letter.lower()}", condition=tally.name) for letter in "ABC"}
    for letter, cell in shares.items():
        here = Fraction(100 * tally.patterns[letter], tally.skills)
        why = "" if rounds_to(here, cell) else _explain(tally, letter, cell, list(shares.values()))
        yield _compare(tally, f"pattern {letter}, %", cell, here, why)


def _explain(tally: Tally, letter: str, cell: PrintedNumber, shares: Sequence[PrintedNumber]) -> str:
    reasons = []
    printed = find_count(cell, tally.skills)
    wanted = count_paper_libraries(tally.name)
    if tally.libraries != wanted:
        reasons.append(f"{_describe_coverage(tally)}, one skill is {100 / tally.skills:.1f} points")
    elif printed is None or not counts_make(shares, tally.skills):
        fitting = [n for n in range(1, 2 * tally.skills + 10) if counts_make(shares, n)]
        nearest = min(fitting, key=lambda n: abs(n - tally.skills), default=None)
        told = f"; {nearest} skills would ({_list_counts(shares, nearest)})" if nearest else ""
        reasons.append(f"no counts of the {tally.skills} skills here give the row{told}")
    else:
        reasons.append(f"printed is {printed} of {tally.skills}, here {tally.patterns[letter]}")
    if letter == "B" and tally.count_copied_with_code():
        reasons.append(f"{tally.count_copied_with_code()} of {tally.patterns['B']} are copies of a human skill")
    if letter == "B" and tally.count_code_elsewhere():
        reasons.append(f"{tally.count_code_elsewhere()} of {tally.patterns['B']} have code but no scripts/ folder")
    return "; ".join(reasons)


def _describe_coverage(tally: Tally) -> str:
    models = f", by {len(tally.models)} of {len(MODELS)} models" if tally.name in METHODS else ""
    return f"{tally.libraries} of {count_paper_libraries(tally.name)} libraries are here{models}"


def _list_counts(shares: Sequence[PrintedNumber], n: int) -> str:
    return "/".join(str(find_count(share, n)) for share in shares)


def _compare(tally: Tally, what: str, cell: PrintedNumber, here: Fraction, why: str) -> Beside:
    places = count_decimals(cell.printed) + 1
    difference = f"{float(here - cell.number):+.{places}f}"
    return Beside(tally.name, what, cell.printed, f"{float(here):.{places}f}", difference, why)
