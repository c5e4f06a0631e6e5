"""Drafts over real calls: the litellm client against a server that speaks the chat format,
and the small model with its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.types import ModelReply, ModelRequest
from runner.drafting import loops
from runner.drafting.draft import Ask, Ended, Loop, UnusableAnswer
from runner.models.litellm.client import LiteLLM
from runner.models.presets import read_preset_named
from tests.providers.model_provider import ModelProvider
from tests.runner.drafts import CORPUS, make_brief, play


@pytest.fixture
def provider() -> Iterator[ModelProvider]:
    server = ModelProvider("a-key")
    yield server
    server.close()


def test_a_whole_draft_goes_through_the_real_client(provider: ModelProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server lets the scripted model answer, so the draft is the one that it makes when it is asked directly."""
    monkeypatch.setenv("TEST_DRAFTING_KEY", "a-key")
    model = LiteLLM("litellm/openai/gpt-4.1-mini", key_variable="TEST_DRAFTING_KEY", api_base=provider.url)
    brief = make_brief(Loop.CORPUS)
    draft = play(brief, CORPUS, model.complete)
    assert draft.ended == Ended(True)
    assert draft.files == play(brief, CORPUS).files
    assert provider.account.calls == len(draft.asks) == 4
    assert all(body["response_format"] == {"type": "json_object"} for body in provider.account.requests)
    assert {body["max_tokens"] for body in provider.account.requests} == {8_000, 32_000}


@pytest.fixture
def small_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As the demo's supervisor starts it."""
    from benchapp.deploy.installation import ADDRESS_VARIABLE, build_server_command, find_free_port, find_model

    port = find_free_port()
    with (tmp_path / "small-model.log").open("wb") as output:
        command = build_server_command(find_model(), port)
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    address = f"http://127.0.0.1:{port}/v1"
    monkeypatch.setenv(ADDRESS_VARIABLE, address)
    try:
        _wait_for(f"{address}/models", process)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(address, timeout=60).close()
            return
        except OSError:
            assert process.poll() is None
            time.sleep(0.5)
    pytest.fail("the server did not answer within two minutes")


@pytest.mark.small_model
@pytest.mark.slow
def test_the_small_models_answer_is_taken_or_refused_with_a_reason(small_server: None) -> None:
    """A model of this size drafts nothing that can be used. What it says is read all the same."""
    model = LiteLLM.of_preset(read_preset_named("small-smollm2-135m"))
    brief = make_brief(Loop.CORPUS)
    ask = loops.next_ask(brief, CORPUS, [])
    assert isinstance(ask, Ask)
    reply = model.complete(_short(ask.request))
    assert reply.model == "smollm2-135m"
    try:
        taken = loops.take_answer(brief, CORPUS, ask.key, reply.text)
    except UnusableAnswer as error:
        said = str(error)
    else:
        said = f"expected {json.loads(taken.files['notes/units.json'].content)['units']}"
    assert "expected" in said


def _short(request: ModelRequest) -> ModelRequest:
    return replace(request, max_tokens=64)


def test_a_reply_that_was_cut_off_says_where_it_broke_off() -> None:
    brief = make_brief(Loop.CORPUS)
    with pytest.raises(UnusableAnswer, match=r"not JSON at line 1, column \d+"):
        play(brief, CORPUS, lambda request: ModelReply('{"units": [{"id": "u1", "source"', finish_reason="length"))
