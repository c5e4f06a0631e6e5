"""A model provider on this machine: it speaks the OpenAI chat format, keeps accounts, and is answered for by the
scripted model, so that whole runs go through real calls. No streaming."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

from demo.scripted import Scripted
from runner.base.types import ModelReply, ModelRequest, Usage


@dataclass
class Account:
    """What the provider itself counted, over the calls it answered."""

    calls: int = 0
    agent_calls: int = 0
    used: Usage = Usage(0, 0, 0)
    requests: list[dict[str, Any]] = field(default_factory=list)

    def tokens(self) -> int:
        return (self.used.input_tokens or 0) + (self.used.output_tokens or 0)


class ModelProvider:
    """`key`: what it wants in the Authorization header. `refusing`: answers given before it answers again, as (status,
    headers)."""

    def __init__(self, key: str) -> None:
        self.key, self.account, self.asked = key, Account(), 0
        self.refusing: list[tuple[int, dict[str, str]]] = []
        self._model, self._lock = Scripted("scripted/apprentice"), Lock()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with provider._lock:
                    status, reply, headers = provider._answer(body, self.headers.get("Authorization", ""))
                content = json.dumps(reply).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, body: dict[str, Any], authorization: str) -> tuple[int, dict[str, Any], dict[str, str]]:
        self.asked += 1
        if authorization != f"Bearer {self.key}":
            given = authorization.removeprefix("Bearer ")
            return 401, _error(f"Incorrect API key provided: {given}."), {}
        if self.refusing:
            status, headers = self.refusing.pop(0)
            return status, _error("come back later"), headers
        reply = self._model.complete(_request(body))
        self._count(body, reply)
        return 200, _wire(reply), {}

    def _count(self, body: dict[str, Any], reply: ModelReply) -> None:
        self.account.calls += 1
        self.account.agent_calls += "tools" in body
        self.account.used += reply.usage
        self.account.requests.append(body)


def _request(body: dict[str, Any]) -> ModelRequest:
    return ModelRequest(
        messages=tuple(body["messages"]),
        tools=tuple(body.get("tools", ())),
        seed=body.get("seed"),
        json_object=body.get("response_format", {}).get("type") == "json_object",
    )


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": None}}


def _wire(reply: ModelReply) -> dict[str, Any]:
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
        }
        for call in reply.tool_calls
    ]
    usage = reply.usage
    message = {"role": "assistant", "content": reply.text, **({"tool_calls": calls} if calls else {})}
    return {
        "id": "reply",
        "object": "chat.completion",
        "created": 1,
        "model": "house-model-1",
        "choices": [{"index": 0, "finish_reason": reply.finish_reason, "message": message}],
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": (usage.input_tokens or 0) + (usage.output_tokens or 0),
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        },
    }
