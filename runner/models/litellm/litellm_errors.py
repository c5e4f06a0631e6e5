"""The meaning of a failed call: worth another try, the key's fault, too long for the model's window, or final; and
which parameter the provider refuses. Read from litellm's errors and the provider's messages in them.

There is no common code for a request that does not fit a context window. The wordings are those of the sources named at
the patterns. A limit on a parameter ("max_tokens is too large ... supports at most 16384 completion tokens") is not an
overflow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from runner.base.types import JsonValue, ModelRequest
from runner.models.wire.call_slots import retry_after_seconds

# Worth another try, by litellm's names. No other error goes away by asking again.
PASSING = (
    "RateLimitError",
    "Timeout",
    "APIConnectionError",
    "ServiceUnavailableError",
    "InternalServerError",
    "BadGatewayError",
    "EmptyReply",
    "Away",
    "BrokenConnection",
    "TimeUp",
)

# The key is not accepted, or not for this model. Another call with it would fail too.
OF_THE_KEY = ("AuthenticationError", "PermissionDeniedError")


class EmptyReply(Exception):
    """The provider answered with status 200 and without a reply."""


def is_passing(error: Exception) -> bool:
    status = getattr(error, "status_code", None)
    is_of_server = isinstance(status, int) and (status in (408, 429) or 500 <= status < 600)
    return type(error).__name__ in PASSING or is_of_server


def is_unreachable(error: Exception) -> bool:
    """Is the server not answering yet, because it starts or loads a model (llama.cpp, vLLM, LM Studio)?"""
    return type(error).__name__ == "Away" or getattr(error, "status_code", None) == 503


def is_of_the_key(error: Exception) -> bool:
    """Is the error about the key?
    The status is checked too: litellm turns a 401 with unusual wording into a bad request."""
    return type(error).__name__ in OF_THE_KEY or getattr(error, "status_code", None) in (401, 403)


def provider_body(error: Exception) -> Mapping[str, JsonValue]:
    """Return the provider's own error body, from litellm's attribute (OpenAI) or quoted in the error's text
    (others)."""
    kept = getattr(error, "body", None)
    if isinstance(kept, Mapping):
        return kept
    text = str(error)
    try:
        quoted, _ = json.JSONDecoder().raw_decode(text, max(0, text.find("{")))
    except (ValueError, RecursionError):
        return {}
    inner = quoted.get("error") if isinstance(quoted, dict) else None
    return inner if isinstance(inner, dict) else {}


def retry_after(error: Exception) -> float | None:
    """Return the seconds from the provider's header, if it sent one."""
    response = getattr(error, "response", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None) or {}
    return retry_after_seconds(str(headers.get("retry-after") or ""))


MAX_READ = 1_000  # characters of an error; further on it may quote the conversation

# Optional parameters, and their names in providers' errors. The limit on output tokens is not among them: see RENAMED.
# Two are marks in messages, not parameters.
NAMES: dict[str, str] = {
    "temperature": "temperature",
    "top_p": r"top_?p",
    "top_k": r"top_?k",
    "min_p": r"min_?p",
    "seed": r"(?:random_)?seed",
    "frequency_penalty": r"frequency_?penalty",
    "presence_penalty": r"presence_?penalty",
    "response_format": r"response_?format(?:\.type)?|json[ _]mode|response[ _]?mime[ _]?type|json_object",
    "reasoning_effort": r"reasoning[._]?effort|reasoning|thinking|think",
    "thinking": r"thinking(?:_?config)?",
    "verbosity": r"verbosity|text\.verbosity",
    "parallel_tool_calls": r"parallel_tool_calls",
    "service_tier": r"service_tier",
    "include": r"include|encrypted content",
    "store": "store",
    "reasoning_content": "reasoning_content",
    "cache_control": r"cache_control|prompt caching",
}
RENAMED = "max_tokens"  # OpenAI's newer models only accept it as max_completion_tokens

# Not a parameter but a problem with messages: a turn that called tools lacks the reasoning it needs.
NO_REASONING = "no reasoning_content"
_DEMANDED = re.compile(r"reasoning_content\b[^.]*(?:missing|passed back|required)", re.IGNORECASE)
_REFUSED = re.compile(
    r"unsupported|not (?:be )?(?:supported|permitted|allowed|enabled|available)|(?:does|do)(?:n't| not) support"
    r"|extra[ _](?:inputs|forbidden)|was unexpected|un(?:recognized|known|expected)|deprecated|only \S+ is (?:allowed|supported)"  # noqa: E501
    r"|may only be|must be|cannot (?:both )?be|only the default|invalid|refuse|without the following",
    re.IGNORECASE,
)


def find_refused_parameter(error: Exception, sent: Collection[str]) -> str | None:
    """Return the first of `sent`, in the order given, that this error refuses. None if it is about something else.
    `sent` may hold NO_REASONING too."""
    is_of_litellm = type(error).__name__ == "UnsupportedParamsError"  # refused before anything is sent
    if getattr(error, "status_code", None) not in (400, 422) and not is_of_litellm:
        return None
    text = str(error)[:MAX_READ]
    if RENAMED in sent and re.search(r"\bmax_tokens\b[^.]*\bnot supported\b.*max_completion_tokens", text, re.DOTALL):
        return RENAMED
    if _DEMANDED.search(text):
        return NO_REASONING if NO_REASONING in sent else None
    body = provider_body(error)
    blamed = {str(body.get("param") or ""), *_places(body)}
    named = [name for name in sent if name in NAMES and any(re.fullmatch(NAMES[name], one) for one in blamed)]
    if named and _REFUSED.search(text):
        return named[0]
    return next((name for name in sent if name in NAMES and _is_refused(name, text)), None)


def _places(body: object) -> Iterator[str]:
    """Yield the names of fields that FastAPI's form blames: {"detail": [{"loc": ["body", "seed"]}]}."""
    detail = body.get("detail") if isinstance(body, dict) else None
    for item in detail if isinstance(detail, list) else ():
        if isinstance(item, dict) and isinstance(item.get("loc"), list):
            yield from (str(part) for part in item["loc"])


def _is_refused(name: str, text: str) -> bool:
    """Are its name and the refusal in one sentence?"""
    sentences = re.split(r"(?<=[.!?;\n])\s", text)
    at = re.compile(rf"(?<![\w-])(?:{NAMES[name]})(?![\w-])", re.IGNORECASE)
    return any(at.search(sentence) and _REFUSED.search(sentence) for sentence in sentences)


# --- context windows --------------------------------------------------------------------------------------------------


N = r"(\d[\d,]*)"
OVERFLOWS = re.compile(
    "|".join(
        (
            "context_length_exceeded",  # OpenAI's code, chat and responses; also Groq, llama-cpp-python
            r"maximum context length is \d",  # OpenAI, vLLM, DeepSeek, OpenRouter ("This endpoint's ...")
            "exceeds the context window of this model",  # OpenAI responses
            r"prompt is too long: \d",  # Anthropic; Fireworks
            r"exceed context limit: \d",  # Anthropic: input and max_tokens together
            "input token count.{0,30} exceeds the maximum number of tokens allowed",  # Gemini
            "exceeded model token limit",  # Moonshot
            "longer than the maximum model length",  # vLLM's engine
            "longer than the model's (?:maximum )?context length",  # SGLang, Together
            "exceeds the model's maximum context length",  # SGLang: prompt and answer together
            "tokens when context the overflows",  # LM Studio, as it spells it
            r"reached context length of \d+ tokens",  # LM Studio, in the middle of a reply
            "greater than the context length",  # LM Studio: n_keep >= n_ctx
            "exceed_context_size_error|exceeds? the available context size",  # llama.cpp
            "context size has been exceeded",  # llama.cpp, in the middle of a reply
            r"requested tokens \(\d+\) exceed context window of",  # llama-cpp-python
            "input length exceeds (?:the|maximum) context length",  # Ollama, where it does not truncate
            r"`inputs` tokens \+ `max_new_tokens` must be",  # TGI
            r"too large for model with \d+ maximum context length",  # Mistral
            r"maximum prompt length is \d",  # xAI
            "input is too long for requested model",  # Bedrock
        )
    ),
    re.IGNORECASE | re.DOTALL,
)
WINDOW = (
    rf"maximum (?:context|prompt) length is {N}",
    rf"maximum context length of {N}",
    rf"maximum model length of {N}",
    rf"too large for model with {N}",
    rf"> {N} maximum",
    rf"context limit: \d+ \+ \d+ > {N}",
    rf"tokens allowed \(?{N}",
    rf"model token limit: {N}",
    rf"context length \({N} tokens\)",
    rf"context length of (?:only )?{N} tokens",
    rf"n_ctx\D{{1,4}}{N}",
    rf"available context size \({N} tokens\)",
    rf"exceed context window of {N}",
    rf"model maximum context length: {N}",
    rf"must be <= {N}",
)
PROMPT = (  # every match counts once
    rf"{N} in the messages",
    rf"{N} in the functions",
    rf"{N} in your prompt",
    rf"{N} of text input",
    rf"{N} of tool input",
    rf"{N} tokens from the input messages",
    rf"{N} input tokens",
    rf"resulted in {N} tokens",
    rf"prompt is too long: {N}",
    rf"context limit: {N} \+",
    rf"input token count \({N}\)",
    rf"request \({N} tokens\)",
    rf"prompt \(length {N}\)",
    rf"The input \({N} tokens\)",
    rf"keep the first {N} tokens",
    rf"n_prompt_tokens\D{{1,4}}{N}",
    rf"Requested tokens \({N}\)",
    rf"Given: {N} `inputs`",
    rf"Prompt contains {N} tokens",
    rf"request contains {N} tokens",
)
# Statuses of other failures, regardless of what their texts quote.
OTHER_STATUSES = (401, 402, 403, 404, 408, 429)
SMALLEST_ANSWER = 256  # tokens; less room than this is useless
MARGIN = 0.01  # of the window: some providers only estimate the prompt's size
CHARS_PER_TOKEN = 4  # of a prompt that must be called full, so a low estimate of its tokens
FULL = 0.95


@dataclass(frozen=True, slots=True)
class Overflow:
    """What the provider reports, in tokens; None if it does not."""

    window: int | None = None
    prompt: int | None = None

    @property
    def room(self) -> int | None:
        """Return the output tokens that fit after the prompt, if both are known and the answer is what is too
        long."""
        if self.window is None or self.prompt is None:
            return None
        room = self.window - self.prompt - int(self.window * MARGIN)
        return room if room >= SMALLEST_ANSWER else None


def overflow_of(error: Exception) -> Overflow | None:
    """Return None for a failure of another kind."""
    if getattr(error, "status_code", None) in OTHER_STATUSES:
        return None
    text = f"{error} {json.dumps(provider_body(error), default=str)}"
    known = type(error).__name__ == "ContextWindowExceededError"
    if not known and not OVERFLOWS.search(text):
        return None
    prompt = [found for pattern in PROMPT if (found := _number(pattern, text)) is not None]
    window = next((found for pattern in WINDOW if (found := _number(pattern, text)) is not None), None)
    are_parts = re.search(r"in the messages|of text input", text)  # OpenAI and OpenRouter name them one by one
    return Overflow(window, sum(prompt) if are_parts else max(prompt, default=None))


def is_bare_500(error: Exception) -> bool:
    """Did the server send it? litellm gives the same status to a connection that never came about."""
    return getattr(error, "status_code", None) == 500 and "connection error" not in str(error).lower()


def fills(request: ModelRequest, window: int | None) -> bool:
    """Is the window known, and almost full? Then a server error without a reason counts as an overflow."""
    if window is None:
        return False
    characters = len(json.dumps([dict(each) for each in (*request.messages, *request.tools)], ensure_ascii=False))
    return characters / CHARS_PER_TOKEN >= FULL * window


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text, re.IGNORECASE)
    return int(found[1].replace(",", "")) if found and len(found[1]) < 13 else None
