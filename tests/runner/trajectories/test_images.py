"""Images in the logs of every program: kept as contents, checked by their bytes, out of the text."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from runner.base.digests import digest_bytes
from runner.base.types import Step
from runner.trajectories.atif_values import content_text, step_from_json, step_to_json
from runner.trajectories.images import MAX_BYTES, keep_image, list_contents, read_image, with_files
from runner.trajectories.readers.reading import read_trajectory
from tests.cases import every


def draw(kind: str = "PNG", width: int = 6, height: int = 4) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 30)).save(stream, kind)
    return stream.getvalue()


PNG = draw()
DATA = base64.b64encode(PNG).decode()
URL = f"data:image/png;base64,{DATA}"
ANTHROPIC = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
MARK = f"[image image/png: 6 × 4, {len(PNG):,} bytes]"

CLAUDE = {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "s", "timestamp": "2026-03-01T10:00:00Z"}
LOGS: dict[str, list[dict[str, Any]]] = {
    "claude, said": [
        {**CLAUDE, "message": {"role": "user", "content": [{"type": "text", "text": "What?"}, ANTHROPIC]}}
    ],
    "claude, a result that the program stored twice": [
        {
            **{**CLAUDE, "type": "assistant"},
            "message": {
                "id": "m",
                "role": "assistant",
                "model": "claude-x",
                "stop_reason": "tool_use",
                "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "a.png"}}],
            },
        },
        {
            **{**CLAUDE, "uuid": "u2", "parentUuid": "u1"},
            "message": {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": [ANTHROPIC]}],
            },
            "toolUseResult": {"type": "image", "file": {"base64": DATA, "type": "image/png"}},
        },
    ],
    "codex": [
        {"timestamp": "2026-03-01T10:00:00Z", "type": "session_meta", "payload": {"id": "s"}},
        {
            "timestamp": "2026-03-01T10:00:01Z",
            "type": "response_item",
            "payload": {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "What?"}, {"type": "input_image", "image_url": URL}],
            },
        },
    ],
    "codex, a result": [
        {"timestamp": "2026-03-01T10:00:00Z", "type": "session_meta", "payload": {"id": "s"}},
        {
            "type": "response_item",
            "payload": {"type": "function_call", "name": "view_image", "arguments": "{}", "call_id": "c"},
        },
        {
            "type": "response_item",
            "payload": {
                "type": "function_call_output",
                "call_id": "c",
                "output": [{"type": "input_image", "image_url": URL}],
            },
        },
    ],
    "codex, an answer of a server": [
        {"type": "thread.started", "thread_id": "t"},
        {
            "type": "item.completed",
            "item": {
                "id": "i",
                "type": "mcp_tool_call",
                "server": "s",
                "tool": "shot",
                "status": "completed",
                "result": {"content": [{"type": "image", "data": DATA, "mimeType": "image/png"}]},
            },
        },
    ],
    "gemini": [
        {"sessionId": "s", "projectHash": "h", "startTime": "2026-03-01T10:00:00Z"},
        {
            "id": "1",
            "type": "user",
            "timestamp": "2026-03-01T10:00:00Z",
            "content": [{"text": "What?"}, {"inlineData": {"mimeType": "image/png", "data": DATA}}],
        },
    ],
    "gemini, a result": [
        {"sessionId": "s", "projectHash": "h", "startTime": "2026-03-01T10:00:00Z"},
        {
            "id": "1",
            "type": "gemini",
            "timestamp": "2026-03-01T10:00:00Z",
            "content": "",
            "toolCalls": [
                {
                    "id": "c",
                    "name": "read_file",
                    "args": {},
                    "status": "success",
                    "result": [
                        {
                            "functionResponse": {
                                "id": "c",
                                "response": {"output": "read"},
                                "parts": [{"inlineData": {"mimeType": "image/png", "data": DATA}}],
                            }
                        }
                    ],
                }
            ],
        },
    ],
    "openai": [
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": URL}}],
                }
            ]
        }
    ],
    "inspect": [
        {
            "id": "s",
            "epoch": 1,
            "input": "What?",
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "What?"}, {"type": "image", "image": "attachment://a"}],
                }
            ],
            "attachments": {"a": URL},
        }
    ],
}


def read(lines: list[dict[str, Any]]) -> list[Step]:
    content = "\n".join(json.dumps(line) for line in lines).encode()
    return list(read_trajectory(lambda: BytesIO(content)).steps)


def texts(step: Step) -> Iterator[str]:
    yield step.message
    yield from (each.content for each in step.observations)


@every(*LOGS.values())
def test_an_image_becomes_a_content_with_a_mark_in_its_text(lines: list[dict[str, Any]]) -> None:
    steps = read(lines)
    assert [content for step in steps for content in list_contents(step)] == [PNG], "once, however often it is logged"
    assert sum(MARK in text for step in steps for text in texts(step)) == 1
    written = [step_to_json(step) for step in steps]
    assert DATA not in json.dumps(written)
    assert json.dumps(written).count(digest_bytes(PNG)) == 1
    assert [step_to_json(step_from_json(raw)) for raw in written] == written


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_an_image_is_what_its_bytes_say(kind: str) -> None:
    media_type = f"image/{kind.lower()}"
    assert read_image(draw(kind)) == (media_type, 6, 4)
    claimed = "image/jpg" if kind == "JPEG" else media_type
    assert keep_image(claimed, draw(kind))["content"] == draw(kind)
    assert keep_image("", draw(kind))["media_type"] == media_type


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
LEFT_OUT = {
    "a script as SVG": (
        "image/svg+xml",
        SVG,
        f"[image image/svg+xml: {len(SVG)} bytes, not kept: no PNG, JPEG, GIF or WebP]",
    ),
    "a page as PNG": ("image/png", b"<html>", "[image image/png: 6 bytes, not kept: no PNG, JPEG, GIF or WebP]"),
    "another type": ("image/gif", PNG, f"[image image/gif: {len(PNG)} bytes, not kept: it is image/png]"),
    "too large": (
        "image/png",
        PNG + bytes(MAX_BYTES),
        f"[image image/png: {len(PNG) + MAX_BYTES:,} bytes, not kept: larger than 8 MiB]",
    ),
    "a bomb": (
        "image/png",
        PNG[:16] + (100_000).to_bytes(4, "big") * 2 + PNG[24:],
        f"[image image/png: {len(PNG)} bytes, not kept: no PNG, JPEG, GIF or WebP]",
    ),
}


@every(*LEFT_OUT.values())
def test_what_is_no_image_to_show_is_named_with_its_type_and_size(media_type: str, content: bytes, mark: str) -> None:
    data = base64.b64encode(content).decode()
    text, parts = content_text([{"type": "image", "source": {"media_type": media_type, "data": data}}])
    assert text == mark
    assert parts is not None
    assert "content" not in parts[0]
    assert data not in json.dumps(parts)


def test_an_image_named_by_a_path_is_read_from_next_to_its_trajectory() -> None:
    part = {"type": "image", "source": {"media_type": "image/png", "path": "images/a.png"}}
    raw = {"step_id": 1, "source": "user", "message": [{"type": "text", "text": "What?"}, part]}
    step = step_from_json(raw)

    def open_file(path: str) -> BytesIO:
        if path != "images/a.png":
            raise FileNotFoundError(path)
        return BytesIO(PNG)

    assert list(list_contents(with_files(step, open_file))) == [PNG]
    lost = {**part, "source": {"path": "images/lost.png"}}
    assert list(list_contents(with_files(step_from_json({**raw, "message": [lost]}), open_file))) == []
