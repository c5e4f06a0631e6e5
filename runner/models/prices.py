"""What tokens cost, where a preset says so itself."""

from __future__ import annotations

from dataclasses import dataclass

from runner.types import Usage

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens. `cached`: of input read from the provider's cache; None: as any other input."""

    input: float
    output: float
    cached: float | None = None

    def cost(self, usage: Usage) -> float | None:
        """US dollars; None where the tokens are not known. Cached input is part of the input and paid for once."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached = min(usage.cached_tokens or 0, usage.input_tokens)
        cached_price = self.input if self.cached is None else self.cached
        fresh = (usage.input_tokens - cached) * self.input
        return (fresh + cached * cached_price + usage.output_tokens * self.output) / MILLION
