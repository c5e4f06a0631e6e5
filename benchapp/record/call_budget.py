"""Limits on work that asks a model, and how it ends early."""

from __future__ import annotations

from dataclasses import dataclass


class Stopped(Exception):
    """The work ends here, for the reason in the message. Answers are kept."""


class SliceOver(Stopped):
    """It is somebody else's turn: the work continues later, from here."""


@dataclass(slots=True)
class Budget:
    """Limits and use. None: no limit. A call is counted when it is made, its cost when it is known.

    A reply without usage, such as one that a filter withheld, counts as much as the dearest one so far.
    """

    calls: int | None = None
    usd: float | None = None
    used_calls: int = 0
    used_usd: float = 0.0
    dearest_usd: float = 0.0
    unpriced: int = 0

    def check(self) -> None:
        """Raise Stopped where the next call would exceed it. A dollar limit cannot hold where prices are unknown."""
        if self.calls is not None and self.used_calls >= self.calls:
            raise Stopped(f"the limit of {self.calls} calls is used up")
        spent = self.used_usd + self.unpriced * self.dearest_usd
        if self.usd is not None and spent >= self.usd:
            raise Stopped(f"the limit of ${self.usd:.2f} is used up (${spent:.4f})")
        if self.usd is not None and self.unpriced and not self.dearest_usd:
            raise Stopped(
                "the cost of this model is unknown, so a limit in dollars cannot hold: limit the calls instead"
            )

    def note(self, cost_usd: float | None) -> None:
        if cost_usd is None:
            self.unpriced += 1
        else:
            self.used_usd += cost_usd
            self.dearest_usd = max(self.dearest_usd, cost_usd)
