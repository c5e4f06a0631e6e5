"""Servers on this machine that refuse what real providers refuse, in their words, and speak their formats.

`STRICT` has one for each kind. A check gets the path and the body of a request; it gives (status, error), or None where
the provider would answer. Replies go out in order, the last one for ever.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Body = dict[str, Any]
Refusal = tuple[int, Body] | None
Check = Callable[[Body], Refusal]


class StrictProvider:
    """`refusals`: what was refused; `taken`: bodies that were answered."""

    def __init__(self, check: Check, *replies: Body) -> None:
        self.check, self.replies = check, list(replies)
        self.taken: list[Body] = []
        self.refusals: list[Body] = []
        self.paths: list[str] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                provider.paths.append(self.path)
                # litellm looks an Ollama model's size up.
                status, answer = (404, {}) if self.path == "/api/show" else provider.answer(body)
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.root = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, body: Body) -> tuple[int, Body]:
        if refusal := self.check(body):
            self.refusals.append(refusal[1])
            return refusal
        self.taken.append(body)
        return 200, self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def takes_all(body: Body) -> Refusal:
    return None


# --- OpenAI's chat format, and servers that speak it ----------------------------------------------------------------


def openai_error(message: str, param: str | None = None, code: str | None = None, status: int = 400) -> Refusal:
    return status, {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def openai_reasoning(body: Body) -> Refusal:
    """gpt-5 and the o-series. Wording: OpenAI's API, as its community quotes it."""
    if body.get("temperature", 1) != 1:
        told = f"Unsupported value: 'temperature' does not support {body['temperature']} with this model."
        return openai_error(f"{told} Only the default (1) value is supported.", "temperature", "unsupported_value")
    if "max_tokens" in body:
        told = "Unsupported parameter: 'max_tokens' is not supported with this model."
        return openai_error(f"{told} Use 'max_completion_tokens' instead.", "max_tokens", "unsupported_parameter")
    return None


def moonshot(body: Body) -> Refusal:
    """Wording: Moonshot's API (kimi-k2.5; kimi-k2-thinking with tools)."""
    if body.get("temperature", 1) != 1:
        return openai_error("invalid temperature: only 1 is allowed for this model")
    for place, message in enumerate(body["messages"]):
        if message.get("tool_calls") and not message.get("reasoning_content"):
            told = "thinking is enabled but reasoning_content is missing in assistant tool call message at index"
            return openai_error(f"{told} {place}")
    return None


def deepseek_classic(body: Body) -> Refusal:
    """DeepSeek's documents of deepseek-reasoner (R1): "if the reasoning_content field is included in the sequence of
    input messages, the API will return a 400 error"."""
    if any("reasoning_content" in message for message in body["messages"]):
        return openai_error("The reasoning_content field is not allowed in input messages: remove it.")
    return None


def deepseek_thinking(body: Body) -> Refusal:
    """Wording: quoted in the source of litellm 1.106.2 (llms/deepseek/chat/transformation.py)."""
    if any(message.get("tool_calls") and not message.get("reasoning_content") for message in body["messages"]):
        return openai_error("The reasoning_content in the thinking mode must be passed back to the API.")
    return None


def groq(body: Body) -> Refusal:
    """Wording: Groq's API, as issues of client libraries quote it."""
    for place, message in enumerate(body["messages"]):
        if "reasoning_content" in message:
            told = "the following must be satisfied"
            named = f"'messages.{place}' : property 'reasoning_content' is unsupported"
            return openai_error(f"'messages.{place}' : for 'role:assistant' {told}[({named})]")
    return None


def strict_chat(body: Body) -> Refusal:
    """Any server that takes no key it does not know: JSON Schema's words."""
    for place, message in enumerate(body["messages"]):
        if "reasoning_content" in message:
            told = "Additional properties are not allowed ('reasoning_content' was unexpected)"
            return openai_error(f"{told} - 'messages.{place}'")
    return None


def vllm(body: Body) -> Refusal:
    """Wording: pydantic's, which vLLM hands on; the bound is that of torch's seeds
    (vllm/entrypoints/openai/protocol.py)."""
    if body.get("seed", 0) > 2**63 - 1 or body.get("top_k", 0) < -1:
        return openai_error("1 validation error: seed: Input should be less than or equal to 9223372036854775807")
    return None


def lm_studio(body: Body) -> Refusal:
    """LM Studio's bug tracker: 400 with a bare text."""
    if body.get("response_format", {}).get("type") == "json_object":
        return 400, {"error": "'response_format.type' must be 'json_schema' or 'text'"}
    return None


def mistral(body: Body) -> Refusal:
    """FastAPI's words; Mistral's seed is called random_seed."""
    for name in ("seed", "random_seed"):
        if name in body:
            extra = {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}
            return 422, {"object": "error", "message": {"detail": [extra]}, "type": "invalid_request_error"}
    return None


def no_json_mode(body: Body) -> Refusal:
    """Google's words for Gemma behind its OpenAI-compatible address."""
    if "response_format" in body:
        return openai_error("JSON mode is not enabled for models/gemma-3-27b-it")
    return None


def ollama(body: Body) -> Refusal:
    """From Ollama's source (server/routes.go)."""
    if body.get("think"):
        return 400, {"error": '"qwen2.5:7b" does not support thinking'}
    return None


def chat_reply(text: str | None = "hello", *calls: str, **message: Any) -> Body:
    """`calls`: ids of calls of the tool shell."""
    function = {"name": "shell", "arguments": '{"command": "ls"}'}
    made = [{"id": each, "type": "function", "function": function} for each in calls]
    whole = {"role": "assistant", "content": text, **({"tool_calls": made} if made else {}), **message}
    return {
        "id": "reply-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "service_tier": "on_demand",
        "choices": [{"index": 0, "finish_reason": "tool_calls" if made else "stop", "message": whole}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


def ollama_reply(text: str = "hello", thinking: str = "", *, call: bool = False) -> Body:
    made = [{"function": {"name": "shell", "arguments": {"command": "ls"}}}] if call else []
    message = {"role": "assistant", "content": text, "thinking": thinking, **({"tool_calls": made} if made else {})}
    counts = {"prompt_eval_count": 100, "eval_count": 10}
    return {"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": True, **counts}


# --- Anthropic ------------------------------------------------------------------------------------------------------


def anthropic_error(message: str) -> Refusal:
    return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def anthropic(body: Body) -> Refusal:
    """Wording: Anthropic's API. Rules: its documents of extended thinking, of prompt caching and of parameters."""
    for name in ("seed", "response_format", "reasoning_content"):
        if name in body:
            return anthropic_error(f"{name}: Extra inputs are not permitted")
    if "temperature" in body and "top_p" in body:
        told = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        return anthropic_error(told)
    marks = json.dumps([body.get("system"), body.get("tools"), body["messages"]]).count('"cache_control"')
    if marks > 4:
        return anthropic_error(f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
    return _anthropic_thinking(body)


def _anthropic_thinking(body: Body) -> Refusal:
    if body.get("thinking", {}).get("type") != "enabled":
        return None
    if body.get("temperature", 1) != 1:
        return anthropic_error("`temperature` may only be set to 1 when thinking is enabled.")
    if body["max_tokens"] <= body["thinking"]["budget_tokens"]:
        return anthropic_error("`max_tokens` must be greater than `thinking.budget_tokens`.")
    for place, message in enumerate(body["messages"]):
        parts = message["content"] if isinstance(message["content"], list) else []
        kinds = [part["type"] for part in parts]
        if message["role"] == "assistant" and "tool_use" in kinds and kinds[0] not in ("thinking", "redacted_thinking"):
            return anthropic_error(
                f"messages.{place}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{kinds[0]}`."
                " When `thinking` is enabled, a final `assistant` message must start with a thinking block."
            )
        for part in parts:
            if part["type"] == "thinking" and part["signature"] != signature_of(part["thinking"]):
                return anthropic_error(f"messages.{place}.content.0: Invalid `signature` in `thinking` block")
    return None


def anthropic_newest(body: Body) -> Refusal:
    """Wording: Anthropic's API for models that took sampling parameters out."""
    for name in ("temperature", "top_p", "top_k"):
        if name in body:
            return anthropic_error(f"`{name}` is deprecated for this model.")
    return anthropic(body)


def signature_of(thinking: str) -> str:
    return f"signed/{len(thinking)}/{thinking[::-1]}=="


def anthropic_reply(*parts: Body) -> Body:
    asks = any(part["type"] == "tool_use" for part in parts)
    counts = {"input_tokens": 300, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 600}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": list(parts),
        "stop_reason": "tool_use" if asks else "end_turn",
        "stop_sequence": None,
        "usage": {**counts, "output_tokens": 20},
    }


def thought(text: str) -> Body:
    return {"type": "thinking", "thinking": text, "signature": signature_of(text)}


def tool_use(identifier: str) -> Body:
    return {"type": "tool_use", "id": identifier, "name": "shell", "input": {"command": "ls"}}


# --- Gemini ---------------------------------------------------------------------------------------------------------


def gemini_error(message: str) -> Refusal:
    return 400, {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def gemini(body: Body) -> Refusal:
    """Wording: Google's API. seed is an int32; Gemini 3 wants the signature of a turn's first call back."""
    seed = body.get("generationConfig", {}).get("seed", 0)
    if seed >= 2**31:
        return gemini_error(f"Invalid value at 'generation_config.seed' (TYPE_INT32), {seed}")
    for place, content in enumerate(body["contents"]):
        calls = [part for part in content["parts"] if "function_call" in part or "functionCall" in part]
        if calls and calls[0].get("thoughtSignature") != "U0lHQ0FMTA==":
            return gemini_error(
                f"Function call is missing a thought_signature in functionCall parts. Position {place}. This is "
                "required for tools to work correctly, and missing thought_signature may lead to degraded model "
                "performance."
            )
    return None


def gemini_reply(*parts: Body) -> Body:
    counts = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "gemini-3-flash-preview"}


# --- OpenAI's Responses ---------------------------------------------------------------------------------------------


def responses(body: Body) -> Refusal:
    """Wording: OpenAI's API. Nothing is kept there, so reasoning is verified by what comes back encrypted."""
    for name in ("seed", "messages", "max_tokens", "max_completion_tokens", "response_format"):
        if name in body:
            return openai_error(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
    if "temperature" in body:
        return openai_error(
            "Unsupported parameter: 'temperature' is not supported with this model.",
            "temperature",
            "unsupported_parameter",
        )
    return _responses_input(body)


def _responses_input(body: Body) -> Refusal:
    before: Body = {}
    called = {item["call_id"] for item in body["input"] if item["type"] == "function_call"}
    for item in body["input"]:
        if item["type"] == "reasoning" and item.get("encrypted_content") != f"encrypted {item.get('id')}":
            told = "Items are not persisted when `store` is set to false."
            return openai_error(f"Item with id '{item.get('id')}' not found. {told}", "input", status=404)
        if item["type"] == "function_call" and before.get("type") not in ("reasoning", "function_call", "message"):
            told = (
                f"Item '{item['call_id']}' of type 'function_call' was provided without its required 'reasoning' item."
            )
            return openai_error(told, "input")
        if item["type"] == "function_call_output" and item["call_id"] not in called:
            return openai_error(f"No tool call found for function call output with call_id {item['call_id']}.", "input")
        before = item if item["type"] != "message" or item["role"] == "assistant" else {}
    return None


def responses_reply(*items: Body) -> Body:
    counts = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 40},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 110,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5.2-codex",
        "status": "completed",
        "output": list(items),
        "usage": counts,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": None,
        "top_p": None,
    }


def reasoning_item(number: int) -> Body:
    identifier = f"rs_{number}"
    summary = [{"type": "summary_text", "text": f"Thought {number}."}]
    return {"type": "reasoning", "id": identifier, "summary": summary, "encrypted_content": f"encrypted {identifier}"}


def function_call(number: int) -> Body:
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_Xy{number}",
        "name": "shell",
        "arguments": '{"command": "ls"}',
        "status": "completed",
    }


def output_text(text: str) -> Body:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_9", "role": "assistant", "status": "completed", "content": content}
