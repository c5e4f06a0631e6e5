"""The cells of an experiment: what its runs have in common, and how they differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from benchapp.experiments.launch_spec import LaunchSpec
from benchapp.models import Run
from benchapp.record.json_shape import JsonShape, Shaped
from runner.agents import agent_title
from runner.base.errors import SetupError
from runner.models import is_generator
from runner.models.presets import read_preset_named
from runner.protocols.conditions import find_condition
from runner.protocols.prompt_choice import name_with_prompts

PUBLISHED_HARNESS = "preset"  # as an agent's name: the harness that the model's preset was published with


@dataclass(frozen=True, slots=True)
class Arm(Shaped):
    """A cell without its replicate: what an estimate or a comparison calls one line."""

    agent: str
    agent_model: str | None
    author_model: str | None  # of the experiment, even in conditions without an author
    condition: str
    author_agent: str | None = None  # likewise

    json_shape = JsonShape("condition", "agent", "agent_model", "author_agent?", "author_model")

    def __str__(self) -> str:
        models = " + ".join(name for name in (self.agent_model, self.author_model) if name)
        author = f" · {agent_title(self.author_agent)} as author" if self.author_agent else ""
        return f"{self.condition} · {self.agent}" + (f" · {models}" if models else "") + author


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of an experiment: an arm and its replicate."""

    arm: Arm
    replicate: int  # from 1
    seed: int

    def __str__(self) -> str:
        return f"{self.arm} · rep {self.replicate}"


def pairs_of(spec: LaunchSpec) -> Iterator[tuple[str, str | None]]:
    """Yield agent and model of every cell. Raise SetupError if "preset" meets a model that is not a preset."""
    for agent, model in product(spec.agents, spec.agent_models):
        yield (published_harness(model) if agent == PUBLISHED_HARNESS else agent), model


def authors_of(spec: LaunchSpec) -> Iterator[tuple[str | None, str | None]]:
    """Yield agent and model of every author."""
    for works, model in product(spec.author_agents, spec.author_models):
        if works is None or model is None or not is_generator(model):
            yield works, model


def published_harness(model: str | None) -> str:
    if model is None or "/" in model:
        raise SetupError(f"the agent 'preset' needs a preset as its agent model, not {model!r}")
    return read_preset_named(model).harness


def cells_of(spec: LaunchSpec) -> tuple[Cell, ...]:
    """Return every cell, with the replicates of an arm together (`benchapp.experiments.schedule` orders the work).

    With two authors, a condition without one runs once for each, as its control. Impossible pairs are left out: an
    outside program where a model must write, a model where a program must, and an agent that works for a program. A
    choice of prompts does not affect conditions that ask nobody: those run once for all choices.
    """
    arms = [
        _arm(spec, Arm(agent, model, author, condition, works))
        for (agent, model), (works, author), condition in product(
            pairs_of(spec), authors_of(spec), list_conditions(spec)
        )
        if find_condition(condition, spec.protocol).suits(author)
    ]
    return tuple(
        Cell(arm, replicate, spec.seed + replicate - 1)
        for arm in dict.fromkeys(arms)
        for replicate in range(1, spec.replicates + 1)
    )


def _arm(spec: LaunchSpec, arm: Arm) -> Arm:
    """Return the arm with the agent that its condition names, if any; such an agent asks no model."""
    agent = find_condition(arm.condition, spec.protocol).agent
    return replace(arm, agent=agent, agent_model=None) if agent else arm


def list_conditions(spec: LaunchSpec) -> tuple[str, ...]:
    """Return the conditions by name, each with every choice of prompts that changes it."""
    names = (name_with_prompts(name, choice, spec.protocol) for name, choice in product(spec.conditions, spec.prompts))
    return tuple(dict.fromkeys(names))


def cell_of(run: Run) -> Cell:
    """Return the cell as launched: its setup holds the author model even if no author works."""
    setup = run.setup
    arm = Arm(
        agent=setup["agent"]["name"],
        agent_model=setup["agent"]["model"],
        author_model=setup["author"]["model"],
        condition=run.condition,
        author_agent=setup["author"].get("agent", {}).get("name"),
    )
    return Cell(arm, run.replicate or 1, run.seed or 0)
