"""The setup digest: it moves with everything that makes two runs incomparable, and with nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from demo.scripted import VERSION, Scripted
from runner.agents import Limits
from runner.base.suite import Suite
from runner.engine.setup import describe_setup, setup_digest
from runner.protocols.plan import AUTHOR_SAMPLING, AuthorSampling
from tests.cases import every

SUITE = Suite("small", "Small", "1", "digest-1", ())
BASE: dict[str, Any] = {
    "protocol": "skillevolbench",
    "agent": "nop",
    "agent_model": None,
    "author_model": "scripted/apprentice",
    "sandbox": "local",
    "feedback": "process",
    "profile": "paper",
    "answers": 1,
    "samples": 1,
    "limits": Limits(),
}


def _digest(suite: Suite = SUITE, **changes: Any) -> str:
    return setup_digest(describe_setup(suite, **(BASE | changes)))


@every(
    {"agent": "oracle"},
    {"agent_model": "scripted/careful"},
    {"author_model": None},
    {"sandbox": "docker"},
    {"feedback": "none"},
    {"profile": "strict"},
    {"answers": 2},
    {"samples": 3},
    {"limits": Limits(max_turns=10)},
    {"notice": "none"},
    {"notice": "released"},
    {"author_sampling": AuthorSampling(temperature=0.0)},
    {"author_sampling": AuthorSampling(temperature=None)},
    {"author_sampling": AuthorSampling(max_tokens=8_000)},
    {"limits": Limits(timeout_seconds=1.0)},
    {"suite": Suite("small", "Small", "1", "digest-2", ())},
)
def test_it_moves_with_what_makes_runs_incomparable(change: dict[str, Any]) -> None:
    assert _digest(**change) != _digest()


def test_setups_from_before_notices_were_a_choice_keep_their_digest() -> None:
    assert "notice" not in describe_setup(SUITE, **BASE)
    assert _digest(notice="ours") == _digest()


def test_the_authors_sampling_stands_where_it_always_did() -> None:
    expected = {"author_temperature": 0.2, "author_max_tokens": 16_384}
    assert describe_setup(SUITE, **BASE)["sampling"] == expected
    assert _digest(author_sampling=AUTHOR_SAMPLING) == _digest()


def test_it_names_the_versions_of_both_models_and_the_sandbox_without_image() -> None:
    setup = describe_setup(SUITE, **(BASE | {"agent_model": None}))
    assert (setup["agent"]["model"], setup["agent"]["model_version"]) == (None, None)
    assert setup["author"]["model_version"] == VERSION
    assert setup["sandbox"] == {"name": "local", "image": None}


def test_it_moves_with_the_version_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _digest()
    monkeypatch.setattr(Scripted, "version", "another")
    assert _digest() != before


def test_it_stays_where_only_a_suite_s_title_changes() -> None:
    assert _digest(Suite("small", "Another title", "1", "digest-1", ())) == _digest()
