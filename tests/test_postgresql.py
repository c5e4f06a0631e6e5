"""Once more on PostgreSQL: the record, every page as it is read, and what people write through pages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EVERY_PAGE = "test_habits"
WRITING = (
    *("test_comments", "test_comparisons", "test_imports_page", "test_launch", "test_levels", "test_activity"),
    *("test_login", "test_operate", "test_overview", "test_people", "test_search", "test_agreement_pages"),
    *("test_codebook_pages", "test_coding_page", "test_new_queue", "test_queue_pages", "test_suggestions_page"),
)
# Reading a format asks the database nothing; what was read is written by the one recorder that the others show.
OF_FORMATS = (
    *("test_import_hostile_git", "test_import_logs", "test_import_shared_data", "test_import_skilllearnbench"),
    *("test_archive_hostile", "test_export_harbor", "test_export_safety", "test_examples"),
)


@pytest.mark.postgresql
@pytest.mark.slow
def test_the_same_tests_pass_on_postgresql():
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    chosen = [
        "tests/benchapp",
        *(find_test("inspector", name) for name in (EVERY_PAGE, *WRITING)),
        *(f"--ignore={find_test('benchapp', name)}" for name in OF_FORMATS),
        *("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder"),  # this one item takes longer than any other
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


def find_test(layer: str, name: str) -> str:
    """The path of a test file by its name, in whatever room it lies."""
    (path,) = (ROOT / "tests" / layer).rglob(f"{name}.py")
    return str(path.relative_to(ROOT))
