"""What a launch fixes. Its digest is the setup digest: equal digests mean that two runs may be compared.

The memory condition, the seed and the replicate are what an experiment varies on purpose. They are recorded next to the
setup, not in it. The names of agent, agent model and author model are part of it, so a comparison across them names
them as what differs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from runner import protocols
from runner.agents import Limits, make_agent
from runner.agents.oracle import Trap, digest_traps
from runner.authoring.agent_prompts import AGENT_PROMPT_VERSION
from runner.authoring.contract.contract import CONTRACT_VERSION
from runner.authoring.occasion import FeedbackLevel, Profile
from runner.base.digests import digest_json
from runner.base.encoding import encode
from runner.base.suite import Suite
from runner.base.types import JsonValue
from runner.evaluating.judged_artifact import PROMPT_VERSION as JUDGE_PROMPT_VERSION
from runner.models import make_model
from runner.models.preset import Preset
from runner.protocols.instruction import INSTRUCTION_VERSION, Notice
from runner.protocols.plan import AUTHOR_LIMITS, AUTHOR_SAMPLING, AuthorSampling
from runner.trajectories.compaction import COMPACTION_VERSION

SETUP_FORMAT = "setup/2"


def describe_setup(
    suite: Suite,
    *,
    protocol: str,
    agent: str,
    agent_model: str | None,
    author_model: str | None,
    sandbox: str,
    feedback: FeedbackLevel,
    profile: Profile,
    answers: int,
    samples: int,
    limits: Limits,
    judge_model: str | None = None,
    prompts: Mapping[str, JsonValue] | None = None,
    author_agent: str | None = None,
    author_limits: Limits = AUTHOR_LIMITS,
    author_sampling: AuthorSampling = AUTHOR_SAMPLING,
    tasks: Collection[str] = (),
    notice: Notice = "ours",
) -> dict[str, JsonValue]:
    """The setup as JSON values, for people and for `setup_digest`. The suite's digest covers tasks and verifiers.

    A judge, prompts of packs (`describe_prompts`), an author's agent, declared wrong answers, chosen tasks and a notice
    other than ours are named only if they are used, so that setups from before these keep their digest.
    """
    judge = {} if judge_model is None else {"judge": {**_model(judge_model), "prompt": JUDGE_PROMPT_VERSION}}
    return {
        "format": SETUP_FORMAT,
        "suite": {"key": suite.key, "version": suite.version, "digest": suite.digest},
        "protocol": protocol,
        "agent": {"name": agent, "version": make_agent(agent).version, **_model(agent_model)},
        "author": {
            **_model(author_model),
            "feedback": feedback,
            "profile": profile,
            "answers": answers,
            **({} if author_agent is None else {"agent": _author_agent(author_agent, author_limits)}),
        },
        "sampling": {
            "author_temperature": author_sampling.temperature,
            "author_max_tokens": author_sampling.max_tokens,
        },
        # The local sandbox uses the host's own programs (its Python) instead of an image. They are left out on purpose:
        # workers on machines that differ slightly would refuse to continue each other's runs.
        "sandbox": {"name": sandbox, "image": None},  # the local sandbox has none
        "samples": samples,
        "limits": _limits(limits),
        "versions": {
            "compaction": COMPACTION_VERSION,
            "contract": CONTRACT_VERSION,
            "instruction": INSTRUCTION_VERSION,
            "prompts": protocols.prompt_version(protocol),
        },
        **judge,
        **({"prompts": dict(prompts)} if prompts else {}),
        **({"traps": digest_traps(suite)} if agent == Trap.name else {}),
        **({} if notice == "ours" else {"notice": notice}),
        **({"tasks": digest_json(sorted(tasks))} if tasks else {}),
    }


def _author_agent(name: str, limits: Limits) -> dict[str, JsonValue]:
    prompts = AGENT_PROMPT_VERSION
    return {"name": name, "version": make_agent(name).version, "limits": _limits(limits), "prompts": prompts}


def _limits(limits: Limits) -> dict[str, JsonValue]:
    return {name: value for name, value in encode(limits).items() if name != "type"}


def _model(name: str | None) -> dict[str, JsonValue]:
    """Include a preset's whole content: it belongs to the setup. SetupError for an unknown provider."""
    model = None if name is None else make_model(name)
    described: dict[str, JsonValue] = {"model": name, "model_version": None if model is None else model.version}
    return (
        described if model is None or model.preset is None else {**described, "preset": describe_preset(model.preset)}
    )


def describe_preset(preset: Preset) -> dict[str, JsonValue]:
    """Return the preset as JSON values, without a missing price for cache writes, so that older setups keep their
    digest, and without the results of a test."""
    described: dict[str, JsonValue] = encode(preset)
    del described["lacks"]
    prices = described["prices"]
    if isinstance(prices, dict) and prices["written"] is None:
        del prices["written"]
    return described


def setup_digest(setup: dict[str, JsonValue]) -> str:
    return digest_json(setup)
