"""An author with a small context window: what is cut of its request, what never is, and what the decision records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runner.authoring.author import request_for
from runner.authoring.fitting import PromptWindow, fair_shares, fit
from runner.authoring.occasion import Occasion
from runner.base.errors import ContextExceeded
from runner.base.types import AuthorMode, DecisionStatus, File, ModelReply, ModelRequest, Task
from runner.engine.engine import next_step, perform, run_episode
from runner.engine.recorders import DecisionMade, ListRecorder
from runner.models.litellm.client import LiteLLM
from tests.cases import every
from tests.providers.chat_provider import Provider
from tests.runner.authoring.test_authoring_prompts import FAILED, SKILL, evidence, occasion
from tests.runner.small_episode import FixedAuthor, small_environment, small_plan, small_toolbox, ticking_clock

BUILD = partial(request_for, seed=7)


def build(shown: Occasion, max_tokens: int) -> ModelRequest:
    return BUILD(shown, max_tokens=max_tokens)


def trace(letter: str, length: int) -> str:
    return f"begin of {letter}\n{letter * length}\nend of {letter}"


def sent(request: ModelRequest) -> str:
    return str(request.messages[1]["content"])


def characters(request: ModelRequest) -> int:
    return sum(len(str(message["content"])) for message in request.messages)


LONG = occasion(
    evidence=(
        evidence("T1", trace("A", 30_000), FAILED),
        evidence("T2", trace("B", 200), FAILED),
        evidence("T3", trace("C", 30_000), FAILED),
    )
)


@every(
    ([10, 10], 30, [10, 10]),
    ([100, 10, 100], 110, [50, 10, 50]),
    ([5, 100, 7], 12, [4, 4, 4]),
    ([5], -3, [0]),
    ([], 9, []),
)
def test_short_pieces_stay_whole_and_long_ones_get_the_same(lengths: list[int], room: int, shares: list[int]) -> None:
    assert fair_shares(lengths, room) == shares


@pytest.mark.parametrize("tokens", [None, 1_000_000])
def test_a_request_that_fits_is_sent_as_it_is(tokens: int | None) -> None:
    fitted, notes = fit(LONG, build, 16_384, PromptWindow(tokens))
    assert (fitted, notes) == (build(LONG, 16_384), ())


@pytest.mark.parametrize("tokens", [6_000, 8_192, 16_000, 24_000])
def test_evidence_is_cut_fairly_with_a_mark_and_everything_else_stays(tokens: int) -> None:
    fitted, notes = fit(LONG, build, 16_384, PromptWindow(tokens))
    text, answer = sent(fitted), fitted.max_tokens or 0
    assert characters(fitted) / 3 + answer <= tokens + 60
    assert answer >= tokens // 3 - 60
    assert fitted.messages[0] == build(LONG, 1).messages[0]
    assert f"### null-safe/SKILL.md\n````\n{SKILL}````" in text
    assert trace("B", 200) in text
    assert [text.count(f"{end} of {letter}") for letter in "AC" for end in ("begin", "end")] == [1, 1, 1, 1]
    marks = re.findall(r"\[\.\.\. ([\d,]+) characters of evidence left out to fit the model's context window", text)
    missing = [int(mark.replace(",", "")) for mark in marks]
    assert len(missing) == 2
    assert abs(missing[0] - missing[1]) < 60
    assert notes == (
        f"{sum(missing):,} characters of evidence were left out to fit the author model's context window"
        f" ({tokens:,} tokens)",
        f"the answer was limited to {answer:,} tokens instead of 16,384 to fit the same window",
    )


def test_without_room_for_any_evidence_its_marks_and_the_rest_stay() -> None:
    fitted, notes = fit(LONG, build, 16_384, PromptWindow(500))
    assert "begin of" not in sent(fitted)
    assert sent(fitted).count("of evidence left out") == 3
    assert fitted.messages[0] == build(LONG, 1).messages[0]
    assert fitted.max_tokens == 1_024


def test_a_corpus_shares_the_room_with_the_records(tmp_path: Path) -> None:
    corpus = {f"{name}.md": File(name.encode() * 20_000) for name in "xyz"}
    shown = replace(LONG, mode=AuthorMode.CONSOLIDATE, corpus=corpus, library={}, family_slugs=())
    text = sent(fit(shown, build, 4_000, PromptWindow(20_000))[0])
    assert "x" * 10_000 in text
    assert "left out to fit the model's context window: 2 files with 40,000 characters]" in text
    assert "begin of A" in text
    assert len(text) < 20_000 * 3


def test_a_refusal_that_counts_the_prompt_replaces_the_estimate() -> None:
    request = build(LONG, 100)
    counted = PromptWindow(8_000).after(ContextExceeded("no", 4_096, characters(request)), request)
    assert (counted.tokens, counted.chars_per_token) == (4_096, pytest.approx(0.95))
    assert PromptWindow(None).after(ContextExceeded("no"), request).tokens == int(characters(request) / 6)


# --- in an episode ------------------------------------------------------------------------------------------------


@dataclass
class NarrowAuthor(FixedAuthor):
    """Refuses what does not fit its window, as vLLM does, and tells so much of it as `tells` says."""

    tokens: int = 3_000
    tells: bool = True
    refused: int = 0
    context_window: int | None = None

    def complete(self, request: ModelRequest) -> ModelReply:
        prompt = characters(request) // 3
        if prompt + (request.max_tokens or 0) > self.tokens:
            self.refused += 1
            window = self.tokens if self.tells else None
            raise ContextExceeded("maximum context length", window, prompt if self.tells else None)
        return super().complete(request)


@pytest.fixture
def learned(tmp_path: Path) -> Callable[[Any], ListRecorder]:
    environment = small_environment(tmp_path)
    long = "Read this first. " * 1_200

    def longer(task: Task) -> Task:
        return replace(task, instruction=f"{task.instruction}{long}")

    families = tuple(replace(each, tasks=tuple(map(longer, each.tasks))) for each in environment.families)

    def run(author: Any) -> ListRecorder:
        plan = small_plan("selfgen-revision", replace(environment, families=families), answers=1)
        recorder = ListRecorder(plan, ticking_clock())
        run_episode(plan, recorder, small_toolbox(author=author))
        return recorder

    return run


def found(recorder: ListRecorder) -> list[list[str]]:
    return [
        [finding.message for finding in decision.findings if finding.rule == "context-window"]
        for decision in recorder.decisions
    ]


@pytest.mark.parametrize("known", [True, False])
def test_decisions_on_cut_evidence_apply_and_carry_a_finding(
    learned: Callable[[Any], ListRecorder], known: bool
) -> None:
    author = NarrowAuthor(tokens=4_000, context_window=4_000 if known else None)
    recorder = learned(author)
    assert [decision.status for decision in recorder.decisions].count(DecisionStatus.APPLIED) >= 2
    assert author.prompts
    assert all("characters of evidence left out to fit the model's context window" in each for each in author.prompts)
    assert all(
        re.match(r"the author's prompt: [\d,]+ characters of evidence were left out", told[0])
        for told in found(recorder)
    )
    assert (author.refused == 0) is known


def test_a_window_that_nobody_names_is_found_by_halving(learned: Callable[[Any], ListRecorder]) -> None:
    recorder = learned(NarrowAuthor(tokens=6_000, tells=False))
    assert DecisionStatus.APPLIED in [decision.status for decision in recorder.decisions]


def test_a_prompt_that_cannot_fit_is_a_failed_decision_and_the_episode_goes_on(
    learned: Callable[[Any], ListRecorder],
) -> None:
    recorder = learned(NarrowAuthor(tokens=500))
    assert recorder.decisions
    assert {decision.status for decision in recorder.decisions} == {DecisionStatus.FAILED}
    assert all(
        decision.error.startswith("the prompt does not fit the author model's context window")
        for decision in recorder.decisions
    )


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("TEST_PROVIDER_KEY", "key-of-the-test-0123456789")
    found = Provider()
    yield found
    found.close()


def test_over_the_wire_it_asks_again_with_what_fits(provider: Provider, learned: Callable[[Any], ListRecorder]) -> None:
    """vllm/entrypoints/openai/serving_engine.py words the refusal."""
    message = (
        "This model's maximum context length is 6000 tokens. However, you requested 23000 tokens (6616 in the messages,"
        " 16384 in the completion). Please reduce the length of the messages or completion."
    )
    provider.answers.append((400, {"object": "error", "message": message, "code": 400}, {}))
    provider.says('{"summary": "", "upsert_files": {}}')
    author = LiteLLM(
        "litellm/hosted_vllm/Qwen/Qwen3-8B", key_variable="TEST_PROVIDER_KEY", api_base=provider.url, timeout_seconds=10
    )
    recorder = learned(author)
    first, second = provider.asked[:2]
    assert first["max_tokens"] == 16_384
    assert "of evidence left out" not in str(first["messages"])
    assert "of evidence left out to fit the model's context window" in str(second["messages"])
    assert second["max_tokens"] < 6_000
    assert found(recorder)[0]


def test_a_decision_judged_after_a_crash_carries_the_same_finding(learned: Callable[[Any], ListRecorder]) -> None:
    whole = learned(NarrowAuthor(tokens=4_000))
    place = next(number for number, each in enumerate(whole.transactions) if isinstance(each, DecisionMade))
    reopened = ListRecorder(whole.plan, ticking_clock())
    for transaction in whole.transactions[:place]:
        reopened.apply(transaction)
    due = next_step(reopened.plan, reopened.history())
    assert due is not None
    perform(due, whole.plan, reopened, small_toolbox(author=NarrowAuthor(tokens=1)))
    assert reopened.decisions == whole.decisions[:1]
    assert found(reopened)[0]
