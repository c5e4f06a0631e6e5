"""Asking until an answer can be read: at most three times, and from the second on with what was wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runner.judging.forms import Form
from runner.judging.reply import Fault, Reading, read_reply
from runner.types import ModelReply, ModelRequest

TRIES = 3
MAX_ECHO_CHARS = 8_000  # of an unusable reply that is shown to its author again


@dataclass(frozen=True, slots=True)
class Settled:
    """The last reading; `faults` has one place for each try before it."""

    reading: Reading
    faults: tuple[Fault, ...] = ()

    @property
    def tries(self) -> int:
        return len(self.faults) + 1


def settle(request: ModelRequest, form: Form, ask: Callable[[ModelRequest, int], ModelReply]) -> Settled:
    """`ask` is given the request and the try's number, from 1; what it raises goes through.

    A refusal is an answer: it is not argued with.
    """
    faults: list[Fault] = []
    while True:
        reply = ask(request, len(faults) + 1)
        reading = read_reply(reply, form)
        if reading.fault is None or reading.fault is Fault.REFUSED or len(faults) + 1 == TRIES:
            return Settled(reading, tuple(faults))
        faults.append(reading.fault)
        request = asked_again(request, reply.text, reading)


def asked_again(request: ModelRequest, said: str, reading: Reading) -> ModelRequest:
    """The same question, the unusable answer, and what was wrong with it."""
    problem = f"That answer cannot be used ({reading.fault}): {reading.problem}. Answer with the JSON object alone."
    more: tuple[Mapping[str, Any], ...] = (
        {"role": "assistant", "content": said[:MAX_ECHO_CHARS] or "(nothing)"},
        {"role": "user", "content": problem},
    )
    return replace(request, messages=(*request.messages, *more))
