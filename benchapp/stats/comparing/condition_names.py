"""A reader's view of a condition: a plain name, and a mark that is the same on every page and in every chart.

The hue shows who wrote the first skill, step and shape when it is revised. A condition that no protocol here knows (an
import's own) keeps its code as its name and has no mark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from runner.base.errors import SetupError
from runner.base.text import plural
from runner.prompts.roles import say_choice
from runner.protocols.conditions import base_name, find_condition
from runner.protocols.probe import CONDITION as PROBE
from runner.protocols.qualification import NO_SKILL, REFERENCE, SOLUTION, TRAP, UNTOUCHED, WITH_CORPUS
from runner.protocols.registry import PROTOCOLS


class Origin(StrEnum):
    """Who wrote the first skill; the value is the name of its colours in static/css/tokens.css."""

    NOBODY = "none"
    TRACES = "raw"  # the agent sees earlier trials, and there is no skill
    HUMAN = "hum"
    MODEL = "own"


SEPARATOR = " · "  # between the parts of a label, the condition first
COUNTED = {"rounds": "round", "generation_tokens": "token", "seeds": "seed instance"}  # by a condition's parameter
SHAPES = ("circle", "triangle-up", "square", "diamond")  # of step 0..3; plotly's names
SHAPE_WORDS = ("never", "after failures", "after every task", "after every task, with files")


@dataclass(frozen=True, slots=True)
class ConditionName:
    """`short` is for a narrow place where the origin is clear. `step`, 0..3: colour within the hue, and shape. `order`:
    place in every list, the same everywhere and never by value; then the number behind "@"."""

    code: str
    title: str
    short: str
    origin: Origin | None = None
    step: int = 0
    own_shape: str = ""
    order: tuple[int, int] = (10_000, 0)

    @property
    def colour(self) -> str:
        """The part of `--c-own-3` after `--c-`; empty where there is no mark."""
        if self.origin in (None, Origin.NOBODY, Origin.TRACES):
            return self.origin or ""
        return f"{self.origin}-{self.step + 1}"

    @property
    def shape(self) -> str:
        return self.own_shape or SHAPES[self.step]


def _table(*rows: tuple[str, str, str, Origin, int], shapes: dict[str, str]) -> dict[str, ConditionName]:
    """Build the table. `shapes`: of conditions that share their step with another of their protocol."""
    return {row[0]: ConditionName(*row, shapes.get(row[0], ""), (place, 0)) for place, row in enumerate(rows)}


KNOWN = _table(
    ("no-skill", "No skill", "No skill", Origin.NOBODY, 0),
    ("raw-trajectory", "Raw traces", "Raw traces", Origin.TRACES, 0),
    ("history-context", "Raw traces, all", "All traces", Origin.TRACES, 0),
    ("curated-static", "Human-written, as is", "Human, as is", Origin.HUMAN, 0),
    ("human-authored", "Human-written, as is", "Human, as is", Origin.HUMAN, 0),
    ("old-skill", "Old skill", "Old skill", Origin.HUMAN, 0),
    ("with-skills", "With skills", "With skills", Origin.HUMAN, 0),
    ("reference-skill", "Human-written reference", "Reference", Origin.HUMAN, 0),
    ("curated-revision", "Human-written, fixed on failure", "Human, on failure", Origin.HUMAN, 1),
    ("curated-always", "Human-written, always revised", "Human, always", Origin.HUMAN, 2),
    ("curated-always-tier3", "Human-written, revised + files", "Human, with files", Origin.HUMAN, 3),
    ("selfgen-zero-shot", "Self-written, one shot", "Self, one shot", Origin.MODEL, 0),
    ("one-shot", "Self-written, one shot", "Self, one shot", Origin.MODEL, 0),
    ("naive-prompt", "Generated, one prompt", "One prompt", Origin.MODEL, 0),
    ("selfgen-revision", "Self-written, fixed on failure", "Self, on failure", Origin.MODEL, 1),
    ("self-feedback", "Self-written, own feedback", "Own feedback", Origin.MODEL, 1),
    ("iterative", "Generated, in rounds", "In rounds", Origin.MODEL, 1),
    ("selfgen-always", "Self-written, always revised", "Self, always", Origin.MODEL, 2),
    ("skill-evolution", "Self-written, always revised", "Self, always", Origin.MODEL, 2),
    ("teacher-feedback", "Self-written, teacher feedback", "Teacher feedback", Origin.MODEL, 2),
    ("from-trajectories", "Generated, from traces", "From traces", Origin.MODEL, 2),
    ("selfgen-always-tier3", "Self-written, revised + files", "Self, with files", Origin.MODEL, 3),
    ("cap-evolve", "cap-evolve, revised through a gate", "cap-evolve", Origin.MODEL, 2),
    ("darwin-skill", "darwin-skill, kept or taken back", "darwin-skill", Origin.MODEL, 2),
    ("gepa", "GEPA, evolved on scores", "GEPA", Origin.MODEL, 2),
    ("skillopt", "SkillOpt, revised through a gate", "SkillOpt", Origin.MODEL, 2),
    ("skillopt-sleep", "SkillOpt-Sleep, revised at night", "SkillOpt-Sleep", Origin.MODEL, 2),
    ("skill-creator", "Self-written, skill creator", "Skill creator", Origin.MODEL, 3),
    ("plug-in", "Generated, plug-in", "Plug-in", Origin.MODEL, 3),
    ("plug-in-trajectories", "Generated, plug-in with traces", "Plug-in, traces", Origin.MODEL, 3),
    shapes={"plug-in-trajectories": "triangle-down", "old-skill": "triangle-down"},
)

ITERATED = frozenset({"no-skill", "old-skill", "with-skills"})  # "with-skills@5b": in iteration 5b of an import


def drop_iteration(code: str) -> str:
    base = base_name(code)
    return base if base in ITERATED else code


def name_run(condition: str, replicate: int | None) -> str:
    """Return what distinguishes a run in its experiment: "Self-written, always revised, replicate 1"."""
    title = name_condition(condition).title
    is_named = "@" in condition and base_name(condition) in ITERATED  # then the replicate is the iteration's number
    return title if replicate is None or is_named else f"{title}, replicate {replicate}"


# These learn nothing, so they have no mark and come last.
UNPOOLED = {
    PROBE: ConditionName(PROBE, "Probe of a library", "Probe"),
    SOLUTION: ConditionName(SOLUTION, "Qualification: own solution", "Own solution"),
    UNTOUCHED: ConditionName(UNTOUCHED, "Qualification: untouched", "Untouched"),
    TRAP: ConditionName(TRAP, "Qualification: declared wrong answer", "Wrong answer"),
    NO_SKILL: ConditionName(NO_SKILL, "Qualification: no skill", "No skill, tried"),
    WITH_CORPUS: ConditionName(WITH_CORPUS, "Qualification: with the corpus", "With corpus"),
    REFERENCE: ConditionName(REFERENCE, "Qualification: reference skill", "Reference, tried"),
}


@lru_cache(maxsize=2_000)  # a page needs a few of them a hundred times
def name_condition(code: str) -> ConditionName:
    """Return the name of a run's condition: "self-feedback@4" is self-feedback with ", 4 rounds" behind its names, and
    "one-shot~paper" is one-shot with ", the paper's prompts"."""
    method, tilde, prompts = code.partition("~")
    if tilde and (words := _prompt_words(prompts)):
        known = name_condition(method)
        return replace(known, code=code, title=f"{known.title}, {words}", short=f"{known.short}, {words}")
    base = base_name(code)
    if base not in KNOWN:
        return UNPOOLED.get(base) or ConditionName(code, code, code)
    if base == code:
        return KNOWN[code]
    known, words, number = KNOWN[base], _parameter_words(code), re.match(r"\d{1,9}", code.partition("@")[2])
    order = (known.order[0], int(number[0]) if number else 0)
    return replace(known, code=code, title=f"{known.title}, {words}", short=f"{known.short}, {words}", order=order)


def say_label(label: str) -> str:
    """Replace the code in the label of a group or of a baseline by the short name of its condition."""
    code, mark, rest = label.partition(SEPARATOR)
    return f"{name_condition(code).short}{mark}{rest}"


def _prompt_words(choice: str) -> str:
    """Return the words for a choice of prompts, empty for anything else: imports name their conditions as they like."""
    try:
        return say_choice(choice)
    except SetupError:
        return ""


def _parameter_words(code: str) -> str:
    """Return the words for the number after "@": "4 rounds", "8,000 tokens", "3 seed instances". Without a protocol
    that uses it, the number itself; of imported skills it is their iteration."""
    base, _, value = code.partition("@")
    if base in ITERATED:
        return f"iteration {value}"
    for protocol in PROTOCOLS:
        try:
            parameter = find_condition(base, protocol).parameter
        except SetupError:
            continue
        if parameter and value.isdecimal():
            return plural(int(value), COUNTED[parameter])
    return value
