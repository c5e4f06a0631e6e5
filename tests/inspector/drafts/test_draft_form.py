"""`/drafts/new/`: what it offers, what it sends on, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from benchapp.models import Draft
from inspector.pages.drafts import drafts_view
from inspector.pages.drafts.drafts_view import SPLIT
from runner.base.errors import SetupError
from runner.drafting.draft import DraftBrief, Loop
from tests.worlds.factories import make_user

pytestmark = pytest.mark.django_db

NEW = "/drafts/new/"
FILLED = {
    "loop": "corpus",
    "family": "late-fees",
    "goal": "Fees.\r\nOnly fees.",
    "tasks": "2",
    "image": "python:3.12",
    "model": "scripted/apprentice",
    "max_revisions": "4",
    "max_calls": "9",
    "max_usd": "",
    "act": "start",
    "corpus": f"starter-corpora{SPLIT}regatta-rules",
}


@pytest.fixture
def client(settings: Any) -> Client:
    settings.SINGLE_USER = False
    found = Client()
    found.force_login(make_user(level="operator"))
    return found


def test_a_draft_is_started_from_a_corpus_with_files_of_your_own(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: dict[str, Any] = {}
    begin = drafts_view.start_draft

    def start(brief: DraftBrief, files: Any, model: str, by: Any, **limits: Any) -> Draft:
        started.update(brief=brief, files=files, model=model, by=by, limits=limits)
        return begin(brief, files, model, by, **limits)

    monkeypatch.setattr(drafts_view, "start_draft", start)
    typed = {"path": ["corpus/extra.md", ""], "text": ["# Extra\r\n", ""]}
    answer = client.post(NEW, {**FILLED, **typed})
    draft = Draft.objects.get()
    assert answer["Location"] == f"/drafts/{draft.public_id}/"
    assert started["brief"] == DraftBrief(
        loop=Loop.CORPUS, family="late-fees", goal="Fees.\nOnly fees.", tasks=2, max_revisions=4, image="python:3.12"
    )
    assert started["limits"] == {"max_calls": 9, "max_usd": None}
    assert started["files"]["corpus/extra.md"].content == b"# Extra\n"
    assert len(started["files"]) > 1
    assert (draft.max_calls, draft.model) == (9, "scripted/apprentice")
    assert client.get(answer["Location"]).status_code == 200


@pytest.mark.parametrize(("loop", "begin", "tasks"), [("instances", "E1-LS1-T1", 1), ("reference", "E1-LS1", 6)])
def test_a_draft_is_started_from_a_task_or_a_family(client: Client, loop: str, begin: str, tasks: int) -> None:
    client.post(NEW, {**FILLED, "loop": loop, "suite": "starter", "begin": begin})
    paths = Draft.objects.get().head.manifest()
    assert len({path.split("/")[1] for path in paths}) == tasks
    assert all(path.startswith("tasks/late-fees-") for path in paths)


def test_the_form_offers_what_fits_the_loop(client: Client) -> None:
    said = client.get(NEW).text
    assert 'name="corpus"' in said
    assert "regatta" in said.lower()
    assert 'name="begin"' not in said
    said = client.get(f"{NEW}?loop=instances&suite=starter").text
    assert 'name="corpus"' not in said
    assert '<option value="E1-LS1-T1">' in said
    said = client.get(f"{NEW}?loop=reference&suite=starter").text
    assert '<option value="E1-LS1">' in said
    assert '<option value="E1-LS1-T1">' not in said


def test_a_choice_redraws_the_form_and_starts_nothing(client: Client) -> None:
    sent = {**FILLED, "act": "write", "loop": "expansion", "suite": "starter", "family": "Bad Name"}
    answer = client.post(NEW, sent)
    assert answer.status_code == 200
    assert 'value="Bad Name"' in answer.text
    assert "Nothing was started" not in answer.text
    more = client.post(NEW, {**FILLED, "act": "add", "path": ["a.md"], "text": ["</textarea><script>"]}).text
    assert more.count('name="path"') == 2
    assert "</textarea><script>" not in more
    assert not Draft.objects.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"family": "Late Fees"}, "Expected lower-case letters, digits and single hyphens"),
        ({"family": ""}, "Name the family"),
        ({"tasks": "many"}, "Enter a whole number"),
        ({"tasks": "0"}, "greater than or equal to 1"),
        ({"loop": "guess"}, "Nothing was started"),
        ({"model": ""}, "Nothing was started"),
        ({"max_calls": "-1"}, "greater than or equal to 1"),
        ({"corpus": f"nowhere{SPLIT}x"}, "unknown suite"),
        ({"corpus": "", "path": "../x", "text": "y"}, "is not a plain relative path"),
        ({"corpus": "", "path": "corpus/x", "text": "y" * 200_001}, "expected a text of at most 200,000"),
        ({"loop": "instances", "suite": "starter", "begin": "nowhere"}, "expected one of its tasks"),
        ({"loop": "instances"}, "Nothing was started"),
    ],
)
def test_what_is_wrong_is_named_and_what_was_typed_stays(client: Client, change: dict[str, str], said: str) -> None:
    answer = client.post(NEW, {**FILLED, **change})
    assert answer.status_code == 422
    assert said in answer.text.replace("&#x27;", "'")
    assert "Fees.\nOnly fees.</textarea>" in answer.text
    assert not Draft.objects.exists()


def test_the_problem_of_a_start_is_shown_as_text(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise SetupError("corpus/: <b>empty</b>")

    monkeypatch.setattr(drafts_view, "start_draft", refuse)
    assert "Nothing was started. corpus/: &lt;b&gt;empty&lt;/b&gt;" in client.post(NEW, FILLED).text


def test_the_twin_lists_the_loops(client: Client) -> None:
    found = client.get("/drafts/new.json").json()
    assert [each["loop"] for each in found["loops"]] == ["corpus", "expansion", "instances", "reference"]
    assert found["values"]["max_calls"] == "60"
