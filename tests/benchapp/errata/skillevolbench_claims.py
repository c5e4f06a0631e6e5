"""What the text of SkillEvolBench says in words about cells of its tables: which run is better than which, and in what.

Source: SkillEvolBench, sections 5.3, 5.4 and 5.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from benchapp.papers.published_rows import Cells, PrintedNumber
from tests.benchapp.errata.checks import TracedErratum, WatchedCells, names_of
from tests.benchapp.errata.skillevolbench_runs import METRICS, PAPER, TABLES, by_table


@dataclass(frozen=True, slots=True)
class Claim:
    """The text says that `condition` is better or worse than `against` for this model, in each of these metrics."""

    section: str
    model: str
    condition: str
    better: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    against: str = "no-skill"


CLAIMS = (
    Claim("5.3", "Claude Opus 4.6", "selfgen-revision", ("LSR", "RSR"), ("ESR", "CSSR", "CompSR")),
    Claim("5.3", "Claude Sonnet 4.6", "selfgen-revision", ("LSR", "RSR", "CSSR", "CompSR"), ("ARSR",)),
    Claim("5.3", "GPT-5.2-Codex", "selfgen-always", (), ("ARSR",)),
    Claim("5.3", "GPT-5.4", "curated-always", ("ESR", "ARSR", "CompSR"), ("CSSR",)),
    Claim("5.3", "Gemini 3 Flash", "curated-always", ("CSSR", "CompSR"), ("ARSR",)),
    Claim("5.3", "GPT-5.4", "selfgen-revision", ("LSR", "RSR", "ARSR"), ("CompSR",)),
    Claim("5.3", "GPT-5.2-Codex", "selfgen-always", ("ESR", "CSSR"), against="selfgen-revision"),
    Claim("5.3", "Gemini 3.1 Pro", "selfgen-revision", ("LSR", "RSR")),
    Claim("5.3", "Gemini 3.1 Pro", "selfgen-always", (), ("LSR", "RSR"), against="selfgen-revision"),
    Claim("5.4", "Claude Opus 4.6", "selfgen-always-tier3", ("ESR",)),
    Claim("5.4", "Gemini 3.1 Pro", "curated-always-tier3", ("ESR",)),
    Claim("5.4", "GPT-5.4", "curated-always-tier3", (), ("ESR",), against="curated-always"),
    Claim("5.4", "GPT-5.4", "selfgen-always-tier3", (), ("ESR",), against="curated-always"),
    Claim("5.4", "Gemini 3 Flash", "selfgen-always-tier3", (), ("ESR",)),
    Claim("5.4", "Claude Sonnet 4.5", "selfgen-always-tier3", (), ("ESR",)),
)
MOST = (("5.3", "GPT-5.2-Codex", "selfgen-always"),)  # better than no-skill in more than half of the six metrics
SEVERAL = (("5.3", "Gemini 2.5 Pro", "selfgen-always", "selfgen-revision"),)  # in two deployment metrics at least
HIGHEST = (("5.4", "GPT-5.4", "curated-always"),)  # the model's highest ESR of all conditions of the tables


def broken_claims(cells: Cells) -> Iterator[TracedErratum]:
    """Claims that the cells do not bear out."""
    for claim in CLAIMS:
        for metric in claim.better + claim.worse:
            watched = WatchedCells(cells)
            difference = _difference(watched, claim.model, metric, claim.condition, claim.against)
            if (metric in claim.better and difference <= 0) or (metric in claim.worse and difference >= 0):
                said = "better" if metric in claim.better else "worse"
                sentence = f"Said to be {said} than {claim.against} in {metric}, which it is not."
                yield _broken(watched, claim.section, claim.model, claim.condition, said, difference, sentence)
    yield from _broken_counts(cells)
    for section, model, condition in HIGHEST:
        watched = WatchedCells(cells)
        rates = {row.condition: row.number for table in TABLES for row in watched.many(table, "ESR", model=model)}
        best = max(rates, key=lambda name: rates[name])
        if rates[best] > rates[condition]:
            sentence = f"Said to be the highest ESR of this model; {best} is higher."
            yield _broken(watched, section, model, condition, "highest ESR", rates[best] - rates[condition], sentence)


def _broken_counts(cells: Cells) -> Iterator[TracedErratum]:
    for section, model, condition in MOST:
        watched = WatchedCells(cells)
        gains = sum(_difference(watched, model, metric, condition, "no-skill") > 0 for metric in METRICS)
        if gains <= len(METRICS) / 2:
            sentence = f"Said to be better than no-skill in most metrics; it is in {gains} of {len(METRICS)}."
            yield _broken(watched, section, model, condition, "most metrics", Fraction(gains), sentence)
    for section, model, condition, against in SEVERAL:
        watched = WatchedCells(cells)
        gains = sum(_difference(watched, model, metric, condition, against) > 0 for metric in METRICS[2:])
        if gains < 2:
            sentence = f"Said to gain on {against} in several deployment metrics; it does in {gains}."
            yield _broken(watched, section, model, condition, "several metrics", Fraction(gains), sentence)


def _broken(
    watched: WatchedCells, section: str, model: str, condition: str, said: str, found: Fraction, sentence: str
) -> TracedErratum:
    place, recomputed = f"Section {section}, {model}, {condition}", f"{float(found):+.1f}"
    return TracedErratum(PAPER, "Text", place, said, recomputed, "text", sentence, names_of(watched.read))


def _difference(cells: Cells, model: str, metric: str, condition: str, against: str) -> Fraction:
    """Points. Against no-skill, which has no replay, RSR is held against LSR as the tables do."""
    own = _cell(cells, model, metric, condition)
    other = _cell(cells, model, "LSR" if metric == "RSR" and against == "no-skill" else metric, against)
    return own.number - other.number


def _cell(cells: Cells, model: str, metric: str, condition: str) -> PrintedNumber:
    found = by_table(cells, metric, condition, model)
    if found is None:
        raise LookupError(f"no {metric} of {model} under {condition} in {', '.join(TABLES)}")
    return found
