"""Calls to an episode's author model: the answer that decides, and what is said before it.

Each has a key of its own. A reply is committed under it before anything is done with it, and a key that has its reply is
never asked again, so a crash between two calls costs nothing but the call that was on its way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runner.errors import SetupError
from runner.models import Model, price_table_of
from runner.recorder import Recorder
from runner.toolbox import Toolbox
from runner.types import ModelReply, ModelRequest, Usage

# What a call is for.
AUTHOR = "author"
STUDENT = "student"  # the author's questions to its teacher
TEACHER = "teacher"  # the teacher's advice
GENERATOR = "generator"  # a program's run in the author's place
PURPOSES = (AUTHOR, STUDENT, TEACHER, GENERATOR)
Answer = Callable[[Model, ModelRequest], ModelReply]


def completion(model: Model, request: ModelRequest) -> ModelReply:
    return model.complete(request)


@dataclass(frozen=True, slots=True)
class AuthorCalls:
    recorder: Recorder
    toolbox: Toolbox
    condition: str  # for messages

    def reply(self, key: str, purpose: str, request: ModelRequest, answer: Answer = completion) -> ModelReply:
        """The reply on record under this key, or a new one. SetupError where no model was named to give it."""
        return self.recorder.reply(key) or self._asked(key, purpose, request, answer)

    def _asked(self, key: str, purpose: str, request: ModelRequest, answer: Answer) -> ModelReply:
        model, clean = self.toolbox.author_model, self.toolbox.clean
        if model is None:
            raise SetupError(f"{self.condition} needs an author model")
        request = clean.request(request)
        self.toolbox.budget(Usage())
        self.recorder.start_call(key, purpose=purpose, model=model.name, request=request)
        try:
            reply = clean.reply(answer(model, request))
        except Exception as error:
            self.recorder.finish_call(key, None, error)
            raise
        self.recorder.finish_call(key, reply, price_table=price_table_of(model, reply.usage))
        return reply
