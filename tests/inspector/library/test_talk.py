"""What student and teacher said before a decision stands beside it, each turn with its own texts."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import Blob, Decision, Episode, ModelCall
from benchapp.record.recorded import slot_of
from inspector.evolution.decision_words import describe_decision
from inspector.web.access import local_user
from runner.authoring.teaching import RULE, list_teaching_keys
from runner.base.types import AuthorMode, DecisionStatus
from tests.queries import count_queries
from tests.worlds.factories import START, make_decision, make_episode, make_family, make_run, make_snapshot, make_trial

pytestmark = pytest.mark.django_db

LEAK = {"rule": RULE, "path": "", "message": "advice 1 shares 93%", "severity": "warning"}
SAID = ("Which row <i>first</i>?", "Copied <b>text</b>.", "Look at the notes.")


def decided(*said: str, findings: list[Any] | None = None, mode: str = AuthorMode.CORRECT) -> Decision:
    """A decision after a failed trial, with as many turns of talk as there are texts."""
    run, family = make_run(condition="teacher-feedback"), make_family()
    episode = make_episode(run, protocol="skilllearnbench")
    trial = make_trial(episode, family.tasks.first(), success=False)
    for key, text in zip(list_teaching_keys(family.key, slot_of(trial)), said, strict=False):
        _call(episode, key, "student" if key.startswith("questions/") else "teacher", text)
    return make_decision(
        episode,
        family,
        after_trial=trial,
        after=make_snapshot(),
        call=_call(episode, "correct/1", "author", "{}"),
        mode=mode,
        operation_type="",
        findings=findings or [],
    )


def _call(episode: Episode, key: str, purpose: str, text: str) -> ModelCall:
    messages = [{"role": "system", "content": "Rules."}, {"role": "user", "content": f"Prompt of {key}."}]
    return ModelCall.objects.create(
        episode=episode,
        key=key,
        purpose=purpose,
        model="m<1>",
        status="answered",
        request_id=Blob.objects.put(orjson.dumps({"messages": messages})),
        reply_id=Blob.objects.put(orjson.dumps({"text": text, "finish_reason": "stop"})),
        started_at=START,
    )


def url(decision: Decision, name: str = "author-call") -> str:
    return reverse(name, args=[decision.episode.run.public_id]) + f"?episode={decision.episode.public_id}"


def test_each_turn_is_told_with_what_was_held_back(client: Client) -> None:
    decision = decided(*SAID, findings=[LEAK])
    page = client.get(url(decision)).content.decode()
    assert "Messages before" in page
    assert page.count("held back") == 1
    assert "Which row &lt;i&gt;first&lt;/i&gt;?" in page
    assert "<b>text</b>" not in page
    talk = client.get(url(decision, "author-call-json")).json()["talk"]
    assert [(turn["purpose"], turn["said"], turn["held_back"]) for turn in talk] == [
        ("student", SAID[0], False),
        ("teacher", SAID[1], True),
        ("teacher", SAID[2], False),
    ]


def test_every_text_of_a_turn_can_be_read_whole(client: Client) -> None:
    decision = decided(*SAID)
    for call in ModelCall.objects.filter(purpose__in=("student", "teacher")):
        address = reverse("author-text", args=[decision.episode.run.public_id, call.public_id, "2"])
        assert client.get(address).content.decode() == f"Prompt of {call.key}."


def test_a_decision_without_a_teacher_has_no_such_part(client: Client) -> None:
    page = client.get(url(decided())).content.decode()
    assert "Messages before" not in page


def test_the_number_of_queries_does_not_grow_with_the_turns(client: Client) -> None:
    short, long = decided(SAID[0]), decided(*SAID)
    local_user()
    assert count_queries(client, url(short)) == count_queries(client, url(long))


@pytest.mark.parametrize(
    ("mode", "word"), [("write", "Written"), ("craft", "Drafted"), ("refine", "Refined"), ("correct", "Revised")]
)
def test_the_rail_names_what_an_answer_without_operation_did(mode: str, word: str) -> None:
    assert describe_decision(decided(mode=mode))[0] == word
    assert describe_decision(Decision(mode=mode, status=DecisionStatus.NO_OP))[0] == "No change"


def test_the_library_page_says_who_saw_the_verdict(client: Client) -> None:
    page = client.get(url(decided(*SAID), "library") + "&decision=1").content.decode()
    assert "Verdict its teacher saw" in page
    kept = client.get(url(decided(mode="reflect"), "library") + "&decision=1").content.decode()
    assert "Verdict kept from it" in kept
