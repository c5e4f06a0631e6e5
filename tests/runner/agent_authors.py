"""Plans and tools for authors that are agents: our shell loop,
asked on this side by a model behind a scripted server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from runner import protocols
from runner.base.types import Usage
from runner.engine.toolbox import Toolbox, toolbox_for
from runner.models.litellm.client import LiteLLM
from runner.protocols.conditions import find_condition
from runner.protocols.plan import EpisodePlan
from runner.suites.starter_suite import load_starter
from tests.providers.chat_provider import Provider
from tests.worlds.corpora import handbook_suite

LEARNING, FAMILY = "skilllearnbench", "E1-LS1"
KEY_VARIABLE, KEY = "TEST_PROVIDER_KEY", "key-of-the-test-0123456789"
SKILL = (
    "---\nname: tidy-tables\ndescription: Tidy tables. Use for tables with gaps.\n---\n\n# Tidy tables\n\n1. Sort.\n"
)
WRITE = {"path": "skills/tidy-tables/SKILL.md", "content": SKILL}


def learning_plan(condition: str = "one-shot", **changes: Any) -> EpisodePlan:
    units = protocols.units(LEARNING, load_starter())
    values: dict[str, Any] = {
        "episode": f"{FAMILY}-{condition}",
        "environment": next(unit for unit in units if unit.key == FAMILY),
        "condition": find_condition(condition, LEARNING),
        "run_seed": 7,
        "setup_digest": "0" * 64,
        "agent": "shell",
        "agent_model": "scripted/apprentice",
        "author_model": "scripted/apprentice",
        "author_agent": "shell",
        "protocol": LEARNING,
    }
    return EpisodePlan(**{**values, **changes})


def model(provider: Provider) -> LiteLLM:
    return LiteLLM(
        "litellm/openai/gpt-4.1-mini",
        sleep=lambda _: None,
        key_variable=KEY_VARIABLE,
        api_base=provider.url,
        timeout_seconds=10,
    )


def tools(plan: EpisodePlan, provider: Provider, **changes: Any) -> Toolbox:
    """Those of the plan, with the scripted server behind the author's model."""
    suite = load_starter() if plan.protocol == LEARNING else handbook_suite()
    return replace(toolbox_for(plan, suite), author_model=model(provider), **changes)


def calls_tool(provider: Provider, name: str, usage: tuple[int, int, int] = (100, 10, 5), **arguments: Any) -> None:
    """The server's next answer: one call of a tool of our shell loop."""
    read, cached, made = usage
    call = {"id": f"c{len(provider.answers)}", "type": "function"}
    provider.says(
        None,
        finish="tool_calls",
        usage={
            "prompt_tokens": read,
            "completion_tokens": made,
            "total_tokens": read + made,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
        tool_calls=[{**call, "function": {"name": name, "arguments": json.dumps(arguments)}}],
    )


def used(calls: int) -> Usage:
    """What so many of these answers used."""
    return Usage(100 * calls, 10 * calls, 5 * calls)
