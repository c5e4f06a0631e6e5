"""Errors as litellm really raises them, from a server that fails in each way: the cause comes first,
then the address."""

from __future__ import annotations

import base64
import codecs
import json
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from runner.base.errors import ModelUnavailable, RunnerError
from runner.base.types import ModelRequest
from runner.models.litellm.client import LiteLLM
from runner.models.litellm.litellm_errors import EmptyReply
from runner.models.preset import Preset
from runner.models.wire.error_wording import describe_error, hide_key
from tests.cases import every

SAID: dict[int, object] = {
    400: {"object": "error", "message": "top_k must be positive", "type": "BadRequestError", "code": 400},
    401: {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}},
    404: {"error": {"message": "The model `local-llama` does not exist.", "type": "NotFoundError", "code": 404}},
    429: {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}},
    500: {"error": {"message": "ValueError: CUDA out of memory", "type": "server_error"}},
    503: {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
}
SILENT = 999


class Failing(BaseHTTPRequestHandler):
    """Fails as the first part of its path says."""

    server: Any

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status = int(self.path.split("/")[1])
        if status == SILENT:
            self.server.ended.wait(30)
            return
        body = json.dumps(SAID[status]).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    found: Any = ThreadingHTTPServer(("127.0.0.1", 0), Failing)
    found.ended = threading.Event()
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{found.server_port}"
    found.ended.set()
    found.shutdown()


@pytest.fixture(scope="module")
def closed() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def error_of(provider: str, address: str) -> str:
    model = LiteLLM(
        f"litellm/{provider}/local-llama",
        key_variable="LAB_KEY",
        api_base=address,
        timeout_seconds=0.25 if address.endswith(str(SILENT)) else 5,  # each of several tries waits so long
        sleep=lambda _: None,
    )
    with pytest.raises(RunnerError) as raised:
        model.complete(ModelRequest(({"role": "user", "content": "hello"},)))
    return str(raised.value)


@pytest.mark.parametrize("provider", ["openai", "hosted_vllm", "anthropic"])
def test_it_says_what_happened_and_where_and_then_what_the_server_said(
    provider: str, server: str, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEY", "sk-nothing-real")
    monkeypatch.setenv("SKILLGLASS_MODEL_WAIT_SECONDS", "0")
    for address, told in (
        (f"http://{closed}/v1", "Connection refused: {}"),
        ("http://no-such-host.invalid:8000/v1", "Host not found: {}"),
        (f"https://{server}/v1", "TLS failed: {}: [SSL: WRONG_VERSION_NUMBER]"),
        (f"http://{server}/{SILENT}", "No reply in time: {}"),
        (f"http://{server}/400", "Request refused (400): {}: top_k must be positive"),
        (f"http://{server}/401", "Key refused (401): {}: Incorrect API key provided"),
        (f"http://{server}/404", "Not found (404): {}: The model `local-llama` does not exist."),
        (f"http://{server}/429", "Too many requests (429): {}: Rate limit reached"),
        (f"http://{server}/500", "Server error (500): {}: ValueError: CUDA out of memory"),
        (f"http://{server}/503", "Server not ready (503): {}: Loading model"),
    ):
        found = error_of(provider, address).replace(f" (model litellm/{provider}/local-llama)", "")
        found = found.removeprefix("The provider refused the key in the environment variable LAB_KEY: ")
        assert found.startswith(told.format(address)), found
        assert not re.search(r"litellm|OpenAI|Exception|InternalServerError", found)


def test_it_shows_no_user_password_or_query_of_an_address(closed: str) -> None:
    error = ConnectionRefusedError(111, "Connection refused")
    shown = describe_error(error, f"http://ada:sk-abcdef@{closed}/v1?key=sk-abcdef#top")
    assert shown == f"Connection refused: http://{closed}/v1"
    assert describe_error(error, "http://[::1]:8000/v1") == "Connection refused: http://[::1]:8000/v1"
    assert describe_error(error, "http://[broken") == "Connection refused"
    assert describe_error(error, None) == "Connection refused"


def test_an_error_that_nobody_foresaw_says_its_class() -> None:
    assert describe_error(ValueError("a\nb"), None) == "ValueError: a\nb"
    assert describe_error(EmptyReply("no choices"), "http://a/v1") == "No reply: http://a/v1: no choices"


def test_a_private_address_is_told_by_its_variables_name(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_ADDRESS", f"http://{closed}/v1")
    preset = Preset("lab", "lab", "shell", "local-llama", "openai/local-llama", api_base_variable="LAB_ADDRESS")
    model = LiteLLM.of_preset(preset)
    model.sleep = lambda _: None
    with pytest.raises(ModelUnavailable) as refused:
        model.complete(ModelRequest(({"role": "user", "content": "hello"},)))
    assert str(refused.value) == "Connection refused: LAB_ADDRESS (model lab)"


SECRET = "sk-proj-Q7fR2mXw9LbT4vKz"


@every(
    SECRET,
    SECRET[:-1],
    SECRET[1:],
    SECRET[::-1],
    SECRET.upper(),
    " ".join(SECRET),
    "\u200b".join(SECRET),
    "-".join(SECRET),
    SECRET.encode().hex(),
    *(base64.b64encode(f"{before}{SECRET}".encode()).decode() for before in ("", "u:", "me:", "a")),
    base64.urlsafe_b64encode(SECRET.encode()).decode(),
    base64.b64encode(base64.b64encode(SECRET.encode())).decode(),
    base64.b64encode(SECRET.encode("utf-16-le")).decode(),
    base64.b32encode(SECRET.encode()).decode(),
    base64.b85encode(SECRET.encode()).decode(),
    codecs.encode(SECRET, "rot13"),
    SECRET.encode().hex()[::-1],
    "".join(f"\\u{ord(letter):04x}" for letter in SECRET),
    "".join(f"&#{ord(letter)};" for letter in SECRET),
    "".join(f"&#x{ord(letter):x};" for letter in SECRET),
    str(list(SECRET.encode())),
    "".join(chr(ord(letter) + 0xFEE0) if letter.isalnum() else letter for letter in SECRET),
    f"{SECRET[:12]}...{SECRET[12:]}",
)
def test_no_form_of_a_key_is_shown(quoted: str) -> None:
    shown = hide_key(f"bad key {quoted} (see our documents)", SECRET, "[LAB_KEY]")
    assert shown.startswith("bad key ")
    assert shown.endswith(" (see our documents)")
    assert "[LAB_KEY]" in shown
    letters = "".join(filter(str.isalnum, shown)).lower()
    for form in (SECRET, SECRET[::-1], base64.b64encode(SECRET.encode()).decode(), SECRET.encode().hex()):
        flat = "".join(filter(str.isalnum, form)).lower()
        assert not any(flat[at : at + 8] in letters for at in range(len(flat) - 7))


def test_an_error_without_the_key_stays_as_it_is() -> None:
    text = "Incorrect API key provided: sk-proj-****vKz. Find yours at https://platform.example/keys"
    assert hide_key(text, SECRET, "[LAB_KEY]") == text


def test_a_provider_that_repeats_the_key_cut_shows_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", SECRET)
    model = LiteLLM("litellm/openai/local-llama", key_variable="LAB_KEY")
    shown = model._describe_error(ValueError(f"bad key {SECRET[:-1]} and {SECRET.upper()}"))
    assert shown == "ValueError: bad key [LAB_KEY] and [LAB_KEY]"
