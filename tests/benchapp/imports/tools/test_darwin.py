"""darwin-skill's results.tsv: a line is an evaluation of a skill at a commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchapp.imports.batch import import_paths
from benchapp.imports.format_check import check_format
from benchapp.imports.tools import darwin
from benchapp.models import Trial, Verdict
from tests.benchapp.import_folders import write
from tests.benchapp.imports.tools.conftest import SKILL_TOOLS

pytestmark = pytest.mark.django_db
SAMPLE = SKILL_TOOLS / "darwin-results-tsv"
HEAD = "timestamp\tcommit\tskill\told_score\tnew_score\tstatus\tdimension\tnote\teval_mode\n"
LINES = (
    "2026-06-18T23:50\tbaseline\tsums\t-\t64.5\tbaseline\t-\tfirst\tfull_test\n"
    "2026-06-18T23:55\t3cafa14\tsums\t64.5\t70\tkeep\tflow\tclearer\tfull_test\n"
    "2026-06-18T23:57\t4cafa14\tsums\t70\t68\trevert\tflow\tworse\tdry_run\n"
)


def test_a_line_is_an_evaluation(tmp_path: Path) -> None:
    write(tmp_path / "skills" / "darwin" / "results.tsv", HEAD + LINES)
    (problem,) = import_paths([tmp_path]).problems
    assert problem.place == "commit"
    rows = Trial.objects.order_by("pk").values_list("episode__run__condition", "task__key", "reward", "success")
    assert list(rows) == [
        ("old-skill", "sums", 0.645, None),
        ("darwin-skill", "sums", 0.7, None),
        ("darwin-skill", "sums", 0.68, None),
    ]
    assert list(Verdict.objects.order_by("pk").values_list("source", flat=True)) == ["judge", "judge", "judge:dry run"]
    assert import_paths([tmp_path]).counts["unchanged"] == 3


def test_odd_lines_are_reported(tmp_path: Path) -> None:
    write(tmp_path / "results.tsv", HEAD + "\t\t\n" + LINES.replace("64.5\tbaseline", "good\tbaseline"))
    places = {problem.place for problem in import_paths([tmp_path]).problems}
    assert {"line 2", "line 3, new_score"} <= places
    assert Trial.objects.filter(reward=None).count() == 1


def test_the_votes_of_a_pair_are_a_verdict_without_a_score(tmp_path: Path) -> None:
    """Newer versions compare the texts before and after by three judges, and some keep no git."""
    lines = LINES.replace("70\tkeep\tflow\tclearer\tfull_test", "2-1 better\tkeep\tflow\tclearer\tpaired")
    write(tmp_path / "results.tsv", HEAD.replace("commit", "version_id") + lines)
    assert [problem.place for problem in import_paths([tmp_path]).problems] == ["commit"]
    verdict = Verdict.objects.get(source="judge:paired")
    assert (verdict.reward, verdict.success) == (None, None)
    assert verdict.output.text() == "keep: 64.5 -> 2-1 better. clearer"


def test_a_log_of_one_skill_names_its_folder(tmp_path: Path) -> None:
    """huashu-design's log has no column for the skill, and one for the score."""
    head = "timestamp\tcommit\ttask_type\tscore\tstatus\tnote\teval_mode\n"
    write(tmp_path / "sums" / "results.tsv", head + "2026-05-04T10:00\tbaseline\t-\t96.5\tbaseline\tfirst\tfull_test\n")
    assert [problem.place for problem in import_paths([tmp_path]).problems] == ["line 1", "commit"]
    assert Trial.objects.values_list("task__key", "reward").get() == ("sums", 0.965)


def test_another_table_is_not_claimed(tmp_path: Path) -> None:
    write(tmp_path / "results.tsv", "loss\tstep\n1\t2\n")
    assert import_paths([tmp_path]).counts["attempts"] == 0


def test_the_format_s_check_finds_nothing(tmp_path: Path) -> None:
    assert check_format(darwin, [write(tmp_path / "results.tsv", HEAD + LINES)]).faults == []


@pytest.mark.shared_data
def test_a_real_log() -> None:
    assert import_paths([SAMPLE]).counts["attempts"] == 9
    assert Trial.objects.values("task").distinct().count() == 2
    assert Verdict.objects.filter(source="judge:dry run").count() == 3
