"""Harbor's folders of every generation become the same rows, and nothing is guessed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.management import call_command

from benchapp import audit
from benchapp.models import Attempt, Blob, Experiment, Run, SkillUse, Trajectory, Trial
from benchapp.models.base import derived_id
from benchapp.record.redaction import LONG
from benchapp.record.trajectory_store import iterate_steps
from tests.benchapp.import_folders import JOB_ID, atif, benchflow, bring_in, job, result, told, trial, write
from tests.benchapp.log_files import claude_session

pytestmark = pytest.mark.django_db

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "trajectories"


def only_trial() -> Trial:
    return Trial.objects.select_related("episode__run__experiment", "task__suite").get()


def test_it_brings_in_a_whole_job(tmp_path):
    report = bring_in(job(tmp_path / "first"))
    assert report.exit_status == 0
    counts = report.as_json()
    assert {name: counts[name] for name in ("experiments", "runs", "trials", "attempts", "trajectories", "steps")} == {
        "experiments": 1,
        "runs": 1,
        "trials": 3,
        "attempts": 3,
        "trajectories": 3,
        "steps": 6,
    }
    assert (counts["created"], counts["changed"], counts["unchanged"]) == (3, 0, 0)
    experiment = Experiment.objects.get()
    assert (experiment.name, experiment.origin, experiment.status) == ("first", "imported", "done")
    assert experiment.public_id == derived_id("experiment", f"id:{JOB_ID}")
    run = experiment.runs.get()
    assert (run.harness, run.agent_model, run.condition, run.replicate) == ("tester", "lab/model-1", "unknown", None)
    assert list(Trial.objects.order_by("sample").values_list("sample", "status")) == [(n, "passed") for n in range(3)]
    assert set(Trial.objects.values_list("phase", "task__key", "task__suite__key")) == {
        ("evaluation", "acme/sum-csv", "harbor/acme")
    }


def test_it_copies_the_same_numbers_that_settling_would(tmp_path):
    ctrf = {
        "results": {"tests": [{"name": "a", "status": "passed"}, {"name": "b", "status": "failed", "message": "no"}]}
    }
    trial(
        tmp_path, files={"verifier/ctrf.json": ctrf}, exception_info={"exception_type": "X", "exception_message": "m"}
    )
    bring_in(tmp_path)
    trial_row = only_trial()
    names = [field.attname for field in Trial._meta.concrete_fields if field.name != "settled_at"]
    before = {name: getattr(trial_row, name) for name in names}
    trial_row.settle(trial_row.counting_attempt())
    trial_row.refresh_from_db()
    assert {name: getattr(trial_row, name) for name in names} == before


def test_it_keeps_its_own_count_of_tokens_beside_the_source_s(tmp_path):
    trial(tmp_path, trajectory=atif("one", "two"))
    bring_in(tmp_path)
    attempt = Attempt.objects.get()
    assert (attempt.input_tokens, attempt.cached_tokens, attempt.output_tokens) == (200, 80, 20)
    assert attempt.cost_usd == pytest.approx(0.02)
    assert attempt.source_tokens == {"input_tokens": 500, "cached_tokens": 80, "output_tokens": 20, "cost_usd": 0.5}
    assert attempt.turns == 2


def test_it_says_where_only_the_source_knows_the_tokens(tmp_path):
    trial(tmp_path, trajectory=False)
    assert bring_in(tmp_path).exit_status == 0
    attempt = Attempt.objects.get()
    assert (attempt.input_tokens, attempt.turns) == (500, None)
    assert attempt.source_tokens["taken"] == ["input_tokens", "cached_tokens", "output_tokens", "cost_usd"]
    assert only_trial().steps is None


# --- verdicts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rewards", "reward", "success", "status"),
    [
        ({"reward": 1.0}, 1.0, True, "passed"),
        ({"reward": 0.55}, 0.55, False, "failed"),
        ({"reward": 1.0, "groups": 0.2}, 1.0, True, "passed"),
        ({"speed": 1.0}, 1.0, True, "passed"),
        ({"speed": 1.0, "style": 1.0}, None, None, "unscored"),
        (None, None, None, "unscored"),
    ],
)
def test_it_lets_success_follow_the_reward(tmp_path, rewards, reward, success, status):
    trial(tmp_path, verifier_result=rewards and {"rewards": rewards})
    bring_in(tmp_path)
    found = only_trial()
    assert (found.reward, found.success, found.status) == (reward, success, status)


def test_it_keeps_the_exception_beside_the_reward(tmp_path):
    info = {
        "exception_type": "AgentTimeoutError",
        "exception_message": f"build failed {'x' * 5_000} no rule to make target",
        "exception_traceback": "Trace",
    }
    trial(tmp_path, exception_info=info)
    bring_in(tmp_path)
    attempt = Attempt.objects.select_related("exception").get()
    assert (only_trial().status, only_trial().exception_type) == ("passed", "AgentTimeoutError")
    assert attempt.exception_message.startswith("build failed xxx")
    assert attempt.exception_message.endswith("xxx no rule to make target"), "the end of a log tells what failed"
    assert len(attempt.exception_message) < 2_100
    assert attempt.exception.content().decode() == info["exception_message"] + "\n\nTrace"


def test_it_reads_the_reward_files_where_the_result_has_none(tmp_path):
    trial(tmp_path, verifier_result=None, files={"verifier/reward.txt": "0.25\n"})
    trial(tmp_path, 2, verifier_result=None, files={"verifier/reward.json": {"reward": 1, "extra": 0.5}})
    bring_in(tmp_path)
    assert sorted(Trial.objects.values_list("reward", flat=True)) == [0.25, 1.0]


def test_it_says_when_the_result_contradicts_the_verifier(tmp_path):
    trial(tmp_path, verifier_result={"rewards": {"reward": 1.0}}, files={"verifier/reward.txt": "0"})
    report = bring_in(tmp_path)
    assert told(report, "result.json") == ["rewards: the reward the verifier wrote"]
    assert only_trial().reward == 1.0


def test_it_reads_checks_and_output(tmp_path):
    tests = [
        {"name": "test_a", "status": "passed", "duration": 0.5},
        {"name": "test_b", "status": "failed", "message": "wrong\x1b[31m!", "trace": "line 3"},
        {"name": "test_c", "status": "pending"},
    ]
    files = {
        "verifier/ctrf.json": {"results": {"tests": tests}},
        "verifier/test-stdout.txt": "50%\r100%\n\x1b[1mdone\n",
    }
    trial(tmp_path, files=files)
    bring_in(tmp_path)
    verdict = Attempt.objects.get().verdicts.get()
    assert list(verdict.checks.values_list("name", "group", "status", "message")) == [
        ("test_a", "test", "passed", ""),
        ("test_b", "test", "failed", "wrong!\n\nline 3"),
        ("test_c", "test", "skipped", ""),
    ]
    assert verdict.output.content() == b"100%\ndone\n"
    assert (only_trial().checks_passed, only_trial().checks_total) == (1, 2)


# --- times ----------------------------------------------------------------------------------------------------


def test_it_keeps_a_zoneless_time_verbatim_and_still_knows_the_length(tmp_path):
    trial(tmp_path, started_at="2026-01-29T04:49:32.5", finished_at="2026-01-29T04:50:32.5")
    bring_in(tmp_path)
    attempt = Attempt.objects.get()
    assert (attempt.started_at, attempt.started_text) == (None, "2026-01-29T04:49:32.5")
    assert only_trial().duration_seconds == 60.0


def test_it_gives_no_length_between_a_zoned_and_a_zoneless_time(tmp_path):
    trial(tmp_path, started_at="2026-01-29T04:49:32Z", finished_at="2026-01-29T04:50:32")
    bring_in(tmp_path)
    assert only_trial().duration_seconds is None


# --- trajectories ---------------------------------------------------------------------------------------------


def test_it_has_one_main_trajectory_however_many_accounts_there_are(tmp_path):
    lines = [
        {"type": "system", "subtype": "init", "session_id": "s", "model": "m", "skills": []},
        *(
            {
                "type": "assistant",
                "session_id": "s",
                "message": {
                    "id": f"m{n}",
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {"command": "ls"}}],
                },
            }
            for n in range(3)
        ),
        {"type": "result", "subtype": "success", "session_id": "s", "total_cost_usd": 0.1, "usage": {}},
    ]
    stream = "\n".join(map(json.dumps, lines))
    trial(tmp_path, files={"agent/claude-code.txt": stream, "agent/command-1/stdout.txt": "warning\n" + stream})
    assert bring_in(tmp_path).exit_status == 0
    main = Trajectory.objects.get()
    assert (main.kind, main.source_format, main.source_path) == ("main", "claude-stream-json", "agent/claude-code.txt")
    assert {item["path"] for item in main.extra["other_files"]} == {
        "agent/trajectory.json",
        "agent/command-1/stdout.txt",
    }


def test_it_reads_continuations_and_sub_agents_as_trajectories_of_their_own(tmp_path):
    main = atif("start", continued_trajectory_ref="trajectory.cont-1.json")
    copied = atif("start", "go on", "and on", "and end")
    copied["steps"][1]["is_copied_context"] = True
    trial(
        tmp_path,
        trajectory=main,
        files={
            "agent/trajectory.cont-1.json": copied,
            "agent/trajectory.summarization-1-summary.json": atif("summary"),
        },
    )
    assert bring_in(tmp_path).exit_status == 0
    found = set(Trajectory.objects.values_list("name", "kind", "parent__name"))
    assert found == {
        ("main", "main", None),
        ("trajectory.cont-1", "continuation", "main"),
        ("trajectory.summarization-1-summary", "subagent", "main"),
    }
    assert Attempt.objects.get().input_tokens == 500  # five calls; the copied step was billed in the first file


def test_a_subagents_log_is_never_main_however_much_it_did(tmp_path):
    session = claude_session(tmp_path / "logs" / "s-1.jsonl").read_text()
    side = claude_session(tmp_path / "logs" / "agent-a1.jsonl", side=True).read_text()
    more = side.replace('"u', '"v').replace('"m1"', '"m2"').replace('"t1"', '"t2"').replace('"vser', '"user')
    folder = "agent/sessions/projects/-app"
    files = {f"{folder}/s-1.jsonl": session, f"{folder}/s-1/subagents/agent-a1.jsonl": side + more}
    trial(tmp_path / "job", trajectory=False, files=files)
    assert bring_in(tmp_path / "job").exit_status == 0
    assert set(Trajectory.objects.values_list("source_path", "kind", "parent__name")) == {
        (f"{folder}/s-1.jsonl", "main", None),
        (f"{folder}/s-1/subagents/agent-a1.jsonl", "subagent", "main"),
    }


def test_of_subagents_logs_alone_one_is_main_and_each_other_is_listed_once(tmp_path):
    one = claude_session(tmp_path / "logs" / "agent-a1.jsonl", side=True).read_text()
    folder = "agent/sessions/projects/-app/s-1/subagents"
    trial(tmp_path / "job", trajectory=False, files={f"{folder}/agent-a{n}.jsonl": one for n in (1, 2)})
    assert bring_in(tmp_path / "job").exit_status == 0
    assert set(Trajectory.objects.values_list("source_path", "kind")) == {
        (f"{folder}/agent-a1.jsonl", "main"),
        (f"{folder}/agent-a2.jsonl", "subagent"),
    }
    assert "other_files" not in (Trajectory.objects.get(kind="main").extra or {})


def test_a_log_too_large_to_count_goes_before_those_that_are_counted(tmp_path, monkeypatch):
    session = claude_session(tmp_path / "logs" / "s-1.jsonl").read_text()
    large = session + "\n" * 20_000
    monkeypatch.setattr("benchapp.imports.reading.trajectory_files.MAX_COMPARED_BYTES", 20_000)
    trial(tmp_path / "job", trajectory=False, files={"agent/a.jsonl": session, "agent/b.jsonl": large})
    assert bring_in(tmp_path / "job").exit_status == 0
    assert Trajectory.objects.get(kind="main").source_path == "agent/b.jsonl"


@pytest.mark.parametrize(
    ("fixture", "path", "source_format"),
    [
        ("codex_rollout.jsonl", "sessions/2026/03/01/rollout-1.jsonl", "codex-rollout"),
        ("gemini_session.jsonl", ".gemini/tmp/ab/chats/session-1.jsonl", "gemini-session"),
        ("qwen_session.jsonl", ".qwen/projects/-app/chats/s-1.jsonl", "qwen-session"),
        ("kimi_wire.jsonl", ".kimi/sessions/ab/s-1/agents/main/wire.jsonl", "kimi-wire"),
        ("mini_swe_agent_2.json", "mini-swe-agent.trajectory.json", "mini-swe-agent"),
        ("swe_agent_history.traj", "sums-1/sums-1.traj", "swe-agent"),
    ],
)
def test_it_reads_the_session_that_a_program_left_with_its_agent(tmp_path, fixture, path, source_format):
    trial(tmp_path, trajectory=False, files={f"agent/{path}": (FIXTURES / fixture).read_bytes()})
    assert bring_in(tmp_path).exit_status == 0
    main = Trajectory.objects.get(kind="main")
    assert (main.source_format, main.source_path) == (source_format, f"agent/{path}")
    assert only_trial().steps == main.steps_total - main.copied_steps > 2


def test_a_wire_of_a_subagent_stands_beside_that_of_its_session(tmp_path):
    wire = (FIXTURES / "kimi_wire.jsonl").read_bytes()
    agents = "agent/.kimi/sessions/ab/s-1/agents"
    files = {f"{agents}/main/wire.jsonl": wire, f"{agents}/a-first/wire.jsonl": wire}
    trial(tmp_path, trajectory=False, files=files)
    bring_in(tmp_path)
    assert set(Trajectory.objects.values_list("source_path", "kind")) == {
        (f"{agents}/main/wire.jsonl", "main"),
        (f"{agents}/a-first/wire.jsonl", "subagent"),
    }


def test_a_conversation_that_no_program_is_known_to_write_is_told(tmp_path):
    messages = [{"role": "user", "content": "Sum."}, {"role": "assistant", "content": "6"}]
    trial(tmp_path, trajectory=False, files={"agent/talk.json": messages})
    assert [place.split(":")[0] for place in told(bring_in(tmp_path), "talk.json")] == ["whole file"]


def test_the_trajectory_is_found_among_more_files_than_are_looked_at(tmp_path):
    files = {f"agent/parts/{number:03d}.json": [{"role": "user", "content": "x"}] for number in range(230)}
    trial(tmp_path, files=files)
    report = bring_in(tmp_path)
    assert Trajectory.objects.get().source_path == "agent/trajectory.json"
    assert [problem.expected for problem in report.problems] == ["at most 200 files that may be trajectories"]


def test_it_follows_a_reference_to_a_file_of_any_name(tmp_path):
    main = atif("a", "b", continued_trajectory_ref="later.json")
    trial(tmp_path, trajectory=main, files={"agent/later.json": atif("c", "d", "e", "f")})
    assert bring_in(tmp_path).exit_status == 0
    assert set(Trajectory.objects.values_list("name", "kind")) == {("main", "main"), ("later", "continuation")}


def test_it_reads_sub_agents_of_sub_agents(tmp_path):
    below = atif("deepest", trajectory_id="below")
    child = atif("deeper", trajectory_id="child", subagent_trajectories=[below])
    trial(tmp_path, trajectory=atif("top", subagent_trajectories=[child]))
    assert bring_in(tmp_path).exit_status == 0
    assert [list(found) for found in Trajectory.objects.values_list("kind", "parent__kind", "steps_total")] == [
        ["main", None, 2],
        ["subagent", "main", 2],
        ["subagent", "subagent", 2],
    ]


def test_it_reads_the_stages_of_a_multi_step_trial(tmp_path):
    stages = [
        {"step_name": "build", "verifier_result": {"rewards": {"reward": 1.0}}},
        {"step_name": "test", "verifier_result": {"rewards": {"reward": 0.0}}},
    ]
    files = {
        "steps/build/agent/trajectory.json": atif("built"),
        "steps/test/agent/trajectory.json": atif("tested", "again"),
        "steps/test/verifier/test-stdout.txt": "1 failed",
    }
    trial(tmp_path, trajectory=False, step_results=stages, files=files)
    assert bring_in(tmp_path).exit_status == 0
    assert list(Trajectory.objects.order_by("ordinal").values_list("name", "kind", "steps_total")) == [
        ("build", "stage", 2),
        ("test", "stage", 3),
    ]
    verdicts = Attempt.objects.get().verdicts.order_by("id")
    assert list(verdicts.values_list("source", "is_primary", "success")) == [
        ("harbor", True, True),
        ("harbor stage build", False, True),
        ("harbor stage test", False, False),
    ]
    assert only_trial().status == "passed"


def test_a_trial_in_stages_has_their_steps_times_and_totals_and_no_flaw(tmp_path):
    """As Harbor writes it: the trial names no agent and no verifier, and its reward is the mean of its stages."""

    def told(name, reward, passed, exception=None):
        start = {"started_at": "2026-03-01T10:01:00Z", "finished_at": "2026-03-01T10:01:10Z"}
        used = {"n_input_tokens": 500, "n_cache_tokens": 80, "n_output_tokens": 20, "cost_usd": 0.5}
        stages.append(
            {
                "step_name": name,
                "agent_result": {**used, "rollout_details": None, "metadata": None},
                "verifier_result": {"rewards": {"reward": reward}},
                "exception_info": exception,
                "agent_execution": start,
                "verifier": start,
            }
        )
        tests = [
            {"name": f"{name}::{number}", "status": "passed" if number < passed else "failed"} for number in (0, 1)
        ]
        files[f"steps/{name}/verifier/ctrf.json"] = {"results": {"tool": {"name": "pytest"}, "tests": tests}}
        files[f"steps/{name}/verifier/reward.txt"] = f"{reward}\n"

    stages, files = [], {"verifier/test-stdout.txt": None}
    told("build", 1.0, 2)
    told(
        "test", 0.0, 1, {"exception_type": "AgentTimeoutError", "exception_message": "late", "exception_traceback": ""}
    )
    files["steps/build/agent/trajectory.json"] = atif("built")
    files["steps/test/agent/trajectory.json"] = atif("tested", "again")
    nothing = {"agent_result": None, "agent_execution": None, "verifier": None}
    rewards = {"verifier_result": {"rewards": {"reward": 0.5}}}
    trial(tmp_path, trajectory=False, step_results=stages, files=files, **nothing, **rewards)
    assert bring_in(tmp_path).exit_status == 0
    call_command("check_record")
    found, attempt = only_trial(), Attempt.objects.get()
    assert (found.reward, found.status, found.steps, found.turns, found.skills_read) == (0.5, "failed", 5, 3, 0)
    assert (found.input_tokens, found.output_tokens) == (300, 30)
    assert (attempt.agent_seconds, attempt.verifier_seconds) == (20.0, 20.0)
    assert attempt.source_tokens["input_tokens"] == 1000
    assert found.exception_type == "AgentTimeoutError"
    found.settle(attempt)
    assert (found.steps, found.skills_read) == (5, 0)


def test_a_stage_without_a_trajectory_leaves_the_sources_totals(tmp_path):
    used = {"n_input_tokens": 500, "n_cache_tokens": 80, "n_output_tokens": 20, "cost_usd": 0.5}
    stages = [{"step_name": name, "agent_result": used} for name in ("build", "test")]
    trial(tmp_path, trajectory=False, step_results=stages, agent_result=None)
    bring_in(tmp_path)
    assert (only_trial().input_tokens, only_trial().output_tokens, only_trial().cost_usd) == (1000, 40, 1.0)


def test_it_takes_plain_text_as_the_last_resort(tmp_path):
    trial(tmp_path, trajectory=False, files={"agent/aider.txt": "I edit the file.\n\nDone.\n"})
    bring_in(tmp_path)
    assert Trajectory.objects.get().source_format == "plain-text"


def test_plain_text_tells_neither_turns_nor_skills_read(tmp_path):
    """Its steps are paragraphs, and no call can be seen in them."""
    trial(tmp_path, trajectory=False, files={"agent/aider.txt": "I read skills/count/SKILL.md.\n\nDone.\n"})
    bring_in(tmp_path)
    found = only_trial()
    assert (found.steps, found.turns, found.skills_read) == (2, None, None)
    assert found.counting_attempt().turns is None
    assert list(audit.flaws()) == []
    found.settle(found.counting_attempt())
    assert (found.turns, found.skills_read) == (None, None)


def test_it_makes_compactions_and_skill_uses_of_the_main_trajectory(tmp_path):
    trial(tmp_path, trajectory=atif("read it", command="cat /root/.agents/skills/count-words/SKILL.md"))
    bring_in(tmp_path)
    main = Trajectory.objects.get()
    assert set(main.compactions.values_list("kind", flat=True)) == {"rich", "rough"}
    assert list(SkillUse.objects.values_list("skill", "kind", "step")) == [("count-words", "read", 2)]
    assert only_trial().skills_read == 1


# --- runs, tasks, jobs ----------------------------------------------------------------------------------------


def test_it_tells_runs_apart_by_the_content_of_the_skills_given(tmp_path):
    for number, digest in ((1, "sha256:aa"), (2, "sha256:bb"), (3, "sha256:aa")):
        lock = {"skills": [{"name": "count-words", "digest": digest}], "task": {"digest": "sha256:cc"}}
        trial(tmp_path, number, files={"lock.json": lock})
    bring_in(tmp_path)
    conditions = sorted(Run.objects.values_list("condition", flat=True))
    assert len(conditions) == 2
    assert all(condition.startswith("skills:") for condition in conditions)
    assert set(SkillUse.objects.values_list("skill", "kind")) == {("count-words", "mounted")}


def test_it_offers_a_condition_told_by_folder_names_but_does_not_apply_it(tmp_path):
    trial(tmp_path / "codex-noskills")
    bring_in(tmp_path)
    run = Run.objects.get()
    assert run.condition == "unknown"
    assert run.setup["suggested_condition"] == "no-skill"


def test_it_takes_single_trials_of_several_jobs_from_one_folder(tmp_path):
    for number in (1, 2):
        config = {**result(number)["config"], "job_id": f"job-{number}"}
        trial(tmp_path, number, config=config)
    assert bring_in(tmp_path).exit_status == 0
    assert Experiment.objects.count() == 2


def test_it_takes_a_single_trial_folder(tmp_path):
    assert bring_in(trial(tmp_path)).exit_status == 0
    assert (Trial.objects.count(), Experiment.objects.get().name) == (1, "first")


def test_it_takes_an_oracle_trial_and_a_custom_agent(tmp_path):
    config = result(1)["config"]
    oracle = {key: value for key, value in config.items() if key != "agent"}
    trial(tmp_path, 1, config=oracle, agent_info={"name": "oracle", "version": "1", "model_info": None})
    custom = {**config, "agent": {"name": None, "import_path": "lib.agents:Mine", "model_name": "m"}}
    trial(tmp_path, 2, config=custom, agent_info=None)
    bring_in(tmp_path)
    assert set(Run.objects.values_list("harness", "agent_model")) == {("oracle", "unknown"), ("Mine", "m")}


def test_it_never_takes_the_task_from_the_shortened_trial_name(tmp_path):
    trial(tmp_path, task_name=None, config={**result(1)["config"], "task": {"path": "/tasks/sum-csv-with-a-long-name"}})
    bring_in(tmp_path)
    assert only_trial().task.key == "sum-csv-with-a-long-name"


def test_it_keeps_a_trial_that_never_finished_as_interrupted(tmp_path):
    trial(tmp_path, files={"result.json": None})
    report = bring_in(tmp_path)
    assert report.exit_status == 3
    assert told(report, "result.json") == [": the result of a finished trial"]
    found = only_trial()
    assert (found.status, found.is_done, found.reward) == ("unscored", False, None)
    assert (Attempt.objects.get().status, Attempt.objects.get().counts) == ("interrupted", False)


def test_it_says_which_trials_a_job_lacks(tmp_path):
    folder = job(tmp_path / "first")
    told_result = {
        "id": JOB_ID,
        "n_total_trials": 4,
        "stats": {"evals": {"x": {"reward_stats": {"reward": {"1.0": ["gone__1"]}}}}},
    }
    write(folder / "result.json", told_result)
    report = bring_in(folder)
    assert [problem.message for problem in report.problems] == ["it says 4, found 3; missing are gone__1"]
    assert report.as_json()["trials"] == 3


def test_it_reads_benchflow_trials(tmp_path):
    assert bring_in(benchflow(tmp_path / "withskills" / "scan__720ed855")).exit_status == 0
    found = only_trial()
    assert (found.status, found.task.key, found.duration_seconds) == ("passed", "scan", pytest.approx(141.353732))
    attempt = Attempt.objects.get()
    assert (attempt.started_text, attempt.agent_seconds) == ("2026-05-02 15:34:48.814777", 30.0)
    assert Trajectory.objects.get().source_format == "acp-jsonl"
    assert found.episode.run.condition == "unknown"


SPELT = {
    "behind a line's end": r"\nsk-proj-",
    "by number": r" \u0073k-proj-",
    "with a colour inside": r" s\u001b[1mk\u001b[0m-proj-",
    "in capitals of numbers": r" \u0073\u006B\u002dproj-",
}


@pytest.mark.parametrize("start", SPELT.values(), ids=SPELT)
def test_it_takes_secrets_out_of_steps_however_json_spells_them(tmp_path, start):
    end = "a1B2" * 10
    text = json.dumps(atif("x" * LONG + "HERE")).replace("HERE", start + end)
    trial(tmp_path, trajectory=text)
    bring_in(tmp_path)
    found = "".join(step.message for step in iterate_steps(Trajectory.objects.get()))
    assert "[redacted:api-key]" in found
    assert end not in found


def test_it_takes_a_name_and_password_out_of_an_address_spelt_with_other_slashes(tmp_path):
    text = json.dumps(atif("x" * LONG + " ftp:AAme:hunter2hunter2@host")).replace("AA", r"\/\/")
    trial(tmp_path, trajectory=text)
    bring_in(tmp_path)
    assert "ftp://[redacted:userinfo]@host" in list(iterate_steps(Trajectory.objects.get()))[1].message


def test_it_takes_secrets_out_of_everything_it_stores(tmp_path):
    named, secret, key = "correct-horse", "hunter2-hunter2-hunter2", "sk-proj-" + "a1B2" * 10
    config = {**result(1)["config"], "agent": {"name": "tester", "env": {"DB_PASSWORD": secret, "X": key}}}
    folder = trial(
        tmp_path,
        config=config,
        trajectory=atif(f"login with {secret}", command=f"curl -H {key}"),
        exception_info={"exception_type": "E", "exception_message": f"denied {secret}", "exception_traceback": key},
        files={"verifier/test-stdout.txt": f"{secret} {key}", "agent/trajectory.json": None},
    )
    steps = atif(f"login with {secret}", command=f"curl -H {key}", notes=key)
    steps["steps"][1]["tool_calls"][0]["arguments"]["password"] = named
    write(folder / "agent/trajectory.json", steps)
    write(tmp_path / "config.json", {"job_name": "j", "agents": [{"env": {"API_TOKEN": secret}}]})
    report = bring_in(tmp_path)
    assert report.counts["redactions"] > 0
    stored = b"".join(blob.content() for blob in Blob.objects.all())
    for text in (secret, key, named):
        assert text.encode() not in stored
    rows = [
        Experiment.objects.values().get(),
        Run.objects.values().get(),
        *Attempt.objects.values(),
        *Trajectory.objects.values(),
    ]
    assert secret not in repr(rows)
    assert key not in repr(rows)
