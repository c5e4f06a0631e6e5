from __future__ import annotations

import random
from typing import Any

import orjson
import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import Blob, Compaction, Decision, DecisionEvidence, ModelCall, Run
from benchapp.record.recorded import slot_of
from inspector.pages.library.author_call import MAX_SECTION, Prompt
from inspector.pages.library.author_call_view import MAX_UNSEEN, _split_passages
from runner.base.types import CompactionKind, Observation, Source, Step, ToolCall
from tests.cases import every
from tests.queries import assert_queries_flat
from tests.worlds.factories import (
    START,
    make_decision,
    make_episode,
    make_family,
    make_learning_run,
    make_run,
    make_snapshot,
    make_trial,
    make_user,
    record_steps,
)
from tests.worlds.review_factories import make_queue

pytestmark = pytest.mark.django_db

PROMPT = "Opening <b>words</b>.\n# First part\ntext\n````\n# not a heading\n```\n# nor this\n````\n## Second part\nmore\u202e"  # noqa: E501
LEFT = "temperature 0.25: <m> takes none"
REPLY = '{"summary": "<i>learnt</i>", "upsert_files": {"a/SKILL.md": "# A"}}'


def decide(steps: int = 60, **fields: Any) -> Decision:
    """A decision with its call and one trial of evidence of so many steps."""
    run, family = make_run(), make_family()
    episode = make_episode(run)
    trial = make_trial(episode, family.tasks.first())
    attempt = trial.counting_attempt()
    assert attempt
    told = [
        Step(n, Source.AGENT, f"said {n}", tool_calls=(ToolCall("c", "shell", {"command": "x" * 700}),),
             observations=(Observation("y" * 800, "c"),))
        for n in range(1, steps + 1)
    ]  # fmt: skip
    trajectory = record_steps(attempt, told)
    request = {"messages": [{"role": "system", "content": "Rules."}, {"role": "user", "content": PROMPT}]}
    call = ModelCall.objects.create(
        episode=episode,
        key="revise/1",
        purpose="author",
        model="m<1>",
        status="answered",
        request_id=Blob.objects.put(orjson.dumps({**request, "temperature": 0.25})),
        reply_id=Blob.objects.put(orjson.dumps({"text": REPLY, "finish_reason": "stop", "not_sent": [LEFT]})),
        input_tokens=1234,
        output_tokens=56,
        cost_usd=0.5,
        started_at=START,
    )
    patch = Blob.objects.put(orjson.dumps({"summary": "<i>learnt</i>", "upsert_files": {"a/SKILL.md": "# A"}}))
    decision = make_decision(
        episode, family, after_trial=trial, after=make_snapshot(), call=call, patch_id=patch, **fields
    )
    rich = Compaction.objects.get(trajectory=trajectory, kind=CompactionKind.RICH)
    DecisionEvidence.objects.create(decision=decision, ordinal=0, trial=trial, compaction=rich)
    return decision


def url(decision: Decision, query: str = "", name: str = "author-call") -> str:
    run = decision.episode.run
    return (
        reverse(name, args=[run.public_id]) + f"?episode={decision.episode.public_id}&decision={decision.number}{query}"
    )


def test_it_shows_the_prompt_under_its_own_headings_and_the_reply(client: Client) -> None:
    text = client.get(url(decide())).text
    for said in ("First part", "Second part", "(opening)", "1.2k", "temperature 0.25", "&lt;i&gt;learnt", "a/SKILL.md"):
        assert said in text
    assert "Opening <b>" not in text
    assert "\u202e" not in text


def test_a_heading_with_nothing_below_is_closed_and_a_trial_has_its_task_s_title(client: Client) -> None:
    prompt = "## Evidence\n\n### Trial {}\nit ran\n"
    parsed = Prompt(orjson.dumps({"messages": [{"role": "user", "content": prompt}]}))
    assert [section.is_open for section in parsed.messages[0].sections] == [False, True]
    decision = decide()
    request = {"messages": [{"role": "user", "content": prompt.format(slot_of(decision.after_trial))}]}
    ModelCall.objects.filter(pk=decision.call_id).update(request_id=Blob.objects.put(orjson.dumps(request)))
    assert f"/0</b> {decision.after_trial.task.title}" in client.get(url(decision)).text


def test_it_says_what_was_not_sent(client: Client) -> None:
    assert "Not sent: temperature 0.25: &lt;m&gt; takes none" in client.get(url(decide())).text


def test_only_headings_outside_a_fence_begin_a_part() -> None:
    prompt = Prompt(orjson.dumps({"messages": [{"role": "user", "content": PROMPT}]}))
    assert [section.title for section in prompt.messages[0].sections] == ["", "First part", "Second part"]
    assert sum(section.length for section in prompt.messages[0].sections) == len(PROMPT) == prompt.length


def test_settings_are_named_as_a_reader_would() -> None:
    asked = {"messages": [], "temperature": 0, "max_tokens": 50, "seed": None, "json_object": True}
    settings = [("temperature", "0"), ("max tokens", "50"), ("reply format", "JSON")]
    assert list(Prompt(orjson.dumps(asked)).settings) == settings
    assert Prompt(orjson.dumps({"messages": [], "json_object": False})).settings == []


def test_a_prompt_of_any_shape_is_shown() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    odd = [{"type": "image"}]
    contents = ["", None, parts, odd]
    prompt = Prompt(orjson.dumps({"messages": [{"role": "user", "content": content} for content in contents]}))
    texts = [message.text for message in prompt.messages]
    assert texts[:3] == ["", "", "one\ntwo"]
    assert "image" in texts[3]


def test_the_exact_texts_are_plain_text(client: Client) -> None:
    decision = decide()
    call = decision.call
    assert call
    for part, expected in (("2", PROMPT), ("reply", REPLY)):
        response = client.get(reverse("author-text", args=[decision.episode.run.public_id, call.public_id, part]))
        assert (response.content.decode(), response["Content-Type"]) == (expected, "text/plain; charset=utf-8")
    for part in ("9", "0", "0000019", "1" * 5_000):
        response = client.get(reverse("author-text", args=[decision.episode.run.public_id, call.public_id, part]))
        assert response.status_code == 404
    assert client.get(reverse("author-text", args=[make_run().public_id, call.public_id, "1"])).status_code == 404


def test_its_twin_has_the_exact_texts(client: Client) -> None:
    found = client.get(url(decide(), name="author-call-json")).json()
    assert [message["text"] for message in found["prompt"]] == ["Rules.", PROMPT]
    assert (found["reply"], found["call"]["cost_usd"]) == (REPLY, 0.5)


def test_what_compaction_cut_is_marked_and_can_be_asked_for(client: Client) -> None:
    decision = decide()
    found = client.get(url(decision, "&show=evidence", name="author-call-json")).json()
    shown = [step["shown"] for step in found["steps"]]
    assert (len(shown), sum(shown)) == (25, 8)  # rich keeps the first eight and the last twelve
    assert all(0 < step["characters_shown"] < step["characters"] for step in found["steps"][:8])
    text = client.get(url(decision, "&show=evidence")).text
    assert "not shown" in text
    assert text.count('class="unseen"') > 25
    assert "field/?trajectory=" in text
    last = client.get(url(decision, "&show=evidence&step=last", name="author-call-json")).json()
    assert all(step["shown"] for step in last["steps"])


def test_evidence_that_was_cut_to_a_context_window_is_said_to_be(client: Client) -> None:
    told = "the author's prompt: 9,000 characters of evidence were left out to fit <8,192> tokens"
    finding = {"rule": "context-window", "path": "", "message": told, "severity": "warning"}
    text = client.get(url(decide(findings=[finding]), "&show=evidence")).text
    assert "The author saw less than is drawn here (the author&#x27;s prompt: 9,000 characters" in text
    assert "&lt;8,192&gt; tokens)." in text


@every(*range(60))
def test_the_passages_of_a_field_are_the_field(seed: int) -> None:
    dice = random.Random(seed)
    length, ends = dice.randrange(4 * MAX_UNSEEN), [dice.randrange(4 * MAX_UNSEEN) for _ in range(dice.randrange(7))]
    text = "".join(chr(97 + place % 26) for place in range(length))
    cuts = sorted({min(end, length) for end in ends})
    kept = list(zip(cuts[::2], cuts[1::2], strict=False))
    passages = list(_split_passages(text, len(text), kept))
    whole = "".join(part.head + text[part.start : part.end] * (not part.seen) + part.tail for part in passages)
    assert whole == text
    assert "".join(part.head for part in passages if part.seen) == "".join(text[start:end] for start, end in kept)


def test_a_passage_that_was_seen_is_shown_whole() -> None:
    text = "".join(f"line {number}\n" for number in range(9_000))
    (passage,) = _split_passages(text, len(text), [(0, len(text))])
    assert passage.head == text


def test_what_the_reply_writes_is_cut_nowhere_in_silence(client: Client) -> None:
    decision = decide()
    for lines in (5_000, 50_000):
        body = "".join(f"line {number}\n" for number in range(lines)) + "the end"
        patch = Blob.objects.put(orjson.dumps({"summary": "s", "upsert_files": {"a/SKILL.md": body}}))
        Decision.objects.filter(pk=decision.pk).update(patch_id=patch)
        text = client.get(url(decision)).text
        assert ("the end" in text) == (len(body) < MAX_SECTION)
        assert ("characters in total: the reply" in text) == (len(body) > MAX_SECTION)


def test_a_decision_without_its_call_says_so(client: Client) -> None:
    run = make_learning_run(environments=1, families=1)
    assert "is not recorded" in client.get(reverse("author-call", args=[run.public_id])).text


@pytest.mark.parametrize(
    "query", ["?episode=x&decision=y", "?show=evidence&evidence=99", "?decision=99&first=x&step=-1"]
)
def test_nonsense_in_the_address_gives_a_page(client: Client, query: str) -> None:
    run: Run = decide().episode.run
    assert client.get(reverse("author-call", args=[run.public_id]) + query).status_code == 200


def test_a_run_without_an_author_says_so(client: Client) -> None:
    assert "No author worked here" in client.get(reverse("author-call", args=[make_run().public_id])).text


def test_it_is_closed_with_the_library(client: Client, settings: pytest.FixtureRequest) -> None:
    settings.SINGLE_USER = False  # type: ignore[attr-defined]
    person = make_user(level="reviewer")
    decision = decide()
    make_queue([decision.episode.trials.get()], reviewers=[person])
    client.force_login(person)
    call = decision.call
    assert call
    text = reverse("author-text", args=[decision.episode.run.public_id, call.public_id, "1"])
    assert [client.get(address).status_code for address in (url(decision), url(decision, "&show=evidence"), text)] == [
        403
    ] * 3


def test_the_time_machine_leads_to_it(client: Client) -> None:
    decision = decide()
    assert "library/author/?episode=" in client.get(decision.get_absolute_url()).text


@pytest.mark.parametrize("show", ["call", "evidence"])
def test_its_queries_do_not_grow(client: Client, show: str) -> None:
    decision = decide()

    def make(count: int) -> None:
        for _ in range(count):
            place = decision.evidence.count()
            trial = make_trial(decision.episode)
            attempt = trial.counting_attempt()
            assert attempt
            trajectory = record_steps(attempt, [Step(1, Source.AGENT, "x")])
            rich = trajectory.compactions.get(kind="rich")
            DecisionEvidence.objects.create(decision=decision, ordinal=place, trial=trial, compaction=rich)
            make_decision(decision.episode, decision.family)

    assert_queries_flat(client, url(decision, f"&show={show}&evidence=1"), make)
