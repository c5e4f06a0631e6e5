"""Logs in files of their own, in a folder or one alone: Inspect's .eval, SWE-agent's .traj, sessions of agents."""

from __future__ import annotations

import json
import shutil
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from benchapp import audit
from benchapp.models import Attempt, Blob, Experiment, Run, Task, Trajectory, Trial, Verdict
from benchapp.record.trajectory_store import iterate_steps
from tests.benchapp.import_folders import bring_in, job, told, write
from tests.benchapp.log_files import (
    HEADER,
    claude_session,
    codex_rollout,
    gemini_chat,
    inspect_log,
    packed_with_zstandard,
    sample,
    traj,
)

pytestmark = pytest.mark.django_db

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "trajectories"
AGENTS = FIXTURES / "claude_session_agents.jsonl"


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
    assert list(audit.flaws()) == []


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
        "samples: samples",
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
    assert told(report, "sums.eval") == [": a whole Inspect log"]
    assert report.exit_status == 1


def test_it_reads_no_list_of_entries_that_would_fill_the_memory(tmp_path, monkeypatch):
    inspect_log(tmp_path / "sums.eval", sample("s1"))
    monkeypatch.setattr("benchapp.imports.logs.inspect_log.MAX_READ", 60)
    report = bring_in(tmp_path)
    assert told(report, "sums.eval") == [": a whole Inspect log"]
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


def test_it_reads_a_log_packed_with_zstandard(tmp_path):
    packed_with_zstandard(inspect_log(tmp_path / "sums.eval", sample("one"), sample("two")))
    assert list(bring_in(tmp_path).problems) == []
    assert set(Trial.objects.values_list("task__key", "success")) == {("sums/one", True), ("sums/two", True)}
    assert [step.message for step in iterate_steps(Trajectory.objects.first())][1] == "Sum the column."


def test_a_spoiled_sample_packed_with_zstandard_stops_no_other(tmp_path):
    log = packed_with_zstandard(inspect_log(tmp_path / "sums.eval", sample("one"), sample("two")))
    raw = bytearray(log.read_bytes())
    at = raw.find(b"samples/one_epoch_1.json") + len("samples/one_epoch_1.json") + 20
    raw[at : at + 40] = b"\xff" * 40
    log.write_bytes(bytes(raw))
    assert len(bring_in(log).problems) == 1
    assert list(Trial.objects.values_list("task__title", flat=True)) == ["two"]


def test_it_reads_a_log_written_as_one_json_document(tmp_path):
    samples = [sample("one"), sample("one", 2, scores={"match": {"value": "I"}}), sample(2)]
    log = write(tmp_path / "logs" / "sums.json", {**HEADER, "samples": samples, "reductions": []})
    report = bring_in(tmp_path)
    assert list(report.problems) == []
    assert list(Trial.objects.order_by("task__key", "sample").values_list("task__key", "sample", "success")) == [
        ("sums/2", 0, True),
        ("sums/one", 0, True),
        ("sums/one", 1, False),
    ]
    assert Trial.objects.first().input_tokens == 100
    assert Experiment.objects.get().finished_at is not None
    again = bring_in(log)
    assert (again.counts["created"], again.counts["unchanged"]) == (0, 3)
    assert list(audit.flaws()) == []


def test_a_json_log_that_breaks_off_keeps_the_samples_before_the_break(tmp_path):
    text = json.dumps({**HEADER, "samples": [sample("one"), sample("two")]})
    write(tmp_path / "sums.json", text[: text.rindex('"messages"')])
    assert told(bring_in(tmp_path), "sums.json") == ["end of what could be read: one whole JSON value"]
    assert list(Trial.objects.values_list("task__title", flat=True)) == ["one"]


def test_two_logs_of_one_evaluation_are_both_kept(tmp_path):
    inspect_log(tmp_path / "sums.eval", sample("one"))
    write(tmp_path / "sums.json", {**HEADER, "samples": [sample("one")]})
    assert told(bring_in(tmp_path), "sums.json") == ["eval.eval_id: an id of its own for every log"]
    assert Attempt.objects.filter(counts=True).count() == 2
    assert bring_in(tmp_path).counts["changed"] == 0


def retry(path: Path, *samples: dict, created: str, **told_of_eval: Any) -> Path:
    """A log of the same task: HEADER's, or a retry of it."""
    evaluation = {**HEADER["eval"], "eval_set_id": None, "created": created, **told_of_eval}
    return inspect_log(path, *samples, header={**HEADER, "eval": evaluation})


def failed_and_retried(folder: Path) -> tuple[Path, Path]:
    """The second sample failed, the third was not begun; the retry copied the first one and ran these two."""
    failed = sample("two", uuid="u2", scores={}, error={"message": "rate limit"})
    again = sample("two", uuid="u4", scores={"match": {"value": "I"}})
    first, third = sample("one", uuid="u1"), sample("three", uuid="u3")
    return (
        retry(folder / "2026-03-01T10_sums.eval", first, failed, created="2026-03-01T10:00:00Z"),
        retry(
            folder / "2026-03-01T11_sums.eval",
            *(first, again, third),
            created="2026-03-01T11:00:00Z",
            eval_id="eval-2",
            run_id="run-2",
        ),
    )


def test_a_retried_log_is_one_run_with_each_sample_once(tmp_path):
    failed_and_retried(tmp_path)
    report = bring_in(tmp_path)
    assert [(p.place, p.message) for p in report.problems] == [
        ("eval.task_id", "2026-03-01T11_sums.eval is a retry: 2 of 2 samples count with its results")
    ]
    assert Run.objects.count() == Experiment.objects.count() == 1
    assert list(Trial.objects.order_by("task__key").values_list("task__title", "status")) == [
        ("one", "passed"),
        ("three", "passed"),
        ("two", "failed"),
    ]
    again = bring_in(tmp_path).counts
    assert (again["created"], again["changed"], again["unchanged"]) == (0, 0, 3)


def test_a_retry_that_comes_in_later_supersedes_only_what_it_ran_again(tmp_path):
    first, second = failed_and_retried(tmp_path)
    bring_in(first)
    counts = bring_in(tmp_path).counts
    assert (counts["created"], counts["changed"], counts["unchanged"]) == (1, 1, 1)
    assert Run.objects.count() == Experiment.objects.count() == 1
    assert Trial.objects.get(task__title="two").attempts.count() == 2


def test_a_retry_written_as_json_is_one_too(tmp_path):
    for number, scores in ((1, {}), (2, {"match": {"value": "C"}})):
        evaluation = {**HEADER["eval"], "eval_id": f"eval-{number}", "created": f"2026-03-01T1{number}:00:00Z"}
        write(
            tmp_path / f"sums-{number}.json",
            {**HEADER, "eval": evaluation, "samples": [sample("one", scores=scores)]},
        )
    assert told(bring_in(tmp_path), "sums-1.json") == ["eval.task_id: one log for each task"]
    assert Trial.objects.get().status == "passed"


def test_samples_that_a_broken_off_retry_did_not_reach_come_from_the_log_before(tmp_path):
    first, second = failed_and_retried(tmp_path)
    retry(second, sample("two"), created="2026-03-01T11:00:00Z", eval_id="eval-2", run_id="run-2")
    report = bring_in(tmp_path)
    assert [problem.message for problem in report.problems] == [
        "2026-03-01T11_sums.eval is a retry: 1 of 2 samples count with its results"
    ]
    assert dict(Trial.objects.values_list("task__title", "status")) == {"one": "passed", "two": "passed"}


def test_a_sample_that_somebody_invalidated_has_no_verdict_and_says_why(tmp_path):
    withdrawn = {"timestamp": "2026-03-01T12:00:00Z", "author": "me", "reason": "container died", "metadata": {}}
    bring_in(
        inspect_log(tmp_path / "sums.eval", sample("one", invalidation=withdrawn), sample("two", invalidation=None))
    )
    assert dict(Trial.objects.values_list("task__title", "status")) == {"one": "unscored", "two": "passed"}
    told_of_it = Attempt.objects.get(trial__task__title="one")
    assert (told_of_it.exception_type, told_of_it.exception_message) == ("invalidated", "container died (me)")


def test_what_a_sample_that_breaks_off_does_not_tell_is_named(tmp_path):
    log = tmp_path / "sums.eval"
    inspect_log(log, sample("two"))
    text = json.dumps(sample("one"))
    with zipfile.ZipFile(log, "a") as archive:
        archive.writestr("samples/one_epoch_1.json", text[: text.index('"scores"')])
    lost = [problem for problem in bring_in(log).problems if problem.place == "samples/one_epoch_1.json"]
    assert [problem.message for problem in lost] == [
        "it breaks off before scores, model_usage, started_at, completed_at, total_time: unknown"
    ]
    assert Trial.objects.count() == 2


def test_a_trajectory_of_swe_agent_that_breaks_off_says_what_is_not_known(tmp_path):
    log = traj(tmp_path / "run-1")
    log.write_text(log.read_text().partition('"info"')[0])
    messages = [problem.message for problem in bring_in(tmp_path).problems]
    assert "it breaks off before info: unknown" in messages


def test_the_cost_of_a_sample_is_known_where_every_model_has_a_price(tmp_path):
    priced = {"input_tokens": 70, "output_tokens": 10, "total_tokens": 80, "total_cost": 0.25}
    unpriced = {"input_tokens": 7, "output_tokens": 1, "total_tokens": 8, "total_cost": None}
    samples = [
        sample("one", model_usage={"a": priced, "b": priced}),
        sample("two", model_usage={"a": priced, "b": unpriced}),
    ]
    bring_in(inspect_log(tmp_path / "sums.eval", *samples))
    assert dict(Trial.objects.values_list("task__title", "cost_usd")) == {"one": 0.5, "two": None}


@pytest.mark.parametrize("spoil", ["other", "shorter"])
def test_an_entry_packed_with_zstandard_is_held_to_its_checksum_and_size(tmp_path, spoil):
    log = packed_with_zstandard(inspect_log(tmp_path / "sums.eval", sample("one"), sample("two")))
    raw = bytearray(log.read_bytes())
    at = raw.rfind(b"samples/one_epoch_1.json") - 46
    field = slice(at + 16, at + 20) if spoil == "other" else slice(at + 24, at + 28)  # CRC, size in the list of entries
    raw[field] = (int.from_bytes(raw[field], "little") + 1).to_bytes(4, "little")
    log.write_bytes(bytes(raw))
    report = bring_in(log)
    assert ["checksum" in problem.message for problem in report.problems] == [True]
    assert list(Trial.objects.values_list("task__title", flat=True)) == ["two"]


# --- SWE-agent ----------------------------------------------------------------------------------------------------


def test_it_reads_a_folder_of_trajectories(tmp_path):
    traj(tmp_path / "run-1")
    traj(tmp_path / "run-1", "acme__sums-2", info={"exit_status": "exit_cost"})
    report = bring_in(tmp_path)
    assert list(report.problems) == []
    assert Experiment.objects.get().name == f"SWE-agent {'/'.join((tmp_path / 'run-1').parts[-3:])}"
    assert (Run.objects.get().harness, Run.objects.get().agent_model) == ("swe-agent", "lab/model-1")
    first, second = Trial.objects.order_by("task__key")
    assert (first.status, first.input_tokens, first.output_tokens, first.cost_usd) == ("unscored", 900, 40, 0.25)
    assert (first.exception_type, second.exception_type) == ("", "exit_cost")
    assert list(audit.flaws()) == []


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


@pytest.mark.parametrize("layout", ["{}/trajs", "{}/sub-a/trajs", "lite/{}/trajs"])
def test_two_submissions_with_the_same_instances_are_two_experiments(tmp_path, layout):
    for name in ("one", "two"):
        traj(tmp_path / layout.format(name), environment=name)
    report = bring_in(tmp_path)
    assert list(report.problems) == []
    assert (Experiment.objects.count(), Trial.objects.count(), Attempt.objects.filter(counts=True).count()) == (2, 2, 2)
    for path in (tmp_path, *(tmp_path / layout.format(name) for name in ("one", "two"))):
        again = bring_in(path)
        assert (again.counts["created"], again.counts["changed"]) == (0, 0)
    assert Experiment.objects.count() == 2


def test_the_same_folder_elsewhere_is_the_same_experiment(tmp_path):
    traj(tmp_path / "first" / "lite" / "sub-a" / "trajs")
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    bring_in(tmp_path / "first")
    again = bring_in(tmp_path / "second")
    assert (again.counts["created"], again.counts["unchanged"], Experiment.objects.count()) == (0, 1, 1)


def test_submissions_whose_paths_end_alike_are_told_apart(tmp_path):
    for name in ("one", "two"):
        traj(tmp_path / name / "lite" / "sub-a" / "trajs", environment=name)
    bring_in(tmp_path)
    assert (Experiment.objects.count(), Trial.objects.count()) == (2, 2)


def test_two_trajectories_of_one_instance_in_a_run_are_both_kept(tmp_path):
    traj(tmp_path / "run-1")
    shutil.copy(traj(tmp_path / "elsewhere"), tmp_path / "run-1" / "acme__sums-1.traj")
    report = bring_in(tmp_path / "run-1")
    assert told(report, "acme__sums-1.traj") == [": one trajectory for each instance of a run"]
    assert Trial.objects.count() == 2


def test_it_reads_a_demonstration_that_has_only_a_history(tmp_path):
    shutil.copy(FIXTURES / "swe_agent_history.traj", tmp_path / "demo.traj")
    assert list(bring_in(tmp_path).problems) == []
    assert [step.message for step in steps()][-2:] == ["I look for it.", "I hand it in."]
    assert Run.objects.get().agent_model == "unknown"


def test_it_reads_a_run_of_mini_swe_agent(tmp_path):
    for name, fixture in (("sums-1", "mini_swe_agent_2.json"), ("sums-2", "mini_swe_agent_bare.json")):
        write(tmp_path / "run-1" / name / f"{name}.traj.json", (FIXTURES / fixture).read_bytes())
    write(tmp_path / "run-1" / "preds.json", {})
    write(tmp_path / "run-1" / "minisweagent.log", "started\n")
    report = bring_in(tmp_path)
    assert list(report.problems) == []
    assert set(Trial.objects.values_list("task__key", "episode__run__harness", "episode__run__agent_model")) == {
        ("sums-1", "mini-swe-agent", "lab/model-1"),
        ("sums-2", "mini-swe-agent", "unknown"),
    }
    first = Attempt.objects.get(trial__task__key="sums-1")
    assert (first.exception_type, first.cost_usd, first.input_tokens) == ("", 0.5, 230)
    assert list(audit.flaws()) == []


# --- files that nobody takes --------------------------------------------------------------------------------------


def test_files_that_look_like_logs_and_are_none_are_told_in_one_line_for_each_kind(tmp_path):
    claude_session(tmp_path / "s-1.jsonl")
    for number in range(30):
        write(tmp_path / "data" / f"part-{number:02d}" / "rows.json", {"row": number})
    write(tmp_path / "chats" / "talk.json", [{"role": "user", "content": "Hello."}])
    write(tmp_path / "chats" / "empty.jsonl", "")
    write(tmp_path / "chats" / "old.jsonl.gz", b"\x1f\x8b")
    write(tmp_path / "README.md", "# Notes")
    report = bring_in(tmp_path)
    assert [(problem.path, problem.place, problem.message) for problem in report.problems] == [
        (str(tmp_path / "chats"), "*.jsonl", "1 file without content; not read: empty.jsonl"),
        (str(tmp_path / "chats"), "*.gz", "1 file to be unpacked first; not read: old.jsonl.gz"),
        (
            str(tmp_path / "chats"),
            "*.json",
            "1 file with messages only, without calls of tools; not read: talk.json",
        ),
        (
            str(tmp_path / "data"),
            "*.json",
            "30 files in no known format; not read: part-00/rows.json, part-01/rows.json, part-02/rows.json, "
            "part-03/rows.json, part-04/rows.json and 25 more",
        ),
    ]
    assert report.exit_status == 3


def test_a_config_of_another_program_hides_no_logs(tmp_path):
    write(tmp_path / "config.json", {"theme": "dark"})
    claude_session(tmp_path / "s-1.jsonl")
    claude_session(tmp_path / "more" / "s-2.jsonl", "s-2")
    report = bring_in(tmp_path)
    assert Trial.objects.count() == 2
    assert [problem.message for problem in report.problems] == ["1 file in no known format; not read: config.json"]


def test_files_that_every_project_has_are_not_reported(tmp_path):
    claude_session(tmp_path / "s-1.jsonl")
    others = (
        "package.json",
        ".claude-plugin/plugin.json",
        "skills/sums/evals/evals.json",
        "skills/sums/test-prompts.json",
    )
    for name in (*others, "LICENSE.txt", ".venv/lib/python3.13/site-packages/sums/data.json"):
        write(tmp_path / name, {"name": "sums"})
    assert list(bring_in(tmp_path).problems) == []


def test_a_swe_agent_file_that_is_none_is_told(tmp_path):
    traj(tmp_path / "run-1")
    write(tmp_path / "run-1" / "acme__sums-2" / "acme__sums-2.traj", "{")
    assert [problem.message for problem in bring_in(tmp_path).problems] == [
        "1 file in no known format; not read: acme__sums-2.traj"
    ]


# --- sessions -----------------------------------------------------------------------------------------------------


CHAT = [
    {"role": "developer", "content": [{"type": "text", "text": "Be short."}]},
    {"role": "user", "content": "Sum the column.", "_metadata": {"timestamp": "2026-03-01T10:00:00Z"}},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "sh", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "42", "_metadata": {"timestamp": "2026-03-01T10:01:00Z"}},
    {"role": "assistant", "content": "It is 42.", "tool_calls": None},
]


@pytest.mark.parametrize("name", ["trajectory.json", "list.json", "chat.jsonl"])
def test_messages_with_calls_of_tools_are_a_session(tmp_path, name):
    """Converters and programs of one's own write the messages of a chat, and nothing that says whose they are."""
    lines = "".join(f"{json.dumps(message)}\n" for message in CHAT)
    write(tmp_path / name, {"trajectory.json": {"messages": CHAT, "meta": {}}, "list.json": CHAT}.get(name, lines))
    assert list(bring_in(tmp_path).problems) == []
    trial = Trial.objects.get()
    assert (trial.task.title, trial.turns, trial.success, trial.duration_seconds) == ("Sum the column.", 2, None, 60.0)


def test_messages_without_calls_and_data_sets_are_no_sessions(tmp_path):
    write(tmp_path / "talk.json", {"messages": CHAT[-1:]})
    write(tmp_path / "train.jsonl", f"{json.dumps({'messages': CHAT})}\n" * 3)
    report = bring_in(tmp_path)
    assert {"messages only" in problem.message for problem in list(report.problems)[:2]} == {True}
    assert not Trial.objects.exists()


def test_it_reads_the_logs_that_agents_leave(tmp_path):
    claude_session(tmp_path / "projects" / "p" / "s-1.jsonl")
    codex_rollout(tmp_path / "sessions" / "2026" / "rollout-1.jsonl")
    gemini_chat(tmp_path / "chats" / "session-1.json")
    write(tmp_path / "notes.json", {"hello": 1})
    report = bring_in(tmp_path)
    assert [problem.message for problem in report.problems] == ["1 file in no known format; not read: notes.json"]
    assert set(Trial.objects.values_list("task__title", "episode__run__harness", "episode__run__agent_model")) == {
        ("Sum the column.", "claude-code", "claude-opus-4-5"),
        ("List the files.", "codex", "gpt-5.2-codex"),
        ("Count the words.", "gemini-cli", "gemini-3-flash"),
    }
    claude = Trial.objects.get(episode__run__harness="claude-code")
    assert (claude.status, claude.duration_seconds) == ("unscored", 9.0)
    assert list(audit.flaws()) == []
    again = bring_in(tmp_path / "projects" / "p" / "s-1.jsonl")
    assert (again.counts["created"], again.counts["unchanged"]) == (0, 1)
    assert Experiment.objects.count() == 1


CODEX_SURROUNDINGS = "<environment_context>\n  <cwd>/app</cwd>\n</environment_context>"
AGENTS_MD = "# AGENTS.md instructions for /app\n\n<INSTRUCTIONS>\nUse tabs.\n</INSTRUCTIONS>"
COMMAND = "<command-name>/clear</command-name>\n<command-message>clear</command-message>\n<command-args></command-args>"


@pytest.mark.parametrize(
    ("said", "title"),
    [
        (["[Request interrupted by user]", "Sum the column."], "Sum the column."),
        (["[Request interrupted by user for tool use]", "Sum it."], "Sum it."),
        (
            ["Caveat: The messages below were generated by the user while running local commands. DO NOT", "Sum."],
            "Sum.",
        ),
        ([COMMAND, "<local-command-stdout></local-command-stdout>", "Sum it."], "Sum it."),
        (["This session is being continued from a previous conversation that ran out of context.", "Sum."], "Sum."),
        (["<ide_opened_file>The user opened a.py</ide_opened_file>\nSum it."], "Sum it."),
        (["Sum it.\n<system-reminder>\nBe kind.\n</system-reminder>"], "Sum it."),
        ([f"{AGENTS_MD}{CODEX_SURROUNDINGS}", "Sum it."], "Sum it."),
        ([f"{AGENTS_MD}\n\nSum it."], "Sum it."),
        (["# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nSum it."], "Sum it."),
        (["This is the Gemini CLI. We are setting up the context for our chat.", "Sum it."], "Sum it."),
        (["<session_context>\nToday is Monday.\n</session_context>", "Sum it."], "Sum it."),
        (["<task>Sum it.</task>"], "<task>Sum it.</task>"),
        (["Warmup", "Warmup the cache."], "Warmup the cache."),
        (
            [COMMAND.replace("clear", "review").replace("<command-args>", "<command-args>the sums")],
            "/review the sums",
        ),
        (["<environment_context>cut off"], "session s-1"),
    ],
)
def test_a_session_is_titled_by_the_first_thing_a_person_asked(tmp_path, said, title):
    first, *others = claude_session(tmp_path / "s-1.jsonl", prompt=said[0]).read_text().splitlines()
    lines = [first]
    for number, text in enumerate(said[1:]):
        line = json.loads(first)
        lines.append(json.dumps({**line, "uuid": f"more-{number}", "message": {"role": "user", "content": text}}))
    write(tmp_path / "s-1.jsonl", "\n".join([*lines, *others]) + "\n")
    bring_in(tmp_path)
    assert Task.objects.get().title == title


def test_no_mark_of_a_document_is_in_a_title(tmp_path):
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK" * 100}
    prompt: Any = [{"type": "document", "source": source}, {"type": "text", "text": "Sum it."}]
    claude_session(tmp_path / "s-1.jsonl", prompt=prompt)
    bring_in(tmp_path)
    assert Task.objects.get().title == "Sum it."


def test_sessions_that_were_asked_the_same_have_titles_of_their_own(tmp_path):
    claude_session(tmp_path / "s-1.jsonl", "s-1")
    other = claude_session(tmp_path / "s-2.jsonl", "s-2")
    other.write_text(other.read_text().replace('"uuid": "u', '"uuid": "v'))  # other messages: no copy
    bring_in(tmp_path)
    assert sorted(Task.objects.values_list("title", flat=True)) == [
        "Sum the column.",
        "Sum the column. (session s-2)",
    ]


def test_sessions_without_an_id_are_told_apart_by_where_they_lie(tmp_path):
    wire = (FIXTURES / "kimi_wire.jsonl").read_bytes()
    for session in ("one", "two", "three"):
        write(tmp_path / "sessions" / "p" / session / "agents" / "main" / "wire.jsonl", wire)
    write(tmp_path / "sessions" / "p" / "one" / "agents" / "agent-1" / "wire.jsonl", wire)
    assert list(bring_in(tmp_path).problems) == []
    assert Trial.objects.count() == Attempt.objects.filter(counts=True).count() == 3
    side = Trajectory.objects.get(kind="subagent")
    assert (side.name, side.source_path) == ("agent-1", "../agent-1/wire.jsonl")


def test_a_kimi_session_tells_when_it_began_and_how_long_it_took(tmp_path):
    write(tmp_path / "new" / "wire.jsonl", (FIXTURES / "kimi_wire.jsonl").read_bytes())
    said = {"type": "TurnBegin", "payload": {"user_input": "Sum the column."}}
    old = [{"timestamp": 1772359200.0 + second, "message": said} for second in (0, 5.5)]
    lines = [{"type": "metadata", "protocol_version": "1.10"}, *old]
    write(tmp_path / "old" / "wire.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    bring_in(tmp_path)
    attempt = Attempt.objects.get(trial__task__key__endswith="new")
    assert (attempt.started_at, attempt.finished_at) == (
        datetime(2026, 1, 2, 3, 4, 1, tzinfo=UTC),
        datetime(2026, 1, 2, 3, 4, 13, tzinfo=UTC),
    )
    assert attempt.trial.duration_seconds == 12
    assert Trial.objects.get(task__key__endswith="old").duration_seconds == 5.5


def test_two_folders_of_one_name_are_two_experiments(tmp_path):
    for person in ("alice", "bob"):
        claude_session(tmp_path / person / "logs" / "s.jsonl", person)
        bring_in(tmp_path / person / "logs")
    assert Experiment.objects.count() == 2
    claude_session(tmp_path / "bob" / "logs" / "s-2.jsonl", "more")
    bring_in(tmp_path / "bob" / "logs")
    assert Experiment.objects.get(name__endswith="bob/logs").runs.get().episodes.get().trials.count() == 2
    assert Experiment.objects.count() == 2


def test_a_problem_in_a_log_names_its_path_once(tmp_path):
    log = claude_session(tmp_path / "s-1.jsonl")
    log.write_text(log.read_text() + "not json\n")
    for _ in range(2):
        assert [problem.path for problem in bring_in(tmp_path).problems] == [str(log)]


def test_a_problem_in_a_subagents_log_names_that_log(tmp_path):
    claude_session(tmp_path / "s-1.jsonl")
    log = claude_session(tmp_path / "s-1" / "subagents" / "agent-a1.jsonl", side=True)
    log.write_text(log.read_text() + "not json\n")
    for _ in range(2):
        assert [problem.path for problem in bring_in(tmp_path).problems] == [str(log)]


def test_a_session_that_holds_its_subagents_lines_is_a_whole_session(tmp_path):
    log = claude_session(tmp_path / "s-1.jsonl")
    side = claude_session(tmp_path / "other" / "side.jsonl", side=True)
    log.write_text(log.read_text() + side.read_text().replace('"u', '"v'))
    side.unlink()
    claude_session(tmp_path / "agent-a1.jsonl", side=True)
    bring_in(tmp_path)
    assert Trajectory.objects.get(kind="main").source_path == "s-1.jsonl"
    assert Trial.objects.count() == 1


def test_a_rollout_of_a_codex_subagent_goes_with_its_session(tmp_path):
    codex_rollout(tmp_path / "rollout-1.jsonl")
    side = codex_rollout(tmp_path / "rollout-2.jsonl")
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "codex-1", "depth": 1}}}
    side.write_text(side.read_text().replace('"id": "codex-1"', f'"id": "codex-2", "source": {json.dumps(source)}'))
    bring_in(tmp_path)
    assert set(Trajectory.objects.values_list("kind", "name")) == {("main", "main"), ("subagent", "rollout-2")}


def test_it_reads_a_codex_rollout_of_2025(tmp_path):
    shutil.copy(FIXTURES / "codex_rollout_2025.jsonl", tmp_path / "rollout-1.jsonl")
    assert list(bring_in(tmp_path).problems) == []
    assert (Task.objects.get().title, Run.objects.get().harness) == ("Add up column b.", "codex")


def test_a_subagents_file_goes_with_its_session(tmp_path):
    claude_session(tmp_path / "s-1.jsonl")
    claude_session(tmp_path / "agent-a1.jsonl", side=True, prompt="Look deeper.")
    bring_in(tmp_path)
    assert set(Trajectory.objects.values_list("kind", "name")) == {("main", "main"), ("subagent", "agent-a1")}
    assert Trial.objects.get().task.title == "Sum the column."


def test_a_subagents_file_without_its_session_is_imported_and_reported(tmp_path):
    claude_session(tmp_path / "s-9" / "subagents" / "agent-a1.jsonl", "s-9", side=True, prompt="Look deeper.")
    (problem,) = bring_in(tmp_path).problems
    assert (problem.expected, problem.message) == (
        "the session that started this sub-agent",
        "it is not here; the sub-agent's log is imported as a session of its own",
    )
    assert problem.path.endswith("agent-a1.jsonl")
    assert Trial.objects.get().task.title == "Look deeper."


def test_a_sub_agent_in_a_session_is_a_trajectory_whose_tokens_are_counted_once(tmp_path):
    (tmp_path / "session.jsonl").write_bytes(AGENTS.read_bytes())
    assert bring_in(tmp_path).as_json()["problems"] == []
    call_command("check_record")
    main, agent = Trajectory.objects.order_by("ordinal")
    assert (agent.kind, agent.parent, agent.extra["tool_call_id"], agent.steps_total) == ("subagent", main, "t1", 4)
    attempt = Attempt.objects.get()
    assert (attempt.input_tokens, attempt.output_tokens, attempt.output_at_least) == (1655 + 1003, None, 60 + 103)
    assert attempt.trial.output_tokens is None


def test_a_sub_agents_own_file_stands_for_what_the_session_repeats_of_it(tmp_path):
    (tmp_path / "session.jsonl").write_bytes(AGENTS.read_bytes())
    claude_session(tmp_path / "agent-ab12cd3.jsonl", "s-3", side=True)
    own = (tmp_path / "agent-ab12cd3.jsonl").read_text().replace('"a1"', '"ab12cd3"')
    (tmp_path / "agent-ab12cd3.jsonl").write_text(own)
    bring_in(tmp_path)
    main, agent = Trajectory.objects.order_by("ordinal")
    assert (agent.kind, agent.source_path, agent.parent) == ("subagent", "agent-ab12cd3.jsonl", main)
    assert agent.extra["tool_call_id"] == "t1"


def test_two_whole_logs_of_one_session_are_both_kept(tmp_path):
    claude_session(tmp_path / "a.jsonl")
    other = claude_session(tmp_path / "b.jsonl")
    other.write_text(other.read_text().replace('"uuid": "u', '"uuid": "v'))  # other messages: no copy
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


def test_logs_in_a_job_that_no_trial_reads_are_told_in_one_line_for_each_place(tmp_path):
    folder = job(tmp_path / "jobs" / "first", trials=2)
    for number in (1, 2):
        own = folder / f"sum-csv__000000{number}"
        claude_session(own / "agent" / "sessions" / "s-1.jsonl")
        claude_session(own / "artifacts" / "logs" / "s-2.jsonl")
        write(own / "artifacts" / "rows.json", {"row": 1})
    codex_rollout(folder / "steps.jsonl")
    claude_session(folder / "notes" / "s-3.jsonl")
    report = bring_in(tmp_path)
    assert [(problem.path, problem.expected, problem.message) for problem in report.problems] == [
        (
            str(folder),
            "logs in the folders of trials",
            "1 file in the format codex-rollout, next to the trials of a job; not read: steps.jsonl",
        ),
        (
            str(folder / "notes"),
            "logs in the folders of trials",
            "1 file in the format claude-session, next to the trials of a job; not read: s-3.jsonl",
        ),
        (
            str(folder),
            "logs in agent/ or trajectory/",
            "2 files in the format claude-session, elsewhere in a trial; not read: "
            "sum-csv__0000001/artifacts/logs/s-2.jsonl, sum-csv__0000002/artifacts/logs/s-2.jsonl",
        ),
    ]
    assert Trial.objects.count() == 2


def test_it_obeys_the_format_that_is_named(tmp_path):
    claude_session(tmp_path / "s-1.jsonl")
    traj(tmp_path / "run-1")
    bring_in(tmp_path, format="swe-agent")
    assert Run.objects.get().harness == "swe-agent"


def test_names_of_folders_suggest_the_condition_of_sessions(tmp_path):
    for number, name in enumerate(("without-claude-code", "with-skills-codex", "-home-me-skills-lab")):
        (tmp_path / "myruns" / name).mkdir(parents=True)
        claude_session(tmp_path / "myruns" / name / f"{number}.jsonl", f"s-{number}")
    bring_in(tmp_path / "myruns")
    assert {run.setup.get("suggested_condition") for run in Run.objects.all()} == {"no-skill", "with-skills", None}
