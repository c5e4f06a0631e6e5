"""Calls to an episode's author model: the answer that decides, and the talk before it.

Each has a key of its own. A reply is committed under it before anything uses it, and a key that has its reply is never
asked again. So a crash between two calls costs no more than the call in progress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runner.authoring.fitting import Build, PromptWindow, fit
from runner.authoring.occasion import Occasion
from runner.base.errors import ContextExceeded, SetupError
from runner.base.types import ModelReply, ModelRequest, Trajectory, Usage
from runner.engine.host_calls import ask_on_record
from runner.engine.toolbox import Toolbox
from runner.models import Model
from runner.protocols.recorder import Recorder
from runner.protocols.steps import AuthorSampling

# The purpose of a call.
AUTHOR = "author"
STUDENT = "student"  # the author's questions to its teacher
TEACHER = "teacher"  # the teacher's advice
GENERATOR = "generator"  # a program's run in the author's place
PURPOSES = (AUTHOR, STUDENT, TEACHER, GENERATOR)
FITTING_TRIES = 4  # a first request, then shorter ones as refusals reveal the window
Answer = Callable[[Model, ModelRequest], ModelReply]
Work = Callable[[], tuple[Trajectory, ...]]


def completion(model: Model, request: ModelRequest) -> ModelReply:
    return model.complete(request)


@dataclass(frozen=True, slots=True)
class AuthorCalls:
    """The calls of one episode's author."""

    recorder: Recorder
    toolbox: Toolbox
    condition: str  # for messages
    sampling: AuthorSampling

    def request(self, messages: tuple[Mapping[str, str], ...], seed: int, max_tokens: int) -> ModelRequest:
        """Build a request for text, with the sampling of all calls of this author."""
        return ModelRequest(messages, temperature=self.sampling.temperature, max_tokens=max_tokens, seed=seed)

    def reply(
        self, key: str, purpose: str, request: ModelRequest, answer: Answer = completion, work: Work = tuple
    ) -> ModelReply:
        """Return the reply on record under this key, or a new one. SetupError if no model was named to give it.

        `work`: the trajectories of the work on the reply, to be kept with it.
        """
        return self.recorder.reply(key) or self._ask_model(key, purpose, request, answer, work)

    def ask_fitting(
        self, key: str, purpose: str, occasion: Occasion, build: Build, left: int | None = None
    ) -> ModelReply:
        """As `reply`, of at most `left` tokens, with a request cut to the model's context window as far as it is
        known from the model or its refusals. The reply's notes list the cuts. ContextExceeded if nothing is left to
        cut."""
        if (found := self.recorder.reply(key)) is not None:
            return found
        longest = self.sampling.max_tokens
        max_tokens = longest if left is None else min(longest, left)
        window = PromptWindow(getattr(self.toolbox.author_model, "context_window", None))
        for _ in range(FITTING_TRIES):
            fitted = fit(occasion, build, max_tokens, window)
            try:
                return self._ask_model(key, purpose, fitted.request, fitted.answered_by)
            except ContextExceeded as error:
                window = window.after(error, fitted.request)
                refused = error
                if fit(occasion, build, max_tokens, window).request == fitted.request:
                    break
        raise refused

    def _ask_model(
        self, key: str, purpose: str, request: ModelRequest, answer: Answer, work: Work = tuple
    ) -> ModelReply:
        model, clean = self.toolbox.author_model, self.toolbox.clean
        if model is None:
            raise SetupError(f"{self.condition} needs an author model")
        request = clean.request(request)
        self.toolbox.budget(Usage())

        def ask() -> ModelReply:
            return clean.reply(answer(model, request))

        return ask_on_record(self.recorder, key, purpose, model, request, ask, work)
