"""The judge with the real litellm against a server on this machine, and its reading of replies without any."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from benchapp.models import Blob, JudgeCall, Queue, QueueItem, Suggestion, Trial
from benchapp.review.suggestions.judge_evidence import HIDDEN, JudgeEvidence, evidence_of
from benchapp.review.suggestions.judging_queue import (
    MAX_LABELS,
    PROMPT_VERSION,
    Budget,
    JudgeRefused,
    Stopped,
    Unreadable,
    judge_queue,
    read_reply,
    source_of,
)
from benchapp.review.suggestions.suggestion_runs import Names
from demo.scripted import Scripted
from runner.base.types import FILTERED, ModelReply, Observation, Source, Step, ToolCall
from runner.models.litellm.client import LiteLLM
from tests.cases import every
from tests.providers.chat_provider import Provider
from tests.worlds.factories import make_episode, make_experiment, make_run, make_trial, make_user, record_steps
from tests.worlds.review_factories import make_queue, make_review, make_version

pytestmark = pytest.mark.django_db

KEY = "key-of-the-judge-0123456789"
CODES = ("silent bypass", "numeric/formula", "premature success")


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("JUDGE_TEST_KEY", KEY)
    found = Provider()
    yield found
    found.close()


def judged_trial(**run: Any) -> Trial:
    trial = make_trial(make_episode(make_run(**run)), success=False, mounted=["tidy-tables"], read=["tidy-tables"])
    attempt = trial.counting_attempt()
    assert attempt is not None
    steps = [
        Step(1, Source.USER, "Sum the numbers.\n\nYou have skills below ../skills: use the skill tidy-tables."),
        _shell(2, "cat ../skills/tidy-tables/SKILL.md", "# Tidy tables\nLeave missing cells out."),
        _shell(3, "python sum.py", "total 27.5"),
        Step(4, Source.AGENT, "As Claude Opus 4.1 I can say: the work is done."),
    ]
    record_steps(attempt, steps)
    return trial


def _shell(number: int, command: str, result: str) -> Step:
    call = ToolCall(f"c{number}", "Bash", {"command": command})
    return Step(number, Source.AGENT, "", tool_calls=(call,), observations=(Observation(result, f"c{number}"),))


def queue_of(size: int = 1, **fields: Any) -> Queue:
    return make_queue([judged_trial() for _ in range(size)], version=make_version(CODES), **fields)


def judge_model(provider: Provider) -> LiteLLM:
    return LiteLLM(
        "litellm/openai/test-judge", key_variable="JUDGE_TEST_KEY", api_base=provider.url, sleep=lambda _: None
    )


def label(**fields: Any) -> dict[str, Any]:
    return {
        "code": "numeric/formula",
        "attribution": "agent",
        "step": 3,
        "quote": "total 27.5",
        "reason": "It summed the wrong cells.",
        "confidence": "high",
        **fields,
    }


def answer(*labels: dict[str, Any]) -> str:
    return json.dumps({"labels": list(labels)})


# --- the whole way ----------------------------------------------------------------------------------------------


def test_it_asks_and_stores_what_stands_the_checks(provider: Provider) -> None:
    queue = queue_of()
    usage = {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940}
    provider.says(answer(label()), usage=usage)
    outcome = judge_queue(queue, judge_model(provider), Budget())
    assert (outcome.items, outcome.stopped) == ({"answered": 1}, "")
    row = Suggestion.objects.get()
    assert (row.code.name, row.attribution, row.step, row.quote) == ("numeric/formula", "agent", 3, "total 27.5")
    assert row.source == source_of("litellm/openai/test-judge")
    assert row.reason == "It summed the wrong cells. (confidence: high)"
    call = JudgeCall.objects.get()
    assert (call.status, call.error, call.prompt_version) == ("answered", "", PROMPT_VERSION)
    assert (call.input_tokens, call.output_tokens, call.cost_usd, call.scripted) == (900, 40, None, False)


def test_it_stores_the_request_and_the_reply_without_the_key(provider: Provider) -> None:
    queue = queue_of()
    provider.says(answer(label(reason=f"The key is {KEY}.")))
    judge_queue(queue, judge_model(provider), Budget())
    call = JudgeCall.objects.get()
    request, reply = call.request.content().decode(), call.reply.content().decode()
    assert provider.keys == [f"Bearer {KEY}"]
    assert json.loads(request)["messages"] == provider.asked[0]["messages"]
    assert "numeric/formula" in json.loads(reply)["text"]
    everything = [request, reply, call.error, Suggestion.objects.get().reason]
    assert not [text for text in everything if KEY in text]


def test_it_is_shown_the_codebook_and_the_evidence_but_no_persons_label(provider: Provider) -> None:
    queue = queue_of()
    make_review(queue.items.get(), make_user(), ["silent bypass"], memo="I think it never read the skill")
    Suggestion.objects.create(item=queue.items.get(), source="rules", source_version="r", code_name="x", reason="psst")
    provider.says(answer())
    judge_queue(queue, judge_model(provider), Budget())
    asked = provider.asked[0]["messages"][1]["content"]
    assert "What silent bypass means." in asked
    assert "total 27.5" in asked
    assert "expected 41.2, got 27.5" in asked
    assert "I think it never read" not in asked
    assert "psst" not in asked


def test_it_asks_an_answered_item_no_second_time_and_an_empty_answer_is_one(provider: Provider) -> None:
    queue = queue_of(2)
    provider.says(answer())
    assert judge_queue(queue, judge_model(provider), Budget()).items == {"answered": 2}
    assert judge_queue(queue, judge_model(provider), Budget()).items == {}
    assert len(provider.asked) == 2
    assert Suggestion.objects.count() == 0


def test_it_asks_again_once_with_what_was_wrong_and_keeps_both_calls(provider: Provider) -> None:
    queue = queue_of()
    provider.says("I would say numeric.")
    provider.says(answer(label()))
    assert judge_queue(queue, judge_model(provider), Budget()).items == {"answered": 1}
    assert [call.status for call in JudgeCall.objects.all()] == ["unreadable", "answered"]
    assert "could not be read: no JSON object" in provider.asked[1]["messages"][-1]["content"]
    assert provider.asked[1]["messages"][-2] == {"role": "assistant", "content": "I would say numeric."}


def test_it_gives_an_item_up_that_stays_unreadable_and_goes_on(provider: Provider) -> None:
    queue = queue_of(2)
    provider.says("no")
    provider.says("no again")
    provider.says(answer(label()))
    assert judge_queue(queue, judge_model(provider), Budget()).items == {"unreadable": 1, "answered": 1}
    assert judge_queue(queue, judge_model(provider), Budget()).items == {}


def test_it_counts_a_refusal_as_a_refusal(provider: Provider) -> None:
    queue = queue_of()
    provider.says(None, refusal="I will not judge others.")
    assert judge_queue(queue, judge_model(provider), Budget()).items == {"refused": 1}
    call = JudgeCall.objects.get()
    assert (call.status, call.error) == ("refused", "I will not judge others.")


def test_it_keeps_what_stands_and_says_what_it_left_out(provider: Provider) -> None:
    queue = queue_of()
    provider.says(answer(label(), label(code="made up"), label(code="silent bypass", quote="never said")))
    judge_queue(queue, judge_model(provider), Budget())
    assert [row.code_name for row in Suggestion.objects.all()] == ["numeric/formula"]
    error = JudgeCall.objects.get().error
    assert "no code 'made up'" in error
    assert "label 3: silent bypass: the quote does not stand in step 3" in error


def test_it_stops_where_the_provider_will_not_take_us_and_records_the_call(provider: Provider) -> None:
    queue = queue_of(2)
    provider.fails(401, f"Incorrect API key provided: {KEY}")
    outcome = judge_queue(queue, judge_model(provider), Budget())
    assert "The provider refused the key" in outcome.stopped
    assert len(provider.asked) == 1
    call = JudgeCall.objects.get()
    assert (call.status, call.reply) == ("failed", None)
    assert KEY not in call.error + outcome.stopped


def test_it_keeps_to_its_calls(provider: Provider) -> None:
    queue = queue_of(3)
    provider.says(answer())
    outcome = judge_queue(queue, judge_model(provider), Budget(calls=2))
    assert (outcome.items, len(provider.asked)) == ({"answered": 2}, 2)
    assert "limit of 2 calls" in outcome.stopped


def test_it_keeps_to_its_money(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queue_of(3)
    monkeypatch.setenv("OPENAI_API_BASE", provider.url)
    monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
    provider.says(answer(), usage={"prompt_tokens": 1_000_000, "completion_tokens": 10, "total_tokens": 1_000_010})
    model = LiteLLM("litellm/openai/gpt-4.1-mini", key_variable="JUDGE_TEST_KEY")
    outcome = judge_queue(queue, model, Budget(usd=0.01))
    assert len(provider.asked) == 1
    assert "$0.01 is used up" in outcome.stopped
    cost = JudgeCall.objects.get().cost_usd
    assert cost is not None
    assert cost > 0.01
    assert outcome.budget.used_usd == pytest.approx(cost)


def test_a_limit_in_dollars_ends_at_the_first_call_of_unknown_cost(provider: Provider) -> None:
    queue = queue_of(3)
    provider.says(answer())
    outcome = judge_queue(queue, judge_model(provider), Budget(usd=5))
    assert len(provider.asked) == 1
    assert "cost of this model is unknown" in outcome.stopped


def test_a_reply_without_usage_counts_as_the_dearest_one() -> None:
    budget = Budget(usd=1.0)
    budget.note(0.4)
    budget.note(None)
    budget.check()
    budget.note(None)
    with pytest.raises(Stopped, match=r"\$1.00 is used up \(\$1.2000\)"):
        budget.check()


def test_it_can_ask_only_about_what_people_have_reviewed(provider: Provider) -> None:
    queue = queue_of(2)
    first = queue.items.first()
    make_review(first, make_user())
    provider.says(answer())
    judge_queue(queue, judge_model(provider), Budget(), only_reviewed=True)
    assert list(JudgeCall.objects.values_list("item", flat=True)) == [first.pk]


def test_a_scripted_judge_is_named_scripted() -> None:
    queue = queue_of()
    outcome = judge_queue(queue, Scripted("scripted/careful"), Budget())
    assert outcome.items == {"unreadable": 1}
    assert set(JudgeCall.objects.values_list("scripted", flat=True)) == {True}


def test_a_missing_key_ends_it_before_anything_is_sent(provider: Provider) -> None:
    queue = queue_of()
    model = LiteLLM("litellm/openai/test-judge", key_variable="NOT_SET_ANYWHERE", api_base=provider.url)
    assert "NOT_SET_ANYWHERE is not set" in judge_queue(queue, model, Budget()).stopped
    assert provider.asked == []
    assert JudgeCall.objects.get().status == "failed"


def test_the_command_tells_what_it_did_and_that_it_stopped_early(provider: Provider, capsys) -> None:
    queue = queue_of(2)
    provider.says(answer(label()))
    given = {"model": "openai/test-judge", "key_variable": "JUDGE_TEST_KEY", "api_base": provider.url}
    with pytest.raises(CommandError, match="limit of 1 calls") as stopped:
        call_command("judge", str(queue.public_id), limit=1, **given)
    assert stopped.value.returncode == 3
    call_command("judge", str(queue.public_id), **given)
    assert "1 answered; 1 calls, $0.0000, 1 calls without a known cost" in capsys.readouterr().out.splitlines()[-1]


# --- what it is shown -------------------------------------------------------------------------------------------


def shown(**fields: Any) -> str:
    experiment = make_experiment(name="Spring campaign")
    trial = judged_trial(experiment=experiment, condition="selfgen-always", agent_model="gpt-5.4", harness="codex")
    trial.episode.run.refresh_from_db()
    item = make_queue([trial], version=make_version(CODES), **fields).items.get()
    return evidence_of(
        QueueItem.objects.select_related("queue", "trial__episode__run__experiment").get(pk=item.pk)
    ).text


def test_it_is_masked_as_the_queue_masks() -> None:
    blind = shown(hides_conditions=True, hides_models=True)
    for told in ("tidy", "Leave missing cells out", "SKILL.md", "Claude", "Opus"):
        assert told not in blind
    assert HIDDEN in blind
    assert "Sum the numbers." in blind
    assert "total 27.5" in blind
    seen = shown(hides_conditions=False, hides_models=False)
    for told in ("tidy-tables", "Leave missing cells out", "Claude Opus 4.1"):
        assert told in seen


def test_each_switch_masks_its_own() -> None:
    assert "tidy" in shown(hides_conditions=False, hides_models=True)
    assert "Claude Opus" in shown(hides_conditions=True, hides_models=False)


def test_two_databases_that_differ_in_what_is_hidden_give_one_text() -> None:
    def of(condition: str, model: str, skill: str) -> str:
        run = make_run(condition=condition, agent_model=model)
        trial = make_trial(make_episode(run), success=False, mounted=[skill], read=[skill])
        trial.task.title = "Sum it up"
        trial.task.save()
        steps = [
            Step(1, Source.USER, f"Sum the numbers.\n\n## Skill library\n\n{skill} lies below ../skills"),
            _shell(2, f"cat ../skills/{skill}/SKILL.md", f"# {skill}\n" + "rule\n" * len(skill)),
            _shell(3, "python sum.py", f"total 27.5 by {model} under {condition}"),
        ]
        record_steps(trial.counting_attempt(), steps)
        item = make_queue([trial], version=make_version(CODES)).items.get()
        return evidence_of(item).text

    one, other = of("selfgen-always", "gpt-5.4", "tidy-tables"), of("raw-trajectory", "claude-opus-4-1", "parse")
    assert one == other
    assert "total 27.5 by [hidden]" in one


def test_what_it_is_shown_is_redacted() -> None:
    trial = judged_trial()
    steps = [_shell(1, "env", "OPENAI_API_KEY=sk-abcdefghij0123456789")]
    record_steps(trial.counting_attempt(), steps)
    item = make_queue([trial], version=make_version(CODES)).items.get()
    assert "0123456789" not in evidence_of(item).text


# --- reading a reply --------------------------------------------------------------------------------------------

TEXT = "# Trajectory\n\n## Step 1, agent\nResult 1: total\n27.5\n\n## Step 2, agent\nall is done"


def read(text: str, *, finish: str = "stop") -> Any:
    names = Names.of(make_version(CODES))
    return read_reply(ModelReply(text, finish_reason=finish), JudgeEvidence(TEXT, 2), names.find)


def one(**fields: Any) -> dict[str, Any]:
    return label(step=1, quote="total 27.5", **fields)


@every(
    answer(one()),
    f"Here you are:\n```json\n{answer(one())}\n```",
    f'{{"thoughts": {{"a": 1}}}}\n{answer(one())}',
    json.dumps({"labels": [one()], "more": "than asked"}),
)
def test_it_finds_the_object_wherever_it_stands(text: str) -> None:
    ((found,), _) = read(text)
    assert (found.code.name, found.step) == ("numeric/formula", 1)


@every(
    ({"code": "invented"}, "no code 'invented'"),
    ({"code": 7}, "code is int"),
    ({"code": None}, "no code ''"),
    ({"quote": ""}, "no quote"),
    ({"quote": "all is done"}, "does not stand in step 1"),
    ({"quote": "total 28"}, "does not stand in step 1"),
    ({"step": None, "quote": "nowhere"}, "does not stand in the evidence"),
    ({"step": 3}, "expected null or 1 to 2"),
    ({"step": 0}, "expected null or 1 to 2"),
    ({"step": -1}, "expected null or 1 to 2"),
    ({"step": True}, "expected null or 1 to 2"),
    ({"step": "1"}, "expected null or 1 to 2"),
    ({"step": 1e300}, "expected null or 1 to 2"),
    ({"attribution": "the moon"}, "attribution 'the moon' is not known"),
    ({"confidence": "99%"}, "confidence '99%' is not known"),
    ({"confidence": 0.9}, "confidence is float"),
)
def test_it_takes_no_label_that_fails_a_check(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(Unreadable, match=problem):
        read(answer({**one(), **fields}))


@every(
    "",
    "numeric/formula",
    "[]",
    '{"label": []}',
    '{"labels": {}}',
    '{"labels": "none"}',
    answer(one())[:-4],
    "{" * 10_000,
    "[" * 100_000,
)
def test_it_reads_nothing_into_what_is_no_answer(text: str) -> None:
    with pytest.raises(Unreadable, match="no JSON object"):
        read(text)


def test_it_says_that_a_reply_was_cut_off() -> None:
    with pytest.raises(Unreadable, match="cut off"):
        read(answer(one())[:-4], finish="length")


@every("I'm sorry, but I can't help with that.", "I cannot do this.", "Sorry, no.")
def test_it_knows_a_refusal_in_words(text: str) -> None:
    with pytest.raises(JudgeRefused):
        read(text)


def test_a_filtered_reply_is_a_refusal_whatever_it_says() -> None:
    with pytest.raises(JudgeRefused):
        read(answer(one()), finish=FILTERED)


def test_it_takes_a_code_once_and_no_more_than_so_many() -> None:
    found = read(answer(*[one()] * (MAX_LABELS + 3)))
    assert len(found[0]) == 1
    assert found[1] == [f"3 labels beyond the first {MAX_LABELS}"]


def test_an_empty_list_is_an_answer() -> None:
    assert read('{"labels": []}') == ([], [])


def test_every_stored_blob_can_be_read_back(provider: Provider) -> None:
    queue = queue_of()
    provider.says(answer(label(reason="odd \u0000 and \ud83d\ude00")))
    judge_queue(queue, judge_model(provider), Budget())
    call = JudgeCall.objects.get()
    assert json.loads(Blob.objects.read(call.reply_id))["finish_reason"] == "stop"
    assert Suggestion.objects.get().reason.startswith("odd \u2400 and ")  # PostgreSQL stores no NUL
