"""Once more on PostgreSQL: the record, every page as it is read, and what people write through pages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EVERY_PAGE = "tests/inspector/web/test_habits.py"
WRITING = (
    *(f"tests/inspector/test_{name}.py" for name in ("comments", "comparisons", "imports_page", "launch", "levels")),
    *(f"tests/inspector/test_{name}.py" for name in ("activity", "login", "operate", "overview", "people", "search")),
    *(f"tests/inspector/review/test_{name}.py" for name in ("agreement_pages", "codebook_pages", "coding_page")),
    *(f"tests/inspector/review/test_{name}.py" for name in ("queue_pages", "suggestions_page")),
)
# Reading a format asks the database nothing; what was read is written by the one recorder that the others show.
OF_FORMATS = (
    *(f"tests/benchapp/test_import_{name}.py" for name in ("hostile_git", "logs", "shared_data", "skilllearnbench")),
    *(f"tests/benchapp/test_{name}.py" for name in ("archive_hostile", "export_harbor", "export_safety", "examples")),
)


@pytest.mark.postgresql
@pytest.mark.slow
def test_the_same_tests_pass_on_postgresql():
    assert all((ROOT / name).exists() for name in OF_FORMATS)
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    chosen = [
        "tests/benchapp",
        EVERY_PAGE,
        *WRITING,
        *(f"--ignore={name}" for name in OF_FORMATS),
        "-m",
        "django_db and not slow and not browser",
        "-k",  # odd queries never reach the database
        "not test_no_query_breaks_a_page and not test_nothing_is_inline",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *chosen],
        cwd=ROOT,
        env={**outside, "DATABASE_URL": os.environ["TEST_POSTGRESQL_URL"], "SKILLGLASS_REQUIRE_ALL": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
