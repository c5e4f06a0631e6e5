"""What an attempt is billed for calls that failed on their way to a reply."""

from __future__ import annotations

import pytest

from runner.base.errors import ModelUnavailable
from runner.base.types import FailedTry, ModelReply, ModelRequest, Usage
from runner.engine.attempts import SessionWatcher
from runner.engine.model_calls import WatchedModel
from runner.engine.toolbox import Cleaner
from tests.runner.small_episode import small_toolbox

REQUEST = ModelRequest(({"role": "user", "content": "go"},))


class Answers:
    name, version, scripted, preset, price_table, priced = "m", "1", False, None, "", False

    def __init__(self, *answers: ModelReply | Exception) -> None:
        self.answers = list(answers)

    def complete(self, request: ModelRequest) -> ModelReply:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def billed(*answers: ModelReply | Exception) -> Usage:
    told: list[Usage] = []
    watcher = SessionWatcher(small_toolbox(), None, lambda usage, table: told.append(usage), lambda step: None)
    model = WatchedModel(Answers(*answers), "k", Cleaner(), watcher.note_answer, None)
    for answer in answers:
        if isinstance(answer, Exception):
            with pytest.raises(ModelUnavailable):
                model.complete(REQUEST)
        else:
            model.complete(REQUEST)
    return told[-1] if told else watcher.usage


TOLD = ModelReply("x", usage=Usage(100, 0, 10))


def test_what_is_known_of_a_failed_try_is_billed_and_the_sum_known_in_part() -> None:
    broke = ModelReply("x", usage=Usage(100, 0, 10), failed_tries=(FailedTry("broke", 1.0, Usage(input_at_least=70)),))
    assert billed(broke, TOLD) == Usage(cached_tokens=0, input_at_least=270, output_at_least=20)


def test_a_call_that_got_no_reply_may_have_used_tokens() -> None:
    assert billed(TOLD, ModelUnavailable("hung", None, Usage())) == TOLD.usage.in_part()


def test_a_call_that_was_turned_away_used_none() -> None:
    assert billed(TOLD, ModelUnavailable("429", 7.0)) == TOLD.usage
