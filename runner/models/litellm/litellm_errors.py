"""The meaning of a failed call: worth another try, the key's fault, or final; and which parameter the provider refuses.

Read from litellm's errors and the provider's messages in them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping

from runner.base.types import JsonValue
from runner.models.wire.patience import retry_after_seconds

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
    return type(error).__name__ in PASSING or _is_server_error(error)


def is_away(error: Exception) -> bool:
    """Is the server not answering yet, because it starts or loads a model (llama.cpp, vLLM, LM Studio)?"""
    return type(error).__name__ == "Away" or getattr(error, "status_code", None) == 503


def is_of_the_key(error: Exception) -> bool:
    """Also checks the status: litellm turns a 401 with unusual wording into a bad request."""
    return type(error).__name__ in OF_THE_KEY or getattr(error, "status_code", None) in (401, 403)


def provider_body(error: Exception) -> Mapping[str, JsonValue]:
    """The provider's own error body, from litellm's attribute (OpenAI) or quoted in the error's text (others)."""
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


def _is_server_error(error: Exception) -> bool:
    status = getattr(error, "status_code", None)
    return isinstance(status, int) and (status in (408, 429) or 500 <= status < 600)


def retry_after(error: Exception) -> float | None:
    """Seconds from the provider's header, if it sent one."""
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
    r"|extra[ _](?:inputs|forbidden)|was unexpected|un(?:recognized|known|expected)|deprecated|only \S+ is (?:allowed|supported)"
    r"|may only be|must be|cannot (?:both )?be|only the default|invalid|refuse|without the following",
    re.IGNORECASE,
)


def find_refused_parameter(error: Exception, sent: Collection[str]) -> str | None:
    """The first of `sent`, in the order given, that this error refuses. None if it is about something else.

    `sent` may hold NO_REASONING too.
    """
    if not _is_bad_request(error):
        return None
    text = str(error)[:MAX_READ]
    if RENAMED in sent and re.search(r"\bmax_tokens\b[^.]*\bnot supported\b.*max_completion_tokens", text, re.DOTALL):
        return RENAMED
    if _DEMANDED.search(text):
        return NO_REASONING if NO_REASONING in sent else None
    body = provider_body(error)
    told = {str(body.get("param") or ""), *_places(body)}
    named = [name for name in sent if name in NAMES and any(re.fullmatch(NAMES[name], one) for one in told)]
    if named and _REFUSED.search(text):
        return named[0]
    return next((name for name in sent if name in NAMES and _is_refused(name, text)), None)


def _is_bad_request(error: Exception) -> bool:
    """Also by its name: litellm refuses some itself, before anything is sent."""
    status = getattr(error, "status_code", None)
    return status in (400, 422) or type(error).__name__ == "UnsupportedParamsError"


def _places(body: object) -> Iterator[str]:
    """FastAPI's form: {"detail": [{"loc": ["body", "seed"]}]}."""
    detail = body.get("detail") if isinstance(body, dict) else None
    for item in detail if isinstance(detail, list) else ():
        if isinstance(item, dict) and isinstance(item.get("loc"), list):
            yield from (str(part) for part in item["loc"])


def _is_refused(name: str, text: str) -> bool:
    """Are its name and the refusal in one sentence?"""
    sentences = re.split(r"(?<=[.!?;\n])\s", text)
    at = re.compile(rf"(?<![\w-])(?:{NAMES[name]})(?![\w-])", re.IGNORECASE)
    return any(at.search(sentence) and _REFUSED.search(sentence) for sentence in sentences)
