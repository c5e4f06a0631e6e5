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
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    chosen = [
        "tests/benchapp",
        "tests/inspector",
        "-m",
        "django_db and not slow and not browser",
        "-k",  # figures are drawn from columns that tests/benchapp reads here; odd queries never reach the database
        "not chart and not test_no_query_breaks_a_page and not test_nothing_is_inline",
        "-n",
        "2",
        "--dist",
        "loadfile",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *chosen],
        cwd=ROOT,
        env={**outside, "DATABASE_URL": os.environ["TEST_POSTGRESQL_URL"], "SKILLGLASS_REQUIRE_ALL": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
