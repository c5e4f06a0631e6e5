"""A small reviewed world whose every number can be worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.utils import timezone

from benchapp.models import Experiment, Queue, QueueItem, Trial, User
from tests.worlds.factories import (
    make_experiment,
    make_family,
    make_run,
    make_suite,
    make_trial,
    make_unordered_episode,
    make_user,
)
from tests.worlds.review_factories import make_code, make_item, make_review, make_version


@dataclass(frozen=True, slots=True)
class World:
    """Two conditions of six failed and six passed trials each. The queue holds all six failed ones of "memory" and
    three of the six of "no-skill", with two reviews wanted of each."""

    experiment: Experiment
    queue: Queue
    people: tuple[User, User]
    items: tuple[QueueItem, ...]  # six of memory, then three of no-skill


def make_reviewed_world(*, frozen: bool = True, **fields: object) -> World:
    """Nothing is reviewed yet. Codes: "skill" over "stale" and "misapplied"; and "tool"."""
    suite = make_suite()
    family = make_family(suite=suite, key="F1")
    experiment = make_experiment(suite=suite, origin=Experiment.Origin.IMPORTED)
    tasks = list(family.tasks.all())
    failed: dict[str, list[Trial]] = {}
    for condition in ("memory", "no-skill"):
        episode = make_unordered_episode(make_run(experiment, condition=condition, agent_model=f"model-{condition}"))
        for task in tasks:
            make_trial(episode, task, phase="evaluation", success=True, sample=1)
            failed.setdefault(condition, []).append(make_trial(episode, task, phase="evaluation", success=False))
    version = make_version((), frozen=False)
    top = make_code(version, "skill", ordinal=0)
    make_code(version, "stale", parent=top, ordinal=1)
    make_code(version, "misapplied", parent=top, ordinal=2)
    make_code(version, "tool", ordinal=3)
    if frozen:
        version.frozen_at = timezone.now()
        version.save()
    people = (make_user(level=User.Level.REVIEWER), make_user(level=User.Level.REVIEWER))
    queue = Queue.objects.create(
        version=version,
        name="Failures",
        population=f"experiment={experiment.public_id}&unit=trial&preset=failed",
        population_total=12,
        sampling=Queue.Sampling.STRATIFIED,
        strata="condition",
        reviews_per_item=2,
        **fields,
    )
    queue.reviewers.set(people)
    items = [make_item(queue, trial=trial, stratum="memory", inclusion=1.0) for trial in failed["memory"]]
    items += [make_item(queue, trial=trial, stratum="no-skill", inclusion=0.5) for trial in failed["no-skill"][:3]]
    return World(experiment, queue, people, tuple(items))


def draw_one_more(world: World) -> World:
    """The world with a tenth item, of "no-skill": enough for shares."""
    taken = world.queue.items.values("trial")
    trial = Trial.objects.filter(success=False).exclude(pk__in=taken).first()
    added = make_item(world.queue, trial=trial, stratum="no-skill", inclusion=0.5)
    return replace(world, items=(*world.items, added))


def say(world: World, place: int, *answers: list[str]) -> None:
    """The first answer is the first person's, the second the second's."""
    for person, codes in zip(world.people, answers, strict=False):
        make_review(world.items[place], person, codes)
