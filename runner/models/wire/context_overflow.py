"""Recognise a request that does not fit a model's context window, from the error messages of providers and servers.

There is no common code for it. The wordings are those of the sources named at the patterns. A limit on a parameter
("max_tokens is too large ... supports at most 16384 completion tokens") is not an overflow.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from runner.base.types import ModelRequest
from runner.models.litellm.litellm_errors import provider_body

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
        """Output tokens that fit after the prompt, if both are known and the answer is what is too long."""
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
    return Overflow(window, sum(prompt) if _are_parts(text) else max(prompt, default=None))


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


def _are_parts(text: str) -> bool:
    """OpenAI and OpenRouter name the parts of a prompt one by one."""
    return re.search(r"in the messages|of text input", text) is not None
