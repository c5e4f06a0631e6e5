"""The cards at the head of a run: its rates, in the words of the protocol that ran.

LSR, ESR and the others are SkillEvolBench's words, for its own tasks. Where a library is learned from a seed or generated from a
corpus the same phases hold something else: the seed is deployed too, and a task's samples are several trials of one task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchapp.stats.benchmarks import skillevolbench_metrics
from benchapp.stats.metrics.no_skill_sibling import BesideNoSkill
from benchapp.stats.metrics.rates import Rate

# metric key -> name and meaning, where a library is made first and tried afterwards.
_LEARNED_FIRST = {
    "LSR": ("while learning", "trials that the library was learned from, before its seal: no result of it"),
    "ESR": ("after the seal", "trials with the sealed library; what it was learned from may be among their tasks"),
}
LEARNED_FIRST = frozenset({"skilllearnbench", "skillgenbench", "skillgenbench-agnostic"})


@dataclass(frozen=True, slots=True)
class RateCard:
    key: str  # of the metric, in the record's twin
    short: str  # the paper's own letters, where it is the paper's metric
    name: str
    meaning: str
    rate: Rate | None
    beside: BesideNoSkill | None
    beside_word: str = ""  # what the sibling's number is, where it is not the same
    is_pooled: bool = False  # trials of one task, again and again: no independent draws, so they carry no interval
    note: str = ""


def cards_of(
    rates: Mapping[str, Rate], compared: Mapping[str, BesideNoSkill], protocols: frozenset[str], *, samples: int
) -> list[RateCard]:
    """`protocols`: of the run's episodes; "" where an import tells none. `samples`: the most that any
    task has after the seal."""
    if protocols and protocols <= LEARNED_FIRST:
        return list(_list_first_cards(rates, compared, samples > 1))
    has_roles = not protocols or not protocols.isdisjoint({"skillevolbench", ""})
    return [
        RateCard(
            metric.key,
            metric.key,
            metric.name,
            metric.meaning,
            rates.get(metric.key),
            found,
            _word(metric.phase, found),
        )
        for metric in skillevolbench_metrics.METRICS
        if metric.key in rates or has_roles
        for found in [compared.get(metric.key)]
    ]


def _list_first_cards(
    rates: Mapping[str, Rate], compared: Mapping[str, BesideNoSkill], pooled: bool
) -> Iterator[RateCard]:
    for key, (name, meaning) in _LEARNED_FIRST.items():
        if key in rates:
            repeats = key == "LSR" or pooled
            note = "" if key == "LSR" or not pooled else "trials, several of each task"
            yield RateCard(key, "", name, meaning, rates[key], compared.get(key), is_pooled=repeats, note=note)


def _word(phase: str | None, found: BesideNoSkill | None) -> str:
    """The reference of the replay rate is no-skill's first try at the same tasks."""
    return "LSR" if found is not None and found.phase != phase else ""
