"""Calls to models on this machine: cleaned, billed as soon as they are answered, and on record. An agent's calls are
kept if asked for, an author's always.

Each call of an author has a key of its own. A reply is committed under it before anything uses it, and a key that has
its reply is never asked again. So a crash between two calls costs no more than the call in progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from runner.authoring.fitting import Build, PromptWindow, fit
from runner.authoring.occasion import Occasion
from runner.base.errors import ContextExceeded, ModelUnavailable, SetupError
from runner.base.types import ModelReply, ModelRequest, Trajectory, Usage
from runner.engine.toolbox import Cleaner, Toolbox
from runner.models import Model, price_table_of
from runner.models.preset import Preset
from runner.protocols.plan import AuthorSampling
from runner.protocols.recorder import AGENT_CALLS, Recorder


@dataclass(slots=True)
class OpenCall:
    """A call on record that has begun. Set `reply`, and the trajectories of the work on it, before it is left."""

    model: Model
    request: ModelRequest  # cleaned
    reply: ModelReply | None = None
    trajectories: tuple[Trajectory, ...] = ()


@contextmanager
def open_call(recorder: Recorder, key: str, purpose: str, model: Model, request: ModelRequest) -> Iterator[OpenCall]:
    """Put a call on record: its request now, its reply or its error at the end."""
    recorder.start_call(key, purpose=purpose, model=model.name, request=request)
    call = OpenCall(model, request)
    try:
        yield call
    except Exception as error:
        recorder.finish_call(key, None, error)
        raise
    assert call.reply is not None
    table = price_table_of(model, call.reply.usage)
    recorder.finish_call(key, call.reply, price_table=table, trajectories=call.trajectories)


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
        purpose: str = AGENT_CALLS,
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
            if self._recorder is None:
                reply = self._clean.reply(self._model.complete(request))
            else:
                key = f"{self._key}/{self._calls}"
                with open_call(self._recorder, key, self._purpose, self._model, request) as call:
                    call.reply = reply = self._clean.reply(self._model.complete(request))
        except ModelUnavailable as error:
            if error.lost_usage is not None:
                self._answered(error.lost_usage, True)
            raise
        if reply.lost_usage is not None:
            self._answered(reply.lost_usage, True)
        self._answered(reply.usage, False)
        return reply


FITTING_TRIES = 4  # a first request, then shorter ones as refusals reveal the window


@dataclass(frozen=True, slots=True)
class AuthorCalls:
    """The calls of one episode's author. A reply on record under a key is never asked for again."""

    recorder: Recorder
    toolbox: Toolbox
    condition: str  # for messages
    sampling: AuthorSampling

    def request(self, messages: tuple[Mapping[str, str], ...], seed: int, max_tokens: int) -> ModelRequest:
        """Build a request for text, with the sampling of all calls of this author."""
        return ModelRequest(messages, temperature=self.sampling.temperature, max_tokens=max_tokens, seed=seed)

    @contextmanager
    def open(self, key: str, purpose: str, request: ModelRequest) -> Iterator[OpenCall]:
        """Open a call whose reply is not on record, and clean request and reply. SetupError if no model was named."""
        model, clean = self.toolbox.author_model, self.toolbox.clean
        if model is None:
            raise SetupError(f"{self.condition} needs an author model")
        request = clean.request(request)
        self.toolbox.budget(Usage())
        with open_call(self.recorder, key, purpose, model, request) as call:
            yield call
            assert call.reply is not None
            call.reply = clean.reply(call.reply)

    def ask_fitting(
        self, key: str, purpose: str, occasion: Occasion, build: Build, left: int | None = None
    ) -> ModelReply:
        """Return the reply on record or a new one of at most `left` tokens, to a request cut to the model's context
        window as far as it is known from the model or its refusals. The notes of the reply list the cuts: a decision
        judged again after a crash finds them there. ContextExceeded if nothing is left to cut."""
        if (found := self.recorder.reply(key)) is not None:
            return found
        longest = self.sampling.max_tokens
        max_tokens = longest if left is None else min(longest, left)
        window = PromptWindow(getattr(self.toolbox.author_model, "context_window", None))
        for _ in range(FITTING_TRIES):
            fitted, notes = fit(occasion, build, max_tokens, window)
            try:
                with self.open(key, purpose, fitted) as call:
                    reply = call.model.complete(call.request)
                    call.reply = replace(reply, notes=(*notes, *reply.notes))
                return call.reply
            except ContextExceeded as error:
                window = window.after(error, fitted)
                refused = error
                if fit(occasion, build, max_tokens, window)[0] == fitted:
                    break
        raise refused
