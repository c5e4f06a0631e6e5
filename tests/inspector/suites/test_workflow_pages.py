"""`/suites/<key>/workflows/`: families, one task's form and drawing, settling, and the file."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from benchapp.models import Suite, Task, TaskWorkflow, User
from benchapp.review.workflows import export_workflows, hand_in, save_workflow
from inspector.pages.suites.workflow_form import add_step, blank_workflow, draw_workflow, drop_step, renumber
from runner.suites.workflows.workflow import Workflow, WorkflowStep
from runner.suites.workflows.workflow_comparison import compare_workflows
from tests.queries import assert_queries_flat
from tests.worlds.factories import make_environment, make_family, make_suite, make_task, make_user
from tests.worlds.workflow_worlds import draw

pytestmark = pytest.mark.django_db

CHAIN = draw("read extract normalize align compute output")
FORKED = draw("read:a read:b extract<a align<b,extract compute validate output")


@pytest.fixture(autouse=True)
def _accounts(settings: Any) -> None:
    settings.SINGLE_USER = False


@pytest.fixture
def suite() -> Suite:
    return make_suite(key="set", environments=1, families=1)


@pytest.fixture
def task(suite: Suite) -> Task:
    return suite.tasks.first()


def login(level: str = "reviewer") -> tuple[Client, User]:
    user = make_user(level=level)
    client = Client()
    client.force_login(user)
    return client, user


def page_of(task: Task) -> str:
    return f"/suites/set/workflows/{task.key}/"


def twin(client: Client, url: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"{url.rstrip('/')}.json").json()
    return found


def fields(workflow: Workflow, revision: int = 0, **more: str) -> dict[str, Any]:
    """What the form sends."""
    sent: dict[str, Any] = {"step": [step.id for step in workflow.steps], "revision": str(revision), **more}
    for step in workflow.steps:
        sent |= {f"label-{step.id}": step.label, f"grounding-{step.id}": step.grounding}
        sent |= {f"why-{step.id}": step.why, f"needs-{step.id}": list(step.needs)}
    return sent


def two_drew(task: Task, second: Workflow = FORKED) -> list[tuple[Client, User]]:
    people = [login(), login()]
    for (_, user), workflow in zip(people, (CHAIN, second), strict=True):
        hand_in(task, user, workflow, revision=0)
    return people


def test_a_workflow_is_drawn_step_by_step_and_handed_in(task: Task) -> None:
    client, user = login()
    first = client.get(page_of(task))
    assert first.text.count('<legend class="bold">Step s') == 5
    assert "not s1" not in first.text
    assert "5 to 8 steps" in first.text
    assert "3 of 6 rules not kept yet" in first.text
    assert re.search(r'value="finish" disabled>\s*Hand in', first.text)
    client.post(page_of(task), fields(blank_workflow(), act="add"))
    row = TaskWorkflow.objects.get()
    assert (len(row.workflow.steps), row.by, row.is_handed_in) == (6, user.pseudonym, False)
    refused = client.post(page_of(task), fields(row.workflow, 1, act="finish"))
    assert refused.status_code == 400
    assert "each step has one of the twelve labels: not s1" in refused.text
    assert client.post(page_of(task), fields(CHAIN, 1, act="finish")).status_code == 302
    assert TaskWorkflow.objects.get().workflow == CHAIN
    said = client.get(page_of(task)).text
    assert "You handed in your workflow" not in said  # it shows it instead
    assert ">Draw the next</a>" in said
    assert '<form method="post" id="draw-form"' not in said
    assert "read; extract after read" in said


def test_the_list_says_how_many_have_a_workflow_and_what_to_draw_next(task: Task) -> None:
    client, user = login()
    untouched = client.get("/suites/set/workflows/").text
    assert re.search(r"None of \d+ tasks has a workflow</h1>", untouched)
    assert "Draw the first</a>" in untouched
    assert "<table" not in untouched
    save_workflow(task, user, CHAIN, revision=0)
    drafted = client.get("/suites/set/workflows/").text
    assert f'href="{page_of(task)}">Continue your draft</a>' in drafted
    hand_in(task, user, CHAIN, revision=1)
    begun = client.get("/suites/set/workflows/").text
    assert re.search(r"1 of \d+ tasks has a workflow</h1>", begun)
    assert "What varies</th>" in begun
    assert "Screening</th>" not in begun  # nobody can screen before a second one


def test_the_drawing_and_the_rules_follow_while_somebody_draws(task: Task) -> None:
    client, _ = login()
    sent = fields(Workflow(CHAIN.steps[:3]))
    answer = client.post(page_of(task), sent, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    drawing = answer.text.partition('id="drawing"')[2]
    assert 'name="revision" value="1"' in drawing
    assert "read; extract after read; normalize after extract" in drawing
    assert "5 to 8 steps: <b>3 now</b>" in drawing
    stale = client.post(page_of(task), sent, headers={"HX-Request": "true"})
    assert "Load the page again" in stale.text.partition('id="drawing"')[2]


def test_a_draft_is_saved_and_goes_again(task: Task) -> None:
    client, _ = login()
    client.post(page_of(task), {**fields(CHAIN, act="save"), "varies": ["scale", "nonsense"]})
    assert TaskWorkflow.objects.get().workflow.varies == ("scale",)
    client.post(page_of(task), fields(CHAIN, 1, act="discard"))
    assert not TaskWorkflow.objects.exists()


def test_what_no_form_sends_is_dropped(task: Task) -> None:
    client, _ = login()
    sent = {"step": ["s1", "s1", "Bad id", *(f"x{n}" for n in range(20))], "revision": "-1", "label-s1": "hack"}
    sent |= {"needs-s1": ["s1", "nowhere", "x0"], "grounding-s1": "a\x1bb\n c" + "x" * 500}
    assert client.post(page_of(task), sent).status_code == 302
    found = TaskWorkflow.objects.get().workflow
    first = found.steps[0]
    assert len(found.steps) == 8
    assert (first.id, first.label, first.needs, len(first.grounding)) == ("s1", "", ("x0",), 300)
    assert first.grounding.startswith("a?b c")


def test_neither_page_nor_twin_nor_file_tells_what_the_other_drew(task: Task) -> None:
    client, _ = login()
    hand_in(task, make_user(level="reviewer"), CHAIN, revision=0)
    for url in (page_of(task), f"{page_of(task)[:-1]}.json", "/suites/set/workflows/", "/suites/set/workflows.json"):
        said = client.get(url).text
        assert "normalize after extract" not in said
        assert "the align of it" not in said
    assert client.get(f"{page_of(task)}settle/").status_code == 403
    assert "align" not in client.get("/suites/set/workflows.yaml").text
    assert twin(client, page_of(task))["hidden"] is True


def test_after_both_handed_in_each_sees_the_other_and_how_far_they_agree(task: Task) -> None:
    (client, _), (other, _) = two_drew(task)
    said = client.get(page_of(task)).text
    assert "the two workflows differ in 2 of 7 steps</h1>" in said
    assert "steps <b>0.77</b>, arrows (edges) <b>0.36</b>, steps and arrows (graph) <b>0.58</b>" in said
    assert ("First say: are the two consistent" in said, ">Settle</a>" in said) == (True, False)
    found = twin(client, page_of(task))
    assert found["agreement"]["graph"] == pytest.approx(14 / 24)
    assert [each["alone"]["steps"] for each in found["drawn"]] == [["normalize"], ["b", "validate"]]
    client.post(page_of(task), {"act": "screen:yes"})
    other.post(page_of(task), {"act": "screen:no"})
    assert twin(client, page_of(task))["screening"] is False


def test_settling_starts_from_what_both_have_and_takes_steps_of_either(task: Task) -> None:
    two_drew(task)
    client, _ = login()
    settle_page = f"{page_of(task)}settle/"
    said = client.get(settle_page).text
    assert said.count('<legend class="bold">Step s') == 5
    start = draw("read:s1 extract:s2<s1 align:s3 compute:s4<s3 output:s5")
    client.post(settle_page, fields(start, act="take:1:validate"))
    grown = TaskWorkflow.objects.get(is_settled=True).workflow
    assert [step.label for step in grown.steps] == ["read", "extract", "align", "compute", "validate", "output"]
    assert {("s4", "s5"), ("s5", "s6")} < grown.edges
    assert client.post(settle_page, fields(CHAIN, 1, act="finish")).status_code == 302
    assert twin(client, page_of(task))["settled"]["steps"][2]["label"] == "normalize"


def test_an_annotator_does_not_settle_their_own(task: Task) -> None:
    (client, _), _ = two_drew(task)
    assert client.get(f"{page_of(task)}settle/").status_code == 403
    assert client.post(f"{page_of(task)}settle/", fields(CHAIN, act="finish")).status_code == 403
    admin, _ = login("admin")
    assert admin.get(f"{page_of(task)}settle/").status_code == 200


def test_a_viewer_reads_and_changes_nothing(task: Task) -> None:
    two_drew(task)
    viewer, _ = login("viewer")
    assert "(graph) <b>0.58</b>" in viewer.get(page_of(task)).text
    assert viewer.post(page_of(task), fields(CHAIN, act="save")).status_code == 403
    assert viewer.post("/suites/set/workflows/").status_code == 403


def test_the_family_page_says_what_is_shared_and_who_differs(suite: Suite) -> None:
    tasks, usual = list(suite.tasks.all()), draw("read extract filter align compute output")
    person = make_user(level="reviewer")
    for task in tasks[:3]:
        hand_in(task, person, usual, revision=0)
    hand_in(tasks[3], person, draw("read extract align compute output"), revision=0)
    client = Client()
    client.force_login(person)
    family = twin(client, "/suites/set/workflows/")["families"][0]
    assert [step["label"] for step in family["shared"]["steps"]] == ["read", "extract", "align", "compute", "output"]
    assert family["tasks"][0]["membership"]["adds_steps"] == ["filter"]
    assert family["tasks"][3]["membership"]["lacks_steps"] == ["filter"]
    said = client.get("/suites/set/workflows/").text
    assert "4 of 6 tasks have a workflow; 0 keep to what they share" in said
    assert "− filter" in said


def test_tasks_without_a_family_and_namesakes_of_two_environments_share_nothing(suite: Suite) -> None:
    client, user = login()
    tasks = [make_task(suite=suite, key=f"loose-{number}") for number in range(2)]
    for ordinal in (2, 3):
        family = make_family(make_environment(suite, ordinal=ordinal), name="namesake")
        tasks.append(family.tasks.first())
    for task in tasks:
        hand_in(task, user, CHAIN, revision=0)
    found = [family for family in twin(client, "/suites/set/workflows/")["families"] if family["standing"]]
    shared = sorted((family["name"] or "", family["standing"], len(family["shared"]["steps"])) for family in found)
    assert shared == [("", 2, 0), ("namesake", 1, 6), ("namesake", 1, 6)]
    assert [family["tasks"][0]["membership"] for family in found if family["name"] is None] == [None]


def test_a_file_comes_in_by_the_page_and_goes_out_alike(task: Task) -> None:
    (client, user), _ = two_drew(task)
    content = export_workflows(task.suite, user)
    assert client.get("/suites/set/workflows.yaml").content == content
    TaskWorkflow.objects.all()._raw_delete("default")
    file = SimpleUploadedFile("mine.yaml", content)
    assert "2 workflows taken in" in client.post("/suites/set/workflows/", {"file": file}, follow=True).text
    assert client.get("/suites/set/workflows.yaml").content == content
    broken = client.post("/suites/set/workflows/", {"file": SimpleUploadedFile("<b>.yaml", b"families: 3")})
    assert broken.status_code == 400
    assert "&lt;b&gt;.yaml: families: found 3 (expected a table)" in broken.text


def test_a_bundled_suite_that_nobody_used_is_recorded_with_its_first_draft() -> None:
    client, _ = login()
    url = "/suites/starter/workflows/E1-LS1-T1/"
    assert client.get(url).status_code == 200
    assert not Suite.objects.exists()
    assert client.post(url, fields(CHAIN, act="save")).status_code == 302
    assert TaskWorkflow.objects.get().task.key == "E1-LS1-T1"
    assert client.get("/suites/starter/workflows/no-such-task/").status_code == 404


def test_texts_of_strangers_are_escaped_in_the_drawing() -> None:
    svg = draw_workflow(Workflow((WorkflowStep("s1", "read", "<script>", '"><img>'),)), "<b>")
    assert "<script>" not in svg
    assert "<img>" not in svg
    assert "<b>" not in svg


def test_what_a_step_does_is_wrapped_before_it_is_cut() -> None:
    words = "take the date of each invoice, its number, the name of the client and the sum to pay out of every page"
    svg = draw_workflow(Workflow((WorkflowStep("s1", "extract", words, ""),)), "t")
    first, second = re.findall(r'class="grounding"[^>]*>([^<]*)<', svg)
    assert words.startswith(f"{first} {second[:-1]}")
    assert second.endswith("…")
    assert words in svg.partition("<title>")[2].partition("</title>")[0]
    assert draw_workflow(draw("read"), "t").count('class="grounding"') == 1


def test_edges_that_skip_layers_run_beside_the_steps() -> None:
    skipping = draw_workflow(draw("read:a extract:b<a compute:c<a,b"), "t", alone={("a", "c")})
    assert len(re.findall(r'class="edge alone" d="M[\d.]+ [\d.]+H', skipping)) == 1


def test_a_step_that_goes_leaves_its_order_behind() -> None:
    left = drop_step(CHAIN, "normalize")
    assert ("extract", "align") in left.edges
    assert compare_workflows(renumber(left), draw("read extract align compute output")).is_same
    assert [step.id for step in renumber(add_step(left)).steps] == ["s1", "s2", "s3", "s4", "s5", "s6"]


def test_queries_do_not_grow_with_tasks_and_workflows(suite: Suite) -> None:
    client, _ = login()

    def grow(count: int) -> None:
        for _ in range(count):
            two_drew(make_family(suite=suite).tasks.first())

    assert_queries_flat(client, "/suites/set/workflows/", grow)
