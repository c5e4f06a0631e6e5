"""A whole campaign as rows: runs over models and conditions, with libraries that evolve and trials that use them.

Every row could be a recorder's (`manage.py check_record` verifies that); only texts and outcomes are random.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count, product

from django.db import transaction

from benchapp.models import Episode, Experiment, Run, Suite
from benchapp.models.base import derived_id
from lab.synthesis.episode import EpisodeWriter, Quota
from lab.synthesis.suite import make_synthetic_suite
from runner.base.digests import digest_json

MODELS = ("aster-1", "birch-2", "cedar-3", "dune-4", "elm-5", "fjord-6", "grove-7", "heath-8", "iris-9", "juniper-10")
CONDITIONS = (  # a learner first, so that the smallest campaign has everything
    "selfgen-always",
    "no-skill",
    "raw-trajectory",
    "curated-static",
    "curated-revision",
    "curated-always",
    "selfgen-zero-shot",
    "selfgen-revision",
    "selfgen-always-tier3",
)
LEARNERS = frozenset(CONDITIONS) - {"no-skill", "raw-trajectory", "curated-static", "selfgen-zero-shot"}
START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)


class AlreadyThere(Exception):
    """The same campaign was written before."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows a campaign has. Steps are those of all trajectories."""

    trials: int = 50_000
    steps: int = 3_000_000
    decisions: int = 27_000


def write_campaign(size: Size, *, seed: int = 1, progress: Callable[[int], None] = lambda done: None) -> Experiment:
    """Write exactly `size` and return the experiment. One transaction per run; `progress` gets the trials done so far.

    AlreadyThere when there is one of the same size and seed.
    """
    ident = derived_id("synthetic", str(seed), repr(size))
    if Experiment.objects.filter(public_id=ident).exists():
        raise AlreadyThere(f"a campaign of this size and seed is here already: {ident}")
    suite = make_synthetic_suite()
    name = f"Synthetic campaign, seed {seed}, {size.trials:,} trials"
    experiment = Experiment.objects.create(
        public_id=ident,
        name=name,
        origin=Experiment.Origin.SYNTHETIC,
        suite=suite,
        status=Experiment.Status.DONE,
        started_at=START,
        finished_at=START + timedelta(days=9),
    )
    done = 0
    for place, (plan, quota) in enumerate(_plan_cells(size)):
        with transaction.atomic():
            run = _create_run(experiment, plan, seed, place)
            _create_episodes(run, suite, quota, random.Random(f"{seed}:{place}"), START + timedelta(hours=place % 200))
        done += quota.trials
        progress(done)
    return experiment


@dataclass(frozen=True, slots=True)
class _CampaignPlan:
    """One run of the campaign: a cell of its experiment."""

    model: str
    condition: str
    replicate: int


def _plan_cells(size: Size) -> Iterator[tuple[_CampaignPlan, Quota]]:
    """Yield cells of the campaign with the size of each, so that the totals are exact."""
    cells = _list_cells(size.trials)
    learners = [plan for plan, _ in cells if plan.condition in LEARNERS]
    total = sum(trials for _, trials in cells)
    steps_left, trials_left, decisions_left, learners_left = size.steps, total, size.decisions, len(learners)
    for plan, trials in cells:
        steps = round(steps_left * trials / trials_left)
        decisions = round(decisions_left / learners_left) if plan.condition in LEARNERS else 0
        yield plan, Quota(trials, steps, decisions)
        steps_left, trials_left, decisions_left = steps_left - steps, trials_left - trials, decisions_left - decisions
        learners_left -= plan.condition in LEARNERS


def _list_cells(trials: int) -> list[tuple[_CampaignPlan, int]]:
    """Return (cell, trials): 180 each without learning, 270 with replay; the last one takes the rest."""
    cells: list[tuple[_CampaignPlan, int]] = []
    for replicate in count(1):
        for model, condition in product(MODELS, CONDITIONS):
            full = 270 if condition in LEARNERS or condition == "raw-trajectory" else 180
            cells.append((_CampaignPlan(model, condition, replicate), min(full, trials)))
            trials -= min(full, trials)
            if not trials:
                return cells
    raise AssertionError("count() does not end")


def _create_run(experiment: Experiment, plan: _CampaignPlan, seed: int, place: int) -> Run:
    setup = {"synthetic": True, "agent": {"name": "synthetic", "model": f"synthetic/{plan.model}"}}
    return Run.objects.create(
        public_id=derived_id(str(experiment.public_id), str(place)),
        experiment=experiment,
        condition=plan.condition,
        replicate=plan.replicate,
        harness="synthetic",
        agent_model=f"synthetic/{plan.model}",
        author_model=f"synthetic/{plan.model}" if plan.condition in LEARNERS else "",
        scripted=True,
        status=Run.Status.DONE,
        seed=seed,
        setup=setup,
        setup_digest=digest_json(setup),
    )


def _create_episodes(run: Run, suite: Suite, quota: Quota, dice: random.Random, at: datetime) -> None:
    environments = list(suite.environments.all())
    shares = list(quota.shares(len(environments)))
    for environment, share in zip(environments, shares, strict=True):
        episode = Episode.objects.create(
            run=run,
            environment=environment,
            key=environment.key,
            title=environment.name,
            ordinal=environment.ordinal,
            protocol="skillevolbench",
            status=Episode.Status.DONE,
        )
        EpisodeWriter(episode, environment, share, dice).write(at)
