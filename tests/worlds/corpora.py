"""A small corpus with tasks of the starter suite that turn on what it says: one family, two tasks that count,
one practice task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from runner import protocols
from runner.base.digests import digest_json, manifest
from runner.base.suite import Suite
from runner.base.types import Corpus, CorpusKind, Environment
from runner.protocols.conditions import find_condition
from runner.protocols.plan import EpisodePlan
from runner.suites.starter_suite import load_starter
from runner.suites.tasks.task_files import read_tree

HANDBOOK = Path(__file__).resolve().parents[1] / "fixtures" / "corpora" / "handbook"
FAMILY, RUN_SEED = "E1-LS1", 10
COUNTED, PRACTICE = ("E1-LS1-T4", "E1-LS1-T5"), "E1-LS1-T1"
CONDITIONED, AGNOSTIC = "skillgenbench", "skillgenbench-agnostic"


def handbook_suite(folder: Path = HANDBOOK) -> Suite:
    starter = load_starter()
    (environment,) = (each for each in starter.environments if any(family.key == FAMILY for family in each.families))
    family = environment.family(FAMILY)
    tasks = tuple(
        replace(task, environment="handbook", practice=task.key == PRACTICE)
        for task in family.tasks
        if task.key in (*COUNTED, PRACTICE)
    )
    corpus = Corpus(CorpusKind.DOMAIN_DOCUMENT, folder, digest_json(manifest(read_tree(folder))))
    changed = replace(
        environment, key="handbook", families=(replace(family, environment="handbook", tasks=tasks),), corpus=corpus
    )
    return replace(starter, key="handbook", environments=(changed,))


def unit_of(protocol: str, suite: Suite | None = None) -> Environment:
    """The first episode of the protocol."""
    return protocols.units(protocol, suite or handbook_suite())[0]


def plan_for(
    condition: str, protocol: str = CONDITIONED, unit: Environment | None = None, **changes: Any
) -> EpisodePlan:
    values: dict[str, Any] = {
        "environment": unit or unit_of(protocol),
        "condition": find_condition(condition, protocol),
        "run_seed": RUN_SEED,
        "setup_digest": "0" * 64,
        "agent": "shell",
        "agent_model": "scripted/apprentice",
        "author_model": "generator/outline" if condition.startswith("plug-in") else "scripted/apprentice",
        "protocol": protocol,
        "answers": 2,
        **changes,
    }
    return EpisodePlan(**{"episode": f"{values['environment'].key}-{condition}", **values})
