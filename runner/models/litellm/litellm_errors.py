"""What a failed call means: worth another try, the key's fault, or final. Read from litellm's errors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from runner.base.retry_after import retry_after_seconds
from runner.base.types import JsonValue

# Worth another try, by the names litellm gives them; whatever else it raises will not get better by asking again.
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

# The key is not accepted, or not for this model. Another call with it will not do better.
OF_THE_KEY = ("AuthenticationError", "PermissionDeniedError")


class EmptyReply(Exception):
    """The provider answered with status 200 and without a reply."""


def is_passing(error: Exception) -> bool:
    return type(error).__name__ in PASSING or _is_server_error(error)


def is_away(error: Exception) -> bool:
    """Nobody answers yet: a server that starts, or loads a model (llama.cpp, vLLM, LM Studio)."""
    return type(error).__name__ == "Away" or getattr(error, "status_code", None) == 503


def is_of_the_key(error: Exception) -> bool:
    """Told by status too: litellm calls a 401 of a server that words it in its own way a bad request."""
    return type(error).__name__ in OF_THE_KEY or getattr(error, "status_code", None) in (401, 403)


def provider_body(error: Exception) -> Mapping[str, JsonValue]:
    """The provider's own words: litellm keeps OpenAI's beside its error, and quotes those of others in the error's text."""
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
    """Seconds, where the provider said so in a header."""
    response = getattr(error, "response", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None) or {}
    return retry_after_seconds(str(headers.get("retry-after") or ""))
