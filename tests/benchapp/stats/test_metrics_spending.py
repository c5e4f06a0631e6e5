"""The bill of runs: every billed attempt once, the author's calls beside it, unknown where it is unknown."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchapp.experiments.work.budgets import count_spent
from benchapp.experiments.work.progress import WorkProgress
from benchapp.models import Attempt, Blob, Episode, JudgedUnit, Judging, JudgingTry, ModelCall, Run
from benchapp.record.recorded import BOUND_OF
from benchapp.stats.metrics.spending import KEPT, RunSpending, Spending, spending_of
from inspector.web.text.formats import all_tokens, tokens
from tests.worlds.factories import START, make_attempt, make_episode, make_run, make_trial

pytestmark = pytest.mark.django_db


def make_call(episode: Episode, **fields: object) -> ModelCall:
    defaults = {"purpose": "author", "model": "m", "started_at": START, "request_id": Blob.objects.put(b"{}")}
    count = episode.calls.count()
    return ModelCall.objects.create(episode=episode, **{"key": f"call-{count}", **defaults, **fields})


def slow_bill(run: Run) -> RunSpending:
    attempts = [
        attempt
        for attempt in Attempt.objects.filter(trial__episode__run=run)
        if attempt.status != Attempt.Status.SUPERSEDED
    ]
    first, replays = ([each for each in attempts if (each.trial.phase == "replay") == again] for again in (False, True))
    calls = list(ModelCall.objects.filter(episode__run=run))
    return RunSpending(_slow_sum(first), _slow_sum(calls), replays=_slow_sum(replays))


def _slow_sum(things: list[Attempt] | list[ModelCall]) -> Spending:
    def total(name: str) -> float | None:
        bound = BOUND_OF.get(name, name)
        both = [(getattr(thing, name), getattr(thing, bound)) for thing in things]
        told = [value if value is not None else part for value, part in both if value is not None or part is not None]
        return sum(told) if told else None

    return Spending(
        things=len(things),
        input_known=sum(thing.input_tokens is not None for thing in things),
        output_known=sum(thing.output_tokens is not None for thing in things),
        tokens_known=sum(thing.input_tokens is not None and thing.output_tokens is not None for thing in things),
        cost_known=sum(thing.cost_usd is not None for thing in things),
        **{name: total(name) for name in ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")},
    )


def test_it_equals_adding_up_row_by_row() -> None:
    runs = [make_run(), make_run(), make_run()]
    for cost, run in zip((1.0, None), runs, strict=False):
        episode = make_episode(run)
        trial = make_trial(episode, attempt={"cost_usd": cost})
        make_attempt(trial, counts=False, cost_usd=0.5, output_tokens=None)
        make_attempt(trial, counts=False, status=Attempt.Status.SUPERSEDED, cost_usd=100.0)
        make_call(episode, input_tokens=5, output_tokens=6, cost_usd=0.25)
    found = spending_of(runs)
    assert found == {run.pk: slow_bill(run) for run in runs}
    assert [found[run.pk].of_first_tries.whole_cost for run in runs] == [1.75, None, None]
    assert found[runs[0].pk].of_first_tries.whole_tokens is None, "one attempt tells no output tokens"


def test_a_replay_is_billed_with_all_phases_and_is_no_cost_of_solving() -> None:
    episode = make_episode()
    make_trial(episode, attempt={"cost_usd": 1.0})
    make_trial(episode, phase="replay", attempt={"cost_usd": None, "output_tokens": None})
    found = spending_of([episode.run])[episode.run_id]
    assert (found.agent.things, found.agent.cost_known, found.replays.things) == (2, 1, 1)
    solving = found.of_first_tries
    assert (solving.whole_cost, solving.whole_tokens) == (1.0, 4200 + 310)
    assert (found.of_all_phases.whole_cost, found.of_all_phases.things) == (None, 2)
    assert WorkProgress(spent=(found,)).unknown_cost == 1


def test_what_is_known_of_an_unknown_cost_is_in_the_sum_that_says_so() -> None:
    episode = make_episode()
    trial = make_trial(episode, attempt={"cost_usd": 1.0})
    make_attempt(trial, counts=False, cost_usd=None, priced_usd=0.5)
    found = spending_of([episode.run])[episode.run_id]
    assert (found.agent.cost_usd, found.agent.cost_known, found.agent.things) == (1.5, 1, 2)
    assert (found.agent.is_partial, found.of_first_tries.whole_cost) == (True, None)


def test_what_is_known_of_unknown_tokens_is_in_the_sum_that_says_so() -> None:
    episode = make_episode()
    make_trial(episode, attempt={"input_tokens": 900, "output_tokens": 100})
    bound = {"input_tokens": None, "output_tokens": 40, "input_at_least": 1_300}
    make_trial(episode, attempt=bound)
    make_call(episode, input_tokens=None, output_tokens=None, input_at_least=5, output_at_least=6)
    found = spending_of([episode.run])[episode.run_id]
    assert (found.agent.input_tokens, found.agent.output_tokens) == (2_200, 140)
    assert (found.agent.input_known, found.agent.output_known, found.agent.things) == (1, 2, 2)
    assert found.of_first_tries.whole_tokens is None
    progress = WorkProgress(spent=(found,))
    assert (progress.spent_tokens, progress.unknown_tokens) == (2_351, 2)
    assert all_tokens(progress) == "at least 2.4k"
    assert (tokens(found.agent, "input"), tokens(found.agent, "output")) == ("at least 2.2k", "140")


def test_it_adds_the_tokens_of_agent_and_author() -> None:
    episode = make_episode()
    make_trial(episode)
    make_call(episode, input_tokens=100, output_tokens=10)
    assert spending_of([episode.run])[episode.run_id].of_first_tries.whole_tokens == 4200 + 310 + 110


def test_what_a_judge_of_artifacts_used_is_no_cost_of_the_author() -> None:
    episode = make_episode()
    make_trial(episode, attempt={"cost_usd": 1.0})
    make_call(episode, purpose="judge", input_tokens=100, output_tokens=10, cost_usd=0.5)
    make_call(episode, purpose="teacher", input_tokens=1, output_tokens=1, cost_usd=0.25)
    found = spending_of([episode.run])[episode.run_id]
    assert (found.author.things, found.author.cost_usd) == (1, 0.25)
    assert (found.judge.things, found.judge.cost_usd) == (1, 0.5)
    for spent in (found.of_first_tries, found.of_all_phases):
        assert (spent.whole_cost, spent.whole_tokens) == (1.25, 4200 + 310 + 2)
    assert WorkProgress(spent=(found,)).spent_usd == count_spent(episode.run).usd == 1.75, (
        "a budget limits the whole bill"
    )


def test_it_leaves_out_what_came_after_the_pin() -> None:
    episode = make_episode()
    make_trial(episode)
    make_call(episode)
    assert spending_of([episode.run], START - timedelta(days=1))[episode.run_id] == RunSpending()
    before = timezone.now() - timedelta(days=1)
    assert spending_of([episode.run], before)[episode.run_id].agent == Spending(), "settled today"
    assert spending_of([episode.run], timezone.now())[episode.run_id].agent.things == 1


def test_it_needs_three_queries_for_any_number_of_runs() -> None:
    for count in (1, 4):
        runs = [make_run() for _ in range(count)]
        for run in runs:
            make_trial(make_episode(run))
        with CaptureQueriesContext(connection) as captured:
            spending_of(runs)
        assert len(captured) == 3


def test_a_new_process_asks_for_nothing_but_what_judges_used_since() -> None:
    run = make_run()
    trial = make_trial(make_episode(run), attempt={"cost_usd": 0.1})
    make_call(trial.episode, input_tokens=5, output_tokens=6, cost_usd=0.25)
    first = spending_of([run])[run.pk]
    judging = Judging.objects.create(run=run, model="m", prompt_version="1", started_at=START)
    unit = JudgedUnit.objects.create(judging=judging, key="k", metric="coverage", task=trial.task)
    reply = Blob.objects.put(b"{}")
    JudgingTry.objects.create(unit=unit, number=1, request_id=reply, reply_id=reply, cost_usd=0.5, asked_at=START)
    KEPT.clear()
    with CaptureQueriesContext(connection) as captured:
        found = spending_of([run])[run.pk]
    assert len(captured) == 1
    assert (found.agent, found.author) == (first.agent, first.author) == (slow_bill(run).agent, slow_bill(run).author)
    assert (first.judge.cost_usd, found.judge.cost_usd) == (None, 0.5)
