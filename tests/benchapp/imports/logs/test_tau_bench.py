"""Results of tau-bench and tau2-bench: conversations with a simulated user, and a reward that has parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchapp.imports.batch import import_paths
from benchapp.imports.format_check import check_format
from benchapp.imports.logs import tau2_bench, tau_bench
from benchapp.models import Check, Run, Trajectory, Trial
from benchapp.record.trajectory_store import read_steps
from tests.benchapp.import_folders import write

pytestmark = pytest.mark.django_db
POLICY = "# Shop agent policy\n\nAsk before you change an order."
CALL = {"id": "c1", "type": "function", "function": {"name": "cancel", "arguments": '{"order": "7"}'}}


def steps() -> list[tuple[str, str, list[str]]]:
    found = read_steps(Trajectory.objects.order_by("pk")[0], 1, 20)
    return [(str(each.step.source), each.step.message, [call.name for call in each.step.tool_calls]) for each in found]


# --- tau2-bench -------------------------------------------------------------------------------------------------------


def simulation(number: int, **changes: Any) -> dict[str, Any]:
    call = {"id": "c1", "name": "cancel", "arguments": {"order": "7"}, "requestor": "assistant"}
    look = {"id": "u1", "name": "look", "arguments": {}, "requestor": "user"}
    usage = {"completion_tokens": 10, "prompt_tokens": 100}
    messages = [
        {"role": "assistant", "content": "Hello.", "tool_calls": None, "usage": None, "cost": 0.0},
        {
            "role": "user",
            "content": "Cancel my order.",
            "tool_calls": [look],
            "usage": {"completion_tokens": 9, "prompt_tokens": 9},
        },
        {"role": "tool", "id": "u1", "content": "bars: 3", "requestor": "user", "error": False},
        {"role": "assistant", "content": None, "tool_calls": [call], "usage": usage, "raw_data": {"x": "SECRET-RAW"}},
        {"role": "tool", "id": "c1", "content": "no such order", "requestor": "assistant", "error": True},
    ]
    reward = {
        "reward": 1.0,
        "db_check": {"db_match": True, "db_reward": 1.0},
        "action_checks": [{"action": {"name": "cancel", "arguments": {"order": "7"}}, "action_match": False}],
        "nl_assertions": None,
        "communicate_checks": [{"info": "7", "met": True, "justification": "It is said."}],
        "reward_basis": ["DB", "COMMUNICATE"],
        "reward_breakdown": {"DB": 1.0, "COMMUNICATE": 1.0},
    }
    found = {
        "id": f"sim-{number}",
        "task_id": str(number),
        "timestamp": "2026-03-01T10:00:00",
        "start_time": "2026-03-01T10:00:00",
        "end_time": "2026-03-01T10:01:00",
        "duration": 60.0,
        "termination_reason": "user_stop",
        "agent_cost": 0.02,
        "user_cost": 0.01,
        "reward_info": reward,
        "messages": messages,
        "trial": 0,
        "seed": 3,
    }
    return {**found, **changes}


def results(*simulations: dict[str, Any]) -> dict[str, Any]:
    info = {
        "git_commit": "abc",
        "num_trials": 1,
        "user_info": {"implementation": "user_simulator", "llm": "lab/user-1", "llm_args": {"temperature": 0.0}},
        "agent_info": {"implementation": "llm_agent", "llm": "lab/model-1", "llm_args": {}},
        "environment_info": {"domain_name": "shop", "policy": POLICY},
    }
    tasks = [{"id": "1", "user_scenario": {"instructions": {"reason_for_call": "You want to cancel.\nNow."}}}]
    return {"timestamp": "2026-03-01", "info": info, "tasks": tasks, "simulations": list(simulations)}


def test_a_simulation_is_a_trial_whose_reward_has_parts(tmp_path: Path) -> None:
    cut = simulation(2, termination_reason="max_steps", reward_info={**simulation(2)["reward_info"], "reward": 0.0})
    lost = simulation(3, termination_reason="infrastructure_error", reward_info=None, messages=[])
    path = write(tmp_path / "simulations" / "a.json", results(simulation(1), cut, lost))
    assert list(import_paths([path]).problems) == []
    found = Trial.objects.order_by("task__key")
    assert list(found.values_list("task__key", "task__title", "success", "exception_type")) == [
        ("shop/1", "1: You want to cancel.", True, ""),
        ("shop/2", "2", False, "max_steps"),
        ("shop/3", "3", None, "infrastructure_error"),
    ]
    assert Run.objects.values_list("harness", "agent_model").get() == ("llm_agent", "lab/model-1")
    assert (found[0].input_tokens, found[0].output_tokens, found[0].cost_usd) == (100, 10, 0.02)  # of the agent alone
    assert steps() == [
        ("system", POLICY, []),
        ("system", "Hello.", []),
        ("user", "Cancel my order.\n[the user calls look({})]", []),
        ("user", "[result of the user's tool]\nbars: 3", []),
        ("agent", "", ["cancel"]),
    ]
    names = Check.objects.filter(verdict__attempt__trial=found[0]).values_list("name", "status")
    assert set(names) == {("DB", "passed"), ("COMMUNICATE 7", "passed")}
    assert import_paths([path]).counts["unchanged"] == 3


def test_simulations_may_be_files_of_their_own(tmp_path: Path) -> None:
    index = {**results(), "simulation_index": [{"id": "sim-1", "task_id": "1", "trial": 0}]}
    write(tmp_path / "voice" / "results.json", {key: value for key, value in index.items() if key != "simulations"})
    for number in (1, 2):
        write(tmp_path / "voice" / "simulations" / f"sim-{number}.json", simulation(number))
    assert list(import_paths([tmp_path / "voice"]).problems) == []
    assert set(Trial.objects.values_list("episode__run__agent_model", "success")) == {("lab/model-1", True)}
    (tmp_path / "voice" / "results.json").unlink()
    (problem,) = import_paths([tmp_path / "voice"]).problems
    assert problem.message == "no such file: unknown"


def test_a_voice_run_has_its_conversation_in_ticks(tmp_path: Path) -> None:
    """They come before everything that only tau2-bench writes, and are megabytes. One line says that they are not
    read."""
    write(tmp_path / "voice" / "results.json", results())
    ticks = [{"tick_id": number, "agent_chunk": {"role": "assistant", "content": "A" * 700}} for number in range(100)]
    for number in (1, 2):
        said = simulation(number)
        row = {key: said.pop(key) for key in ("id", "task_id", "timestamp", "start_time", "termination_reason")}
        write(tmp_path / "voice" / "simulations" / f"{number}.json", {**row, "ticks": ticks, **said, "messages": None})
    (problem,) = import_paths([tmp_path / "voice"]).problems
    assert problem.message == "2 in ticks, of voice runs; not read"
    assert list(Trial.objects.values_list("success", flat=True)) == [True, True]


def test_a_copy_of_results_is_one_line_of_the_report(tmp_path: Path) -> None:
    for folder in ("output", "artifacts"):
        write(tmp_path / folder / "results.json", results(*map(simulation, (1, 2, 3))))
    (problem,) = import_paths([tmp_path]).problems
    assert problem.message.endswith("simulations[0]; left out, as are 2 more")
    assert Trial.objects.count() == 3


def test_the_check_of_tau2_bench_finds_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "simulations" / "a.json", results(simulation(1), simulation(2)))
    assert check_format(tau2_bench, [path]).faults == []


# --- tau-bench --------------------------------------------------------------------------------------------------------


def attempt(task: int, reward: float, **changes: Any) -> dict[str, Any]:
    info = {
        "task": {"user_id": "u", "actions": [], "instruction": "Cancel order 7.", "outputs": ["7"]},
        "user_cost": 0.01,
        "reward_info": {"reward": reward, "info": {"r_outputs": reward, "outputs": {"7": reward == 1}}, "actions": []},
    }
    traj = [
        {"role": "system", "content": POLICY},
        {"role": "user", "content": "Cancel it."},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "name": "cancel", "content": "done"},
    ]
    return {"task_id": task, "reward": reward, "info": info, "traj": traj, "trial": 0, **changes}


@pytest.fixture
def tries(tmp_path: Path) -> Path:
    error = attempt(3, 0.0, info={"error": "RateLimit", "traceback": "Traceback ..."}, traj=[])
    name = "tool-calling-model-1-0.0_range_0--1_user-user-1-llm_0301100000.json"
    return write(tmp_path / "results" / name, [attempt(1, 1.0), attempt(1, 0.0, trial=1), error])


def test_a_try_is_a_trial_and_an_error_has_no_verdict(tries: Path) -> None:
    assert list(import_paths([tries]).problems) == []
    found = Trial.objects.order_by("task__key", "sample").values_list(
        "task__key", "sample", "success", "exception_type"
    )
    assert list(found) == [("shop/1", 0, True, ""), ("shop/1", 1, False, ""), ("unknown/3", 0, None, "error")]
    assert Run.objects.values_list("harness", "agent_model").first() == ("tool-calling", "model-1")
    assert [(source, calls) for source, _, calls in steps()] == [("system", []), ("user", []), ("agent", ["cancel"])]


def test_other_lists_are_left_alone_and_odd_rows_are_named(tries: Path) -> None:
    tries.write_text(json.dumps([attempt(1, 1.0), attempt(1, 1.0), "text", {"reward": 1}]))
    assert [(problem.place, problem.expected) for problem in import_paths([tries]).problems] == [
        ("[1]", "each trial of a task once"),
        ("[2]", "a try with its task_id"),
        ("[3]", "a try with its task_id"),
    ]
    assert Trial.objects.count() == 1


def test_the_check_of_tau_bench_finds_nothing(tries: Path) -> None:
    assert check_format(tau_bench, [tries]).faults == []
