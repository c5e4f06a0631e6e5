"""The commands, with the real litellm against a server on this machine that speaks the OpenAI chat format."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from benchapp.models import JudgedUnit, Judgement, Judging, JudgingTry
from benchapp.stats.judged import read_judged_rows
from runner.judging.metrics import Metric
from runner.models.litellm.client import LiteLLM
from tests.providers.chat_provider import Provider
from tests.worlds.judging_worlds import World, fitting, make_world, metric_of

pytestmark = pytest.mark.django_db

KEY = "key-of-the-judge-0123456789"
USAGE = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("JUDGE_TEST_KEY", KEY)
    monkeypatch.setattr("runner.models.wire.call_slots.FIRST_PAUSE_SECONDS", 0.0)
    found = Provider()
    yield found
    found.close()


def judge(provider: Provider, world: World, *options: str, command: str = "judge_run", **more: Any) -> str:
    out = StringIO()
    given = ["--model", "litellm/openai/test-judge", "--key-variable", "JUDGE_TEST_KEY", "--api-base", provider.url]
    call_command(command, str(world.run.public_id), *given, *options, stdout=out, **more)
    return out.getvalue()


def statuses() -> list[str]:
    return list(JudgedUnit.objects.order_by("pk").values_list("status", flat=True))


def test_it_judges_over_the_wire_and_says_what_it_did(provider: Provider) -> None:
    provider.says(fitting(Metric.SAFETY, score=5), usage=USAGE)
    said = judge(provider, make_world(), "--metrics", "safety")
    assert "4 ok; 4 calls" in said
    assert provider.asked[0]["response_format"] == {"type": "json_object"}
    assert provider.keys == [f"Bearer {KEY}"] * 4
    row = JudgingTry.objects.first()
    assert (row.input_tokens, row.output_tokens, row.cost_usd) == (90, 10, None)
    assert set(Judgement.objects.values_list("raw", "value")) == {(5.0, 100.0)}


def test_replies_of_every_bad_kind_come_through_as_what_they_are(provider: Provider) -> None:
    safety = fitting(Metric.SAFETY)
    provider.says("```json\n" + safety + "\n```")  # taken
    provider.says(safety[:-40], finish="length")  # malformed, and then
    provider.says('{"data_privacy": {"score": 4, "reason": "r"}}')  # partial, and then
    provider.says(safety)  # taken
    provider.says(None, refusal="I will not judge this.")
    for _ in range(3):
        provider.says(safety.replace('"score":4', '"score":0', 1))
    judge(provider, make_world(), "--metrics", "safety")
    assert statuses() == ["ok", "ok", "refused", "out-of-range"]
    tries = [unit.tries.count() for unit in JudgedUnit.objects.order_by("pk")]
    assert tries == [1, 3, 1, 3]


def test_errors_that_pass_are_waited_out_and_those_that_stay_fail_the_question_alone(provider: Provider) -> None:
    provider.fails(503)
    provider.fails(429)
    provider.says(fitting(Metric.SAFETY))  # after two pauses
    provider.fails(400, "this prompt is odd")
    provider.says(fitting(Metric.SAFETY))
    judge(provider, make_world(), "--metrics", "safety")
    assert statuses() == ["ok", "failed", "ok", "ok"]
    assert "this prompt is odd" in JudgedUnit.objects.get(status="failed").problem


def test_a_provider_that_is_gone_stops_the_pass_and_it_goes_on_later(provider: Provider) -> None:
    world = make_world()
    provider.fails(500)
    with pytest.raises(CommandError, match="3 questions in a row") as stopped:
        judge(provider, world, "--metrics", "safety")
    assert stopped.value.returncode == 3
    provider.answers.clear()
    provider.says(fitting(Metric.SAFETY))
    assert "4 ok; 4 calls" in judge(provider, world, "--metrics", "safety")


def test_a_slow_provider_is_given_up_and_asked_again(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own time limit ends the call; what comes too late is not waited for."""
    monkeypatch.setattr(LiteLLM, "complete", _timing_out(LiteLLM.complete))
    provider.says(fitting(Metric.SAFETY))
    judge(provider, make_world(), "--metrics", "safety")
    assert statuses() == ["failed", "ok", "ok", "ok"]


def _timing_out(complete: Any) -> Any:
    """The first call meets a server that accepts and never answers."""
    silent = socket.create_server(("127.0.0.1", 0))
    first = [True]

    def asked(self: LiteLLM, request: Any) -> Any:
        if not first.pop() if first else True:
            return complete(self, request)
        slow = LiteLLM(self.name, key_variable=self.key_variable, timeout_seconds=0.2, sleep=lambda _: None)
        slow.api_base = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        return complete(slow, request)

    return asked


def test_a_refused_key_stops_at_once_and_is_quoted_nowhere(provider: Provider) -> None:
    provider.fails(401, f"wrong key {KEY}")
    with pytest.raises(CommandError, match="JUDGE_TEST_KEY") as stopped:
        judge(provider, make_world(), "--metrics", "safety")
    assert len(provider.asked) == 1
    kept = [*JudgingTry.objects.values_list("error", flat=True), JudgedUnit.objects.get().problem, str(stopped.value)]
    assert not [text for text in kept if KEY in text]


def test_a_reply_that_quotes_a_key_is_kept_without_it(provider: Provider) -> None:
    provider.says(fitting(Metric.ORDER).replace("r-execution_order", f"the key is {KEY}"))
    judge(provider, make_world(), "--metrics", "execution-order")
    kept = [row.reply.content().decode() for row in JudgingTry.objects.all()]
    assert not [text for text in (*kept, Judgement.objects.first().reason) if KEY in text]


def test_a_recorded_pass_run_again_gives_identical_scores(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLGLASS_RECORDINGS", str(tmp_path))
    world = make_world(key_points=False)
    _answer_by_question(provider)
    judge(provider, world, "--record", "pass-1")
    asked = len(provider.asked)
    call_command("judge_run", str(world.run.public_id), "--model", "recorded/pass-1")
    assert len(provider.asked) == asked
    first, again = Judging.objects.order_by("pk")
    assert (first.scripted, again.scripted) == (False, True)
    columns = ("unit__key", "item", "raw", "label", "value", "reason")
    assert list(_judgements(first, columns)) == list(_judgements(again, columns)) != []
    rows = read_judged_rows([first, again])
    assert rows[first.pk] == rows[again.pk]


def _judgements(judging: Judging, columns: tuple[str, ...]) -> Any:
    found = Judgement.objects.filter(unit__judging=judging)
    return found.order_by("unit__key", "item").values_list(*columns)


def _answer_by_question(provider: Provider) -> None:
    """Whatever fits the question, with differing scores, and now and then what fits none."""

    class ByQuestion(list):  # type: ignore[type-arg]
        def __getitem__(self, place: Any) -> Any:
            request = provider.asked[-1]
            number = len(provider.asked)
            text = fitting(metric_of(request), score=1 + number % 5, place=number % 2)
            if number % 7 == 0 and len(request["messages"]) == 2:
                text = "Here you are: " + text
            message = {"role": "assistant", "content": text}
            reply = {
                "id": "r",
                "object": "chat.completion",
                "created": 1,
                "model": "test-judge",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            }
            return (200, reply, {})

    provider.answers = ByQuestion([1])


def test_the_retest_prints_rank_agreement_error_and_spread(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    _answer_by_question(provider)
    said = judge(provider, make_world(samples=2), "--repeats", "2", command="judge_retest")
    assert "repeat 1 against repeat 2" in said
    line = next(each for each in said.splitlines() if each.startswith("executability "))
    assert line.split()[1] == "4"  # two skills for two instances
    assert "skill-usage" in said
    usage = next(each for each in said.splitlines() if each.startswith("skill-usage")).split()
    assert usage[1:] == ["4", "undefined", "0.00"]  # counted twice alike, and never varying
    assert "over samples, repeat 1" in said


def test_what_it_is_not_asked_for_is_refused_with_what_there_is(provider: Provider) -> None:
    with pytest.raises(CommandError, match="taste unknown; known: coverage, executability"):
        judge(provider, make_world(), "--metrics", "taste")
    with pytest.raises(CommandError, match="use 2 or more"):
        judge(provider, make_world(), "--repeats", "1", command="judge_retest")
