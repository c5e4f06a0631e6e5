"""An agent's calls to a model on this machine: cleaned, billed as soon as they are answered, and kept if asked for."""

from __future__ import annotations

from collections.abc import Callable

from runner.base.errors import ModelUnavailable
from runner.base.types import ModelReply, ModelRequest, Trajectory, Usage
from runner.engine.cleaning import Cleaner
from runner.models import Model, price_table_of
from runner.models.preset import Preset
from runner.protocols.recorder import Recorder

PURPOSE = "agent"
JUDGE = "judge"


def ask_on_record(
    recorder: Recorder,
    key: str,
    purpose: str,
    model: Model,
    request: ModelRequest,
    ask: Callable[[], ModelReply],
    work: Callable[[], tuple[Trajectory, ...]] = tuple,
) -> ModelReply:
    """Return the reply of `ask`, with the call on record: its request before it is made, then its reply or its error.

    `work`: called after the reply, for the trajectories of the work on it.
    """
    recorder.start_call(key, purpose=purpose, model=model.name, request=request)
    try:
        reply = ask()
    except Exception as error:
        recorder.finish_call(key, None, error)
        raise
    recorder.finish_call(key, reply, price_table=price_table_of(model, reply.usage), trajectories=work())
    return reply


class WatchedModel:
    """`model` as given to an agent for one attempt. The cleaned request is both sent and recorded.

    `answered` gets the usage, and whether it is only the known part of a failed try. With a recorder, each call is
    kept as `<key>/<number>`, its reply committed before the agent acts on it.
    """

    def __init__(
        self,
        model: Model,
        key: str,
        clean: Cleaner,
        answered: Callable[[Usage, bool], None],
        recorder: Recorder | None,
        purpose: str = PURPOSE,
    ) -> None:
        self._model, self._key, self._clean, self._answered, self._recorder = model, key, clean, answered, recorder
        self._purpose = purpose
        self._calls = 0
        self.name: str = model.name
        self.version: str = model.version
        self.scripted: bool = model.scripted

    @property
    def preset(self) -> Preset | None:
        return self._model.preset

    @property
    def price_table(self) -> str:
        return self._model.price_table

    @property
    def priced(self) -> bool:
        return self._model.priced

    def complete(self, request: ModelRequest) -> ModelReply:
        self._calls += 1
        request = self._clean.request(request)
        try:
            reply = self._ask(request)
        except ModelUnavailable as error:
            if error.lost_usage is not None:
                self._answered(error.lost_usage, True)
            raise
        if reply.lost_usage is not None:
            self._answered(reply.lost_usage, True)
        self._answered(reply.usage, False)
        return reply

    def _ask(self, request: ModelRequest) -> ModelReply:
        def ask() -> ModelReply:
            return self._clean.reply(self._model.complete(request))

        key = f"{self._key}/{self._calls}"
        return ask_on_record(self._recorder, key, self._purpose, self._model, request, ask) if self._recorder else ask()
