"""How far two workflows of one task agree, and what they share.

Steps are paired by label, each with at most one, so that as many edges as possible join paired steps in both (exact: a
workflow has at most 8 steps). With n and m for steps and edges of the two, p pairs and q edges in both:

    steps  2p / (n1 + n2)            F1 (Dice) of the steps
    edges  2q / (m1 + m2)            F1 of the edges; 1 if neither has any
    graph  2(p + q) / (n1 + n2 + m1 + m2)

`graph` is 1 - d / (n1 + n2 + m1 + m2). d is the graph edit distance: how many steps and edges have to be added or
removed to turn one into the other (a step with another label is one removed and one added). It is 1 exactly for two
workflows that only differ in grounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from runner.suites.workflows.workflow import MOST, Workflow


@dataclass(frozen=True, slots=True)
class WorkflowAgreement:
    """`pairs`: id in the one -> id in the other. `shared`: edges of the one that the other has too."""

    pairs: Mapping[str, str]
    shared: frozenset[tuple[str, str]]
    steps: float
    edges: float
    graph: float

    @property
    def is_same(self) -> bool:
        return self.graph == 1


@lru_cache(maxsize=1024)  # two workflows of eight equal labels take half a second
def compare_workflows(one: Workflow, other: Workflow) -> WorkflowAgreement:
    pairs = pair_steps(one, other)
    theirs = other.edges
    shared = frozenset((a, b) for a, b in one.edges if a in pairs and b in pairs and (pairs[a], pairs[b]) in theirs)
    steps = (2 * len(pairs), len(one.steps) + len(other.steps))
    edges = (2 * len(shared), len(one.edges) + len(other.edges))
    graph = (steps[0] + edges[0], steps[1] + edges[1])
    return WorkflowAgreement(pairs, shared, _share(*steps), _share(*edges), _share(*graph))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def pair_steps(one: Workflow, other: Workflow) -> dict[str, str]:
    """Return the pairs that keep most edges; among equals, the first in the order of steps.

    As many steps as possible are paired: one more pair never loses an edge.
    """
    search = _PairSearch(one, other)
    search.extend(0, {}, 0)
    return search.best


@dataclass(slots=True)
class _PairSearch:
    """Tries every way of pairing, and abandons one that cannot keep more edges than the best so far."""

    one: Workflow
    other: Workflow
    most: int = -1  # edges that the best keeps
    best: dict[str, str] = field(default_factory=dict)
    spare: Counter[str] = field(default_factory=Counter)  # unpaired steps of the one, by label
    mine: frozenset[tuple[str, str]] = frozenset()
    theirs: frozenset[tuple[str, str]] = frozenset()

    def __post_init__(self) -> None:
        if max(len(self.one.steps), len(self.other.steps)) > MOST:
            raise ValueError(f"expected at most {MOST} steps")
        self.mine, self.theirs = self.one.edges, self.other.edges
        self.spare = Counter(step.label for step in self.one.steps)
        self.spare.subtract(Counter(step.label for step in self.other.steps))

    def extend(self, place: int, pairs: dict[str, str], kept: int) -> None:
        """`pairs` for the steps before `place`; `kept` edges among them."""
        decided = {step.id for step in self.one.steps[:place]}
        open_edges = sum(not (a in decided and b in decided) for a, b in self.mine)
        if kept + open_edges <= self.most:
            return
        if place == len(self.one.steps):
            self.most, self.best = kept, dict(pairs)
            return
        step = self.one.steps[place]
        taken = set(pairs.values())
        for partner in (each.id for each in self.other.steps if each.label == step.label and each.id not in taken):
            won = self._count_won(step.id, partner, pairs)
            self.extend(place + 1, {**pairs, step.id: partner}, kept + won)
        if self.spare[step.label] > 0:
            self.spare[step.label] -= 1
            self.extend(place + 1, pairs, kept)
            self.spare[step.label] += 1

    def _count_won(self, step: str, partner: str, pairs: Mapping[str, str]) -> int:
        there = ((step, mine) in self.mine and (partner, theirs) in self.theirs for mine, theirs in pairs.items())
        back = ((mine, step) in self.mine and (theirs, partner) in self.theirs for mine, theirs in pairs.items())
        return sum(there) + sum(back)


def common_part(one: Workflow, other: Workflow) -> Workflow:
    """The paired steps and their common edges, in the words of the one."""
    agreement = compare_workflows(one, other)
    steps = (
        replace(step, needs=tuple(need for need in step.needs if (need, step.id) in agreement.shared))
        for step in one.steps
        if step.id in agreement.pairs
    )
    return Workflow(tuple(steps), tuple(kind for kind in one.varies if kind in other.varies))


def take_step(into: Workflow, source: Workflow, step_id: str) -> Workflow:
    """Add that step of `source` to `into`, with its edges to steps that have a partner in `into`."""
    partners = {theirs: mine for mine, theirs in pair_steps(into, source).items()}
    step, new = source.by_id[step_id], next_id(into)
    needs = tuple(partners[need] for need in step.needs if need in partners)
    later = {partners[b] for a, b in source.edges if a == step_id and b in partners}
    steps = [replace(each, needs=(*each.needs, new)) if each.id in later else each for each in into.steps]
    return replace(into, steps=(*steps, replace(step, id=new, needs=needs)))


def next_id(workflow: Workflow) -> str:
    taken = set(workflow.by_id)
    return next(name for number in range(1, len(taken) + 2) if (name := f"s{number}") not in taken)


# --- families ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Membership:
    """A task's workflow compared with its family's shared one. `adds`: steps and edges, by labels, that are not shared.
    `lacks`: unshared ones that more than half of the family's tasks have, and this one does not."""

    adds_steps: tuple[str, ...] = ()
    adds_edges: tuple[str, ...] = ()
    lacks_steps: tuple[str, ...] = ()
    lacks_edges: tuple[str, ...] = ()

    @property
    def has_same_steps(self) -> bool:
        return not (self.adds_steps or self.lacks_steps)

    @property
    def has_same_edges(self) -> bool:
        return not (self.adds_edges or self.lacks_edges)

    @property
    def holds(self) -> bool:
        return self.has_same_steps and self.has_same_edges


def shared_workflow(workflows: Sequence[Workflow]) -> Workflow:
    """The common part of all of them, found by going through them in their order, without grounding. Empty for none."""
    if not workflows:
        return Workflow()
    found = workflows[0]
    for each in workflows[1:]:
        found = common_part(found, each)
    return Workflow(tuple(replace(step, grounding="", why="") for step in found.steps))


def find_memberships(shared: Workflow, workflows: Sequence[Workflow]) -> list[Membership]:
    """Return one for each of the family's workflows."""
    steps = [_count_labels(each) - _count_labels(shared) for each in workflows]
    edges = [_count_joints(each) - _count_joints(shared) for each in workflows]
    return [
        Membership(
            *(tuple(sorted(each.elements())) for each in (more, joints, _usual(steps) - more, _usual(edges) - joints))
        )
        for more, joints in zip(steps, edges, strict=True)
    ]


def _usual(counts: Sequence[Counter[str]]) -> Counter[str]:
    """Those that more than half of them have."""
    having = Counter(name for each in counts for name in each)
    return Counter({name: 1 for name, times in having.items() if 2 * times > len(counts)})


def _count_labels(workflow: Workflow) -> Counter[str]:
    return Counter(step.label for step in workflow.steps)


def _count_joints(workflow: Workflow) -> Counter[str]:
    labels = {step.id: step.label for step in workflow.steps}
    return Counter(f"{labels[a]} → {labels[b]}" for a, b in workflow.edges)
