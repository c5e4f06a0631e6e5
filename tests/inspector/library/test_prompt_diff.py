"""What a pack has asked stands beside what we would ask, on the page of what the author saw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import Blob, Decision, ModelCall
from runner.base.types import AuthorMode
from runner.prompts.pack_taking import keep_pack, take_prompts
from runner.protocols.conditions import find_condition
from runner.protocols.prompt_choice import describe_prompts
from tests.runner.prompts.small_papers import layout_named, small_paper
from tests.worlds.factories import START, make_decision, make_episode, make_family, make_run, make_snapshot, make_trial

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKILLGLASS_VAR", str(tmp_path / "var"))
    layout = layout_named("skilllearnbench")
    text = small_paper(layout, revision="One <b>rule</b>. " * 20, teacher_user="Ours to\ntell.")
    (tmp_path / "skilllearnbench.txt").write_text(text, "utf-8")
    taken = next(each.pack for each in take_prompts(tmp_path / "skilllearnbench.txt").packs if each.pack)
    return keep_pack(taken)


def decided(condition: str, mode: str = AuthorMode.CORRECT, protocol: str = "skilllearnbench") -> Decision:
    prompts = describe_prompts(find_condition(condition, protocol), protocol)
    run = make_run(condition=condition, setup={"prompts": prompts} if prompts else {})
    episode, family = make_episode(run, protocol=protocol), make_family()
    call = ModelCall.objects.create(
        episode=episode,
        key="correct/1",
        purpose="author",
        model="m",
        status="answered",
        request_id=Blob.objects.put(orjson.dumps({"messages": [{"role": "user", "content": "Sent."}]})),
        reply_id=Blob.objects.put(orjson.dumps({"text": "{}", "finish_reason": "stop"})),
        started_at=START,
    )
    trial = make_trial(episode, family.tasks.first(), success=False)
    return make_decision(
        episode, family, after_trial=trial, after=make_snapshot(), call=call, mode=mode, operation_type=""
    )


def seen(client: Client, decision: Decision) -> tuple[str, dict[str, Any]]:
    asked = f"?episode={decision.episode.public_id}"
    page = client.get(reverse("author-call", args=[decision.episode.run.public_id]) + asked).text
    return page, client.get(reverse("author-call-json", args=[decision.episode.run.public_id]) + asked).json()


def test_every_prompt_of_the_decision_is_held_against_ours(client: Client) -> None:
    page, twin = seen(client, decided("teacher-feedback~paper"))
    assert "Against Skillglass&#x27;s prompt" in page or "Against Skillglass's prompt" in page
    assert twin["pack"]["packs"] == ["skilllearnbench"]
    assert [(each["role"], each["occasion"]) for each in twin["pack"]["differences"]] == [
        ("teacher", "advice"),
        ("author", "correct"),
    ]
    assert {each["message"] for each in twin["pack"]["differences"][0]["messages"]} == {
        "system message",
        "user message",
    }
    assert "One &lt;b&gt;rule&lt;/b&gt;." in page
    assert "<b>rule</b>" not in page
    assert "{{advice}}" in page  # under our name for the value, on both sides
    assert "{{feedback}}" not in page
    assert page.count('id="pack"') == 1


def test_a_long_line_is_compared_by_its_sentences(client: Client) -> None:
    page, _ = seen(client, decided("teacher-feedback~paper"))
    assert page.count("One &lt;b&gt;rule&lt;/b&gt;.") >= 20


def test_a_pack_that_changed_or_is_gone_is_not_compared(client: Client, pack: Path) -> None:
    decision = decided("one-shot~paper", AuthorMode.WRITE)
    file = pack / "author-write.user.txt"
    file.write_text(file.read_text("utf-8") + "More.\n", "utf-8")
    page, twin = seen(client, decision)
    assert twin["pack"]["missing"] == "The pack on this machine is not the one that was sent."
    assert twin["pack"]["missing"] in page
    (pack / "pack.yaml").unlink()
    _, twin = seen(client, decision)
    assert twin["pack"]["missing"].startswith("The pack cannot be read here: the prompts of SkillLearnBench")
    assert twin["pack"]["differences"] == []


def test_our_own_prompts_have_no_such_part(client: Client) -> None:
    page, twin = seen(client, decided("one-shot", AuthorMode.WRITE))
    assert 'id="pack"' not in page
    assert "diff.css" not in page
    assert "pack" not in twin


def test_an_odd_setup_of_another_installation_breaks_no_page(client: Client) -> None:
    decision = decided("one-shot~paper", AuthorMode.WRITE)
    for told in ({"author": "odd"}, {"author": {}}, "odd", ["odd"]):
        decision.episode.run.setup = {"prompts": told}
        decision.episode.run.save(update_fields=["setup"])
        assert seen(client, decision)[0]
