"""What SkillLearnBench's runner leaves becomes a run per config: acquisition, libraries, evaluations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchapp import audit
from benchapp.models import Attempt, Blob, Episode, Run, Trial
from benchapp.stats.comparing.columns import outcomes_of
from benchapp.stats.metrics.catalogue import METRICS
from tests.benchapp.import_folders import SKILL, bring_in, told, write

pytestmark = pytest.mark.django_db

TRAJECTORIES = Path(__file__).resolve().parents[2] / "fixtures" / "trajectories"
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
        ("one-shot", "claude-haiku-4-5", "claude-sonnet-4-6"),
        ("no-skill", "", "claude-sonnet-4-6"),
    }
    trials = Trial.objects.filter(episode__run__condition="one-shot").order_by("task__key", "sample")
    assert list(trials.values_list("task__key", "phase", "sample", "success", "skills_mounted")) == [
        ("words-1", "acquisition", 0, None, None),
        ("words-2", "evaluation", 0, True, 1),
        ("words-2", "evaluation", 1, True, 1),
    ]
    assert set(Episode.objects.get(run__condition="one-shot").library.manifest()) == {"count-words/SKILL.md"}
    assert list(audit.flaws()) == []
    again = bring_in(folder.parent)
    assert (again.counts["created"], again.counts["changed"], again.counts["unchanged"]) == (0, 0, 5)


def test_two_solvers_of_one_config_are_two_runs_with_the_same_library(folder: Path) -> None:
    evaluation(folder, CONFIG, 1, "20260302110000", agent="codex", model="gpt-5.2-codex")
    evaluation(folder, CONFIG, 2, "20260302110000", agent="codex", model="gpt-5.2-codex")
    assert list(bring_in(folder).problems) == []
    told = {
        run.harness: (run.agent_model, Trial.objects.filter(episode__run=run).count())
        for run in Run.objects.filter(condition="one-shot")
    }
    assert told == {"claude-code": ("claude-sonnet-4-6", 3), "codex": ("gpt-5.2-codex", 2)}
    libraries = [set(episode.library.manifest()) for episode in Episode.objects.filter(run__condition="one-shot")]
    assert libraries == [{"count-words/SKILL.md"}] * 2
    assert bring_in(folder).counts["unchanged"] == 8


def test_what_gemini_printed_is_the_trials_trajectory(folder: Path) -> None:
    place = evaluation(
        folder, "b1-one-shot-gemini-3-pro", 2, "20260302110000", agent="gemini-code", model="gemini-3-pro"
    )
    (place / "agent/claude-code.txt").unlink()
    write(place / "agent/gemini-code.txt", (TRAJECTORIES / "gemini_stream.jsonl").read_text())
    assert list(bring_in(folder).problems) == []
    trial = Trial.objects.get(episode__run__harness="gemini-code")
    assert (trial.turns, trial.skills_read, trial.input_tokens) == (2, 1, 300)


def test_the_papers_usage_rate_counts_calls_of_the_skill_tool_and_ours_reads_too(folder: Path) -> None:
    """Of one config: one repetition opens its only skill with the tool, one reads the file, one does neither."""
    tool = {"type": "tool_use", "id": "c1", "name": "Skill", "input": {"skill": "count-words"}}
    read = {
        "type": "tool_use",
        "id": "c1",
        "name": "Read",
        "input": {"file_path": "/root/.claude/skills/count-words/SKILL.md"},
    }
    for stamp, call in (("20260301110000", tool), ("20260301120000", read)):
        used = {"type": "assistant", "session_id": "s", "message": {"id": "k", "role": "assistant", "content": [call]}}
        answered = [{"type": "tool_result", "tool_use_id": "c1", "content": "Count the words."}]
        got = {"type": "user", "session_id": "s", "message": {"role": "user", "content": answered}}
        place = folder / "evaluation_log" / CONFIG / "words" / "words-2" / f"{stamp}_abc123"
        write(place / "agent/claude-code.txt", "\n".join(map(json.dumps, (LOG[0], used, got, LOG[1]))) + "\n")
    evaluation(folder, CONFIG, 2, "20260301130000")
    assert list(bring_in(folder).problems) == []
    run = Run.objects.get(condition="one-shot")
    outcomes = outcomes_of([run])[run.pk]
    assert METRICS["usage"].mean(outcomes) == pytest.approx(2 / 3)
    assert METRICS["skill-usage-rate"].mean(outcomes) == pytest.approx(1 / 3)


def test_an_account_that_is_known_but_not_read_is_named(folder: Path) -> None:
    place = evaluation(folder, CONFIG, 4, "20260302110000")
    write(place / "agent/claude-code.txt", json.dumps({"role": "user", "content": "Count."}) + "\n")
    (problem,) = bring_in(folder).problems
    assert problem.path.endswith("agent/claude-code.txt")
    assert problem.message == "chat-messages, which is not one of these"


def test_a_history_belongs_to_the_first_solver_and_the_others_have_its_library(folder: Path, taught: Path) -> None:
    evaluation(folder, CONFIG, 2, "20260302110000", agent="codex", model="gpt-5.2-codex")
    assert list(bring_in(folder).problems) == []
    decided, given = Episode.objects.filter(run__condition="one-shot").order_by("run__harness")
    assert (decided.run.harness, given.run.harness) == ("claude-code", "codex")
    assert (decided.decisions.count() > 0, given.decisions.count()) == (True, 0)
    assert decided.library == given.library
    assert list(audit.flaws()) == []


def test_outputs_of_two_checkouts_are_runs_of_their_own(tmp_path: Path) -> None:
    places = [tmp_path / person / "SkillLearnBench" / "output" for person in ("alice", "bob")]
    for place, stamp in zip(places, ("20260301100000", "20260401100000"), strict=True):
        evaluation(place, CONFIG, 2, stamp)
        evaluation(place, CONFIG, 2, "20260501100000")
        bring_in(place)
    evaluation(places[0], CONFIG, 1, "20260601100000")
    assert bring_in(places[0]).counts["created"] == 1
    held = [Trial.objects.filter(episode__run=run).count() for run in Run.objects.order_by("id")]
    assert held == [3, 2]


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


TAUGHT = "b3-teacher-feedback-claude-haiku-4-5"


@pytest.fixture
def taught(folder: Path) -> Path:
    """The trial of a library that a teacher helped to write: two rounds, each with its own log."""
    made = folder / "skill_generation_log" / TAUGHT / "words" / "words-20260302100000_abc123"
    write(made / "result.json", {"task_id": "words-1", "agent": "claude-code", "reward": 1.0, "rounds_used": 2})
    for number in (1, 2):
        write(made / f"artifacts/skills/run{number}_count/SKILL.md", SKILL + f"Round {number}.\n")
        write(made / f"agent/claude-code_r{number}.txt", "\n".join(map(json.dumps, LOG)) + "\n")
    write(made / "teacher/round1_prompt.txt", "the human skill in full")
    write(made / "teacher/round1_feedback.txt", "Think of words with hyphens.")
    write(made / "teacher/b3_history.json", [{"round": 1, "outcome": "FAIL", "skills": ["count"]}])
    results = folder / "skill_generation_results" / TAUGHT / "words"
    write(results / "run2_count/SKILL.md", SKILL + "Round 2.\n")
    evaluation(folder, TAUGHT, 2, "20260303110000")
    return made


def episode() -> Episode:
    return Episode.objects.get(run__condition="teacher-feedback")


def test_every_round_is_a_decision_with_what_the_teacher_said_before_it(folder: Path, taught: Path) -> None:
    report = bring_in(folder)
    assert list(report.problems) == []
    decisions = list(episode().decisions.order_by("number"))
    assert [(row.number, row.round, row.mode, row.status) for row in decisions] == [
        (1, 1, "write", "applied"),
        (2, 2, "correct", "applied"),
    ]
    assert decisions[1].summary == "Round 1 ended with FAIL. The teacher said after it:\nThink of words with hyphens."
    assert [set(row.after.manifest()) for row in decisions] == [{"run1_count/SKILL.md"}, {"run2_count/SKILL.md"}]
    assert [entry.kind for entry in episode().entries.in_order()] == [
        "decision",
        "decision",
        "trial",
        "freeze",
        "trial",
    ]
    assert episode().library == decisions[1].after
    evaluated = Trial.objects.get(episode=episode(), phase="evaluation")
    assert evaluated.snapshot == decisions[1].after
    assert list(audit.flaws()) == []
    again = bring_in(folder)
    assert (again.counts["created"], again.counts["changed"]) == (0, 0)


def test_the_rounds_of_one_trial_have_a_trajectory_each(folder: Path, taught: Path) -> None:
    bring_in(folder)
    attempt = Attempt.objects.get(trial__episode=episode(), trial__phase="acquisition")
    assert list(attempt.trajectories.order_by("ordinal").values_list("name", "kind")) == [
        ("round 1", "stage"),
        ("round 2", "stage"),
    ]


def test_what_the_teacher_was_shown_is_not_read(folder: Path, taught: Path) -> None:
    bring_in(folder)
    stored = [blob.content() for blob in Blob.objects.all()]
    assert any(b"Round 1." in content for content in stored), "what lies beside the prompt is read"
    assert not any(b"human skill in full" in content for content in stored)
    assert not any("human skill in full" in row.summary for row in episode().decisions.all())


def test_rounds_that_did_not_lead_to_the_library_are_left_out_and_told(folder: Path, taught: Path) -> None:
    write(folder / "skill_generation_results" / TAUGHT / "words" / "run2_count" / "SKILL.md", SKILL)
    report = bring_in(folder)
    assert ": the skills of skill_generation_results in the last round" in told(report, "artifacts/skills")
    assert not episode().decisions.exists()
    assert set(episode().library.manifest()) == {"run2_count/SKILL.md"}


def test_a_teachers_record_that_cannot_be_read_costs_nothing_else(folder: Path, taught: Path) -> None:
    write(taught / "teacher" / "b3_history.json", {"round": 1})
    report = bring_in(folder)
    assert told(report, "b3_history.json") == ["whole file: a list of rounds"]
    assert episode().decisions.count() == 2
