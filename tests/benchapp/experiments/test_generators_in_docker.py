"""A launched run whose generator calls a model: what its provider counted is what the record and the budget say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchapp.experiments.launch import launch
from benchapp.experiments.work import advance
from benchapp.experiments.work.budgets import count_spent
from benchapp.models import Decision, ModelCall, Run
from benchapp.record.sets import suite_files
from benchapp.stats.metrics.spending import spending_of
from tests.docker_images import base_image
from tests.providers.chat_provider import Provider
from tests.worlds.corpora import AGNOSTIC, handbook_suite

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.docker, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[3] / "examples" / "generators"
SKILL = "---\nname: averages\ndescription: How averages are taken. Use it for tables.\n---\n\n# Averages\n\n1. Skip blanks.\n"  # noqa: E501
PRESET = """\
provider: here
agent_model: small-1
host_model: openai/small-1
api_base: {url}
key_variable: HERE_API_KEY
prices: {{input: 2.0, output: 8.0}}
"""


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    server = Provider()
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "here.yaml").write_text(PRESET.format(url=server.url))
    monkeypatch.setenv("SKILLGLASS_PRESETS", str(tmp_path / "presets"))
    monkeypatch.setenv("HERE_API_KEY", "sk-of-the-operator-0123456789")
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(EXAMPLES))
    monkeypatch.setenv("SKILLGLASS_BASE_IMAGE", base_image())
    monkeypatch.setattr(suite_files, "load_suite", lambda name: handbook_suite())
    yield server
    server.close()


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Launches with changes and works until no episode wants more."""
    queue: list[str] = []
    monkeypatch.setattr(advance, "put_hint", lambda episode, needs, **_: queue.append(episode) or True)

    def go(**changes: Any) -> Run:
        spec = {
            "name": "Calling", "suite": "starter", "protocol": AGNOSTIC, "conditions": ["plug-in"], "replicates": 1,
            "agent": "oracle", "author_model": "generator/one-call+here", "sandbox": "docker", **changes,
        }  # fmt: skip
        experiment = launch(spec)
        while queue:
            advance.advance(queue.pop(0))
        run: Run = experiment.runs.get()
        return run

    return go


def test_its_tokens_and_cost_are_the_authors(provider: Provider, work: Callable[..., Run]) -> None:
    provider.says(SKILL, usage={"prompt_tokens": 900, "completion_tokens": 100})
    run = work()
    assert run.episodes.get().status == "done"
    call = ModelCall.objects.get()
    assert (call.purpose, call.model, call.status) == ("generator", "generator/one-call+here", "answered")
    assert (call.input_tokens, call.output_tokens, call.price_table) == (900, 100, "preset here")
    assert call.cost_usd == pytest.approx(0.0026)
    assert spending_of([run])[run.pk].author.cost_usd == pytest.approx(0.0026)
    decision = Decision.objects.get()
    assert decision.status == "applied"
    assert "model-gateway" not in {finding["rule"] for finding in decision.findings}


def test_a_budget_is_asked_before_each_call_and_blocks_the_run(provider: Provider, work: Callable[..., Run]) -> None:
    provider.says("no skill", usage={"prompt_tokens": 900, "completion_tokens": 100})
    run = work(budget={"tokens": 1_500}, answers=5)
    episode = run.episodes.get()
    assert episode.status == "blocked"
    assert "2,000 of 1,500 tokens" in episode.blocked_reason
    assert len(provider.asked) == 2
    assert count_spent(run).tokens == 2_000
