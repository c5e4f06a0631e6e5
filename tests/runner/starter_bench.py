"""A task of a bundled suite laid out as in a sandbox, solved and verified without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from runner.base.types import Files, Task
from runner.suites.tasks.task_files import read_solution_files, read_test_files, read_workspace_files


def put(files: Files, folder: Path) -> None:
    for name, file in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(file.content)
        (folder / name).chmod(file.mode)


class Bench:
    """A task laid out as in a sandbox, without one."""

    def __init__(self, task: Task, place: Path) -> None:
        self.task, self.place, self.workspace = task, place, place / "workspace"
        for name in ("skills", "logs"):
            (place / name).mkdir()
        put(read_workspace_files(task), self.workspace)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "LANG": "C.UTF-8"}
        return subprocess.run(
            command, cwd=self.workspace, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def solve(self) -> None:
        put(read_solution_files(self.task), self.place / "solution")
        done = self.run("sh", "../solution/solve.sh")
        assert done.returncode == 0, done.stderr

    def verify(self) -> dict[str, Any]:
        put(read_test_files(self.task), self.place / "tests")
        done = self.run("sh", "../tests/test.sh")
        assert done.returncode == 0, done.stderr
        logs = self.place / "logs" / "verifier"
        reports = {
            name: json.loads((logs / f"{name}_report.json").read_text()) for name in ("outcome", "process", "score")
        }
        return {"reward": (logs / "reward.txt").read_text(), **reports}


def failed(verdict: dict[str, Any], report: str, section: str) -> list[str]:
    return [check["detail"] for check in verdict[report][section]["results"] if not check["passed"]]
