"""Names of models as litellm takes them, and what they may not hold."""

from __future__ import annotations

import re

# What names of Hugging Face, Ollama, Vertex, ARNs and fine-tunes are made of: "ft:gpt-4.1-mini:my-org::BTz2QzXa",
# "claude-sonnet-4@20250514". Nothing that ends a host or a path in an address.
_PLAIN = re.compile(r"[\w.:/@+~=,()\[\] -]+")


def has_address(model: str) -> bool:
    """Would litellm find a server's address in this name? It sends some requests, with the key, to where a name says so."""
    return "//" in model or not _PLAIN.fullmatch(model)
