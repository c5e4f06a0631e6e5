"""How the author is sampled. The agent's sampling is its own; both are part of the setup."""

from __future__ import annotations

import hashlib

AUTHOR_TEMPERATURE = 0.2
AUTHOR_MAX_TOKENS = 16_384


def derive_call_seed(run_seed: int, key: str, purpose: str) -> int:
    """63 bits from the run's seed and the call's key: a call made again after a crash sees the same dice."""
    return int.from_bytes(hashlib.sha256(f"{run_seed}:{key}:{purpose}".encode()).digest()[:8], "big") >> 1
