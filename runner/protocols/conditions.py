"""A memory condition as a value, and the conditions of SkillEvolBench. Every protocol has its own, under its own names.

Source of CONDITIONS: SkillEvolBench section 4.2 (starts), section 4.3 (triggers), section 5.2 (names), section 5.4
(tier-3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Literal, cast

from runner.authoring.occasion import FeedbackLevel
from runner.base.errors import SetupError
from runner.base.types import AuthorMode, CompactionKind, Phase, Role, TrialSlot
from runner.models import is_generator
from runner.prompts.roles import read_choice
from runner.protocols.registry import OFFERED, PROTOCOLS, protocol_module


class Start(StrEnum):
    """The content of a family's part of the library when its canonical task is reached."""

    NO_LIBRARY = "no library"
    EMPTY = "empty"
    CURATED = "curated"
    CORPUS = "corpus"  # the source material itself, for the agent to read
    ZERO_SHOT = "zero-shot"
    LEARNED = "learned"  # empty, and written by the author before the library is sealed


class Trigger(StrEnum):
    """When the author works after an acquisition trial that has a verdict."""

    NEVER = "never"
    FAILED = "failed"
    EVERY = "every"

    def fires(self, success: bool) -> bool:
        return self is Trigger.EVERY or (self is Trigger.FAILED and not success)


class Replay(StrEnum):
    """When the acquisition tasks run again after deployment. A placebo replays without anything learned."""

    YES = "yes"
    PLACEBO = "placebo"
    NEVER = "never"


EVERY_TRIAL = 10**6  # as retrieval_k: all earlier trials; the instruction limits how much of them is shown


@dataclass(frozen=True, slots=True)
class Condition:
    """One way to use a library, or none. Protocols read a condition's values, never its name."""

    name: str
    start: Start
    canonical: Trigger = Trigger.NEVER  # after a family's first task
    later: Trigger = Trigger.NEVER  # after the others that feed the author
    replay: Replay = Replay.YES
    tier3_required: bool = False  # of revisions only
    retrieval_k: int = 0  # earlier trials shown to the agent
    retrieved_as: CompactionKind = CompactionKind.ROUGH
    mode_at_start: AuthorMode | None = None  # of a learned library: the mode of its first answer
    tries_first: bool = False  # of a learned library: are tasks tried without skills before, for its author to see?
    rounds: int = 1  # of a learned library: how often it is written
    seeds: int = (
        1  # of a library learned from a family's own tasks: how many of them its author is shown, in their order
    )
    generation_tokens: int | None = None  # output tokens for all answers of one library; None: no total limit
    feedback: FeedbackLevel | None = None  # how much of a verdict the author sees; None: the run's level
    parameter: Literal["", "rounds", "generation_tokens", "seeds"] = ""  # what a number after "@" sets
    prompts: str = ""  # whose prompts an author is asked with (`runner.prompts.roles`); "": ours
    agent: str = ""  # agent of this condition, without a model, instead of the experiment's; "": the experiment's

    @property
    def has_library(self) -> bool:
        return self.start is not Start.NO_LIBRARY

    @property
    def has_author(self) -> bool:
        writes_first = self.start in (Start.ZERO_SHOT, Start.LEARNED)
        return writes_first or self.canonical is not Trigger.NEVER or self.later is not Trigger.NEVER

    def suits(self, author_model: str | None) -> bool:
        """Can this author write for it? A program suits only a condition that asks for one, a model only the others.

        Without an author, or before one is named, every condition is suitable.
        """
        if not self.has_author or author_model is None:
            return True
        return is_generator(author_model) == (self.mode_at_start is AuthorMode.OUTSIDE)

    def learns_from(self, phase: Phase) -> bool:
        """Do later trials learn from this phase? Then a trial skipped there taints the episode.

        From acquisition always, for any condition. From evaluation if an author works between two trials or the agent
        sees earlier ones.
        """
        if phase is Phase.EVALUATION:
            return self.has_author or self.retrieval_k > 0
        return phase is Phase.ACQUISITION

    def is_tainted_by(self, skipped: Iterable[TrialSlot]) -> bool:
        """Did an operator skip a trial that later ones should have learned from?"""
        return any(self.learns_from(slot.phase) for slot in skipped)

    def feeds(self, phase: Phase) -> bool:
        """Does a later step depend on how a trial of this phase ends, because an author is asked about it or a later
        agent sees it? If not, the other trials continue without it and it runs after them."""
        learns = self.start is Start.LEARNED or {self.canonical, self.later} != {Trigger.NEVER}
        return phase in (Phase.ACQUISITION, Phase.EVALUATION) and (learns or self.retrieval_k > 0)

    def trigger(self, role: Role) -> Trigger:
        return self.canonical if role is Role.CANONICAL else self.later

    def mode(self, role: Role) -> AuthorMode:
        """The mode of the author's answer after an acquisition trial of this role."""
        induces = self.start is Start.EMPTY and role is Role.CANONICAL
        return AuthorMode.INDUCE if induces else AuthorMode.REVISE


def conditions_by_name(*conditions: Condition) -> dict[str, Condition]:
    return {condition.name: condition for condition in conditions}


CONDITIONS = conditions_by_name(
    Condition("no-skill", Start.NO_LIBRARY, replay=Replay.PLACEBO),
    Condition("raw-trajectory", Start.NO_LIBRARY, retrieval_k=3),
    Condition("curated-static", Start.CURATED, replay=Replay.PLACEBO),
    Condition("curated-revision", Start.CURATED, Trigger.FAILED, Trigger.FAILED),
    Condition("curated-always", Start.CURATED, Trigger.EVERY, Trigger.EVERY),
    Condition("curated-always-tier3", Start.CURATED, Trigger.EVERY, Trigger.EVERY, tier3_required=True),
    Condition("selfgen-zero-shot", Start.ZERO_SHOT, replay=Replay.PLACEBO),
    Condition("selfgen-revision", Start.EMPTY, Trigger.EVERY, Trigger.FAILED),
    Condition("selfgen-always", Start.EMPTY, Trigger.EVERY, Trigger.EVERY),
    Condition("selfgen-always-tier3", Start.EMPTY, Trigger.EVERY, Trigger.EVERY, tier3_required=True),
)

MOST: Mapping[str, int] = {"rounds": 10, "generation_tokens": 10_000_000, "seeds": 10}
LEAST: Mapping[str, int] = {"rounds": 1, "generation_tokens": 100, "seeds": 1}


def conditions_of(protocol: str) -> Mapping[str, Condition]:
    """The protocol's conditions by name. SetupError names the known protocols."""
    return cast("Mapping[str, Condition]", protocol_module(protocol).CONDITIONS)


def find_condition(name: str, protocol: str = "skillevolbench") -> Condition:
    """The protocol's condition of that name. SetupError names the known ones.

    A method with a parameter may include its value: "self-feedback@4" has four rounds, "naive-prompt@8000" has 8,000
    tokens to write with, "one-shot@3" has three seed instances. After "~" comes the choice of its author's prompts, as
    in "selfgen-always~paper", from an experiment's `prompts`. It is then a condition of its own on every page.
    """
    method, tilde, prompts = name.partition("~")
    known = conditions_of(protocol)
    base, at, value = method.partition("@")
    if base not in known:
        raise SetupError(f"unknown condition {name!r} of {protocol}; known: {', '.join(known)}")
    found = _with_parameter(known[base], method, value) if at else known[base]
    return _with_prompts(found, name, prompts) if tilde else found


def base_name(name: str) -> str:
    """The method without its parameter: "naive-prompt" of "naive-prompt@8000",
    "naive-prompt~own" of "naive-prompt@8000~own"."""
    method, tilde, prompts = name.partition("~")
    return method.partition("@")[0] + tilde + prompts


def _with_prompts(condition: Condition, name: str, prompts: str) -> Condition:
    if not condition.has_author or condition.mode_at_start is AuthorMode.OUTSIDE:
        raise SetupError(f"{name!r}: no model writes under {condition.name} (expected no prompts)")
    read_choice(prompts)
    return replace(condition, name=name, prompts=prompts)


def _with_parameter(condition: Condition, name: str, value: str) -> Condition:
    what = condition.parameter
    if not what:
        raise SetupError(f"{name!r}: {condition.name} has no parameter (expected no '@')")
    number = int(value) if re.fullmatch(r"[1-9][0-9]{0,8}", value) else 0
    if not LEAST[what] <= number <= MOST[what]:
        expected = f"a whole number from {LEAST[what]:,} to {MOST[what]:,}"
        raise SetupError(f"{name!r}: expected {expected} behind '@' ({what.replace('_', ' ')})")
    changed = {what: number}
    return replace(condition, name=name, **changed)  # type: ignore[arg-type]


@cache
def count_seeds(name: str) -> int:
    """How many of a family's tasks a library under this condition is learned from: 3 of "one-shot@3", else 1.

    Read from the name alone, so that it works for the conditions of imported runs too.
    """
    method = name.partition("~")[0]
    base, at, value = method.partition("@")
    for protocol in PROTOCOLS if at else ():
        known = conditions_of(protocol).get(base)
        if known is not None and known.parameter == "seeds":
            with suppress(SetupError):
                return _with_parameter(known, method, value).seeds
    return 1


def conditions_without_library() -> frozenset[str]:
    """Names of conditions that have no library in any protocol."""
    every = [condition for protocol in PROTOCOLS for condition in conditions_of(protocol).values()]
    return frozenset(condition.name for condition in every if not condition.has_library)


@cache
def unpooled_conditions() -> frozenset[str]:
    """Names of conditions that compare nothing, those of probes and qualifications: their trials are never pooled
    with those that learned."""
    extra = [name for name in PROTOCOLS if name not in OFFERED]
    return frozenset(condition for name in extra for condition in conditions_of(name))


def condition_names() -> tuple[str, ...]:
    """Every condition name of any protocol, each once."""
    return tuple(dict.fromkeys(name for protocol in PROTOCOLS for name in conditions_of(protocol)))
