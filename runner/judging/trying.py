"""Asking until an answer can be read: at most three times, and from the second on with what was wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runner.base.types import ModelReply, ModelRequest
from runner.judging.forms import Form
from runner.judging.judge_reply import Fault, ReplyReading, read_reply
from runner.models.json_reply import ask_until_usable

TRIES = 3
MAX_ECHO_CHARS = 8_000  # of an unusable reply that is shown to its author again


@dataclass(frozen=True, slots=True)
class Settled:
    """The last reading; `faults` has one place for each try before it."""

    reading: ReplyReading
    faults: tuple[Fault, ...] = ()

    @property
    def tries(self) -> int:
        return len(self.faults) + 1


def settle(request: ModelRequest, form: Form, ask: Callable[[ModelRequest, int], ModelReply]) -> Settled:
    """`ask` is given the request and the try's number, from 1; what it raises goes through.

    A refusal is an answer: it is not argued with.
    """

    def read(reply: ModelReply) -> tuple[ReplyReading, str]:
        reading = read_reply(reply, form)
        if reading.fault in (None, Fault.REFUSED):
            return reading, ""
        problem = f"That answer cannot be used ({reading.fault}): {reading.problem}."
        return reading, f"{problem} Answer with the JSON object alone."

    *before, last = ask_until_usable(request, ask, read, tries=TRIES, echo=lambda text: text[:MAX_ECHO_CHARS])
    return Settled(last, tuple(reading.fault for reading in before if reading.fault))
