"""A cost that no log reports is estimated from its tokens, in a column of its own, and marked wherever it is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchapp import audit
from benchapp.models import Attempt, Run, Trial
from benchapp.record.record_digest import record_digest
from benchapp.stats.metrics.spending import Spending, spending_of
from inspector.web.text.formats import spent_cost
from runner.base.types import Usage
from runner.models.call_prices import estimate_cost, name_price_list
from tests.benchapp.import_folders import atif, bring_in, result, trial, write
from tests.benchapp.log_files import claude_session

pytestmark = pytest.mark.django_db

SONNET = "claude-sonnet-4-5-20250929"  # 3 and 15 dollars a million, 0.30 from the cache, 3.75 into it


def bring_in_session(folder: Path, usage: dict[str, int], *, model: str = SONNET, second: str = "") -> Trial:
    log = claude_session(folder / "s-1.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if line["type"] == "assistant":
            line["message"] |= {"model": model, "usage": usage}
    if second:
        answer = json.loads(json.dumps(next(line for line in lines if line["type"] == "assistant")))
        answer["message"] |= {"id": "m2", "model": second, "content": [{"type": "text", "text": "Done."}]}
        answer["message"] |= {"stop_reason": "end_turn"}
        lines.append({**answer, "uuid": "u9", "parentUuid": lines[-1]["uuid"]})
    log.write_text("\n".join(map(json.dumps, lines)))
    bring_in(log)
    return Trial.objects.get()


def use(fresh: int, read: int, written: int, made: int) -> dict[str, int]:
    return {
        "input_tokens": fresh,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": made,
    }


def test_a_session_without_a_cost_gets_an_estimate_with_the_prices_of_the_cache(tmp_path: Path) -> None:
    found = bring_in_session(tmp_path, use(1_000, 200_000, 10_000, 2_000))
    dollars = (1_000 * 3 + 200_000 * 0.30 + 10_000 * 3.75 + 2_000 * 15) / 1e6
    attempt = Attempt.objects.get()
    assert (attempt.cost_usd, found.cost_usd) == (None, None), "nothing is reported"
    assert attempt.estimated_usd == found.estimated_usd == pytest.approx(dollars)
    assert attempt.price_table == name_price_list()
    assert list(audit.flaws()) == []


@pytest.mark.parametrize(
    ("model", "usage"),
    [
        ("lab/unheard-of", use(1, 0, 0, 1)),
        (SONNET, {"input_tokens": 10}),
        (SONNET, {}),
    ],
    ids=["a model that the list lacks", "tokens known in part", "no tokens"],
)
def test_what_cannot_be_estimated_stays_missing(tmp_path: Path, model: str, usage: dict[str, int]) -> None:
    found = bring_in_session(tmp_path, usage, model=model)
    assert (found.cost_usd, found.estimated_usd, Attempt.objects.get().price_table) == (None, None, "")


def test_calls_of_two_models_are_priced_each_by_its_own(tmp_path: Path) -> None:
    found = bring_in_session(tmp_path, use(1_000_000, 0, 0, 100_000), second="claude-haiku-4-5-20251001")
    assert found.estimated_usd == pytest.approx((3 + 1.5) + (1 + 0.5))


def test_one_model_without_a_price_leaves_the_sum_missing(tmp_path: Path) -> None:
    assert bring_in_session(tmp_path, use(1_000, 0, 0, 10), second="lab/unheard-of").estimated_usd is None


def test_a_reported_cost_is_never_estimated(tmp_path: Path) -> None:
    bring_in(write(tmp_path / "t" / "result.json", result(1)).parent)
    for row in (*Trial.objects.all(), *Attempt.objects.all()):
        assert row.estimated_usd is None


def test_the_estimate_is_no_part_of_the_record_digest(tmp_path: Path) -> None:
    found = bring_in_session(tmp_path, use(1_000, 0, 0, 10))
    experiment = found.episode.run.experiment
    before = record_digest(experiment)
    Attempt.objects.update(estimated_usd=None, price_table="")
    assert record_digest(experiment) == before


def test_a_sum_of_both_is_partly_estimated_and_its_parts_stay_apart() -> None:
    both = Spending(3, cost_known=1, cost_usd=2.0) + Spending(1, cost_estimated=1, estimated_usd=0.5)
    assert (both.cost_usd, both.estimated_usd, both.cost_counted, both.is_partial) == (2.0, 0.5, 2, True)
    assert both.whole_cost is None, "a metric of cost needs reported ones"
    assert "≈ $2.50 <small>partly estimated</small>" in spent_cost(both)
    assert spent_cost(Spending(1, cost_known=1, cost_usd=2.0)) == "$2.00"
    assert "unknown" in spent_cost(Spending(1))


def test_the_bill_of_a_run_keeps_estimates_apart(tmp_path: Path) -> None:
    bring_in_session(tmp_path, use(1_000_000, 0, 0, 100_000))
    spent = spending_of(Run.objects.all())[Run.objects.get().pk].agent
    assert (spent.cost_usd, spent.cost_known, spent.estimated_usd, spent.cost_estimated) == (None, 0, 4.5, 1)


@pytest.mark.parametrize(
    "name",
    [SONNET, f"anthropic/{SONNET}", "claude-sonnet-4-5", "claude-sonnet-4-5@20250929", "Claude-Sonnet-4-5-20250929"],
)
def test_the_list_knows_a_model_by_the_names_that_logs_use(name: str) -> None:
    assert estimate_cost(name, Usage(1_000_000, 0, 0)) == pytest.approx(3.0)


def test_sums_keep_what_was_written_to_a_cache() -> None:
    one, two = Usage(10, 0, 1, cache_written=4), Usage(10, 0, None, cache_written=5)
    assert (one + one).cache_written == 8
    assert (one + two).cache_written == 9
    assert one == Usage(10, 0, 1), "it is no part of what a log counts"


def test_the_totals_of_a_source_are_priced_by_its_one_model(tmp_path: Path) -> None:
    document: dict[str, Any] = atif()
    document["agent"]["model_name"] = SONNET
    for step in document["steps"]:
        step.pop("metrics", None)
    document["final_metrics"] = {"total_prompt_tokens": 1_000_000, "total_completion_tokens": 100_000}
    trial(tmp_path / "job", 1)
    file = next((tmp_path / "job").rglob("trajectory.json"))
    write(file, document)
    told = next((tmp_path / "job").rglob("result.json"))
    values = json.loads(told.read_text())
    values["agent_result"] = None
    write(told, values)
    bring_in(tmp_path / "job")
    assert Trial.objects.get().estimated_usd == pytest.approx(4.5)
