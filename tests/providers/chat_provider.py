"""A server on this machine that speaks the OpenAI chat format, for tests of what calls models."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Answer = tuple[int, dict[str, Any], dict[str, str]]


class Provider:
    """Answers with what `answers` holds, the last one for ever; remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                provider.asked.append(json.loads(body))
                provider.keys.append(self.headers.get("Authorization", ""))
                status, reply, headers = provider.answers[0]
                if len(provider.answers) > 1:
                    provider.answers.pop(0)
                content = json.dumps(reply).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
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

    def says(self, text: str | None = "hello", *, finish: str = "stop", usage: Any = None, **message: Any) -> None:
        reply = {
            "id": "reply-1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-4.1-mini",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish,
                    "message": {"role": "assistant", "content": text, **message},
                }
            ],
            **({"usage": usage} if usage else {}),
        }
        self.answers.append((200, reply, {}))

    def fails(self, status: int, message: str = "no", headers: dict[str, str] | None = None, code: str = "") -> None:
        self.answers.append(
            (status, {"error": {"message": message, "type": "invalid_request_error", "code": code}}, headers or {})
        )

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
