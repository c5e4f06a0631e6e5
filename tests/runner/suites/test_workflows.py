"""Workflows: their rules, how two of them agree (against networkx), what a family shares, and their file."""

from __future__ import annotations

import random
from dataclasses import replace

import networkx
import pytest

from runner.base.errors import SuiteProblems
from runner.suites.workflows.workflow import (
    LABELS,
    VARIATIONS,
    Workflow,
    WorkflowStep,
    check_workflow,
    from_plain,
    list_problems,
    to_plain,
)
from runner.suites.workflows.workflow_comparison import (
    common_part,
    compare_workflows,
    find_memberships,
    pair_steps,
    shared_workflow,
    take_step,
)
from runner.suites.workflows.workflow_file import FORMAT, FiledWorkflow, read_workflows, write_workflows
from tests.cases import every
from tests.worlds.workflow_worlds import draw

CHAIN = draw("read extract normalize align compute output")
# Another person's: two reads that meet in align, no normalize, a validate before the output.
FORKED = draw("read:a read:b extract<a align<b,extract compute validate output")


def as_networkx(workflow: Workflow) -> networkx.DiGraph:
    graph = networkx.DiGraph()
    graph.add_nodes_from((step.id, {"label": step.label}) for step in workflow.steps)
    graph.add_edges_from(workflow.edges)
    return graph


def edit_distance(one: Workflow, other: Workflow) -> float:
    """By networkx. A label is never changed: that costs more than taking all of both graphs away."""
    return networkx.graph_edit_distance(
        as_networkx(one),
        as_networkx(other),
        node_subst_cost=lambda a, b: 0 if a["label"] == b["label"] else 1000,
        node_del_cost=lambda _: 1,
        node_ins_cost=lambda _: 1,
        edge_subst_cost=lambda _, __: 0,
        edge_del_cost=lambda _: 1,
        edge_ins_cost=lambda _: 1,
    )


def test_two_annotations_counted_by_hand() -> None:
    """CHAIN: 6 steps, 5 edges. FORKED: 7 steps, 6 edges. Five steps find a partner: read, extract, align, compute,
    output. Of the edges, read - extract and align - compute are in both."""
    found = compare_workflows(CHAIN, FORKED)
    assert found.pairs == {
        "read": "a",
        "extract": "extract",
        "align": "align",
        "compute": "compute",
        "output": "output",
    }
    assert found.shared == {("read", "extract"), ("align", "compute")}
    assert found.steps == pytest.approx(10 / 13)
    assert found.edges == pytest.approx(4 / 11)
    assert found.graph == pytest.approx(14 / 24)
    # 1 + 2 steps and 3 + 4 edges stand in one alone
    assert edit_distance(CHAIN, FORKED) == 10
    assert found.graph == pytest.approx(1 - 10 / 24)


def test_the_partner_is_the_one_that_keeps_edges() -> None:
    """Both reads of the other could be the partner by label; only the second leads to extract."""
    other = draw("read:a read:b extract<b align<a,extract compute output")
    assert pair_steps(CHAIN, other)["read"] == "b"


def random_workflow(chance: random.Random, most: int = 5) -> Workflow:
    ids = [f"s{number}" for number in range(chance.randint(1, most))]
    steps = []
    for place, step_id in enumerate(ids):
        needs = tuple(earlier for earlier in ids[:place] if chance.random() < 0.45)
        steps.append(WorkflowStep(step_id, chance.choice(["read", "compute", "output"]), needs=needs))
    chance.shuffle(steps)
    return Workflow(tuple(steps))


@every(*range(40))
def test_agreement_of_graphs_is_one_minus_the_edit_distance_of_networkx(seed: int) -> None:
    chance = random.Random(seed)
    one, other = random_workflow(chance), random_workflow(chance)
    whole = sum(len(each.steps) + len(each.edges) for each in (one, other))
    found = compare_workflows(one, other)
    assert found.graph == pytest.approx(1 - edit_distance(one, other) / whole)
    same = networkx.is_isomorphic(as_networkx(one), as_networkx(other), node_match=lambda a, b: a == b)
    assert found.is_same == same
    back = compare_workflows(other, one)
    assert (back.steps, back.edges, back.graph) == (found.steps, found.edges, found.graph)


@every(*range(20))
def test_the_same_workflow_with_other_ids_in_another_order_agrees_fully(seed: int) -> None:
    chance = random.Random(seed)
    one = random_workflow(chance, most=8)
    names = {step.id: f"t{place}" for place, step in enumerate(chance.sample(one.steps, len(one.steps)))}
    steps = [replace(each, id=names[each.id], needs=tuple(names[need] for need in each.needs)) for each in one.steps]
    other = Workflow(tuple(chance.sample(steps, len(steps))))
    assert networkx.is_isomorphic(as_networkx(one), as_networkx(other), node_match=lambda a, b: a == b)
    assert compare_workflows(one, other).is_same


def test_one_changed_edge_of_eight_equal_labels_is_found() -> None:
    """The worst case of the search: every step could be the partner of every other."""
    ids = [f"s{number}" for number in range(8)]
    steps = [WorkflowStep(each, "compute", needs=tuple(ids[:place][-1:])) for place, each in enumerate(ids)]
    other = [*steps[:7], replace(steps[7], needs=("s0",))]
    found = compare_workflows(Workflow(tuple(steps)), Workflow(tuple(other)))
    assert (found.steps, found.edges) == (1, 6 / 7)


# --- rules ------------------------------------------------------------------------------------------------------------


def test_the_vocabulary_is_that_of_the_paper() -> None:
    assert len(LABELS) == 12
    assert len(VARIATIONS) == 7


@every(
    (draw("read compute align output"), "5 to 8 steps: 4 now"),
    (draw("read read:b<read compute compare detect filter align update output"), "5 to 8 steps: 9 now"),
    (draw("read extract compute guess output"), "one of the twelve labels: not guess"),
    (draw("read<output extract compute compare output"), "no circle: "),
    (draw("read extract compute<read align<read output"), "lead to one last step: extract, compute, output are last"),
    (Workflow((*CHAIN.steps[:5], replace(CHAIN.steps[5], why=" "))), "each label has its reason: not output"),
    (Workflow((*CHAIN.steps[:5], replace(CHAIN.steps[5], grounding=""))), "what it is in this task: not output"),
)
def test_each_rule_says_what_breaks_it(workflow: Workflow, said: str) -> None:
    assert [problem for problem in list_problems(workflow) if said in problem]


def test_a_circle_is_told_in_the_direction_of_needs() -> None:
    circle = draw("read<output extract compute compare output").find_circle()
    needs = {step.id: step.needs for step in draw("read<output extract compute compare output").steps}
    assert circle[0] == circle[-1]
    assert all(later in needs[earlier] for earlier, later in zip(circle, circle[1:], strict=False))


def test_good_workflows_keep_every_rule() -> None:
    for workflow in (CHAIN, FORKED):
        assert all(rule.problem == "" for rule in check_workflow(workflow))


def test_layers_follow_the_longest_way() -> None:
    found = [[step.id for step in layer] for layer in FORKED.layers()]
    assert found == [["a", "b"], ["extract"], ["align"], ["compute"], ["validate"], ["output"]]


def test_steps_are_put_behind_what_they_need_and_else_stay_in_their_order() -> None:
    assert Workflow(CHAIN.steps[::-1]).in_order() == CHAIN
    assert common_part(CHAIN, FORKED).in_order() == common_part(CHAIN, FORKED)


def test_a_draft_in_a_circle_is_still_laid_out_whole() -> None:
    circular = draw("read extract<compute compute<extract output")
    assert sorted(step.id for layer in circular.layers() for step in layer) == ["compute", "extract", "output", "read"]


# --- families ---------------------------------------------------------------------------------------------------------


def test_a_family_shares_what_all_have_and_names_the_one_that_differs() -> None:
    with_filter = draw("read extract filter align compute output")
    others = [with_filter, with_filter, with_filter, draw("read extract align compute output")]
    shared = shared_workflow(others)
    assert [step.label for step in shared.steps] == ["read", "extract", "align", "compute", "output"]
    assert shared.edges == {("read", "extract"), ("align", "compute"), ("compute", "output")}
    assert {step.grounding for step in shared.steps} == {""}
    first, *_, last = find_memberships(shared, others)
    assert (first.adds_steps, first.adds_edges) == (("filter",), ("extract → filter", "filter → align"))
    assert (last.adds_steps, last.adds_edges) == ((), ("extract → align",))
    assert last.lacks_steps == ("filter",)
    assert last.lacks_edges == ("extract → filter", "filter → align")
    assert not last.holds


def test_tasks_that_differ_in_grounding_alone_are_members() -> None:
    other = Workflow(
        tuple(
            replace(step, id=f"x-{step.id}", needs=tuple(f"x-{n}" for n in step.needs), grounding="!")
            for step in CHAIN.steps
        )
    )
    assert all(each.holds for each in find_memberships(shared_workflow([CHAIN, other]), [CHAIN, other]))


def test_settling_starts_from_what_both_have_and_takes_single_steps() -> None:
    start = common_part(CHAIN, FORKED)
    assert [step.id for step in start.steps] == ["read", "extract", "align", "compute", "output"]
    grown = take_step(start, FORKED, "validate")
    assert {("compute", "s1"), ("s1", "output")} < grown.edges
    assert grown.by_id["s1"].label == "validate"
    assert compare_workflows(take_step(grown, FORKED, "b"), FORKED).steps == 1


# --- the file ---------------------------------------------------------------------------------------------------------

FILED = [
    FiledWorkflow("ledgers", "fees", "person-a", replace(CHAIN, varies=("format", "scale")), consistent=False),
    FiledWorkflow("ledgers", "fees", "person-b", FORKED),
    FiledWorkflow("ledgers", "fees", "person-c", CHAIN, settled=True),
    FiledWorkflow("ledgers", "2024-01-01", "person-a", CHAIN),
]


def test_what_is_written_is_read_again_and_written_alike() -> None:
    content = write_workflows(FILED)
    assert read_workflows(content, "workflows.yaml") == FILED
    assert write_workflows(read_workflows(content, "workflows.yaml")) == content
    assert from_plain(to_plain(FILED[0].workflow)) == FILED[0].workflow


GOOD = write_workflows(FILED[:1]).decode()


@every(
    (FORMAT, "skillglass-workflows/2", "format"),
    ("by: person-a", "by: ''", r"families.ledgers.fees\[1\].by"),
    ("label: align", "label: join", r"steps\[4\].label.*expected one of read, extract"),
    ("id: align", "id: Align it", r"steps\[4\].id.*lower-case"),
    ("      - compute\n", "      - nowhere\n", "output needs nowhere, and no step has this id"),
    ("- scale", "- colour", r"varies.*expected some of entities, format"),
    ("consistent: false", "consistent: maybe", r"consistent.*true or false"),
    ("consistent: false", "colour: false", "nobody knows this field"),
    ("id: extract", "id: read", "several steps are called read"),
    ("families:", "families: &x\n    y: *x\n", "no alias"),
)
def test_a_broken_file_says_where_and_what_was_expected(was: str, becomes: str, said: str) -> None:
    assert was in GOOD
    with pytest.raises(SuiteProblems, match=said) as caught:
        read_workflows(GOOD.replace(was, becomes).encode(), "mine.yaml")
    assert str(caught.value).startswith("mine.yaml: ")


def test_a_file_keeps_the_rules_of_a_workflow() -> None:
    broken = FiledWorkflow("f", "t", "p", draw("read<output extract compute compare output"))
    with pytest.raises(SuiteProblems, match="no circle"):
        read_workflows(write_workflows([broken]), "mine.yaml")


def test_one_person_has_one_workflow_of_a_task_and_one_adjudicator_settles_it() -> None:
    for twice in ([FILED[0], FILED[0]], [FILED[2], replace(FILED[2], by="person-d")]):
        with pytest.raises(SuiteProblems, match="has several"):
            read_workflows(write_workflows(twice), "mine.yaml")


@every(b"", b"\xff", b"a: [", b"families: 3", b"- 1", b"[" * 100_000, b"a\0b: 1")
def test_what_is_no_such_file_is_refused(content: bytes) -> None:
    with pytest.raises(SuiteProblems):
        read_workflows(content, "mine.yaml")
