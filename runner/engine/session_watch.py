"""Watching an agent's session while it runs: an attempt at a trial, or an author's work on a library."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from runner.agents import Agent
from runner.base.errors import BudgetSpent
from runner.base.types import Step, Usage
from runner.engine.host_calls import WatchedModel
from runner.engine.toolbox import Toolbox
from runner.models import Model, price_table_of
from runner.protocols.recorder import Recorder
from runner.sandboxes.needs import Needs

SECONDS_BETWEEN_BILLS = 1.0  # a program that reports all its steps at once is not billed step by step


@dataclass(slots=True)
class SessionWatcher:
    """Passes on what a session does while it runs, and bills what it has cost so far.

    Usage comes from answered calls, here or at a gateway; the agent's steps count only if no call reported any.
    """

    toolbox: Toolbox
    model: Model | None  # the session's model
    write_bill: Callable[[Usage, str], None]  # with the price list
    show_step: Callable[[Step], None]
    called: Usage | None = None
    reported: Usage = Usage()
    is_part: bool = False  # failed calls may have used more than is known
    billed_at: float = 0.0
    spent: BudgetSpent | None = None
    judge_queued: float = 0.0  # seconds that calls of a judging model waited for a free slot

    @property
    def usage(self) -> Usage:
        used = self.reported if self.called is None else self.called
        return used.in_part() if self.is_part else used

    def __call__(self, step: Step) -> None:
        self.reported += step.usage or Usage()
        if self.called is None and step.usage and time.monotonic() - self.billed_at >= SECONDS_BETWEEN_BILLS:
            self.bill()
        self.show_step(self.toolbox.clean.step(step))

    def note_answer(self, usage: Usage, is_part: bool = False) -> None:
        """Bill an answered call, or with `is_part` the known usage of a failed one."""
        self.is_part = self.is_part or is_part
        self.called = (self.called or Usage()) + usage
        self.bill()

    def bill(self) -> None:
        self.billed_at = time.monotonic()
        self.write_bill(self.usage, price_table_of(self.model, self.usage))

    def before_call(self) -> None:
        """Check the budget. BudgetSpent is kept too: a program in a sandbox only sees a refused call."""
        try:
            self.toolbox.budget(self.usage)
        except BudgetSpent as error:
            self.spent = error
            raise

    def require_budget(self) -> None:
        if self.spent is not None:
            raise self.spent

    def watched(self, key: str, recorder: Recorder | None) -> Model | None:
        """The model for the session's agent. With a recorder each call is kept, as `<key>/<number>`."""
        if self.model is None:
            return None
        return WatchedModel(self.model, key, self.toolbox.clean, self.note_answer, recorder)

    def needs(self, agent: Agent) -> Needs:
        """What the agent's sandbox must hold, with a gateway that reports to this watcher."""
        return replace(
            agent.needs(self.model),
            before_call=self.before_call,
            after_call=self.note_answer,
            counted=self.toolbox.has_budget,
        )
