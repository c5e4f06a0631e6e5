"""A model that answers from a file, and what it says where the file does not hold what is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.base.encoding import encode
from runner.base.errors import ModelRefused, SetupError
from runner.base.types import ModelReply, ModelRequest, ToolCall, Usage
from runner.models import is_scripted, make_model
from runner.models.recording import FORMAT, request_digest, shorten_request
from tests.cases import every

HEAD = {"format": FORMAT, "run": "r", "setup_digest": "d", "models": ["house"], "price_table": "preset house"}
FIRST = ModelRequest(({"role": "user", "content": "Look.\nAnd tell."},), seed=1)
SECOND = replace(FIRST, messages=(*FIRST.messages, {"role": "assistant", "content": "I look."}))
REPLY = ModelReply("I look.", (ToolCall("c", "shell", {"command": "ls"}),), Usage(10, 5, 2, 0.25), "tool_calls", "m-1")


def line(request: ModelRequest, reply: ModelReply, place: str, earlier: ModelRequest | None = None) -> dict[str, Any]:
    return {
        "purpose": "agent",
        "place": place,
        "model": "house",
        "digest": request_digest(request),
        "request": shorten_request(request, earlier, request_digest(earlier) if earlier else ""),
        "reply": encode(reply),
    }


LINES = [line(FIRST, REPLY, "T1/1/1"), line(SECOND, ModelReply("Done."), "T1/1/2", FIRST)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKILLGLASS_RECORDINGS", str(tmp_path))
    return tmp_path


def write(folder: Path, *lines: Any, name: str = "take-1") -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join((value if isinstance(value, str) else json.dumps(value)) + "\n" for value in lines))
    return path


def test_it_gives_every_recorded_reply_bit_by_bit_and_as_often_as_it_is_asked(folder: Path) -> None:
    write(folder, HEAD, *LINES)
    model = make_model("recorded/take-1")
    assert [model.complete(request) for request in (FIRST, SECOND, FIRST)] == [REPLY, ModelReply("Done."), REPLY]
    assert (model.scripted, model.priced, model.price_table) == (True, False, "preset house")
    assert is_scripted(model.name)


@pytest.mark.parametrize(("window", "told"), [(8_192, 8_192), (None, None), ("many", None)])
def test_it_has_the_context_window_that_prompts_were_cut_to(folder: Path, window: object, told: int | None) -> None:
    write(folder, {**HEAD, "context_window": window}, *LINES)
    assert getattr(make_model("recorded/take-1"), "context_window", 0) == told


def test_another_file_is_another_version(folder: Path) -> None:
    write(folder, HEAD, *LINES)
    write(folder, HEAD, LINES[0], name="take-2")
    assert make_model("recorded/take-1").version != make_model("recorded/take-2").version


def test_a_request_that_differs_is_refused_with_the_closest_and_the_difference(folder: Path) -> None:
    write(folder, HEAD, *LINES)
    asked = replace(FIRST, messages=({"role": "user", "content": "Look.\nAnd keep quiet."},))
    with pytest.raises(ModelRefused) as caught:
        make_model("recorded/take-1").complete(asked)
    told = str(caught.value)
    assert told.startswith(
        "recorded/take-1: none of the 2 calls in take-1.jsonl asks this. The closest is line 2 (agent"
    )
    assert "\n-And tell." in told
    assert "\n+And keep quiet." in told


def test_a_turn_beyond_the_last_is_refused_with_what_was_never_asked(folder: Path) -> None:
    write(folder, HEAD, *LINES)
    asked = replace(SECOND, messages=(*SECOND.messages, {"role": "user", "content": "And then?"}))
    with pytest.raises(
        ModelRefused, match=r"The closest is line 3 \(agent T1/1/2\)(.|\n)*\+   \"content\": \"And then\?\""
    ):
        make_model("recorded/take-1").complete(asked)


def test_a_long_difference_is_cut_and_says_so(folder: Path) -> None:
    write(folder, HEAD, *LINES)
    asked = replace(FIRST, messages=({"role": "user", "content": "\n".join(f"line {n} " * 100 for n in range(3_000))},))
    with pytest.raises(ModelRefused) as caught:
        make_model("recorded/take-1").complete(asked)
    assert len(str(caught.value)) < 9_000
    assert "more lines ...]" in str(caught.value)


@every(
    ([], "line 1: expected a JSON object"),
    ([{**HEAD, "format": "other/1"}], "line 1: format 'other/1' (expected 'skillglass-recording/1')"),
    ([HEAD, "{"], "line 2: expected a JSON object"),
    ([HEAD, {"purpose": "agent"}], "line 2: not a recorded call (KeyError: 'request')"),
    ([HEAD, LINES[1]], "line 2: not a recorded call"),
    ([HEAD, {**LINES[0], "digest": "0"}], "line 2: the request has another digest"),
    ([HEAD, LINES[0], line(FIRST, ModelReply("Else."), "T1/2/1")], "line 3: asks what line 2 asks"),
)
def test_a_file_that_is_no_recording_is_refused_by_line(lines: list[Any], told: str, folder: Path) -> None:
    path = write(folder, *lines)
    with pytest.raises(SetupError) as caught:
        make_model("recorded/take-1")
    assert str(caught.value).startswith(f"{path}: {told}")


@pytest.mark.parametrize("name", ["recorded/", "recorded/../take-1", "recorded/a/b", "recorded/nowhere"])
def test_a_name_that_leads_to_no_file_of_the_folder_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(SetupError):
        make_model(name)
