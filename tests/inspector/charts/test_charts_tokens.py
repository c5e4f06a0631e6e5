"""Tokens: of a trial and of writing the libraries, known against unknown; whole runs and their cost in the table."""

from __future__ import annotations

from typing import Any

import pytest

from benchapp.models import Attempt, Blob, Episode, ModelCall, Run
from benchapp.papers.published_rows import read_published_rows
from inspector.charts.figures.tokens import AGENT, AUTHOR, CACHED, CHART, FRESH, OUTPUT, UNSPLIT
from tests.worlds.charted import drawn, queries_of
from tests.worlds.factories import START, make_attempt, make_episode, make_run, make_trial

pytestmark = pytest.mark.django_db


def make_call(episode: Episode, **used: Any) -> None:
    number = episode.calls.count()
    ModelCall.objects.create(
        episode=episode,
        key=f"call-{number}",
        purpose="author",
        model="m",
        status="answered",
        request_id=Blob.objects.put(b"{}"),
        started_at=START,
        **used,
    )


def shares() -> dict[str, dict[str, Any]]:
    return {record["who"]: record for record in drawn(CHART).table.records()}


def bars(panel: int) -> dict[str, float]:
    """Name of the part -> its length in the first bar of a panel."""
    axis = "x" if panel == 1 else f"x{panel}"
    return {trace.name: trace.x[0] for trace in drawn(CHART).figure.data if trace.type == "bar" and trace.xaxis == axis}


def test_it_tells_input_cache_and_output_of_agent_and_author_apart() -> None:
    episode = make_episode()
    trial = make_trial(
        episode, attempt={"input_tokens": 1000, "cached_tokens": 600, "output_tokens": 50, "cost_usd": 0.5}
    )
    make_attempt(trial, counts=False, input_tokens=100, cached_tokens=0, output_tokens=5, cost_usd=0.25)  # billed too
    make_call(episode, input_tokens=70, cached_tokens=None, output_tokens=7, cost_usd=0.125)
    found = shares()
    assert (found[AGENT]["input"], found[AGENT]["cached"], found[AGENT]["output"]) == (1100, 600, 55)
    assert (found[AGENT]["things"], found[AGENT]["cost"], found[AUTHOR]["cost"]) == (2, 0.75, 0.125)
    assert bars(1) == {FRESH: 400, CACHED: 600, OUTPUT: 50}  # the trial's counted attempt alone
    assert bars(2) == {UNSPLIT: 70, OUTPUT: 7}


def test_it_calls_unknown_cost_unknown_and_a_partial_sum_partial() -> None:
    episode = make_episode()
    make_trial(episode, attempt={"cost_usd": None})
    assert shares()[AGENT]["cost"] is None
    Attempt.objects.update(priced_usd=0.5)
    Run.objects.touch()
    assert (shares()[AGENT]["cost"], shares()[AGENT]["cost_known"]) == (0.5, 0)
    Attempt.objects.update(priced_usd=None)
    Run.objects.touch()
    make_trial(episode, attempt={"cost_usd": 2.0})
    assert (shares()[AGENT]["cost"], shares()[AGENT]["cost_known"]) == (2.0, 1)


def test_it_is_per_run_where_there_are_replicates() -> None:
    run = make_run()
    for replicate in (run, make_run(run.experiment, replicate=2)):
        make_trial(make_episode(replicate), attempt={"input_tokens": 300, "cached_tokens": 100, "output_tokens": 10})
    assert (shares()[AGENT]["runs"], shares()[AGENT]["input"], shares()[AGENT]["things"]) == (2, 300, 2)


def test_it_says_that_nothing_was_called() -> None:
    make_run()
    assert drawn(CHART).absent.startswith("No attempt and no author call")


def test_it_lays_the_printed_tokens_over_as_printed() -> None:
    drawing = drawn(CHART, "published=skilllearnbench")
    inputs = [
        1000 * row.value
        for row in read_published_rows("skilllearnbench")
        if (row.table, row.metric) == ("Table 6", "input_tokens")
    ]
    assert [record["input"] for record in drawing.table.records()] == inputs
    assert next(list(trace.x) for trace in drawing.figure.data if trace.name == UNSPLIT) == inputs


def test_it_asks_no_more_for_more_attempts() -> None:
    run = make_run()
    make_trial(make_episode(run))
    few = queries_of(CHART)
    for _ in range(4):
        make_trial(make_episode(make_run(run.experiment)))
    assert queries_of(CHART) == few
