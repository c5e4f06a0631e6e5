"""What a gateway lets a model be asked for: names, tools, links, and what it adds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runner.sandboxes.gateway.gateway_rules import RequestRefused, Target, base_of, bound_output, check_body, target_of
from runner.sandboxes.needs import Provider
from tests.cases import every

ANY = Provider("https://here.example", None)
ONE = Provider("https://here.example", None, models=frozenset({"small-1"}))
FUNCTION = {"type": "function", "name": "look"}
PATHS = {
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "chat/completions": "/v1/chat/completions",
    "generateContent": "/v1beta/models/small-1:streamGenerateContent",
}


def target(wire: str, path: str | None = None) -> Target:
    return target_of("POST", f"/secret{path or PATHS[wire]}", base=base_of(ANY), secret="secret")


def checked(wire: str, body: Any, provider: Provider = ANY, *, online: bool = False) -> dict[str, Any]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    found: dict[str, Any] = json.loads(check_body(content, target(wire), provider, online=online))
    return found


def refused(wire: str, body: Any, provider: Provider = ANY) -> str:
    with pytest.raises(RequestRefused) as raised:
        checked(wire, body, provider)
    assert raised.value.status == 400, "no program tries that again"
    return raised.value.message


@every(
    b"",
    b"[]",
    b'"text"',
    b"{",
    b'{"model": "a"} {"model": "b"}',
    b'{"n": NaN}',
    b'{"n": 1e999}',
    b'{"n": ' + b"1" * 5_000 + b"}",
    b"\xff\xfe{\x00}\x00",
    b"\xef\xbb\xbf{}",
    b"\x1f\x8b\x08\x00",
    b'{"a": ' * 100_000,
    b'{"messages": [{"content": ' + b"[" * 900 + b"]" * 900 + b"}]}",
    b'{"model": "small-1", "model": "large-9"}',
    b'{"model": "small-1", "Model": "large-9"}',
    b'{"model": "small-1", "mod_el": "large-9"}',
)
def test_it_refuses_a_body_that_is_no_plain_json_object(content: bytes) -> None:
    refused("messages", content, ONE)


def test_it_writes_anew_what_it_has_read() -> None:
    body = {"model": "small-1", "n": 1, "messages": [{"role": "user", "content": "\u4e2d \ud800 \U0001f600"}]}
    assert checked("chat/completions", body, ONE) == body
    assert check_body(json.dumps(body).encode(), target("messages"), ONE, online=False).isascii()


@pytest.mark.parametrize("wire", ["messages", "responses", "chat/completions"])
def test_it_names_the_model_that_is_expected(wire: str) -> None:
    assert checked(wire, {"model": "small-1"}, ONE) == {"model": "small-1"}
    for model in ("large-9", "small-1:online", "SMALL-1", None, 1, ["small-1"], {}):
        assert "expected small-1" in refused(wire, {"model": model}, ONE)
    assert "expected small-1" in refused(wire, {}, ONE)
    assert "expected small-1" in refused(wire, {"MODEL": "large-9"}, ONE)
    assert "expected small-1" in refused(wire, {"model": "small-1", "models": ["large-9"]}, ONE)
    assert checked(wire, {"model": "large-9"})["model"] == "large-9", "a provider that names none takes any"


def test_it_reads_the_model_that_a_path_names() -> None:
    assert checked("generateContent", {"model": "models/small-1"}, ONE)
    assert "expected small-1" in refused("generateContent", {"model": "models/large-9"}, ONE)
    for path in ("/v1beta/models/large-9:generateContent", "/v1beta/models/large%2D9:countTokens"):
        with pytest.raises(RequestRefused, match="expected small-1"):
            check_body(b"{}", target("generateContent", path), ONE, online=False)


@pytest.mark.parametrize("wire", PATHS)
def test_it_forwards_only_the_calls_that_the_program_makes(wire: str) -> None:
    for other, path in PATHS.items():
        if other == wire:
            assert target_of("POST", f"/s{path}", base=base_of(ANY), secret="s", wire=wire).wire == wire
        else:
            with pytest.raises(RequestRefused, match=f"asked by {wire}, not by {other}"):
                target_of("POST", f"/s{path}", base=base_of(ANY), secret="s", wire=wire)
    assert not target_of("GET", "/s/v1/models", base=base_of(ANY), secret="s", wire=wire).is_call


def test_it_forwards_no_query_that_hides_what_was_used() -> None:
    path = f"/s{PATHS['generateContent']}?alt=sse&fields=candidates&%24fields=candidates&key=mine"
    assert target_of("POST", path, base=base_of(ANY), secret="s").address.endswith("?alt=sse")


@every(
    ("messages", {"type": "web_search_20250305", "name": "web_search"}),
    ("messages", {"type": "web_fetch_20250910", "name": "web_fetch"}),
    ("messages", {"type": "code_execution_20250825", "name": "code_execution"}),
    ("messages", {"type": "mcp_toolset", "mcp_server_name": "there"}),
    ("messages", {"type": "bash_20250124_hosted", "name": "bash"}),
    ("messages", {"name": "bash", "Type": "web_search_20250305"}),
    ("messages", "web_search"),
    ("responses", {"type": "web_search"}),
    ("responses", {"type": "web_search_preview_2025_03_11"}),
    ("responses", {"type": "file_search", "vector_store_ids": ["v"]}),
    ("responses", {"type": "code_interpreter", "container": {"type": "auto"}}),
    ("responses", {"type": "mcp", "server_url": "https://there.example"}),
    ("responses", {"type": "computer_use_preview"}),
    ("responses", {"type": "shell", "environment": {"type": "container_auto"}}),
    ("responses", {"type": "namespace", "name": "n", "tools": [FUNCTION, {"type": "mcp"}]}),
    ("responses", {"name": "look"}),
    ("chat/completions", {"type": "builtin_function", "function": {"name": "$web_search"}}),
    ("chat/completions", {"type": "web_search", "web_search": {"enable": True}}),
    ("chat/completions", {"type": ["function"]}),
    ("generateContent", {"googleSearch": {}}),
    ("generateContent", {"google_search": {}}),
    ("generateContent", {"functionDeclarations": [], "urlContext": {}}),
    ("generateContent", {"code_execution": {}}),
)
def test_it_refuses_tools_that_the_provider_runs_unless_the_task_has_network(wire: str, tool: Any) -> None:
    assert "tool" in refused(wire, {"tools": [tool]})
    checked(wire, {"tools": [tool]}, online=True)


@every(
    ("messages", "mcp_servers", [{"type": "url", "url": "https://there.example"}]),
    ("chat/completions", "web_search_options", {"search_context_size": "low"}),
    ("chat/completions", "enable_search", True),
    ("chat/completions", "plugins", [{"id": "web"}]),
    ("responses", "tools", {"type": "function"}),
    ("responses", "input", [{"type": "tool_search_output", "tools": [{"type": "mcp"}]}]),
)
def test_it_refuses_the_same_beside_the_tools(wire: str, field: str, value: Any) -> None:
    refused(wire, {field: value})
    refused(wire, {field.upper(): value})
    checked(wire, {field: value, "enable_search" if field != "enable_search" else "search_options": None}, online=True)


def test_it_passes_tools_that_the_program_runs() -> None:
    for kind in ("bash_20250124", "text_editor_20250728", "computer_20250124", "memory_20250818", "custom", None):
        checked("messages", {"tools": [{"name": "a", **({"type": kind} if kind else {})}]})
    for kind in ("function", "custom", "local_shell", "apply_patch"):
        checked("responses", {"tools": [{"type": kind}, {"type": "namespace", "tools": [FUNCTION]}]})
    checked("chat/completions", {"tools": [FUNCTION], "enable_search": False})
    checked("generateContent", {"tools": [{"functionDeclarations": [{"name": "google_web_search"}]}]})


def _said(*parts: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


LINK, DATA = "https://there.example/a.png", "data:image/png;base64,AAAA"


@every(
    ("messages", {"messages": _said({"type": "image", "source": {"type": "url", "url": LINK}})}),
    (
        "messages",
        {"messages": _said({"type": "tool_result", "content": [{"type": "document", "source": {"url": LINK}}]})},
    ),
    ("chat/completions", {"messages": _said({"type": "image_url", "image_url": {"url": LINK}})}),
    ("chat/completions", {"messages": _said({"type": "image_url", "image_url": LINK})}),
    ("chat/completions", {"messages": _said({"type": "video", "video": [LINK]})}),
    ("responses", {"input": _said({"type": "input_image", "image_url": LINK})}),
    ("responses", {"input": _said({"type": "input_file", "file_url": LINK})}),
    ("responses", {"input": [{"type": "function_call_output", "output": [{"image_url": LINK}]}]}),
    ("generateContent", {"contents": [{"parts": [{"fileData": {"fileUri": LINK}}]}]}),
    ("generateContent", {"generateContentRequest": {"contents": [{"parts": [{"fileData": {"fileUri": LINK}}]}]}}),
    ("generateContent", {"contents": {"parts": {"file_data": {"file_uri": LINK}}}}),
    (
        "generateContent",
        {"contents": [{"parts": [{"functionResponse": {"parts": [{"fileData": {"fileUri": LINK}}]}}]}]},
    ),
)
def test_it_refuses_links_that_the_provider_would_follow(wire: str, body: dict[str, Any]) -> None:
    assert LINK in refused(wire, body)
    checked(wire, body, online=True)
    checked(wire, json.loads(json.dumps(body).replace(LINK, DATA)))


def test_a_link_that_nobody_follows_is_only_text() -> None:
    checked(
        "messages", {"messages": _said({"type": "text", "text": LINK}, {"type": "tool_use", "input": {"url": LINK}})}
    )
    checked("responses", {"input": [{"type": "function_call_output", "output": json.dumps({"image_url": LINK})}]})
    checked("generateContent", {"contents": [{"parts": [{"functionResponse": {"response": {"url": LINK}}}]}]})


def test_it_refuses_an_answer_that_would_be_fetched_later() -> None:
    assert "background" in refused("responses", {"background": True})
    checked("responses", {"background": False, "previous_response_id": "r"})


@pytest.mark.parametrize(
    "options", [{}, {"stream_options": None}, {"stream_options": {"include_usage": False}}, {"Stream_Options": 1}]
)
def test_a_streamed_chat_is_asked_to_tell_its_usage(options: dict[str, Any]) -> None:
    body = checked("chat/completions", {"model": "m", "stream": True, **options})
    assert body == {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
    kept = checked("chat/completions", {"stream": True, "stream_options": {"other": 1}})
    assert kept["stream_options"] == {"other": 1, "include_usage": True}
    assert "stream_options" not in checked("chat/completions", {"stream": False})
    assert "stream_options" not in checked("messages", {"stream": True})


# --- a limit on output --------------------------------------------------------------------------------------------

PLACES = {"messages": "max_tokens", "responses": "max_output_tokens", "chat/completions": "max_tokens"}


def bounded(wire: str, body: dict[str, Any], newer: bool = False, address: str = "/v1/call") -> tuple[Any, bool]:
    content, is_lowered = bound_output(json.dumps(body).encode(), address, wire, 100, newer_name=newer)
    return json.loads(content), is_lowered


@pytest.mark.parametrize(("wire", "name"), PLACES.items())
def test_an_answer_may_be_as_long_as_what_is_left(wire: str, name: str) -> None:
    assert bounded(wire, {"model": "m"}) == ({"model": "m", name: 100}, False)
    assert bounded(wire, {name: None}) == ({name: 100}, False)
    assert bounded(wire, {name: 7}) == ({name: 7}, False)
    assert bounded(wire, {name: 101}) == ({name: 100}, True)
    assert bounded(wire, {name.upper(): 101}) == ({name.upper(): 100}, True)  # to a provider that reads loosely


def test_a_chat_has_two_names_for_it_and_gemini_a_place_of_its_own() -> None:
    assert bounded("chat/completions", {}, newer=True) == ({"max_completion_tokens": 100}, False)
    both = {"max_tokens": 300, "max_completion_tokens": 20}
    assert bounded("chat/completions", both) == ({"max_tokens": 100, "max_completion_tokens": 20}, True)
    assert bounded("generateContent", {}) == ({"generationConfig": {"maxOutputTokens": 100}}, False)
    loose = {"generation_config": {"topP": 1, "max_output_tokens": 900}}
    assert bounded("generateContent", loose) == ({"generation_config": {"topP": 1, "max_output_tokens": 100}}, True)


@every(
    ("chat/completions", {"n": 2}),
    ("chat/completions", {"max_tokens": "100"}),
    ("chat/completions", {"max_tokens": 0}),
    ("chat/completions", {"max_tokens": True}),
    ("chat/completions", {"max_tokens": 1, "Max_Tokens": 900}),
    ("messages", {"max_tokens": -1}),
    ("responses", {"max_output_tokens": 1e9}),
    ("generateContent", {"generationConfig": {"candidateCount": 3}}),
    ("generateContent", {"generationConfig": {"maxOutputTokens": 1, "max_output_tokens": 900}}),
    ("generateContent", {"generationConfig": "many"}),
)
def test_what_cannot_be_bounded_is_refused(wire: str, body: dict[str, Any]) -> None:
    with pytest.raises(RequestRefused):
        bounded(wire, body)


def test_an_answer_without_a_limit_of_its_own_is_refused() -> None:
    with pytest.raises(RequestRefused, match="cannot be bounded"):
        bounded("responses", {}, address="/v1/responses/compact?x=1")
