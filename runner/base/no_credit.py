"""Whether a provider's error says that the account has no credit left. Few say it by status 402."""

from __future__ import annotations

from collections.abc import Mapping

_KINDS = ("insufficient_quota", "billing_hard_limit_reached", "billing_error")  # OpenAI by 429 and 400, Anthropic
_WORDS = "Your credit balance is too low"  # Anthropic by 400, with the type of any other bad request


def says_no_credit(error: Mapping[str, object]) -> bool:
    """`error`: the object of that name in the provider's answer."""
    return any(error.get(name) in _KINDS for name in ("type", "code")) or str(error.get("message")).startswith(_WORDS)
