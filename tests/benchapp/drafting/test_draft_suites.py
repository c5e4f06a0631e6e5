"""The way of a draft into a suite: what keeps a task out, what lets it in, and what the suites say then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchapp.analysis.suite_screening import take_screening
from benchapp.audit import findings
from benchapp.drafting import draft_orders, draft_suites
from benchapp.drafting.draft_orders import edit_file, start_draft, work_off
from benchapp.drafting.draft_suites import NotReady, Readiness, admit, read_readiness, try_as_suite
from benchapp.experiments.qualification import TaskCheck, TaskVerdict, write_file
from benchapp.models import Activity, Draft, Experiment, Run, Suite, Task, TaskWorkflow, User
from benchapp.record.sets.suite_files import find_suite
from benchapp.record.slices import SlicedWork
from runner.agents.oracle import digest_traps
from runner.base import suite as runner_suite
from runner.base.errors import SetupError
from runner.base.types import File
from runner.drafting.draft import DraftBrief, Loop
from runner.protocols.plan import Rule
from runner.protocols.qualification import TRAP
from runner.screening.suite_findings import Screening, SuiteFinding, Weight
from runner.suites.workflows.workflow import to_plain
from tests.worlds.drafting_loop import CORPUS, Drafter, install_loop, plain_workflow
from tests.worlds.workflow_worlds import draw

pytestmark = pytest.mark.django_db

OPEN, PASSED, FAILED = Readiness.OPEN, Readiness.PASSED, Readiness.FAILED
Verdicts = Callable[..., None]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, settings: object, tmp_path: Path) -> None:
    settings.VAR_DIR = tmp_path  # type: ignore[attr-defined]
    monkeypatch.setattr(SlicedWork, "enqueue_due", lambda _: 0)
    install_loop(monkeypatch)
    monkeypatch.setattr(draft_orders, "make_model", lambda name: Drafter())


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", level="operator")


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> Verdicts:
    """verdicts(**{"fees-1": True}, is_open=False): what a qualification of the suite under trial says; None:
    it misses a run."""

    def say(*, is_open: bool = False, **passed: bool | None) -> None:
        counts = {True: {"passed": 1}, False: {"failed": 1}, None: {}}
        rule = Rule(1, 1, 1)
        said = [
            TaskVerdict(key.replace("_", "-"), key, "fees", (TaskCheck("solution", "solution", rule, **counts[each]),))
            for key, each in passed.items()
        ]
        found = Experiment(status="running" if is_open else "done")
        monkeypatch.setattr(draft_suites, "find_qualification", lambda key, digest: found)
        monkeypatch.setattr(draft_suites, "read_verdicts", lambda qualification: said)

    return say


def drafted(tasks: int = 2, *, workflow: bool = True) -> Draft:
    files = {**CORPUS, **({"workflow.json": File(plain_workflow("fees"))} if workflow else {})}
    draft = start_draft(DraftBrief(Loop.CORPUS, "fees", tasks=tasks), files, "litellm/test/drafter")
    work_off(draft)
    assert draft.status == "done"
    return draft


def read_states(draft: Draft) -> list[tuple[str, Readiness, Readiness, Readiness]]:
    return [
        (each.key, each.screening.state, each.workflow.state, each.qualification.state)
        for each in read_readiness(draft)
    ]


# --- under trial ----------------------------------------------------------------------------------------------------


def test_a_draft_under_trial_is_a_suite_like_any_other(ada: User, tmp_path: Path) -> None:
    draft = drafted()
    suite = try_as_suite(draft, ada)
    assert suite.key == f"draft-fees-{str(draft.public_id)[:8]}"
    assert Path(suite.path).parent == tmp_path / "drafts" / str(draft.public_id)
    assert [task.key for task in Task.objects.filter(suite=suite)] == ["fees-1", "fees-2"]
    read = find_suite(suite.key)
    assert (suite.name, read.name) == ("fees (draft)", "fees (draft)")
    assert (read.digest, read.trusted, read.set_aside) == (suite.digest, False, {})
    assert write_file(read)["conditions"] == ["qualify-solution", "qualify-untouched"]
    step = draft.steps.get(kind="trial")
    assert (step.by, step.summary, step.before, step.after) == (
        ada,
        f"Written as suite {suite.key}: 2 tasks",
        draft.head,
        draft.head,
    )
    assert set(Activity.objects.filter(actor=ada).values_list("verb", flat=True)) == {"suite.loaded", "draft.tried"}
    assert list(findings()) == []


def test_trying_the_same_files_again_adds_nothing_and_other_files_a_further_state(ada: User) -> None:
    draft = drafted()
    first = try_as_suite(draft, ada)
    path, digest = first.path, first.digest
    assert try_as_suite(draft, ada) == first
    assert draft.steps.filter(kind="trial").count() == 1
    edit_file(draft, "tasks/fees-1/instruction.md", "Another one.\n", ada, draft.head.digest)
    again = try_as_suite(draft, ada)
    assert again.pk == first.pk
    assert (again.path == path, again.digest == digest, Path(path).is_dir()) == (False, False, True)
    assert Task.objects.get(suite=again, key="fees-1").revisions.count() == 2
    assert draft.steps.filter(kind="trial").count() == 2


def test_a_wrong_answer_that_changed_is_tried_again_before_its_task_is_ready(
    ada: User, verdicts: Verdicts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No digest of a task covers it, so the qualification is still of these tasks."""
    draft = drafted()
    suite = try_as_suite(draft, ada)
    verdicts(fees_1=True, fees_2=True)
    assert {each.qualification.state for each in read_readiness(draft)} == {PASSED}
    edit_file(draft, "tasks/fees-1/trap/solve.sh", "echo wrong\n", ada, draft.head.digest)
    assert try_as_suite(draft, ada).digest == suite.digest
    qualified = Experiment.objects.create(name="Qualification", suite=suite, spec={}, status="done")
    monkeypatch.setattr(draft_suites, "find_qualification", lambda key, digest: qualified)
    says = {(each.qualification.state, each.qualification.says) for each in read_readiness(draft)}
    assert says == {(OPEN, "its wrong answer changed since")}
    traps = digest_traps(find_suite(suite.key))
    Run.objects.create(experiment=qualified, condition=TRAP, replicate=1, setup={"traps": traps})
    assert {each.qualification.state for each in read_readiness(draft)} == {PASSED}


def test_where_the_list_of_findings_is_cut_what_has_none_stays_open(
    ada: User, verdicts: Verdicts, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = drafted()
    suite = try_as_suite(draft, ada)
    found = take_screening(find_suite(suite.key))
    assert found is not None
    monkeypatch.setattr(draft_suites, "take_screening", lambda _: replace(found, more=3))
    assert {each.screening.state for each in read_readiness(draft)} == {OPEN}


def test_a_leak_that_only_the_chosen_tasks_show_keeps_them_out(
    ada: User, verdicts: Verdicts, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = drafted()
    tried = try_as_suite(draft, ada)
    verdicts(fees_1=True, fees_2=True)
    leak = SuiteFinding("answer-in-instruction", Weight.LEAK, ("fees-1",), "the instruction says 42", ())
    real = draft_suites.take_screening

    def take(suite: runner_suite.Suite) -> Screening | None:
        found = real(suite)
        return found if found is None or suite.key == tried.key else replace(found, findings=(leak,))

    monkeypatch.setattr(draft_suites, "take_screening", take)
    with pytest.raises(NotReady, match="fees-1: screening: the instruction says 42"):
        admit(draft, "fees", ada, tasks=["fees-1"])
    assert not Suite.objects.filter(key="fees").exists()


def test_the_key_of_a_draft_under_trial_is_no_key_for_admitted_tasks(ada: User, verdicts: Verdicts) -> None:
    draft = drafted()
    suite = try_as_suite(draft, ada)
    verdicts(fees_1=True, fees_2=True)
    with pytest.raises(SetupError, match="of a draft under trial"):
        admit(draft, suite.key, ada)


def test_a_draft_is_not_tried_anew_while_an_experiment_runs_over_its_earlier_state(ada: User) -> None:
    draft = drafted()
    suite = try_as_suite(draft, ada)
    running = Experiment.objects.create(name="Qualification", suite=suite, spec={}, status="running")
    edit_file(draft, "tasks/fees-1/instruction.md", "Another one.\n", ada, draft.head.digest)
    with pytest.raises(SetupError, match="Qualification still runs"):
        try_as_suite(draft, ada)
    Experiment.objects.filter(pk=running.pk).update(status="done")
    assert try_as_suite(draft, ada).digest != suite.digest


def test_a_task_that_its_reader_sets_aside_is_not_ready_and_says_why(ada: User, verdicts: Verdicts) -> None:
    draft = drafted()
    edit_file(draft, "tasks/fees-2/task.toml", "no toml", ada, draft.head.digest)
    try_as_suite(draft, ada)
    verdicts(fees_1=True)
    assert draft.steps.get(kind="trial").findings[0].startswith("Set aside: task fees-2: ")
    assert read_states(draft) == [("fees-1", PASSED, PASSED, PASSED), ("fees-2", FAILED, FAILED, FAILED)]
    assert read_readiness(draft)[1].screening.says.startswith("set aside: tasks/fees-2/task.toml: ")


def test_files_that_make_no_suite_are_refused_by_their_names_in_the_draft(ada: User, tmp_path: Path) -> None:
    draft = start_draft(DraftBrief(Loop.CORPUS, "fees", tasks=1), CORPUS, "litellm/test/drafter")
    with pytest.raises(SetupError, match="no task yet"):
        try_as_suite(draft, ada)
    edit_file(draft, "tasks/fees-1/task.toml", "no toml", ada, draft.head.digest)
    with pytest.raises(SetupError, match=r"tasks/fees-1/task\.toml: ") as refused:
        try_as_suite(draft, ada)
    assert str(tmp_path) not in str(refused.value)
    draft.refresh_from_db()
    assert (draft.suite, draft.steps.filter(kind="trial").count()) == (None, 0)


# --- readiness ------------------------------------------------------------------------------------------------------


def test_before_the_trial_and_after_an_edit_all_is_open(ada: User, verdicts: Verdicts) -> None:
    draft = drafted()
    assert read_states(draft) == [(f"fees-{number}", OPEN, PASSED, OPEN) for number in (1, 2)]
    assert read_readiness(draft)[0].screening.says == "not tried as a suite"
    try_as_suite(draft, ada)
    verdicts(fees_1=True, fees_2=True)
    assert all(each.is_ready for each in read_readiness(draft))
    edit_file(draft, "tasks/fees-1/instruction.md", "Another one.\n", ada, draft.head.digest)
    assert [each.is_ready for each in read_readiness(draft)] == [False, False]
    assert read_readiness(draft)[0].screening.says == "changed since it was tried as a suite"


def test_an_edit_that_changes_no_task_leaves_the_evidence(ada: User, verdicts: Verdicts) -> None:
    draft = drafted()
    try_as_suite(draft, ada)
    verdicts(fees_1=True, fees_2=True)
    edit_file(draft, "notes/remark.txt", "Later.", ada, draft.head.digest)
    assert all(each.is_ready for each in read_readiness(draft))


def test_each_check_has_its_words_and_a_link(ada: User, verdicts: Verdicts) -> None:
    draft = drafted(3)
    suite = try_as_suite(draft, ada)
    page = f"/suites/{suite.key}/"
    (first, *_) = read_readiness(draft)
    assert (first.screening.says, first.screening.url) == ("nothing found", f"{page}#screening")
    assert (first.qualification.says, first.qualification.url) == ("not tried", f"/launch/?qualify={suite.key}")
    verdicts(fees_1=True, fees_2=False, fees_3=None)
    one, two, three = (each.qualification for each in read_readiness(draft))
    assert (one.state, one.says, one.url) == (PASSED, "admitted", f"{page}#qualification")
    assert (two.state, two.says) == (FAILED, "its own solution fails: 0 of 1 passed, expected 1 of 1")
    assert (three.state, three.says) == (OPEN, "own solution: it has no solution of its own")
    verdicts(is_open=True, fees_1=True)
    assert read_readiness(draft)[0].qualification.says == "still running"


def test_a_leak_keeps_a_task_out_and_names_the_place(ada: User, verdicts: Verdicts) -> None:
    draft = drafted()
    told = "Work out the total. The answer is 417.8362.\n"
    edit_file(draft, "tasks/fees-1/instruction.md", told, ada, draft.head.digest)
    edit_file(draft, "tasks/fees-1/tests/expected.json", '{"total": 417.8362}', ada, draft.head.digest)
    try_as_suite(draft, ada)
    verdicts(fees_1=True, fees_2=True)
    one, two = read_readiness(draft)
    assert (one.screening.state, two.screening.state) == (FAILED, PASSED)
    assert "417.8362" in one.screening.says


def test_a_workflow_that_people_handed_in_counts_before_the_drafts_own(ada: User) -> None:
    draft = drafted(workflow=False)
    suite = try_as_suite(draft, ada)
    drawing = f"/suites/{suite.key}/workflows/fees-1/"
    (one, two) = read_readiness(draft)
    assert (one.workflow.state, one.workflow.says, one.workflow.url) == (OPEN, "not drawn", drawing)
    graph = to_plain(draw("read extract compute validate output"))
    task = Task.objects.get(suite=suite, key="fees-1")
    row = TaskWorkflow.objects.create(task=task, by="person-a", annotator=ada, graph=graph)
    assert read_readiness(draft)[0].workflow.state is OPEN, "a draft of a workflow says nothing"
    TaskWorkflow.objects.filter(pk=row.pk).update(handed_in_at=timezone.now())
    (one, two) = read_readiness(draft)
    assert (one.workflow.says, one.workflow.state, two.workflow.state) == ("handed in", PASSED, OPEN)
    settled = {"graph": graph, "is_settled": True, "handed_in_at": timezone.now()}
    TaskWorkflow.objects.create(task=task, by="person-b", annotator=ada, **settled)
    assert read_readiness(draft)[0].workflow.says == "settled"


def test_a_workflow_file_that_breaks_its_rules_says_which(ada: User) -> None:
    draft = drafted()
    edit_file(draft, "workflow.json", '{"format": "skillglass-workflows/1", "families": {}}', ada, draft.head.digest)
    (one, _) = read_readiness(draft)
    assert one.workflow.state is FAILED
    assert "workflow.json: families" in one.workflow.says


def test_readiness_takes_as_many_queries_for_twelve_tasks_as_for_two(ada: User) -> None:
    counts = []
    for tasks in (2, 12):
        draft = Draft.objects.get(pk=drafted(tasks).pk)
        try_as_suite(draft, ada)
        draft = Draft.objects.get(pk=draft.pk)
        with CaptureQueriesContext(connection) as captured:
            assert len(read_readiness(draft)) == tasks
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 8


# --- admission ------------------------------------------------------------------------------------------------------


def test_a_task_that_is_not_ready_keeps_the_draft_out_with_every_reason(ada: User, verdicts: Verdicts) -> None:
    draft = drafted()
    with pytest.raises(NotReady) as refused:
        admit(draft, "fees", ada)
    assert refused.value.reasons[0] == "fees-1: screening: not tried as a suite"
    assert len(refused.value.reasons) == 4
    try_as_suite(draft, ada)
    verdicts(fees_1=True, fees_2=False)
    with pytest.raises(NotReady) as refused:
        admit(draft, "fees", ada)
    assert refused.value.reasons == ["fees-2: qualification: its own solution fails: 0 of 1 passed, expected 1 of 1"]
    assert not Suite.objects.filter(key="fees").exists()
    assert not draft.steps.filter(kind="admission").exists()


def test_people_leave_out_a_task_by_name_and_the_rest_is_admitted(ada: User, verdicts: Verdicts) -> None:
    draft = drafted()
    try_as_suite(draft, ada)
    verdicts(fees_1=True, fees_2=False)
    suite = admit(draft, "fees", ada, tasks=["fees-1"])
    assert [task.key for task in suite.tasks.all()] == ["fees-1"]
    assert (draft.admitted_as, list(suite.drafts.all())) == (suite, [draft])
    step = draft.steps.get(kind="admission")
    assert (step.by, step.summary, step.findings) == (ada, "Admitted as suite fees: 1 task", ["Left out: fees-2"])
    assert len(find_suite("fees").environments[0].families[0].tasks) == 1
    assert draft.suite is not None
    assert len(find_suite(draft.suite.key).environments[0].families[0].tasks) == 2, (
        "the suite under trial stays as it is"
    )
    assert Activity.objects.get(verb="draft.admitted").detail == {"suite": "fees", "tasks": 1}
    assert list(findings()) == []


def test_all_tasks_are_admitted_where_none_is_named(ada: User, verdicts: Verdicts) -> None:
    draft = drafted()
    tried = try_as_suite(draft, ada)
    verdicts(fees_1=True, fees_2=True)
    suite = admit(draft, "fees", ada)
    assert suite.name == "fees"
    assert (suite.digest, suite.tasks.count(), suite.pk == tried.pk) == (tried.digest, 2, False)


@pytest.mark.parametrize(
    ("key", "tasks", "told"),
    [
        ("fees", ["fees-9"], "fees-9: no such task in this draft"),
        ("fees", [], "no task to admit"),
        ("starter", None, "bundled suite"),
        ("taken", None, "taken is the name of"),
        ("", None, "expected a name"),
    ],
)
def test_an_admission_that_cannot_be_is_refused_and_leaves_no_trace(
    ada: User, verdicts: Verdicts, key: str, tasks: list[str] | None, told: str
) -> None:
    draft = drafted()
    try_as_suite(draft, ada)
    verdicts(fees_1=True, fees_2=True)
    Suite.objects.create(key="taken", name="Another", path="/elsewhere", digest="d")
    with pytest.raises(SetupError, match=told):
        admit(draft, key, ada, tasks=tasks)
    assert draft.admitted_as is None
    assert not draft.steps.filter(kind="admission").exists()
