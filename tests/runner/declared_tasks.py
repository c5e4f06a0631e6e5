"""Small tasks that declare their evaluation, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runner.base.types import Machine, Task
from runner.suites.documents import Findings
from runner.suites.tasks.evaluation_toml import read_evaluation

SUM = """mode = "execution"
command = "python3 solution.py"

[[cases]]
name = "two"
group = "public"
stdin = "1 2\\n"
expected = "3\\n"

[[cases]]
name = "none"
stdin = ""
expected = "0"

[[cases]]
name = "file"
args = ["--from", "data in.txt"]
files = { "data in.txt" = "cases/numbers.txt" }
expected_file = "cases/sum.txt"
compare = { kind = "numeric", abs = 0.01 }
"""
SUM_FILES = {"cases/numbers.txt": "0.5 0.25\n", "cases/sum.txt": "0.75\n"}
ADDING = """import sys
text = open(sys.argv[2]).read() if len(sys.argv) > 1 else sys.stdin.read()
print(sum(map(float if "." in text else int, text.split())))
"""
REPORT = """mode = "artifact"
command = "python3 make.py"
artifact = "out/report.csv"

[precheck]
columns = ["id", "total"]

[compare]
kind = "table"
key = ["id"]
abs = 0.01
expected_file = "report.csv"
"""
REPORT_FILES = {"report.csv": "id,total\n1,2.00\n2,3.50\n"}
MAKING = """import os
os.makedirs("out", exist_ok=True)
open("out/report.csv", "w").write("id,total\\n2,3.5\\n1,2.001\\n")
"""


def write_tests(folder: Path, evaluation: str, files: Mapping[str, str | bytes] = {}) -> Path:
    tests = folder / "tests"
    for name, content in {"evaluation.toml": evaluation, **files}.items():
        (tests / name).parent.mkdir(parents=True, exist_ok=True)
        (tests / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return tests


def declared_task(
    folder: Path, evaluation: str, files: Mapping[str, str | bytes] = {}, machine: Machine | None = None
) -> Task:
    """A task with this evaluation, which must be right."""
    findings = Findings()
    declared = read_evaluation(write_tests(folder, evaluation, files), findings)
    assert not findings.problems
    return Task(
        "T", "t", "E1", "E1-LS1", None, 1, "Do it.", "0" * 64, folder, machine=machine or Machine(), evaluation=declared
    )
