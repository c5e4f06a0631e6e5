"""The panels of charts that show one model each: the groups of one model in one harness of one experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchapp.models import Run
from benchapp.models.stand_ins import StandIn
from benchapp.stats.comparing.groups import Group, experiment_names


@dataclass(frozen=True, slots=True)
class ModelPanel:
    """`title` names it by the facts that differ between the arms. `rows`: what each group is called inside it."""

    title: str
    groups: tuple[Group, ...]
    rows: tuple[str, ...]

    def find(self, condition: str) -> Group | None:
        return next((group for group in self.groups if group.condition == condition), None)


def names_of(groups: Sequence[Group]) -> dict[tuple[object, ...], str]:
    """Short unique names of these groups for one panel, by the group's identity."""
    arms = arms_of(groups)
    return {
        group.identity: row if len(arms) == 1 else f"{row} · {arm.title}"
        for arm in arms
        for group, row in zip(arm.groups, arm.rows, strict=True)
    }


def arms_of(groups: Sequence[Group]) -> list[ModelPanel]:
    """In the order of `groups`. Give only the groups that are drawn: facts that all share are left out of titles."""
    members: dict[tuple[object, ...], list[Group]] = {}
    for group in groups:
        members.setdefault(group.arm, []).append(group)
    found = list(members.values())
    experiments = experiment_names(groups)
    facts = [
        (model_name(of[0]), *(("", "") if of[0].side else (of[0].harness, experiments[of[0].first.experiment_id])))
        for of in found
    ]
    titles = name_apart(facts)
    return [ModelPanel(title, tuple(of), _rows(of)) for title, of in zip(titles, found, strict=True)]


def name_apart(facts: Sequence[tuple[str, ...]]) -> list[str]:
    """Return a name for each: its first fact, and the others that differ between them; empty ones are left out."""
    places = [
        place for place in range(max(map(len, facts), default=0)) if place == 0 or len({of[place] for of in facts}) > 1
    ]
    return [" · ".join(filter(None, (of[place] for place in places))) for of in facts]


def model_name(group: Group) -> str:
    """As it is; a substitute for the models that people work with is marked as such."""
    name = (group.agent_model or "no model") if group.agent_model != Run.UNKNOWN else "model unknown"
    called = ", ".join(each for each in StandIn if each in group.stand_ins and each not in name)
    return f"{name} ({called})" if called else name


def _rows(groups: Sequence[Group]) -> tuple[str, ...]:
    """The condition, and the author model where one condition has several."""
    times = Counter(group.condition for group in groups)
    return tuple(
        f"{group.condition} · author {group.first.author or 'none'}" if times[group.condition] > 1 else group.condition
        for group in groups
    )
