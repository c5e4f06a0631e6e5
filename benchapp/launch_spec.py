"""What a person launches, checked at the edge: every error names the field and what was expected."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner.agents import Limits
from runner.authoring.occasion import FeedbackLevel, Profile
from runner.errors import SetupError

DEFAULTS = Limits()


class LimitsSpec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    max_turns: int = Field(DEFAULTS.max_turns, ge=1, le=1_000)
    max_output_tokens: int = Field(DEFAULTS.max_output_tokens, ge=1)
    timeout_seconds: float | None = Field(DEFAULTS.timeout_seconds, gt=0)


class LaunchSpec(BaseModel):
    """One experiment: conditions x replicates over the environments of a suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=300)
    key: str = ""  # launching a key again gives the experiment that has it
    suite: str
    environments: tuple[str, ...] = ()  # empty: all
    protocol: str = "skillevolbench"
    conditions: tuple[str, ...] = Field(min_length=1)
    replicates: int = Field(1, ge=1, le=100)
    seed: int = Field(0, ge=0, lt=2**62)  # replicate r runs with seed + r - 1, in every condition
    agent: str = "shell"
    agent_model: str | None = None
    author_model: str | None = None
    sandbox: str = "local"
    feedback: FeedbackLevel = "process"
    profile: Profile = "paper"
    answers: int = Field(1, ge=1, le=10)
    samples: int = Field(1, ge=1, le=100)
    placebo_replay: bool = False
    limits: LimitsSpec = LimitsSpec()


def read_spec(value: dict[str, Any]) -> LaunchSpec:
    """SetupError lists every field that is not as expected."""
    try:
        return LaunchSpec.model_validate(value)
    except ValidationError as error:
        places = [
            f"{'.'.join(map(str, problem['loc'])) or 'the whole'}: {problem['msg']}"
            for problem in error.errors(include_url=False)
        ]
        raise SetupError("the experiment cannot be launched: " + "; ".join(places)) from None
