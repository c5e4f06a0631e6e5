"""The reader of suite folders: what it takes in, what it refuses and how it says so."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.base.errors import SuiteError
from runner.base.suite import Suite
from runner.base.types import Machine
from runner.suites.folder import read_suite
from runner.suites.starter_suite import STARTER
from runner.suites.tasks.task_files import read_test_files, read_workspace_files

TASK = "tasks/rain-per-station"
FAMILY = "skills/null-safe-aggregation"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STARTER, tmp_path / "suite"))


def first(suite: Suite) -> tuple[str, str]:
    task = suite.environments[0].families[0].tasks[0]
    return task.digest, suite.digest


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def into_a_link(path: Path) -> None:
    """The same content, but elsewhere on this machine."""
    elsewhere = path.parent / f"elsewhere-{path.name}"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def test_it_reads_a_copy_as_the_same_suite(copy: Path) -> None:
    assert read_suite(copy).digest == read_suite(STARTER).digest


@pytest.mark.parametrize(
    "changed",
    [
        f"{TASK}/instruction.md",
        f"{TASK}/environment/rain.csv",
        f"{TASK}/tests/second/rain.csv",
        f"{TASK}/tests/expected.json",
        f"{TASK}/solution/solve.sh",
        f"{TASK}/task.toml",
        "verifier_lib.py",
    ],
)
def test_it_gives_another_digest_when_any_file_of_a_task_changes(copy: Path, changed: str) -> None:
    before = first(read_suite(copy))
    with (copy / changed).open("a") as file:
        file.write("\n")
    after = first(read_suite(copy))
    assert after[0] != before[0]
    assert after[1] != before[1]


def test_it_gives_another_suite_digest_but_the_same_tasks_when_a_curated_skill_changes(copy: Path) -> None:
    before = first(read_suite(copy))
    with (copy / FAMILY / "SKILL.md").open("a") as file:
        file.write("More.\n")
    after = first(read_suite(copy))
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_it_puts_shared_tests_beside_the_tasks_own(copy: Path) -> None:
    task = read_suite(copy).environments[0].families[0].tasks[0]
    assert {"test.sh", "verify.py", "rubric.yaml", "verifier_lib.py"} <= set(read_test_files(task))
    assert set(read_workspace_files(task)) == {"rain.csv"}


def test_it_reads_what_a_task_asks_of_its_machine_as_harbors_reader_does(copy: Path) -> None:
    task = read_suite(copy).environments[0].families[0].tasks[0]
    assert task.machine == Machine(memory_mb=1024, storage_mb=512, network=False)
    asked = 'cpus = 2\nmemory = "3G"\nstorage_mb = 700\ndocker_image = "made:1"\nenv = {A = "1"}\n'
    (copy / TASK / "task.toml").write_text(f'[agent]\ntimeout_sec = 7\n[verifier.env]\nB = "2"\n[environment]\n{asked}')
    task = read_suite(copy).environments[0].families[0].tasks[0]
    assert task.machine == Machine(None, "made:1", 2.0, 3072, 700, False, environment={"A": "1"})
    assert (task.agent_timeout_seconds, task.verifier_timeout_seconds) == (7, 600)
    assert (task.verifier_environment, read_workspace_files(task)) == ({"B": "2"}, {})


def test_it_refuses_what_a_task_asks_and_nobody_carries_out(copy: Path) -> None:
    replace(copy / TASK / "task.toml", "cpus = 1", "gpus = 1")
    with pytest.raises(SuiteError, match="environment.gpus: it needs a GPU: 1"):
        read_suite(copy)


@pytest.mark.parametrize(
    ("breakage", "place", "expected"),
    [
        (lambda suite: (suite / "suite.yaml").unlink(), "file", "a plain file"),
        (lambda suite: (suite / "suite.yaml").write_text("[1, 2"), "file", "readable YAML"),
        (lambda suite: (suite / "suite.yaml").write_text("just words"), "file", "a mapping"),
        (
            lambda suite: replace(suite / "suite.yaml", "skillglass-suite/1", "other/9"),
            "format",
            "'skillglass-suite/1'",
        ),
        (lambda suite: replace(suite / "suite.yaml", "trusted: true", "trusted: perhaps"), "trusted", "true or false"),
        (
            lambda suite: replace(suite / "suite.yaml", "  - verifier_lib.py", "  - gone.py"),
            "shared_tests",
            "files next to",
        ),
        (
            lambda suite: replace(suite / "suite.yaml", "verifier_lib.py", "../../etc/passwd"),
            "shared_tests",
            "file names",
        ),
        (lambda suite: replace(suite / "suite.yaml", "key: E2", "key: E1"), "environment_id", "'E1'"),
        (lambda suite: replace(suite / FAMILY / "meta.yaml", "slug: null-safe", "slug: other"), "slug", "null-safe"),
        (lambda suite: (suite / FAMILY / "SKILL.md").unlink(), "SKILL.md", "a curated skill"),
        (lambda suite: replace(suite / FAMILY / "meta.yaml", "  - takings-per-region\n", ""), "tasks", "6 tasks"),
        (
            lambda suite: replace(suite / TASK / "task-spec.yaml", "role: canonical", "role: variant"),
            "role",
            "'canonical'",
        ),
        (
            lambda suite: replace(suite / TASK / "task.toml", "timeout_sec = 120.0", "timeout_sec = -1"),
            "agent.timeout_sec",
            "a number from 1 to 86,400",
        ),
        (lambda suite: (suite / TASK / "task.toml").write_text("= 3"), "file", "readable TOML"),
        (lambda suite: (suite / TASK / "tests" / "test.sh").unlink(), "tests/test.sh", "the file"),
        (lambda suite: (suite / TASK / "environment" / "link").symlink_to("/etc/passwd"), "file", "a plain file"),
        (lambda suite: into_a_link(suite / "verifier_lib.py"), "shared_tests", "plain files next to"),
        (lambda suite: into_a_link(suite / "suite.yaml"), "file", "a plain file"),
        (lambda suite: into_a_link(suite / FAMILY), "folder", "a folder"),
        (lambda suite: into_a_link(suite / TASK), "folder", "a folder"),
        (lambda suite: (suite / TASK / "instruction.md").write_bytes(b"\xff\xfe"), "instruction.md", "UTF-8"),
    ],
)
def test_it_refuses_a_broken_suite_and_names_the_place(
    copy: Path, breakage: Callable[[Path], object], place: str, expected: str
) -> None:
    breakage(copy)
    with pytest.raises(SuiteError) as caught:
        read_suite(copy)
    assert caught.value.path.startswith(str(copy))
    assert place in caught.value.place
    assert expected in caught.value.expected


def test_it_refuses_two_tasks_with_one_key(copy: Path) -> None:
    replace(copy / "tasks/waiting-times-of-clinics/task-spec.yaml", "task_id: E1-LS1-T2", "task_id: E1-LS1-T1")
    with pytest.raises(SuiteError, match="'E1-LS1-T1' occurs twice"):
        read_suite(copy)
