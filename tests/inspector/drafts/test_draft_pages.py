"""`/drafts/`: the list, the page with a draft's provenance, its steps and files, and what people do there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.drafting.draft_suites import Readiness, ReadinessCheck, TaskReadiness
from benchapp.models import Draft, DraftStep, User
from inspector.pages.drafts import draft as draft_page
from inspector.pages.drafts import drafts_view
from runner.base.errors import SetupError
from tests.queries import assert_queries_flat
from tests.worlds.factories import make_suite, make_user
from tests.worlds.recorded_drafts import add_answer, add_step, make_draft, make_whole_draft

pytestmark = pytest.mark.django_db

OPEN, PASSED, FAILED = (ReadinessCheck(state, f"said {state}", "/suites/x/") for state in Readiness)


@pytest.fixture(autouse=True)
def _accounts(settings: Any) -> None:
    settings.SINGLE_USER = False


def login(level: str = "operator") -> tuple[Client, User]:
    user = make_user(level=level)
    client = Client()
    client.force_login(user)
    return client, user


def page_of(draft: Draft) -> str:
    return f"/drafts/{draft.public_id}/"


def twin(client: Client, url: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"{url.partition('?')[0].rstrip('/')}.json").json()
    return found


def say_ready(monkeypatch: pytest.MonkeyPatch, **checks: tuple[ReadinessCheck, ReadinessCheck, ReadinessCheck]) -> None:
    """What is found out about the tasks, "late_fees_1" for late-fees-1."""
    found = [TaskReadiness(key.replace("_", "-"), *three) for key, three in checks.items()]
    monkeypatch.setattr(draft_page, "read_readiness", lambda draft: found)


# --- the page -----------------------------------------------------------------------------------------------------


def test_the_page_shows_who_did_what_in_every_step() -> None:
    client, user = login()
    draft = make_whole_draft(user)
    said = client.get(page_of(draft)).text
    assert said.count('<li id="step-') == 12
    step = {number: said.partition(f'id="step-{number}"')[2].partition("</li>")[0] for number in range(1, 13)}
    assert "1 added" in step[1]
    assert "unusable answer" in step[3]
    assert "found text without any object" in step[3]
    assert "scenario 3: left out" in step[4]
    assert "returned" in step[6]
    assert "Returned: a defect" not in step[6]  # the critic's own words say more
    assert "counts the due date as a late day" in step[6]
    assert "taken" in step[8]
    assert "6 added" in step[5]
    assert "tasks/late-fees-1</small>" in step[5]
    assert "tasks/late-fees-2/instruction.md</small>" in step[10]
    assert f"{user.username} edited" in step[10]
    assert "1 changed" in step[10]
    assert "no reply" in step[11]
    assert "Tried as a suite" in step[12]
    assert all("scripted model" in step[number] for number in (2, 3, 4, 5, 6, 7, 8, 9, 11))
    assert not any("scripted model" in step[number] for number in (1, 10, 12))


def test_texts_of_models_and_people_stay_texts() -> None:
    client, user = login()
    draft = make_whole_draft(user)
    for url in (page_of(draft), *(f"{page_of(draft)}steps/{number}/" for number in (3, 5, 6))):
        said = client.get(url).text
        assert "<script>alert" not in said
        assert "<i>branch</i>" not in said
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in client.get(page_of(draft)).text


def test_files_name_the_step_that_wrote_them_last() -> None:
    client, user = login()
    found = {file["path"]: file["step"] for file in twin(client, page_of(make_whole_draft(user)))["files"]}
    assert found["corpus/fees.md"] == 1
    assert found["tasks/late-fees-1/tests/expected.csv"] == 7
    assert found["tasks/late-fees-1/instruction.md"] == 5
    assert found["tasks/late-fees-2/instruction.md"] == 10


def test_a_removed_file_is_in_no_list() -> None:
    client, user = login()
    draft = make_draft({"corpus/a.md": "a", "corpus/b.md": "b"})
    add_step(draft, "edit", {"corpus/b.md": None}, by=user)
    found = twin(client, page_of(draft))
    assert [file["path"] for file in found["files"]] == ["corpus/a.md"]
    assert found["steps"][1]["files"] == {"removed": ["corpus/b.md"]}


def test_sums_leave_out_what_is_unknown() -> None:
    client, user = login()
    draft = make_draft()
    assert twin(client, page_of(draft))["spent"] == {"input_tokens": None, "output_tokens": None, "cost_usd": None}
    add_answer(draft, "reader", "reader", {}, cost_usd=None)
    add_answer(draft, "planner", "planner", {}, cost_usd=0.25)
    assert twin(client, page_of(draft))["spent"] == {"input_tokens": 4620, "output_tokens": 1690, "cost_usd": 0.25}


def test_more_steps_take_no_more_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    client, _ = login()
    draft = make_draft(status="done")
    say_ready(monkeypatch, late_fees_1=(OPEN, OPEN, OPEN))

    def add(number: int) -> None:
        add_answer(draft, "architect", f"task/{number}", {f"tasks/late-fees-{number}/instruction.md": "Do it."})

    assert_queries_flat(client, page_of(draft), add)


# --- what it is now -----------------------------------------------------------------------------------------------


def state_of(client: Client, draft: Draft) -> dict[str, Any]:
    found: dict[str, Any] = twin(client, page_of(draft))["state"]
    return found


def test_a_running_draft_says_who_is_asked_and_asks_again() -> None:
    client, _ = login()
    draft = make_draft(worker="host-1", lease_until=timezone.now() + timedelta(minutes=5))
    add_answer(draft, "critic", "critic/1", {}, status="started", says=None)
    assert state_of(client, draft)["says"] == "The critic is asked."
    assert 'hx-trigger="every 3s"' in client.get(page_of(draft)).text
    part = client.get(f"{page_of(draft)}?seen=1", headers={"HX-Request": "true"}).text
    assert "<html" not in part
    assert "Show 1 new step<" in part
    Draft.objects.update(lease_until=timezone.now() - timedelta(minutes=5))
    assert state_of(client, draft)["says"] == "Waiting for a worker."


def test_a_stopped_draft_gives_its_reason_and_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    client, user = login()
    draft = make_draft(status="stopped", reason="the limit of <b>9</b> calls")
    state = state_of(client, draft)
    assert (state["says"], state["why"]) == ("Stopped.", "the limit of <b>9</b> calls")
    assert "the limit of &lt;b&gt;9&lt;/b&gt; calls" in client.get(page_of(draft)).text
    assert [act["act"] for act in state["acts"]] == ["go-on"]
    assert 'hx-trigger="every' not in client.get(page_of(draft)).text
    called = []
    monkeypatch.setattr(drafts_view, "go_on", lambda row, by: called.append((row.pk, by)))
    assert client.post(page_of(draft), {"act": "go-on"}).status_code == 302
    assert called == [(draft.pk, user)]


def test_the_next_act_leads_from_a_trial_to_an_admission(monkeypatch: pytest.MonkeyPatch) -> None:
    client, _ = login()
    draft = make_draft({"tasks/late-fees-1/instruction.md": "x"}, status="done")
    not_yet = ReadinessCheck(Readiness.OPEN, "not tried as a suite")
    say_ready(monkeypatch, late_fees_1=(not_yet, not_yet, not_yet))
    assert [act["words"] for act in state_of(client, draft)["acts"]] == ["Try as suite"]
    draft.suite = make_suite(key="draft-x")
    draft.save()
    assert "changed since they were tried" in state_of(client, draft)["says"]
    say_ready(monkeypatch, late_fees_1=(PASSED, PASSED, OPEN), late_fees_2=(FAILED, PASSED, OPEN))
    state = state_of(client, draft)
    assert state["says"] == "0 of 2 tasks ready."
    assert state["waits"] == "1 task failed a check: change it. Next: qualify."
    assert state["acts"][0]["url"].endswith("/launch/?qualify=draft-x")
    assert state["may_admit"] is False
    say_ready(monkeypatch, late_fees_1=(PASSED, PASSED, PASSED), late_fees_2=(PASSED, FAILED, PASSED))
    said = client.get(page_of(draft)).text
    assert 'value="late-fees-1" form="admit" aria-label="Admit late-fees-1" checked' in said
    assert 'value="late-fees-2" form="admit" aria-label="Admit late-fees-2" disabled' in said
    say_ready(monkeypatch, late_fees_1=(PASSED, PASSED, PASSED))
    assert state_of(client, draft)["may_admit"] is True
    draft.admitted_as = draft.suite
    draft.save()
    add_step(draft, "admission", {})
    assert state_of(client, draft)["says"] == "Admitted as draft-x."


def test_screening_comes_before_workflows_and_these_before_qualification(monkeypatch: pytest.MonkeyPatch) -> None:
    client, _ = login()
    draft = make_draft(status="done", suite=make_suite(key="draft-x"))
    for three, words in (((OPEN, OPEN, OPEN), "Screen"), ((PASSED, OPEN, OPEN), "Draw workflows")):
        say_ready(monkeypatch, late_fees_1=three)
        assert state_of(client, draft)["acts"][0]["words"] == words


def test_an_edit_after_the_last_answer_lets_the_loop_continue() -> None:
    client, user = login()
    draft = make_draft(status="done")
    assert "go-on" not in [act["act"] for act in state_of(client, draft)["acts"]]
    add_step(draft, "edit", {"corpus/fees.md": "other"}, by=user)
    assert "go-on" in [act["act"] for act in state_of(client, draft)["acts"]]


def test_tasks_are_admitted_by_name_and_refusals_give_their_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    client, user = login()
    draft = make_draft(status="done", suite=make_suite(key="draft-x"))
    say_ready(monkeypatch, late_fees_1=(PASSED, PASSED, PASSED))
    asked = []

    def admit(row: Draft, key: str, by: User, tasks: list[str]) -> Any:
        asked.append((key, by, tasks))
        if key == "taken":
            raise SetupError("taken is the name of\nanother <b>suite</b>")
        return make_suite(key=key)

    monkeypatch.setattr(drafts_view, "admit", admit)
    refused = client.post(page_of(draft), {"act": "admit", "key": "taken", "task": ["late-fees-1"]})
    assert refused.status_code == 422
    assert "taken is the name of<br>another &lt;b&gt;suite&lt;/b&gt;" in refused.text
    assert 'name="key" id="id_key" value="taken"' in refused.text
    assert client.post(page_of(draft), {"act": "admit", "key": "fees", "task": ["late-fees-1"]}).status_code == 302
    assert asked == [(key, user, ["late-fees-1"]) for key in ("taken", "fees")]


def test_stop_and_try_reach_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    client, _ = login()
    draft = make_draft()
    client.post(page_of(draft), {"act": "stop"})
    assert Draft.objects.get().status == "stopped"
    monkeypatch.setattr(drafts_view, "try_as_suite", lambda row, by: make_suite(key="draft-y"))
    said = client.post(page_of(draft), {"act": "try"}, follow=True).text
    assert "Written as suite draft-y and screened." in said
    assert client.post(page_of(draft), {"act": "explode"}).status_code == 404


@pytest.mark.parametrize("level", ["viewer", "reviewer"])
def test_others_read_and_change_nothing(level: str) -> None:
    client, _ = login(level)
    draft = make_whole_draft(make_user(level="operator"))
    file = f"{page_of(draft)}files/corpus/fees.md/"
    for url in ("/drafts/", "/drafts/new/", page_of(draft), f"{page_of(draft)}steps/6/", file):
        said = client.get(url)
        assert said.status_code == 200
        assert 'class="button primary"' not in said.text
    assert "# Late fees of the library" in client.get(file).text
    assert "<textarea" not in client.get(file).text
    assert 'name="act"' not in client.get(page_of(draft)).text
    for url in ("/drafts/new/", page_of(draft), file):
        assert client.post(url, {"act": "stop"}).status_code == 403
    assert client.get(f"{page_of(draft)}files/corpus/new.md/").status_code == 404
    assert DraftStep.objects.count() == 12


# --- steps --------------------------------------------------------------------------------------------------------


def test_a_step_shows_its_difference_its_prompt_and_its_reply() -> None:
    client, user = login()
    draft = make_whole_draft(user)
    said = client.get(f"{page_of(draft)}steps/7/").text
    assert said.count('class="step-parts"') == 1
    assert "−1</span>" in said
    assert "You are the architect" in said
    found = twin(client, f"{page_of(draft)}steps/7/")
    assert found["diff"] == [
        {"path": "tasks/late-fees-1/tests/expected.csv", "status": "M", "added": 1, "removed": 1, "note": ""}
        | {"lines_left_out": 0}
    ]
    assert [message["role"] for message in found["prompt"]] == ["system", "user"]
    assert found["reply"] == '{"files": {}}'
    assert "No reply is recorded." in client.get(f"{page_of(draft)}steps/11/").text
    assert client.get(f"{page_of(draft)}steps/13/").status_code == 404


def test_one_file_of_a_step_is_shown_whole() -> None:
    client, _ = login()
    draft = make_draft({f"corpus/{number:02}.md": f"{number}\n" * 40 for number in range(40)})
    said = client.get(f"{page_of(draft)}steps/1/").text
    assert "10 more changed files:" in said
    assert "?file=corpus/39.md" in said.replace("%2F", "/")
    assert "corpus/38.md" not in client.get(f"{page_of(draft)}steps/1/?file=corpus/39.md").text


def test_differences_of_two_steps_have_names_of_their_own() -> None:
    client, user = login()
    draft = make_whole_draft(user)
    pages = [client.get(f"{page_of(draft)}steps/{number}/").text for number in (5, 9)]
    named = [{part.partition('"')[0] for part in page.split('id="f')[1:]} for page in pages]
    assert all(named)
    assert not named[0] & named[1]


# --- files --------------------------------------------------------------------------------------------------------


def test_a_file_is_changed_added_and_removed() -> None:
    client, _ = login()
    draft = make_draft()
    url = f"{page_of(draft)}files/corpus/fees.md/"
    head = twin(client, url)["head"]
    answer = client.post(url, {"text": "# Other\r\n\r\nline\r\n", "head": head})
    assert answer["Location"] == f"{page_of(draft)}#step-2"
    assert twin(client, url)["text"] == "# Other\n\nline\n"
    assert twin(client, url)["steps"] == [1, 2]
    new = f"{page_of(draft)}files/notes/x.json/"
    assert "Saving adds it." in client.get(new).text
    client.post(new, {"text": "{}", "head": twin(client, url)["head"]})
    client.post(url, {"act": "remove", "head": twin(client, new)["head"]})
    assert client.get(f"{url[:-1]}.json").status_code == 404
    assert [step.kind for step in draft.steps.all()] == ["given", "edit", "edit", "edit"]


def test_a_save_over_a_moved_head_is_refused_and_keeps_the_text() -> None:
    (client, _), (other, _) = login(), login()
    draft = make_draft()
    url = f"{page_of(draft)}files/corpus/fees.md/"
    head = twin(client, url)["head"]
    other.post(url, {"text": "theirs\n", "head": head})
    refused = client.post(url, {"text": "mine\n</textarea><script>x</script>", "head": head})
    assert refused.status_code == 409
    assert "mine\n&lt;/textarea&gt;&lt;script&gt;x&lt;/script&gt;</textarea>" in refused.text
    assert "What saving would change now" in refused.text
    now = Draft.objects.get().head.digest
    assert f'name="head" value="{now}"' in refused.text
    assert twin(client, url)["text"] == "theirs\n"
    assert client.post(url, {"text": "mine\n", "head": now}).status_code == 302


def test_a_path_outside_a_binary_file_and_too_long_a_text_are_refused() -> None:
    client, _ = login()
    draft = make_draft({"corpus/a.bin": "\x00\x01", "corpus/fees.md": "x"})
    assert client.get(f"{page_of(draft)}files/../../etc/passwd/").status_code == 404
    assert "is not shown: it is binary" in client.get(f"{page_of(draft)}files/corpus/a.bin/").text
    long = {"text": "x" * 200_001, "head": draft.head.digest}
    assert client.post(f"{page_of(draft)}files/corpus/fees.md/", long).status_code == 422
    for path in ("../x", "/etc/passwd", "a//b", "x" * 400, "a\x07b"):
        assert client.post(page_of(draft), {"act": "open", "path": path}).status_code == 422
    opened = client.post(page_of(draft), {"act": "open", "path": " tasks/a/trap/solve.sh "})
    assert opened["Location"] == f"{page_of(draft)}files/tasks/a/trap/solve.sh/"
    assert draft.steps.count() == 1


# --- where it is linked -------------------------------------------------------------------------------------------


def test_the_list_and_the_suites_name_their_drafts() -> None:
    client, user = login()
    assert "No draft yet" in client.get("/drafts/").text
    draft = make_whole_draft(user)
    suite = make_suite(key="late-fees")
    said = client.get(f"/suites/{draft.suite.key}/").text
    assert "A draft tries its tasks here" in said
    Draft.objects.update(admitted_as=suite, model="scripted/careful")
    said = client.get("/suites/late-fees/").text
    told = said[said.index("A model drafted its tasks") :][:400]
    assert f'<a href="{page_of(draft)}">late-fees</a>' in told
    assert "scripted model" in told
    assert [each["name"] for each in twin(client, "/suites/late-fees/")["drafts"]] == ["late-fees"]
    assert "drafts" not in twin(client, f"/suites/{make_suite().key}/")
    row = twin(client, "/drafts/")["drafts"][0]
    assert (row["steps"], row["edits"], row["scripted"], row["admitted_as"]) == (12, 1, True, "late-fees")
    assert 'href="/drafts/new/"' in client.get("/suites/").text
    assert 'href="/drafts/"' in client.get("/launch/").text


def test_more_drafts_take_no_more_queries() -> None:
    client, user = login()
    assert_queries_flat(client, "/drafts/", lambda number: make_draft(asked_by=user, admitted_as=make_suite()))
