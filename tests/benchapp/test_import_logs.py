"""Logs that stand alone: Inspect's .eval, SWE-agent's .traj, sessions of command-line agents. In a folder, or one file."""

from __future__ import annotations

import json
import zipfile

import pytest

from benchapp import record_check
from benchapp.importers import inspect_log as inspect_module
from benchapp.models import Attempt, Blob, Experiment, Run, Task, Trajectory, Trial, Verdict
from benchapp.trajectory_store import iterate_steps
from tests.benchapp.import_folders import bring_in, job, told, write
from tests.benchapp.log_files import (
    HEADER,
    claude_session,
    codex_rollout,
    gemini_chat,
    inspect_log,
    sample,
    traj,
)

pytestmark = pytest.mark.django_db


def steps() -> list:
    return list(iterate_steps(Trajectory.objects.get(kind="main")))


# --- Inspect ------------------------------------------------------------------------------------------------------


def test_it_reads_the_samples_of_an_inspect_log(tmp_path):
    log = inspect_log(
        tmp_path / "logs" / "sums.eval", sample("one"), sample("one", 2, scores={"match": {"value": "I"}})
    )
    report = bring_in(log)
    assert list(report.problems) == []
    run = Run.objects.get()
    assert (run.harness, run.agent_model, run.harness_version) == ("react", "lab/model-1", "0.3.200")
    assert list(Trial.objects.order_by("sample").values_list("task__key", "sample", "success", "input_tokens")) == [
        ("sums/one", 0, True, 100),
        ("sums/one", 1, False, 100),
    ]
    assert Task.objects.get().family.key == "sums"
    assert Experiment.objects.get().finished_at is not None
    assert list(record_check.flaws()) == []


def test_it_puts_attachments_back_and_pairs_calls_with_results(tmp_path):
    bring_in(inspect_log(tmp_path / "sums.eval", sample("one")))
    system, user, looked, said = steps()
    assert (system.source, user.message, looked.reasoning, said.message) == (
        "system",
        "Sum the column.",
        "Look first.",
        "6",
    )
    assert (looked.tool_calls[0].name, looked.tool_calls[0].arguments) == ("bash", {"command": "cat data.csv"})
    assert looked.observations[0].content == "1\n2\n3\n"


def test_several_scorers_decide_nothing(tmp_path):
    scores = {"match": {"value": "C"}, "judge": {"value": {"style": 0.5, "facts": 1}}}
    bring_in(inspect_log(tmp_path / "sums.eval", sample("one", scores=scores)))
    verdict = Verdict.objects.get()
    assert (verdict.success, verdict.reward) == (None, None)
    assert verdict.rewards == {"match": 1.0, "judge/style": 0.5, "judge/facts": 1.0}


def test_an_error_and_a_limit_are_told(tmp_path):
    failed = sample("one", scores={}, error={"message": "KeyError: x", "traceback": "Traceback ..."})
    limited = sample("two", limit={"type": "token", "limit": 100})
    bring_in(inspect_log(tmp_path / "sums.eval", failed, limited))
    assert dict(Attempt.objects.values_list("trial__task__title", "exception_type")) == {
        "one": "error",
        "two": "limit:token",
    }
    assert Trial.objects.get(task__title="one").status == "unscored"


def test_a_log_that_never_ended_is_an_experiment_cut_short(tmp_path):
    log = tmp_path / "sums.eval"
    inspect_log(log, sample("one"))
    with zipfile.ZipFile(log, "w") as archive:
        archive.writestr("_journal/start.json", '{"eval": {"run_id": "r", "task": "sums", "model": "m"}}')
    report = bring_in(log)
    assert told(report, "sums.eval") == [
        "_journal/start.json: the header of a log that ended",
        ": a folder, or a log that stands alone",
    ]


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        archive.writestr("samples/big_epoch_1.json", b'{"id":"' + b"0" * 3_000_000 + b'"}')
        archive.writestr("samples/one_epoch_1.json", json.dumps(sample("one")))
    raw = bytearray(path.read_bytes())
    at = raw.rfind(b"samples/big_epoch_1.json") - 46  # its place in the directory: claims much more than it holds
    raw[at + 24 : at + 28] = (0x7FFFFFFF).to_bytes(4, "little")
    path.write_bytes(bytes(raw))


def test_it_leaves_out_an_entry_that_claims_more_than_a_zip_can_hold(tmp_path):
    bomb(tmp_path / "sums.eval")
    report = bring_in(tmp_path)
    assert [place.split(":")[0] for place in told(report, "sums.eval")] == ["samples/big_epoch_1.json"]
    assert Trial.objects.get().task.title == "one"


@pytest.mark.parametrize("content", [b"PK\x03\x04 and nothing more", b"PK\x03\x04" + b"\0" * 5_000])
def test_it_reports_a_broken_log(tmp_path, content):
    write(tmp_path / "sums.eval", content)
    report = bring_in(tmp_path)
    assert told(report, "sums.eval") == [": a whole .eval file (zip)"]
    assert report.exit_status == 1


def test_it_reads_no_list_of_entries_that_would_fill_the_memory(tmp_path, monkeypatch):
    inspect_log(tmp_path / "sums.eval", sample("s1"))
    monkeypatch.setattr(inspect_module, "MAX_READ", 60)
    report = bring_in(tmp_path)
    assert told(report, "sums.eval") == [": a whole .eval file (zip)"]
    assert "bytes to be read at once" in next(iter(report.problems)).message


def test_it_takes_the_cost_that_inspect_knows(tmp_path):
    counts = {"input_tokens": 70, "output_tokens": 10, "total_tokens": 80, "total_cost": 0.25}
    inspect_log(tmp_path / "sums.eval", sample("s1", model_usage={"lab/model-1": counts, "lab/judge": counts}))
    assert list(bring_in(tmp_path).problems) == []
    assert Trial.objects.get().cost_usd == 0.5


@pytest.mark.parametrize("value", [10**400, {"part": 10**400}])
def test_a_score_that_no_float_can_hold_is_no_reward_and_loses_no_trial(tmp_path, value):
    inspect_log(tmp_path / "sums.eval", sample("s1", scores={"match": {"value": value}}))
    (problem,) = bring_in(tmp_path).problems
    assert problem.expected == "integers of at most 18 digits"
    assert Trial.objects.get().reward is None


def test_a_spoiled_sample_stops_no_other(tmp_path):
    log = inspect_log(tmp_path / "sums.eval", sample("one"), sample("two"))
    raw = bytearray(log.read_bytes())
    at = raw.find(b"samples/one_epoch_1.json") + 60
    raw[at : at + 40] = b"\0" * 40
    log.write_bytes(bytes(raw))
    report = bring_in(log)
    assert len(report.problems) == 1
    assert list(Trial.objects.values_list("task__title", flat=True)) == ["two"]


# --- SWE-agent ----------------------------------------------------------------------------------------------------


def test_it_reads_a_folder_of_trajectories(tmp_path):
    traj(tmp_path / "run-1")
    traj(tmp_path / "run-1", "acme__sums-2", info={"exit_status": "exit_cost"})
    report = bring_in(tmp_path)
    assert list(report.problems) == []
    assert (Experiment.objects.get().name, Run.objects.get().agent_model) == ("SWE-agent run-1", "lab/model-1")
    first, second = Trial.objects.order_by("task__key")
    assert (first.status, first.input_tokens, first.output_tokens, first.cost_usd) == ("unscored", 900, 40, 0.25)
    assert (first.exception_type, second.exception_type) == ("", "exit_cost")
    assert list(record_check.flaws()) == []


def test_it_gives_actions_as_steps_after_what_the_agent_was_told(tmp_path):
    bring_in(traj(tmp_path))
    told_steps = [(step.source, step.message, step.is_copied_context) for step in steps()]
    assert told_steps == [
        ("system", "You fix issues.", False),
        ("user", "A demonstration.", True),
        ("user", "We have an issue.", False),
        ("agent", "I read the skill.", False),
        ("agent", "Done.", False),
    ]
    assert steps()[3].tool_calls[0].arguments == {"command": "cat skills/totals/SKILL.md"}
    assert Trial.objects.get().skills_read == 1


# --- sessions -----------------------------------------------------------------------------------------------------


def test_it_reads_the_logs_that_agents_leave(tmp_path):
    claude_session(tmp_path / "projects" / "p" / "s-1.jsonl")
    codex_rollout(tmp_path / "sessions" / "2026" / "rollout-1.jsonl")
    gemini_chat(tmp_path / "chats" / "session-1.json")
    write(tmp_path / "notes.json", {"hello": 1})
    report = bring_in(tmp_path)
    assert list(report.problems) == []
    assert set(Trial.objects.values_list("task__title", "episode__run__harness", "episode__run__agent_model")) == {
        ("Sum the column.", "claude-code", "claude-opus-4-5"),
        ("List the files.", "codex", "gpt-5.2-codex"),
        ("Count the words.", "gemini-cli", "gemini-3-flash"),
    }
    claude = Trial.objects.get(episode__run__harness="claude-code")
    assert (claude.status, claude.duration_seconds) == ("unscored", 9.0)
    assert list(record_check.flaws()) == []
    again = bring_in(tmp_path / "projects" / "p" / "s-1.jsonl")
    assert (again.counts["created"], again.counts["unchanged"]) == (0, 1)


def test_a_subagents_file_goes_with_its_session(tmp_path):
    claude_session(tmp_path / "s-1.jsonl")
    claude_session(tmp_path / "agent-a1.jsonl", side=True, prompt="Look deeper.")
    bring_in(tmp_path)
    assert set(Trajectory.objects.values_list("kind", "name")) == {("main", "main"), ("subagent", "agent-a1")}
    assert Trial.objects.get().task.title == "Sum the column."


def test_two_whole_logs_of_one_session_are_both_kept(tmp_path):
    claude_session(tmp_path / "a.jsonl")
    claude_session(tmp_path / "b.jsonl")
    report = bring_in(tmp_path)
    assert told(report, "b.jsonl") == [": an id of its own for every session"]
    assert Trial.objects.count() == 2


def test_a_time_that_utc_does_not_have_is_unknown_and_loses_no_session(tmp_path):
    log = claude_session(tmp_path / "a.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    first = next(line for line in lines if "timestamp" in line)
    first["timestamp"] = "0001-01-01T00:00:00+23:00"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(bring_in(tmp_path).problems) == []
    assert Attempt.objects.get().started_at is None


def test_a_clock_that_ran_backwards_tells_no_length(tmp_path):
    log = claude_session(tmp_path / "a.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    first = next(line for line in lines if "timestamp" in line)
    first["timestamp"] = "2031-01-01T00:00:00Z"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert told(bring_in(tmp_path), "a.jsonl") == ["timestamp: a last time after the first"]
    assert Trial.objects.get().duration_seconds is None


def test_a_secret_in_a_prompt_is_in_no_title(tmp_path):
    secret = "sk-ant-api03-" + "Ab1" * 30
    claude_session(tmp_path / "s-1.jsonl", prompt=f"Use {secret} please")
    bring_in(tmp_path)
    assert secret not in Task.objects.get().title
    assert not [blob for blob in Blob.objects.all() if secret.encode() in blob.content()]


def test_logs_inside_a_job_stay_with_their_trials(tmp_path):
    folder = job(tmp_path / "jobs" / "first", trials=1)
    claude_session(folder / "sum-csv__0000001" / "agent" / "sessions" / "s-1.jsonl")
    bring_in(tmp_path)
    assert Trial.objects.count() == 1


def test_it_obeys_the_format_that_is_named(tmp_path):
    claude_session(tmp_path / "s-1.jsonl")
    traj(tmp_path / "run-1")
    bring_in(tmp_path, format="swe-agent")
    assert Run.objects.get().harness == "swe-agent"
