"""Running a verifier: real test.sh files in a real sandbox, and every kind of report they may leave."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.agents import AgentJob, make_agent
from runner.base.errors import SetupError, VerifierError
from runner.base.types import CheckGroup, CheckStatus, Dimension, File, Machine, Task
from runner.sandboxes.local import LocalSandbox, open_sandbox
from runner.suites.starter_suite import load_starter
from runner.suites.tasks.task_files import read_workspace_files, script_command
from runner.verifying import run_verifier
from tests.cases import every

OUTCOME = {
    "task_id": "T",
    "public": {
        "section": "public",
        "results": [{"name": "exists", "passed": True, "detail": "", "error": None}],
        "passed": 1,
        "total": 1,
    },
    "hidden": {
        "section": "hidden",
        "results": [
            {"name": "blank_rows", "passed": False, "detail": "14.5 expected", "error": "found 12"},
            {"name": "total", "passed": True, "detail": "ok", "error": None},
        ],
        "passed": 1,
        "total": 2,
    },
}
PROCESS = {"public": {"results": [{"name": "input_untouched", "passed": True}]}, "hidden": {"results": []}}
SCORE = {
    "total_score": 62.5,
    "max_score": 100,
    "dimensions": [{"name": "correctness", "weight": 50, "ratio": 0.5, "score": 25, "tests_passed": 1}],
}


@pytest.fixture
def task(tmp_path: Path) -> Task:
    folder = tmp_path / "suite" / "tasks" / "t"
    (folder / "tests").mkdir(parents=True)
    (tmp_path / "suite" / "suite.yaml").write_text("key: s\n")
    return Task("T", "t", "E1", "E1-LS1", None, 1, "Do it.", "0" * 64, folder, verifier_timeout_seconds=10)


@pytest.fixture
def sandbox(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSandbox]:
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))
    opened = open_sandbox(task, name="t")
    yield opened
    opened.close()


def write_tests(task: Task, script: str, **reports: object) -> None:
    """A test.sh that runs `script` and copies the reports, which lie beside it."""
    copies = ""
    for name, value in reports.items():
        file = name.replace("_json", ".json").replace("_txt", ".txt")
        (task.folder / "tests" / file).write_text(value if isinstance(value, str) else json.dumps(value))
        copies += f"cp ../tests/{file} ../logs/verifier/\n"
    (task.folder / "tests" / "test.sh").write_text(f"#!/bin/sh\n{copies}{script}\n")


def test_it_makes_a_verdict_of_all_reports(task: Task, sandbox: LocalSandbox) -> None:
    reports = {"outcome_report_json": OUTCOME, "process_report_json": PROCESS, "score_report_json": SCORE}
    write_tests(task, "echo checked; exit 1", reward_txt="0.625000\n", **reports)
    verdict = run_verifier(task, sandbox)
    assert (verdict.success, verdict.reward, verdict.overall) == (False, 0.625, 0.625)
    assert verdict.outcome == pytest.approx(2 / 3)
    assert verdict.process == 1.0
    assert [(check.group, check.name, check.status) for check in verdict.checks] == [
        (CheckGroup.PUBLIC, "exists", CheckStatus.PASSED),
        (CheckGroup.HIDDEN, "blank_rows", CheckStatus.FAILED),
        (CheckGroup.HIDDEN, "total", CheckStatus.PASSED),
        (CheckGroup.PROCESS, "input_untouched", CheckStatus.PASSED),
    ]
    assert verdict.checks[1].message == "found 12\n14.5 expected"
    assert verdict.dimensions == (Dimension("correctness", 0.5, 1.0, 50.0),)
    assert verdict.output == "checked\n"
    assert verdict.source == "suite"
    assert verdict.duration_seconds is not None


@pytest.mark.parametrize(("reward", "success"), [("1", True), ("1.000000", True), ("0.999999", False), ("0", False)])
def test_success_is_a_full_reward(task: Task, sandbox: LocalSandbox, reward: str, success: bool) -> None:
    write_tests(task, "", reward_txt=reward)
    verdict = run_verifier(task, sandbox)
    assert verdict.success is success
    assert (verdict.outcome, verdict.process, verdict.overall, verdict.checks) == (None, None, None, ())


def test_a_reward_may_stand_in_the_json_alone(task: Task, sandbox: LocalSandbox) -> None:
    write_tests(task, "", reward_json={"reward": 1, "style": 0.5, "unknown": None})
    verdict = run_verifier(task, sandbox)
    assert verdict.success is True
    assert verdict.rewards == {"reward": 1.0, "style": 0.5, "unknown": None}


def test_the_only_number_of_a_json_counts_whatever_its_name(task: Task, sandbox: LocalSandbox) -> None:
    write_tests(task, "", reward_json={"accuracy": 0.75})
    verdict = run_verifier(task, sandbox)
    assert (verdict.reward, verdict.success) == (0.75, False)


def test_several_numbers_without_a_reward_are_kept_and_score_nothing(task: Task, sandbox: LocalSandbox) -> None:
    numbers = {"total_score": 100.0, "max_score": 100.0, "normalized_score": 1.0}
    write_tests(task, "", reward_json=numbers)
    verdict = run_verifier(task, sandbox)
    assert (verdict.reward, verdict.success, verdict.overall) == (None, None, 1.0)
    assert verdict.rewards == numbers


def test_a_chosen_scorer_judges_as_the_verifier_does_where_a_mean_of_ones_misses_one(
    task: Task, sandbox: LocalSandbox
) -> None:
    write_tests(task, "", reward_json={"reward": 1 - 1e-12, "almost": 0.999})
    verdict = run_verifier(task, sandbox)
    assert verdict.success is verdict.decided_by("reward").success is True
    assert verdict.decided_by("almost").success is False


def test_points_in_the_json_do_not_hide_the_reward_beside_it(task: Task, sandbox: LocalSandbox) -> None:
    write_tests(task, "", reward_txt="0.795", reward_json={"total_score": 79.5, "max_score": 100})
    verdict = run_verifier(task, sandbox)
    assert (verdict.reward, verdict.success, verdict.rewards["total_score"]) == (0.795, False, 79.5)


def test_the_exit_code_says_nothing(task: Task, sandbox: LocalSandbox) -> None:
    write_tests(task, "exit 7", reward_txt="1")
    assert run_verifier(task, sandbox).success is True


@pytest.mark.parametrize("first", ["#!/bin/bash", "#!/usr/bin/env bash", "#!/bin/bash -u", "#! /bin/bash", "# none"])
def test_a_script_runs_with_the_interpreter_it_names_and_without_one_in_bash(
    task: Task, sandbox: LocalSandbox, first: str
) -> None:
    script = 'declare -A share=([full]=1)\necho "${share[full]}" > ../logs/verifier/reward.txt\n'
    (task.folder / "tests" / "test.sh").write_text(f"{first}\n{script}")
    assert run_verifier(task, sandbox).success is True


@every(
    ("#!/bin/sh", "sh ../tests/test.sh"),
    ("# no interpreter", '"$(command -v bash || echo sh)" ../tests/test.sh'),
    ("#!", '"$(command -v bash || echo sh)" ../tests/test.sh'),
    ("", '"$(command -v bash || echo sh)" ../tests/test.sh'),
    ("#!/usr/bin/env -S bash -x", "/usr/bin/env '-S bash -x' ../tests/test.sh"),
    ("#!/bin/x;id", "'/bin/x;id' ../tests/test.sh"),
)
def test_a_script_is_started_as_the_system_would(first: str, command: str) -> None:
    assert script_command("../tests/test.sh", File(f"{first}\n".encode())) == command


def test_the_verifier_gets_the_tasks_variables_and_nothing_else_of_the_host(
    task: Task, sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADER_TOKEN", "given")
    monkeypatch.setenv("PROVIDER_KEY", "kept back")
    monkeypatch.setenv("SKILLGLASS_TASK_VARIABLES", "GRADER_TOKEN")
    variables = {"ROOT": "/root/task", "TOKEN": "${GRADER_TOKEN}", "KEY": "${PROVIDER_KEY}", "MODE": "${MODE:-fast}"}
    write_tests(task, 'echo "$ROOT/$TOKEN/${KEY-none}/$MODE"', reward_txt="1")
    assert run_verifier(replace(task, verifier_environment=variables), sandbox).output == "/root/task/given/none/fast\n"


def test_a_variable_that_a_task_needs_and_nobody_gives_is_named(
    task: Task, sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GH_TOKEN", "of the host")  # there, but nobody said that tasks may have it
    write_tests(task, "", reward_txt="1")
    with pytest.raises(SetupError, match="GH_TOKEN.*SKILLGLASS_TASK_VARIABLES"):
        run_verifier(replace(task, machine=Machine(host_variables=("GH_TOKEN",))), sandbox)


def test_a_ctrf_report_gives_checks_where_no_section_reports_do(task: Task, sandbox: LocalSandbox) -> None:
    ctrf = {"results": {"tests": [{"name": "a", "status": "passed"}, {"name": "b", "status": "skipped"}]}}
    write_tests(task, "", reward_txt="1", ctrf_json=ctrf)
    verdict = run_verifier(task, sandbox)
    assert [check.group for check in verdict.checks] == [CheckGroup.TEST, CheckGroup.TEST]
    assert verdict.outcome == 1.0  # what was skipped is neither passed nor failed
    write_tests(task, "", reward_txt="1", ctrf_json=ctrf, outcome_report_json=OUTCOME)
    assert [check.name for check in run_verifier(task, sandbox).checks] == ["exists", "blank_rows", "total"]


def test_it_runs_in_the_workspace_with_the_tests_beside_it(task: Task, sandbox: LocalSandbox) -> None:
    sandbox.put("workspace", {"answer.txt": File(b"42")})
    script = '[ "$(pwd)" -ef ../workspace ] && [ "$(cat answer.txt)" = 42 ] && echo 1 > ../logs/verifier/reward.txt'
    write_tests(task, script)
    assert run_verifier(task, sandbox).success is True


def test_the_digest_is_that_of_the_tests(task: Task, sandbox: LocalSandbox) -> None:
    write_tests(task, "", reward_txt="1")
    first = run_verifier(task, sandbox).verifier_digest
    assert run_verifier(task, sandbox).verifier_digest == first
    write_tests(task, "# changed", reward_txt="1")
    assert run_verifier(task, sandbox).verifier_digest != first


@pytest.mark.parametrize(
    ("script", "reports", "said"),
    [
        ("exit 3", {}, "found nothing"),
        ("echo Boom >&2; exit 1", {}, "it said: Boom"),
        ("", {"reward_txt": ""}, "reward.txt: whole file: found ''"),
        ("", {"reward_txt": "nan"}, "expected a finite number"),
        ("", {"reward_txt": "inf"}, "expected a finite number"),
        ("", {"reward_txt": "passed"}, "expected one number"),
        ("", {"reward_json": {}}, "reward.json: whole file: found {}"),
        ("", {"reward_json": {"reward": None}}, "expected reward.txt, or reward.json with a number"),
        ("", {"reward_json": '{"reward": NaN}'}, "reward.json: reward: found 'NaN'"),
        ("", {"reward_json": "{"}, "reward.json: line 1"),
        ("", {"reward_txt": "", "reward_json": {"total_score": 79.5}}, "reward.txt: whole file: found ''"),
    ],
)
def test_a_verifier_without_a_verdict_is_the_machines_failure(
    task: Task, sandbox: LocalSandbox, script: str, reports: dict[str, object], said: str
) -> None:
    write_tests(task, script, **reports)
    with pytest.raises(VerifierError) as caught:
        run_verifier(task, sandbox)
    assert said in str(caught.value)
    assert str(caught.value).startswith("T: ")


# What real verifiers of SkillEvolBench leave: a check's detail is whatever the check returned, and one script writes
# points in reward.json.
REAL_OUTCOME = {
    "task_id": "E3-LS1-T1",
    "public": {
        "section": "public",
        "results": [
            {"name": "check_exists", "passed": True, "detail": True, "error": None},
            {"name": "check_rows", "passed": True, "detail": {"rows": 12}, "error": None},
            {"name": "check_total", "passed": False, "detail": None, "error": "AssertionError: 14.5"},
        ],
        "passed": 2,
        "total": 3,
    },
    "hidden": None,
    "notes": [],
}


@pytest.mark.parametrize(
    ("reports", "note"),
    [
        ({"outcome_report_json": "{"}, "outcome_report.json: line 1, column 2"),
        ({"process_report_json": {"x": 1}}, "process_report.json: whole file: found keys 'x'"),
        ({"score_report_json": {"total_score": "full"}}, "score_report.json: total_score: found 'full'"),
        (
            {"score_report_json": {"dimensions": [{"name": "a", "weight": 50}]}},
            "score_report.json: dimensions[0].ratio",
        ),
        ({"ctrf_json": {"results": {"tests": [{"name": "a", "status": "ok"}]}}}, "ctrf.json: results.tests[0].status"),
        ({"ctrf_json": "not JSON"}, "ctrf.json: line 1, column 1"),
        ({"reward_json": "{"}, "reward.json: line 1, column 2"),
        ({"reward_json": {"reward": 1, "judge": "gpt"}}, "reward.json: judge: found 'gpt'"),
    ],
)
def test_a_side_report_never_costs_the_reward(
    task: Task, sandbox: LocalSandbox, reports: dict[str, object], note: str
) -> None:
    write_tests(task, "", reward_txt="1", **reports)
    verdict = run_verifier(task, sandbox)
    assert (verdict.success, verdict.reward) == (True, 1.0)
    (told,) = verdict.notes
    assert told.startswith(note)


def test_reports_as_real_verifiers_write_them_have_nothing_odd(task: Task, sandbox: LocalSandbox) -> None:
    newer = {
        "max_score": 100,
        "dimensions": [{"name": "outcome", "weight": 100, "tests_matched": 3, "tests_passed": 2}],
    }
    points = {"normalized_score": 0.67, "max_score": 100}
    reports = {"outcome_report_json": REAL_OUTCOME, "score_report_json": newer, "reward_json": points}
    write_tests(task, "", reward_txt="0.666667", **reports)
    verdict = run_verifier(task, sandbox)
    assert (verdict.reward, verdict.overall, verdict.notes) == (0.666667, 0.67, ())
    assert [check.message for check in verdict.checks] == ["", '{"rows": 12}', "AssertionError: 14.5"]
    assert verdict.dimensions == (Dimension("outcome", 2 / 3, 1.0, 100.0),)


def test_what_else_a_verifier_leaves_does_not_crowd_out_the_reward(task: Task, sandbox: LocalSandbox) -> None:
    """Frames, videos and model outputs come before "reward.txt" in the alphabet, and caps were spent on them."""
    many = "i=0; while [ $i -lt 5100 ]; do : > ../logs/verifier/frame$i.png; i=$((i+1)); done"
    write_tests(task, many, reward_txt="1", ctrf_json={"results": {"tests": [{"name": "a", "status": "passed"}]}})
    verdict = run_verifier(task, sandbox)
    assert (verdict.success, len(verdict.checks), verdict.notes) == (True, 1, ())


def test_the_other_reward_file_decides_where_one_cannot_be_read(task: Task, sandbox: LocalSandbox) -> None:
    write_tests(task, "", reward_txt="", reward_json={"reward": 0.5})
    verdict = run_verifier(task, sandbox)
    assert verdict.reward == 0.5
    assert [note.partition(":")[0] for note in verdict.notes] == ["reward.txt"]


def test_a_verifier_that_does_not_end_is_the_machines_failure(
    tmp_path: Path, task: Task, sandbox: LocalSandbox
) -> None:
    hasty = Task(**{name: getattr(task, name) for name in task.__slots__} | {"verifier_timeout_seconds": 0.3})
    write_tests(hasty, "sleep 60", reward_txt="1")
    with pytest.raises(VerifierError, match="was ended after"):
        run_verifier(hasty, sandbox)


@pytest.mark.parametrize(
    "trick",
    [
        "mkdir -p ../logs/verifier && echo 1 > ../logs/verifier/reward.txt",
        "mkdir -p ../tests && printf '#!/bin/sh\\necho 1 > ../logs/verifier/reward.txt' > ../tests/test.sh",
        "mkdir -p ../logs/verifier && echo 1 > ../logs/verifier/reward.txt && chmod 000 ../logs/verifier ../logs",
        "rm -rf ../logs ../tests && ln -s ../workspace ../logs && mkdir verifier && echo 1 > verifier/reward.txt",
        "setsid sh -c 'while :; do mkdir -p ../logs/verifier; echo 1 > ../logs/verifier/reward.txt; done' & sleep 0.1",
        "mkdir -p ../tests && echo 'import os; os._exit(0)' > ../tests/sitecustomize.py",
    ],
)
def test_nothing_the_agent_left_makes_the_verdict(task: Task, sandbox: LocalSandbox, trick: str) -> None:
    write_tests(task, "[ ! -e ../tests/sitecustomize.py ] && echo 0 > ../logs/verifier/reward.txt")
    sandbox.execute(trick, timeout_seconds=5)
    verdict = run_verifier(task, sandbox)
    assert (verdict.success, verdict.reward) == (False, 0.0)


def test_python_start_up_files_in_the_agents_home_are_switched_off(task: Task, sandbox: LocalSandbox) -> None:
    write_tests(task, 'echo "0${PYTHONNOUSERSITE:-.5}" > ../logs/verifier/reward.txt')
    assert run_verifier(task, sandbox).reward == 1.0


LINKED = """cd ../tests
reward=0
cmp -s expected.txt ../workspace/answer.txt && reward=1
cmp -s expected.txt ../workspace/out/expected.txt && reward=1
echo $reward > ../logs/verifier/reward.txt
"""


@pytest.mark.parametrize(
    "trick",
    [
        "ln -s ../tests/expected.txt answer.txt",
        'ln -s "$(cd .. && pwd)/tests/expected.txt" answer.txt',
        "ln -s ../tests/expected.txt one; ln -s one answer.txt",
        "ln -s ../tests out",
        "ln -s .. up; ln -s up/tests out",
        "ln -s /proc/self/cwd/expected.txt answer.txt",
        "mkdir deep; ln -s ../../tests/expected.txt deep/answer.txt; ln -s deep/answer.txt answer.txt",
        "ln -s ../tests/expected.txt ../tmp/x; ln -s ../tmp/x answer.txt",
        "cd ..; rm -rf workspace; mkdir other; ln -s ../tests/expected.txt other/answer.txt; ln -s other workspace",
    ],
)
def test_a_link_into_the_tests_is_no_answer(task: Task, sandbox: LocalSandbox, trick: str) -> None:
    write_tests(task, LINKED)
    (task.folder / "tests" / "expected.txt").write_text("42\n")
    sandbox.execute(trick, timeout_seconds=5)
    verdict = run_verifier(task, sandbox)
    assert (verdict.success, verdict.reward) == (False, 0.0)


def test_the_verdict_names_the_links_that_were_removed(task: Task, sandbox: LocalSandbox) -> None:
    write_tests(task, LINKED)
    links = {f"l{number}": "../tests/expected.txt" for number in range(25)} | {"ordinary": "a"}
    for name, target in links.items():
        (sandbox.folder / "workspace" / name).symlink_to(target)
    notes = run_verifier(task, sandbox).notes
    assert len(notes) == 21
    told = re.compile(r"/workspace/l\d+: a link to /tests/expected.txt, removed before judging")
    assert [note for note in notes[:20] if not told.fullmatch(note)] == []
    assert notes[-1] == "and 5 more such links, removed as well"
    assert (sandbox.folder / "workspace" / "ordinary").is_symlink()


def test_a_link_inside_the_workspace_is_an_answer(task: Task, sandbox: LocalSandbox) -> None:
    write_tests(task, LINKED)
    (task.folder / "tests" / "expected.txt").write_text("42\n")
    sandbox.execute("mkdir real; echo 42 > real/answer; ln -s real/answer answer.txt", timeout_seconds=5)
    verdict = run_verifier(task, sandbox)
    assert (verdict.success, verdict.notes) == (True, ())


@pytest.mark.parametrize("command", ["python3 -c 'import json'", "python3 -m json.tool --help", "python3 < /dev/null"])
def test_a_module_planted_in_the_workspace_is_not_imported(task: Task, sandbox: LocalSandbox, command: str) -> None:
    planted = b"open('../logs/verifier/reward.txt', 'w').write('1')\nimport os\nos._exit(0)\n"
    sandbox.put("workspace", {f"{name}.py": File(planted) for name in ("json", "tool", "readline", "sitecustomize")})
    write_tests(task, f"echo 0 > ../logs/verifier/reward.txt\n{command}")
    assert run_verifier(task, sandbox).reward == 0.0


@pytest.mark.parametrize("command", ["python3 ../tests/verify.py", "cd ../tests && python3 -c 'import verify'"])
def test_a_verifier_finds_its_own_modules(task: Task, sandbox: LocalSandbox, command: str) -> None:
    write_tests(task, command)
    (task.folder / "tests" / "verify.py").write_text("import helper\n")
    written = "import os\nfrom pathlib import Path\nPath(os.environ['LOGS'], 'reward.txt').write_text('1')\n"
    (task.folder / "tests" / "helper.py").write_text(written)
    logs = {"LOGS": str(sandbox.folder / "logs" / "verifier")}
    assert run_verifier(replace(task, verifier_environment=logs), sandbox).success is True


PROGRAM = {
    "main.py": "from parts import helper\nimport solution\nassert helper.ANSWER == solution.solve() == 42\n",
    "solution.py": "def solve():\n    return 42\n",
    "parts/__init__.py": "",
    "parts/helper.py": "ANSWER = 42\n",
}


@pytest.mark.parametrize(
    "command",
    ["python3 main.py", "python3 -m main", "python3 -c 'import main'", "echo import main | python3", "cd / && python3 $OLDPWD/main.py"],  # noqa: E501
)  # fmt: skip
def test_a_submitted_program_of_several_modules_is_run(task: Task, sandbox: LocalSandbox, command: str) -> None:
    sandbox.put("workspace", {path: File(text.encode()) for path, text in PROGRAM.items()})
    logs = '"$(cd ../logs/verifier && pwd)"'
    write_tests(task, f"logs={logs}; {command}; echo $((1 - $?)) > $logs/reward.txt")
    verdict = run_verifier(task, sandbox)
    assert (verdict.success, verdict.notes) == (True, ()), verdict.output


def test_a_repository_of_another_user_is_named(task: Task, sandbox: LocalSandbox) -> None:
    said = "fatal: detected dubious ownership in repository at '/work'"
    write_tests(task, f'echo "{said}"; echo 0 > ../logs/verifier/reward.txt')
    assert "GIT_CONFIG_VALUE_0" in run_verifier(task, sandbox).notes[0]


@pytest.mark.parametrize(("agent", "success"), [("nop", False), ("oracle", True)])
def test_a_bundled_task_is_failed_by_nop_and_passed_by_the_oracle(
    sandbox: LocalSandbox, agent: str, success: bool
) -> None:
    bundled = load_starter().environments[0].families[0].tasks[0]
    sandbox.put("workspace", read_workspace_files(bundled))
    run = make_agent(agent).run(AgentJob(bundled, bundled.instruction, (), 1), sandbox, None, lambda step: None)
    verdict = run_verifier(bundled, sandbox)
    assert run.failure is None
    assert verdict.success is success
    assert {check.group for check in verdict.checks} == {CheckGroup.PUBLIC, CheckGroup.HIDDEN, CheckGroup.PROCESS}
    assert (verdict.outcome == verdict.process == verdict.overall == 1.0) is success
    assert verdict.dimensions
