"""The record's and the pages' tests once more, on PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.postgresql
@pytest.mark.slow
def test_the_same_tests_pass_on_postgresql():
    environment = {**os.environ, "DATABASE_URL": os.environ["TEST_POSTGRESQL_URL"], "SKILLGLASS_REQUIRE_ALL": "0"}
    environment.pop("PYTEST_CURRENT_TEST", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/benchapp", "tests/inspector", "-m", "not slow and not browser", "-x"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
