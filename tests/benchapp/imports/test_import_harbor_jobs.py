"""What real Harbor jobs hold that small ones do not: hundreds of files, results of many MiB, stages, several agents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchapp.models import Attempt, Run, Trajectory, Trial
from tests.benchapp.import_folders import JOB_ID, atif, bring_in, result, told, trial, write

pytestmark = pytest.mark.django_db


def only_trial() -> Trial:
    return Trial.objects.get()


# --- large files ------------------------------------------------------------------------------------------------

PADDING = " " * 40_000  # of each line: real ones are as large by their number


def large_result(number: int = 1, **changes) -> str:
    """As with `collect_rollout_details`: the ids of every prompt in full, one a line, so the file is over 32 MiB."""
    ids = [[token * 7 for token in range(450)] for _ in range(2)]
    details = {"prompt_token_ids": ids, "completion_token_ids": [[1, 2]], "logprobs": [[-0.5, -0.25]]}
    agent = {"n_input_tokens": 500, "rollout_details": [details], "cost_usd": 0.5, "metadata": {"n_episodes": 2}}
    return json.dumps(result(number, agent_result=agent, **changes), indent=1).replace(",\n      ", f",\n{PADDING}")


def test_a_result_with_the_ids_of_every_token_keeps_its_reward(tmp_path):
    folder = trial(tmp_path, trajectory=False, files={"result.json": large_result()})
    assert (folder / "result.json").stat().st_size > 32 * 1024 * 1024
    assert bring_in(tmp_path).exit_status == 0
    attempt = Attempt.objects.get()
    assert (only_trial().status, only_trial().reward) == ("passed", 1.0)
    assert (attempt.input_tokens, attempt.cost_usd) == (500, 0.5)


def test_a_large_result_that_was_cut_off_is_reported(tmp_path):
    trial(tmp_path, 1)
    trial(tmp_path, 2, files={"result.json": large_result(2)[:-100]})
    report = bring_in(tmp_path)
    assert "end of what could be read: one whole JSON value" in told(report, "0000002/result.json")
    assert sorted(Trial.objects.values_list("status", flat=True)) == ["passed", "unscored"]


def test_output_over_the_bound_keeps_its_beginning_and_its_end(tmp_path):
    output = b"collected 2 items\n" + b"x" * 79 + (b"\n" + b"." * 79) * 430_000 + b"\n2 passed\n"
    trial(tmp_path, files={"verifier/test-stdout.txt": output})
    report = bring_in(tmp_path)
    assert told(report, "test-stdout.txt") == [": a file of at most 33,554,432 bytes"]
    kept = Attempt.objects.get().verdicts.get().output.content().decode()
    assert kept.startswith("collected 2 items\n")
    assert kept.endswith("\n2 passed\n")
    assert len(kept) < 2 * 1024 * 1024
    assert "left out" in kept


def test_an_exception_over_the_bound_keeps_its_last_line(tmp_path):
    text = "Traceback\n" + "  frame\n" * 1_100_000 + "AgentTimeoutError: it took too long\n"
    trial(tmp_path, files={"result.json": None, "exception.txt": text})
    bring_in(tmp_path)
    attempt = Attempt.objects.get()
    assert (attempt.exception_type, attempt.exception_message) == ("AgentTimeoutError", "it took too long")


# --- many files -------------------------------------------------------------------------------------------------

OPENHANDS_EVENT = {"id": 0, "source": "agent", "action": "run", "args": {"command": "ls"}}


def test_events_in_files_of_their_own_never_hide_the_trajectory(tmp_path):
    """OpenHands leaves two events for each turn, and their path sorts before agent/trajectory.json."""
    pieces = {f"agent/sessions/2b3f/events/{number}.json": OPENHANDS_EVENT for number in range(240)}
    calls = {f"agent/completions/call-{number}.json": {"messages": []} for number in range(20)}
    trial(tmp_path, files={**pieces, **calls})
    assert bring_in(tmp_path).exit_status == 0
    assert Trajectory.objects.get().source_path == "agent/trajectory.json"


def test_events_in_files_of_their_own_are_joined_where_there_is_no_other_account(tmp_path):
    pieces = {f"agent/sessions/2b3f/events/{n}.json": {**OPENHANDS_EVENT, "id": n} for n in range(30)}
    others = {f"agent/sessions/9c1e/events/{n}.json": OPENHANDS_EVENT for n in range(3)}
    trial(tmp_path, trajectory=False, files={**pieces, **others})
    report = bring_in(tmp_path)
    assert Trajectory.objects.values_list("source_format", "steps_total").get() == ("openhands", 30)
    (problem,) = report.problems
    assert problem.path.endswith("9c1e/events")
    assert problem.message == "3 files with one event or completion each; not read"


def test_an_account_in_hundreds_of_files_is_told_in_one_line(tmp_path):
    trial(tmp_path, trajectory=False, files={f"agent/completions/call-{n}.json": {"messages": []} for n in range(30)})
    report = bring_in(tmp_path)
    (problem,) = report.problems
    assert (problem.path[-12:], problem.expected) == ("/completions", "a trajectory in one file")
    assert "30 files" in problem.message


def test_files_that_an_agent_edited_never_hide_its_session(tmp_path):
    """Claude Code keeps a copy of every file it changes, in a folder that sorts before that of its sessions."""
    copies = {f"agent/sessions/file-history/s-1/{number:016x}@v1": "a,b\n1,2\n" for number in range(230)}
    others = {f"agent/sessions/backup/{number}.txt": "a,b\n1,2\n" for number in range(230)}
    lines = [
        {"type": "user", "sessionId": "s-1", "uuid": "u1", "message": {"role": "user", "content": "Sum it."}},
        {
            "type": "assistant",
            "sessionId": "s-1",
            "uuid": "u2",
            "parentUuid": "u1",
            "message": {"id": "m1", "role": "assistant", "content": [{"type": "text", "text": "6"}], "usage": {}},
        },
    ]
    session = {"agent/sessions/projects/-app/s-1.jsonl": "\n".join(map(json.dumps, lines))}
    trial(tmp_path, 1, trajectory=False, files={**copies, **session})
    trial(tmp_path, 2, trajectory=False, files={**others, **session})
    report = bring_in(tmp_path)
    assert set(Trajectory.objects.values_list("source_path", flat=True)) == set(session)
    assert Trajectory.objects.count() == 2
    assert [(problem.path[-16:], problem.expected) for problem in report.problems] == [
        ("sum-csv__0000002", "at most 200 files that may be trajectories")
    ]


# --- stages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["setup", "debug", "plans", "skills", "artifacts", "agent"])
def test_a_stage_may_have_any_name(tmp_path, name):
    """Also that of a folder which is not entered below an agent's."""
    files = {
        f"steps/{name}/agent/trajectory.json": atif("done"),
        f"steps/{name}/agent/setup/install.json": {"hello": 1},
        f"steps/{name}/verifier/test-stdout.txt": "1 passed",
    }
    stages = [{"step_name": name, "verifier_result": {"rewards": {"reward": 1.0}}}]
    trial(tmp_path, trajectory=False, step_results=stages, files=files)
    assert bring_in(tmp_path).exit_status == 0
    assert list(Trajectory.objects.values_list("name", "kind", "steps_total")) == [(name, "stage", 2)]
    stage = Attempt.objects.get().verdicts.get(is_primary=False)
    assert stage.output.content() == b"1 passed"


def test_a_killed_trial_keeps_the_stages_that_it_finished(tmp_path):
    """Only the result tells the stages, and Harbor writes it at the end; the stage at work logs to agent/."""
    files = {
        "result.json": None,
        "steps/build/agent/trajectory.json": atif("built"),
        "steps/build/verifier/reward.txt": "1\n",
        "steps/review/agent/trajectory.json": atif("reviewed", "again"),
        "agent/trajectory.json": atif("testing"),
    }
    trial(tmp_path, trajectory=False, files=files)
    assert told(bring_in(tmp_path), "result.json") == [": the result of a finished trial"]
    assert list(Trajectory.objects.order_by("ordinal").values_list("name", "kind", "steps_total")) == [
        ("main", "main", 2),
        ("build", "stage", 2),
        ("review", "stage", 3),
    ]
    attempt = Attempt.objects.get()
    assert (attempt.status, only_trial().status) == ("interrupted", "unscored")
    assert attempt.verdicts.get(source="harbor stage build").reward == 1.0


def test_a_stage_that_the_result_does_not_name_is_kept(tmp_path):
    files = {"steps/extra/agent/trajectory.json": atif("more"), "steps/first/agent/trajectory.json": atif("one")}
    trial(tmp_path, trajectory=False, step_results=[{"step_name": "first"}], files=files)
    bring_in(tmp_path)
    names = Trajectory.objects.order_by("ordinal").values_list("name", flat=True)
    assert list(names) == ["first", "extra"]


# --- several agents ---------------------------------------------------------------------------------------------


def agent_trial(folder: Path, number: int, agent: dict, **changes) -> Path:
    """A trial whose agent's config has these fields too."""
    config = result(number)["config"]
    return trial(folder, number, config={**config, "agent": {**config["agent"], **agent}}, **changes)


def trials_by_run() -> set[tuple[str, ...]]:
    runs = Run.objects.prefetch_related("episodes__trials__attempts")
    return {
        tuple(sorted(trial.attempts.get().source_key[-1] for trial in run.episodes.get().trials.all())) for run in runs
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"kwargs": {"reasoning_effort": "low"}}, {"kwargs": {"reasoning_effort": "high"}}),
        ({"kwargs": {}}, {"kwargs": {"thinking": False}}),
        ({}, {"env": {"MAX_THINKING_TOKENS": "4096"}}),
        ({}, {"mcp_servers": [{"name": "search", "transport": "http", "url": "http://mcp/"}]}),
        ({}, {"override_timeout_sec": 60.0}),
    ],
)
def test_it_tells_agents_of_one_job_apart_by_their_settings(tmp_path, one, other):
    for number, agent in enumerate((one, other, one, other), start=1):
        agent_trial(tmp_path, number, agent)
    assert bring_in(tmp_path).exit_status == 0
    assert trials_by_run() == {("1", "3"), ("2", "4")}
    assert {"agent_settings" in run.setup for run in Run.objects.all()} == {True}
    again = bring_in(tmp_path)
    assert (again.counts["created"], again.counts["changed"], Run.objects.count()) == (0, 0, 2)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"env": {"LAB_API_KEY": "a" * 30}}, {"env": {"LAB_API_KEY": "b" * 30}}),
        ({"n_concurrent": 2, "concurrency_group": "a"}, {"n_concurrent": 4}),
        ({"resume_trajectory": False, "mcp_servers": [], "base_url": None}, {}),
    ],
)
def test_keys_and_concurrency_make_no_other_agent(tmp_path, one, other):
    agent_trial(tmp_path, 1, one)
    agent_trial(tmp_path, 2, other)
    bring_in(tmp_path)
    assert trials_by_run() == {("1", "2")}


def test_agents_of_a_job_are_apart_from_its_first_trial_on(tmp_path):
    """Its config lists both; the second one's trials come later."""
    low, high = ({"name": "tester", "model_name": "lab/model-1", "kwargs": {"effort": effort}} for effort in "lh")
    write(tmp_path / "config.json", {"job_name": "j", "agents": [low, high]})
    write(tmp_path / "result.json", {"id": JOB_ID, "n_total_trials": 2, "stats": {}})
    agent_trial(tmp_path, 1, low)
    bring_in(tmp_path)
    agent_trial(tmp_path, 2, high)
    agent_trial(tmp_path, 3, low)
    bring_in(tmp_path)
    assert trials_by_run() == {("1", "3"), ("2",)}


def test_a_job_that_goes_on_under_a_newer_version_gets_a_run_of_its_own(tmp_path):
    info = result(1)["agent_info"]
    trial(tmp_path, 1)
    trial(tmp_path, 2, files={"result.json": None})
    bring_in(tmp_path)
    key = Run.objects.get().source_key
    trial(tmp_path, 3, agent_info={**info, "version": "2.0"})
    trial(tmp_path, 4, agent_info={**info, "version": "unknown"})
    bring_in(tmp_path)
    assert set(Run.objects.values_list("harness_version", flat=True)) == {"1.0", "2.0"}
    assert trials_by_run() == {("1", "2", "4"), ("3",)}
    assert Run.objects.get(harness_version="1.0").source_key == key


def test_a_killed_trial_of_a_custom_agent_is_one_of_its_run(tmp_path):
    """Only a result tells what the agent calls itself."""
    custom = {"name": None, "import_path": "lib.agents:Mine"}
    agent_trial(tmp_path, 1, custom, agent_info={"name": "mine", "version": "1.0"})
    agent_trial(tmp_path, 2, custom, files={"result.json": None})
    bring_in(tmp_path)
    assert trials_by_run() == {("1", "2")}
    assert Run.objects.values_list("harness", "harness_version").get() == ("mine", "1.0")


@pytest.mark.parametrize("lock", ['{"skills": [{"name": "count-', None])
def test_a_trial_without_a_lock_has_the_skills_of_its_siblings(tmp_path, lock):
    pinned = {"skills": [{"name": "count-words", "source": "/skills/count-words", "digest": "sha256:" + "a" * 64}]}
    for number, content in ((1, lock), (2, pinned), (3, pinned)):
        agent_trial(tmp_path, number, {"skills": ["/skills/count-words"]}, files={"lock.json": content})
    report = bring_in(tmp_path)
    assert trials_by_run() == {("1", "2", "3")}
    assert "skills: digests of the skills given" in told(report, "0000001/lock.json")


def test_siblings_that_disagree_tell_nothing(tmp_path):
    """The folder of that name was changed while the job ran."""
    for number, digest in ((1, None), (2, "a"), (3, "b")):
        skill = {"name": "count-words", "source": "/skills/count-words", "digest": f"sha256:{(digest or '') * 64}"}
        files = {"lock.json": {"skills": [skill]} if digest else None}
        agent_trial(tmp_path, number, {"skills": ["/skills/count-words"]}, files=files)
    bring_in(tmp_path)
    assert trials_by_run() == {("1",), ("2",), ("3",)}
