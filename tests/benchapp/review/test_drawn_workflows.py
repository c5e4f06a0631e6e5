"""Workflows that people draw: alone, then compared, then settled; out to a file and in again."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied

from benchapp.models import Activity, Task, TaskWorkflow, User
from benchapp.models.suites import FinalWorkflow
from benchapp.review.workflows import (
    SeenWorkflows,
    WorkflowConflict,
    WorkflowRefused,
    discard_workflow,
    export_workflows,
    hand_in,
    import_workflows,
    read_seen,
    read_seen_task,
    save_workflow,
    screen,
    settle,
)
from runner.base.errors import SuiteProblems
from runner.suites.workflows.workflow import Workflow
from tests.worlds.factories import make_suite, make_user
from tests.worlds.workflow_worlds import draw

pytestmark = pytest.mark.django_db

CHAIN = draw("read extract normalize align compute output")
FORKED = draw("read:a read:b extract<a align<b,extract compute validate output")


@pytest.fixture
def task() -> Task:
    return make_suite(environments=1, families=1).tasks.first()


@pytest.fixture
def people() -> list[User]:
    return [make_user(level="reviewer") for _ in range(4)]


def drawn(task: Task, user: User, workflow: Workflow = CHAIN) -> TaskWorkflow:
    return hand_in(task, user, workflow, revision=0)


def seen(task: Task, user: User) -> SeenWorkflows:
    return read_seen_task(task, user)


def test_nobody_sees_what_the_other_drew_before_they_hand_in_their_own(task: Task, people: list[User]) -> None:
    ann, bob, *_ = people
    drawn(task, ann)
    save_workflow(task, bob, FORKED, revision=0)
    for of_bob in (seen(task, bob), read_seen(task.suite, bob)[task.key]):
        assert of_bob.handed_in == 1
        assert of_bob.is_hidden
        assert of_bob.annotations == ()
        assert of_bob.agreed is None
        assert of_bob.agreement is None
    hand_in(task, bob, FORKED, revision=1)
    assert [row.annotator for row in seen(task, bob).annotations] == [ann, bob]
    assert seen(task, ann).agreement.graph == pytest.approx(14 / 24)


def test_viewers_and_those_without_a_place_see_nothing_before_two_handed_in(task: Task, people: list[User]) -> None:
    """A viewer may become a reviewer; what they saw before would not be forgotten."""
    viewer, (ann, bob, cat, _) = make_user(), people
    drawn(task, ann)
    assert seen(task, viewer).annotations == seen(task, cat).annotations == ()
    drawn(task, bob)
    assert len(seen(task, viewer).annotations) == len(seen(task, cat).annotations) == 2


def test_a_draft_hides_the_others_until_it_is_handed_in_or_discarded(task: Task, people: list[User]) -> None:
    ann, bob, cat, _ = people
    save_workflow(task, cat, CHAIN, revision=0)
    drawn(task, ann)
    drawn(task, bob)
    assert seen(task, cat).annotations == ()
    assert seen(task, cat).explain_closed(cat) == ""  # what was begun may be handed in, beside the two
    discard_workflow(task, cat)
    assert len(seen(task, cat).annotations) == 2
    with pytest.raises(PermissionDenied, match="has its two annotators"):
        save_workflow(task, cat, CHAIN, revision=0)


def test_two_at_most_and_a_third_who_began_counts_in_no_agreement(task: Task, people: list[User]) -> None:
    ann, bob, cat, _ = people
    save_workflow(task, cat, draw("read filter compare detect update output"), revision=0)
    drawn(task, ann)
    drawn(task, bob, FORKED)
    hand_in(task, cat, draw("read filter compare detect update output"), revision=1)
    found = seen(task, ann)
    assert len(found.annotations) == 3
    assert [row.annotator for row in found.compared] == [ann, bob]


def test_only_reviewers_draw(task: Task) -> None:
    with pytest.raises(PermissionDenied, match="Only reviewers"):
        save_workflow(task, make_user(), CHAIN, revision=0)


def test_what_breaks_a_rule_is_not_handed_in(task: Task, people: list[User]) -> None:
    with pytest.raises(WorkflowRefused, match="5 to 8 steps: 3 now"):
        hand_in(task, people[0], draw("read compute output"), revision=0)
    assert not TaskWorkflow.objects.exists()


def test_a_stale_tab_overwrites_nothing(task: Task, people: list[User]) -> None:
    ann = people[0]
    save_workflow(task, ann, CHAIN, revision=0)
    save_workflow(task, ann, FORKED, revision=1)
    for revision in (0, 1):
        with pytest.raises(WorkflowConflict):
            save_workflow(task, ann, CHAIN, revision=revision)
    assert seen(task, ann).own.workflow == FORKED


def test_what_was_handed_in_never_changes(task: Task, people: list[User]) -> None:
    row = drawn(task, people[0])
    with pytest.raises(PermissionDenied, match="stays as it is"):
        save_workflow(task, people[0], FORKED, revision=1)
    with pytest.raises(FinalWorkflow):
        row.delete()
    with pytest.raises(FinalWorkflow):
        TaskWorkflow.objects.update(graph={})
    discard_workflow(task, people[0])
    assert TaskWorkflow.objects.get().workflow == CHAIN


def test_screening_passes_where_both_annotators_say_so(task: Task, people: list[User]) -> None:
    ann, bob, cat, _ = people
    drawn(task, ann)
    with pytest.raises(PermissionDenied):
        screen(task, ann, is_consistent=True)  # nothing is there to compare yet
    drawn(task, bob, FORKED)
    screen(task, ann, is_consistent=True)
    assert seen(task, ann).screening is None
    screen(task, bob, is_consistent=False)
    assert seen(task, ann).screening is False
    screen(task, bob, is_consistent=True)
    assert seen(task, ann).screening is True
    with pytest.raises(PermissionDenied, match="two annotators"):
        screen(task, cat, is_consistent=True)


def test_a_third_settles_and_nobody_settles_their_own_but_an_admin(task: Task, people: list[User]) -> None:
    ann, bob, cat, _ = people
    drawn(task, ann)
    assert seen(task, cat).explain_barred(cat).startswith("Draw this task first")
    drawn(task, bob, FORKED)
    assert seen(task, cat).agreed is None
    with pytest.raises(PermissionDenied, match="Somebody else or an admin"):
        settle(task, ann, CHAIN, revision=0, seen=None)
    row = settle(task, cat, FORKED, revision=0, seen=None)
    assert seen(task, ann).agreed == FORKED
    assert [each.workflow for each in seen(task, ann).annotations] == [CHAIN, FORKED]  # they stay
    User.objects.filter(pk=ann.pk).update(level="admin")
    ann.refresh_from_db()
    later = settle(task, ann, CHAIN, revision=0, seen=row.public_id)
    assert seen(task, bob).settled == later
    assert TaskWorkflow.objects.get(pk=row.pk).superseded_at is not None
    assert Activity.objects.filter(verb="workflow.settled").count() == 2


def test_who_did_not_see_the_settled_one_does_not_replace_it(task: Task, people: list[User]) -> None:
    ann, bob, cat, dan = people
    drawn(task, ann)
    drawn(task, bob, FORKED)
    first = settle(task, cat, CHAIN, revision=0, seen=None)
    with pytest.raises(WorkflowConflict, match="first"):
        settle(task, dan, FORKED, revision=0, seen=None)
    second = settle(task, dan, FORKED, revision=0, seen=first.public_id)
    with pytest.raises(WorkflowConflict, match="first"):
        settle(task, cat, CHAIN, revision=0, seen=first.public_id)
    assert seen(task, ann).settled == second


def test_where_both_drew_the_same_it_stands(task: Task, people: list[User]) -> None:
    ann, bob, cat, _ = people
    drawn(task, ann)
    drawn(task, bob, Workflow(CHAIN.steps[::-1]))
    assert seen(task, cat).agreed == CHAIN
    assert "nothing to settle" in seen(task, cat).explain_barred(cat)


# --- files ------------------------------------------------------------------------------------------------------------


def fill(task: Task, people: list[User]) -> None:
    ann, bob, cat, _ = people
    drawn(task, ann)
    drawn(task, bob, FORKED)
    screen(task, ann, is_consistent=False)
    settle(task, cat, FORKED, revision=0, seen=None)
    drawn(task.family.tasks.last(), ann)


def test_what_is_exported_comes_in_elsewhere_and_is_exported_alike(task: Task, people: list[User]) -> None:
    fill(task, people)
    ann, suite = people[0], task.suite
    content = export_workflows(suite, ann)
    assert ann.pseudonym in content.decode()
    assert ann.username not in content.decode()
    assert import_workflows(suite, content, "w.yaml", ann).taken == 0
    TaskWorkflow.objects.all()._raw_delete("default")
    found = import_workflows(suite, content, "w.yaml", people[3])
    assert (found.taken, found.known, found.strange) == (4, 0, ())
    assert export_workflows(suite, ann) == content
    assert import_workflows(suite, content, "w.yaml", people[3]).known == 4


def test_an_export_leaves_out_what_is_hidden_from_whom_it_is_for(task: Task, people: list[User]) -> None:
    fill(task, people)
    content = export_workflows(task.suite, people[1]).decode()
    assert content.startswith("# Left out: 1 task that")
    assert task.family.tasks.last().key not in content
    assert import_workflows(task.suite, content.encode(), "w.yaml", people[1]).known == 3


def test_an_import_never_replaces_and_takes_all_or_nothing(task: Task, people: list[User]) -> None:
    drawn(task, people[0])
    content = export_workflows(task.suite, people[0]).decode()
    entry = content.partition(f"    {task.key}:\n")[2]
    more = content.replace("label: align", "label: filter") + f"    {task.family.tasks.last().key}:\n{entry}"
    with pytest.raises(SuiteProblems, match=rf"w.yaml: families.*{task.key}: another workflow of .* is here"):
        import_workflows(task.suite, more.encode(), "w.yaml", people[0])
    assert TaskWorkflow.objects.count() == 1


def test_tasks_of_another_suite_are_left_out_and_named(task: Task, people: list[User]) -> None:
    drawn(task, people[0])
    content = export_workflows(task.suite, people[0]).decode()
    TaskWorkflow.objects.all()._raw_delete("default")
    found = import_workflows(task.suite, content.replace(f"{task.key}:", "elsewhere:").encode(), "w.yaml", people[1])
    assert found.strange == ("elsewhere",)
    assert "elsewhere" in found.say()
    assert not TaskWorkflow.objects.exists()


def test_who_imported_a_workflow_of_a_task_does_not_draw_it(task: Task, people: list[User]) -> None:
    """They know the file."""
    drawn(task, people[0])
    content = export_workflows(task.suite, people[0])
    TaskWorkflow.objects.all()._raw_delete("default")
    import_workflows(task.suite, content, "w.yaml", people[1])
    with pytest.raises(PermissionDenied, match="imported"):
        save_workflow(task, people[1], CHAIN, revision=0)
    save_workflow(task, people[2], CHAIN, revision=0)


def test_the_whole_suite_is_one_query(task: Task, people: list[User], django_assert_num_queries: object) -> None:
    fill(task, people)
    with django_assert_num_queries(1):  # type: ignore[operator]
        found = read_seen(task.suite, people[0])
        assert [each.own.name for each in found.values()] == [people[0].username] * 2
