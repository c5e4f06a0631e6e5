"""llama.cpp's server with one slot, as far as its callers notice: further requests wait, and one that hangs up is
dropped.

Every conversation is answered by the same three turns: two commands, then the end of the work.
"""

from __future__ import annotations

import json
import select
import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

TURNS = (("shell", {"command": "echo one"}), ("shell", {"command": "echo two"}), ("submit", {}))


class OneSlotServer:
    """`most`: requests at one time, with the running one. `dropped`: those that hung up before their answer."""

    def __init__(self, seconds: float, slots: int = 1) -> None:
        self.seconds, self.slots = seconds, slots
        self.answered = self.dropped = self.most = self.there = 0
        self._lock, self._order = Lock(), []  # type: ignore[var-annotated]
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                models = {"object": "list", "data": [{"id": "one-slot", "owned_by": "llamacpp"}]}
                props = {"total_slots": owner.slots, "default_generation_settings": {"n_ctx": 8_192}}
                self.send(props if self.path == "/props" else models)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if owner.has_slot(self, self.connection):
                    self.send(answer(body))

            def send(self, value: Any) -> None:
                content = json.dumps(value).encode()
                self.send_response(200)
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

    def has_slot(self, request: object, connection: socket.socket) -> bool:
        """Wait for a slot and keep it as long as an answer takes. False where the caller hung up meanwhile."""
        with self._lock:
            self._order.append(request)
            self.there += 1
            self.most = max(self.most, self.there)
        try:
            until = None
            while until is None or time.monotonic() < until:
                if select.select([connection], [], [], 0.005)[0] and not connection.recv(1, socket.MSG_PEEK):
                    self.dropped += 1
                    return False
                if until is None and request in self._order[: self.slots]:
                    until = time.monotonic() + self.seconds
            self.answered += 1
            return True
        finally:
            with self._lock:
                self._order.remove(request)
                self.there -= 1


def answer(body: Any) -> dict[str, Any]:
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    name, arguments = TURNS[min(turn, len(TURNS) - 1)]
    call = {"id": f"c{turn}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return {"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
