"""The memory conditions as values. CONDITIONS finds one by name.

Source: SkillEvolBench section 4.2 (starts), section 4.3 (triggers), section 5.2 (names), section 5.4 (tier-3).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from runner.errors import SetupError
from runner.types import AuthorMode, Role


class Start(StrEnum):
    """What a family's part of the library holds when its canonical task is reached."""

    NO_LIBRARY = "no library"
    EMPTY = "empty"
    CURATED = "curated"
    ZERO_SHOT = "zero-shot"


class Trigger(StrEnum):
    """When the author works after an acquisition trial that has a verdict."""

    NEVER = "never"
    FAILED = "failed"
    EVERY = "every"

    def fires(self, success: bool) -> bool:
        return self is Trigger.EVERY or (self is Trigger.FAILED and not success)


class Replay(StrEnum):
    """Whether the acquisition tasks run again after deployment. A placebo replays where nothing was learned."""

    YES = "yes"
    PLACEBO = "placebo"


@dataclass(frozen=True, slots=True)
class Condition:
    name: str
    start: Start
    canonical: Trigger = Trigger.NEVER  # after T1
    later: Trigger = Trigger.NEVER  # after T2 and T3
    replay: Replay = Replay.YES
    tier3_required: bool = False  # of revisions only
    retrieval_k: int = 0  # rough compactions of earlier trials shown to the agent

    @property
    def has_library(self) -> bool:
        return self.start is not Start.NO_LIBRARY

    @property
    def has_author(self) -> bool:
        return self.start is Start.ZERO_SHOT or self.canonical is not Trigger.NEVER or self.later is not Trigger.NEVER

    def trigger(self, role: Role) -> Trigger:
        return self.canonical if role is Role.CANONICAL else self.later

    def mode(self, role: Role) -> AuthorMode:
        """What the author is asked for after an acquisition trial of this role."""
        induces = self.start is Start.EMPTY and role is Role.CANONICAL
        return AuthorMode.INDUCE if induces else AuthorMode.REVISE


_ALL = (
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
CONDITIONS: dict[str, Condition] = {condition.name: condition for condition in _ALL}


def condition_named(name: str) -> Condition:
    """The condition of that name. SetupError names the known ones."""
    if name not in CONDITIONS:
        raise SetupError(f"unknown condition {name!r}; known: {', '.join(CONDITIONS)}")
    return CONDITIONS[name]
