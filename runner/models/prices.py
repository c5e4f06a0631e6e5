"""What tokens cost, where a preset says so itself."""

from __future__ import annotations

from dataclasses import dataclass

from runner.base.types import Usage

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens. `cached`: of input read from the provider's cache, `written`: of input put into it;
    None: as any other input."""

    input: float
    output: float
    cached: float | None = None
    written: float | None = None

    def cost(self, usage: Usage, written: int = 0) -> float | None:
        """US dollars; None where the tokens are not known. Input that was cached or is put into the cache (`written`) is
        part of the input and paid for once."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached = min(usage.cached_tokens or 0, usage.input_tokens)
        written = min(written, usage.input_tokens - cached)
        cached_price = self.input if self.cached is None else self.cached
        written_price = self.input if self.written is None else self.written
        fresh = (usage.input_tokens - cached - written) * self.input
        made = usage.output_tokens * self.output
        return (fresh + cached * cached_price + written * written_price + made) / MILLION
