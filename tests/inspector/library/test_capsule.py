"""The capsule: one file that holds what a claim rests on, refers to nothing, and gives nothing away."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchapp.analysis.deciding import deciding_steps
from benchapp.models import Decision, Episode, Trial
from inspector.web.access import local_user
from runner.base.types import Check, CheckGroup, CheckStatus, Observation, Source, Step, ToolCall
from tests.inspector.compare.test_report import REFERENCES, Parsed
from tests.worlds.factories import (
    make_decision,
    make_episode,
    make_family,
    make_learning_run,
    make_run,
    make_snapshot,
    make_trial,
    make_user,
    make_verdict,
    record_steps,
)
from tests.worlds.review_factories import make_queue

pytestmark = pytest.mark.django_db

HOSTILE = "</style></script><script>alert(1)</script><img src=//evil.example/x onerror=alert(2)>\u202e"
KEY = "sk-" + "abc123" * 6


def a_trial(*, steps: int = 3, said: str = HOSTILE, episode: Episode | None = None) -> Trial:
    """With steps that can be read, one check that failed, and hostile text everywhere."""
    check = Check(CheckGroup.HIDDEN, f"cells {said}", CheckStatus.FAILED, f"expected 1 {said}")
    trial = make_trial(
        episode, success=False, attempt={"steps": None}, verdict=make_verdict(False, checks=(check,), source="suite")
    )
    attempt = trial.counting_attempt()
    assert attempt is not None
    texts = [
        Step(
            number,
            Source.AGENT,
            f"step number {number} {said}",
            tool_calls=(ToolCall("c", "shell", {"command": said}),),
            observations=(Observation(said, "c", is_error=number == 2),),
        )
        for number in range(1, steps + 1)
    ]
    record_steps(attempt, texts)
    trial.settle(attempt)
    return trial


def a_decision(trial: Trial, *, text: str = HOSTILE, **fields: Any) -> Decision:
    episode = trial.episode
    before = make_snapshot({"tables/SKILL.md": "---\nname: tables\n---\nold line\nkept\n"})
    after = make_snapshot({"tables/SKILL.md": f"---\nname: tables\n---\nnew line {text}\nkept\n"})
    given = {"before": before, "after": after, "summary": text, **fields}
    return make_decision(episode, make_family(), after_trial=trial, **given)


def address(decision: Decision, **query: object) -> str:
    episode = decision.episode
    asked = {"episode": episode.public_id, "decision": decision.number, **query}
    return f"/runs/{episode.run.public_id}/library/capsule/?" + "&".join(f"{k}={v}" for k, v in asked.items())


def capsule(client: Client, url: str) -> Parsed:
    response = client.get(url)
    assert response.status_code == 200, url
    return Parsed(response.text)


def both(trial: Trial) -> list[str]:
    return [f"/trials/{trial.public_id}/capsule/", *(address(each) for each in trial.decisions.all())]


def test_it_refers_to_nothing_and_runs_nothing(client: Client) -> None:
    trial = a_trial()
    a_decision(trial)
    for url in both(trial):
        parsed = capsule(client, url)
        assert not [(tag, name) for tag, attributes in parsed.tags for name in attributes if name in REFERENCES]
        forbidden = {"link", "img", "iframe", "object", "embed", "base", "form", "a", "script"}
        assert not {tag for tag, _ in parsed.tags} & forbidden
        assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
        assert not [name for _, attributes in parsed.tags for name in attributes if name == "style"]


def test_its_policy_lets_its_own_style_in_and_nothing_else(client: Client) -> None:
    text = client.get(f"/trials/{a_trial().public_id}/capsule/").text
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.replace("&#x27;", "'").startswith(f"default-src 'none'; style-src 'sha256-{allowed}'")
    assert "url(" not in style
    assert "@import" not in style


def test_it_holds_the_diff_the_steps_the_checks_and_the_digests(client: Client) -> None:
    trial = a_trial(said="plain")
    decision = a_decision(trial, text="plain")
    trajectory = trial.counting_attempt().trajectories.get()  # type: ignore[union-attr]
    for url in both(trial):
        said = "".join(capsule(client, url).said)
        for wanted in ("new line plain", "old line", "step number 3", "cells plain", "expected 1 plain"):
            assert wanted in said, (url, wanted)
        for digest in (
            trajectory.digest,
            decision.before.digest,
            decision.after.digest,
            decision.episode.run.setup_digest,
        ):
            assert digest in said
        assert "association" in said


def test_its_name_begins_its_digest_and_equal_records_give_equal_files(client: Client) -> None:
    trial = a_trial()
    a_decision(trial)
    for url in both(trial):
        first, second = client.get(url), client.get(url)
        assert first.content == second.content
        digest = hashlib.sha256(first.content).hexdigest()
        assert f'filename="skillglass-capsule-{digest[:16]}.html"' in first["Content-Disposition"]
        assert first["Content-Disposition"].startswith("attachment")
        assert first["Repr-Digest"] == f"sha-256=:{base64.b64encode(bytes.fromhex(digest)).decode()}:"


def test_secrets_are_taken_out_and_that_is_said(client: Client) -> None:
    trial = a_trial(said=f"export {KEY} done")
    a_decision(trial, text=f"use {KEY} here")
    for url in both(trial):
        text = client.get(url).text
        assert KEY not in re.sub(r"<[^>]+>", "", text)
        assert KEY[:20] not in re.sub(r"<[^>]+>", "", text)
        assert "[redacted:api-key]" in text
        assert "taken out of this file" in text


def test_the_claim_is_printed_as_text_and_cut(client: Client) -> None:
    trial = a_trial()
    url = f"/trials/{trial.public_id}/capsule/"
    response = client.get(url, {"claim": "<b>the rule</b> " + "x" * 900})
    assert "&lt;b&gt;the rule&lt;/b&gt;" in response.text
    assert "x" * 501 not in response.text


def test_a_long_trajectory_shows_its_ends_and_says_what_is_left_out(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inspector.pages.library.capsule_view.MAX_STEPS", 100)
    trial = a_trial(steps=130, said="short")
    said = "".join(capsule(client, f"/trials/{trial.public_id}/capsule/").said)
    assert "30 steps left out" in said
    assert "step number 1 short" in said
    assert "step number 50 short" in said
    assert "step number 51 short" not in said
    assert "step number 81 short" in said
    assert "step number 130 short" in said


def test_a_long_result_is_folded_inside_the_file(client: Client) -> None:
    trial = a_trial(steps=2, said="".join(f"row {n}\n" for n in range(1_000)))
    text = client.get(f"/trials/{trial.public_id}/capsule/").text
    assert "row 500\n" in text
    assert "more lines (9–" in text
    assert "hx-get" not in text


@pytest.mark.parametrize(
    "query", ["", "?episode=x&decision=1", "?decision=1", "?episode={}&decision=99", "?episode={}&decision=-1"]
)
def test_what_names_no_decision_is_not_found(client: Client, query: str) -> None:
    decision = a_decision(a_trial())
    url = f"/runs/{decision.episode.run.public_id}/library/capsule/"
    assert client.get(url + query.format(decision.episode.public_id)).status_code == 404


def test_a_decision_of_another_run_is_not_found(client: Client) -> None:
    decision = a_decision(a_trial())
    other = make_episode(make_run())
    url = address(decision).replace(str(decision.episode.run.public_id), str(other.run.public_id))
    assert client.get(url).status_code == 404


def test_pages_offer_it(client: Client) -> None:
    run = make_learning_run()
    decision = Decision.objects.filter(episode__run=run).select_related("episode").first()
    assert decision is not None
    page = client.get(f"/runs/{run.public_id}/library/?episode={decision.episode.public_id}&decision={decision.number}")
    assert f"/library/capsule/?episode={decision.episode.public_id}&amp;decision={decision.number}" in page.text
    trial = Trial.objects.filter(episode__run=run).first()
    assert trial is not None
    assert f"/trials/{trial.public_id}/capsule/" in client.get(trial.get_absolute_url()).text


def test_it_is_closed_to_whoever_reviews_the_trial_blind(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    trial = a_trial()
    decision = a_decision(trial)
    reader = make_user(level="reviewer")
    make_queue([trial], reviewers=[reader])
    client.force_login(reader)
    for url in both(trial):
        response = client.get(url)
        assert response.status_code == 403, url
        assert "new line" not in response.text
        assert trial.task.title not in response.text
    assert decision.number == 1


def test_it_names_the_steps_that_decided_the_checks(client: Client) -> None:
    check = Check(CheckGroup.HIDDEN, "the sum", CheckStatus.FAILED, "expected total 41.2, found 202.05")
    trial = make_trial(success=False, verdict=make_verdict(False, checks=(check,)))
    attempt = trial.counting_attempt()
    assert attempt is not None
    call = ToolCall("c", "shell", {"command": "python3 solve.py"})
    record_steps(attempt, [Step(1, Source.AGENT, tool_calls=(call,), observations=(Observation("202.05", "c"),))])
    text = client.get(f"/trials/{trial.public_id}/capsule/").text
    assert '<a href="#step-1">step 1</a> first prints 202.05' in text
    assert '<li id="step-1">' in text


def test_longer_records_ask_no_more_questions(client: Client) -> None:
    local_user()
    counts = []
    for steps in (3, 20):
        trial = a_trial(steps=steps)
        deciding_steps.KEPT.clear()  # the index of its steps is read once
        with CaptureQueriesContext(connection) as asked:
            assert client.get(f"/trials/{trial.public_id}/capsule/").status_code == 200
        counts.append(len(asked))
    assert counts[0] >= counts[1] > 0


def test_a_trial_s_capsule_opens_with_what_its_page_says_and_names_no_claim_that_nobody_made(client: Client) -> None:
    trial = a_trial(said="C7", steps=2)
    said = client.get(f"/trials/{trial.public_id}.json").json()["ending"]
    text = client.get(f"/trials/{trial.public_id}/capsule/").text
    heading = re.search(r"<h1>(.*?)</h1>", text)
    assert heading is not None
    assert unescape(heading[1]) == said
    assert "the evidence about one trial in one file" in text
    claimed = client.get(f"/trials/{trial.public_id}/capsule/", {"claim": "The cell is wrong"}).text
    assert "one claim and its evidence in one file" in claimed
