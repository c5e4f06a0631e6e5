"""What a draft can begin with out of suites: corpora, tasks, families."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchapp.drafting import draft_starts
from benchapp.drafting.draft_starts import (
    list_corpora,
    read_corpus,
    read_start_family,
    read_start_task,
)
from benchapp.record.sets.suite_files import find_suite
from runner.base.errors import SetupError
from runner.base.trees import TreeCaps
from tests.worlds.factories import make_environment, make_suite

pytestmark = pytest.mark.django_db


def test_corpora_of_bundled_suites_come_first_and_imported_ones_are_left_out(tmp_path: Path) -> None:
    make_environment(make_suite(key="loaded", path=str(tmp_path)), key="books", name="Books", kind="domain-document")
    make_environment(make_suite(key="imported"), key="gone", kind="repository")
    found = [(suite, key) for suite, key, _ in list_corpora()]
    assert ("starter-corpora", "regatta-rules") in found
    assert found[-1] == ("loaded", "books")
    assert "imported" not in {suite for suite, _ in found}


def test_a_corpus_is_below_corpus_and_a_task_below_the_family() -> None:
    corpus = read_corpus("starter-corpora", "regatta-rules")
    assert corpus
    assert all(path.startswith("corpus/") for path in corpus)
    family = find_suite("starter").families[0]
    key = family.tasks[0].key
    files = read_start_task("starter", key, "tables")
    place = f"tasks/tables-{key.lower()}"
    assert {f"{place}/{name}" for name in ("task.toml", "instruction.md", "tests/test.sh", "solution/solve.sh")} <= set(
        files
    )
    assert f"{place}/tests/verifier_lib.py" in files  # what its suite shares is needed to judge it
    whole = read_start_family("starter", family.key, "tables")
    assert len({path.split("/")[1] for path in whole}) == len(family.tasks)


def test_what_is_not_there_or_too_large_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match="starter: expected one of its tasks"):
        read_start_task("starter", "nowhere", "tables")
    with pytest.raises(SetupError, match="with a corpus; found 'nowhere'"):
        read_corpus("starter-corpora", "nowhere")
    with pytest.raises(SetupError, match="unknown suite"):
        read_corpus("nowhere", "x")
    monkeypatch.setattr(draft_starts, "CAPS", TreeCaps(count=1))
    with pytest.raises(SetupError, match=r"corpus: a draft cannot begin with it: .*more than 1 files"):
        read_corpus("starter-corpora", "freightline")
