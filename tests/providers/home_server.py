"""A server as people run it at home: the OpenAI chat format, and what each program adds to it to say what it serves.

The replies at the programs' own addresses have the fields of their documents; none of the programs runs here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Body = Mapping[str, Any]


class HomeServer:
    """`pages`: path -> JSON of what it says about itself. `asked`: bodies of calls.
    The switches are what can be wrong."""

    def __init__(self, *models: Body, pages: Mapping[str, Body] | None = None) -> None:
        self.pages = {"/v1/models": {"object": "list", "data": list(models)}, **(pages or {})}
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.tools, self.json_mode, self.usage, self.status = True, True, True, 200
        self.window: int | None = None  # tokens, words counted
        self.cuts = False  # a longer prompt, and does not say so
        self.streams = True  # refused without a word on streams where not
        self.call: dict[str, Any] = {"name": "add", "arguments": '{"a": 2, "b": 3}'}
        self.json_text = '{"ready": true}'
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.keys.append(self.headers.get("Authorization", ""))
                page = owner.pages.get(self.path)
                self.send(owner.status if page is not None else 404, page or {"error": {"message": "no such page"}})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                owner.asked.append(body)
                self.send(*owner.answer(body))

            def send(self, status: int, value: Body) -> None:
                content = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, body: Body) -> tuple[int, Body]:
        if body.get("stream") and not self.streams:
            return 400, {"error": {"message": "Bad request"}}
        words = sum(len(message["content"].split()) for message in body["messages"])
        if self.window is not None and words > self.window and not self.cuts:
            told = f"Requested tokens ({words}) exceed context window of {self.window}"
            return 400, {"error": {"message": told, "type": "invalid_request_error", "code": "context_length_exceeded"}}
        if body.get("response_format") and not self.json_mode:
            return 400, {"error": {"message": "'response_format.type' must be 'json_schema' or 'text'"}}
        message: dict[str, Any] = {"role": "assistant", "content": "ready"}
        if body.get("response_format"):
            message["content"] = self.json_text
        if body.get("tools") and self.tools:
            message |= {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": self.call}]}
        taken = min(words, self.window or words)
        usage = {"usage": {"prompt_tokens": taken, "completion_tokens": 20, "total_tokens": taken + 20}}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        head = {"id": "r1", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice]}
        return 200, {**head, **(usage if self.usage else {})}
