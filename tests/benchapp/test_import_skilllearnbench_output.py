"""What SkillLearnBench's runner leaves becomes a run per config: acquisition, libraries, evaluations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchapp import record_check
from benchapp.models import Attempt, Episode, Run, Trial
from tests.benchapp.import_folders import SKILL, bring_in, told, write

pytestmark = pytest.mark.django_db

CONFIG = "b1-one-shot-claude-haiku-4-5"
LOG = [
    {"type": "system", "subtype": "init", "session_id": "s", "model": "claude-sonnet-4-6", "skills": ["count-words"]},
    {"type": "assistant", "session_id": "s", "message": {"id": "m", "content": [{"type": "text", "text": "Done."}]}},
]


def evaluation(folder: Path, config: str, instance: int, stamp: str, **changes: object) -> Path:
    place = folder / "evaluation_log" / config / "words" / f"words-{instance}" / f"{stamp}_abc123"
    result = {
        "task_id": f"words/words-{instance}",
        "agent": "claude-code",
        "model": "claude-sonnet-4-6",
        "passed": True,
    }
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 0}
    write(place / "result.json", {**result, "reward": 1.0, "token_usage": usage, **changes})
    write(place / "agent/claude-code.txt", "\n".join(map(json.dumps, LOG)) + "\n")
    write(place / "verifier/reward.txt", "1")
    return place


@pytest.fixture
def folder(tmp_path):
    output = tmp_path / "SkillLearnBench" / "output"
    made = output / "skill_generation_log" / CONFIG / "words" / "words-20260301100000_abc123"
    write(
        made / "result.json",
        {"task_id": "words-1", "agent": "claude-code", "model": "claude-haiku-4-5", "reward": None},
    )
    write(made / "agent/claude-code.txt", "\n".join(map(json.dumps, LOG)) + "\n")
    write(made / "artifacts/skills/count-words/SKILL.md", SKILL)
    write(output / "skill_generation_results" / CONFIG / "words" / "count-words" / "SKILL.md", SKILL)
    evaluation(output, CONFIG, 2, "20260301110000")
    evaluation(output, CONFIG, 2, "20260301120000")
    evaluation(output, "no_skill", 2, "20260301110000")
    return output


def test_it_brings_in_a_run_for_each_config(folder):
    report = bring_in(folder)
    assert list(report.problems) == []
    assert set(Run.objects.values_list("condition", "author_model", "agent_model")) == {
        ("b1-one-shot", "claude-haiku-4-5", "claude-sonnet-4-6"),
        ("no-skill", "", "claude-sonnet-4-6"),
    }
    trials = Trial.objects.filter(episode__run__condition="b1-one-shot").order_by("task__key", "sample")
    assert list(trials.values_list("task__key", "phase", "sample", "success", "skills_mounted")) == [
        ("words-1", "acquisition", 0, None, None),
        ("words-2", "evaluation", 0, True, 1),
        ("words-2", "evaluation", 1, True, 1),
    ]
    assert set(Episode.objects.get(run__condition="b1-one-shot").library.manifest()) == {"count-words/SKILL.md"}
    assert list(record_check.flaws()) == []
    again = bring_in(folder.parent)
    assert (again.counts["created"], again.counts["changed"], again.counts["unchanged"]) == (0, 0, 5)


def test_a_trial_whose_machine_failed_is_not_scored(folder):
    evaluation(folder, CONFIG, 3, "20260301110000", error="docker_build_failed", reward=0.0)
    bring_in(folder)
    attempt = Attempt.objects.get(trial__task__key="words-3")
    assert (attempt.status, attempt.exception_type, attempt.trial.success) == (
        "interrupted",
        "docker_build_failed",
        None,
    )


def test_a_result_that_cannot_be_read_is_reported(folder):
    place = evaluation(folder, CONFIG, 3, "20260301110000")
    write(place / "result.json", "{")
    report = bring_in(folder)
    assert ": the result of a finished trial" in told(report, "abc123/result.json")
    assert Trial.objects.get(task__key="words-3").status == "unscored"
