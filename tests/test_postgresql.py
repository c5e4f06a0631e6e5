"""Once more on PostgreSQL: what depends on the database, and every page as it is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import IS_FULL

ROOT = Path(__file__).resolve().parent.parent
# Where the product asks a database in its own words (search, locks, slices, sums over JSON), takes turns, or writes
# many rows at once; and one file for each other way to read rows. `FULL=1 .ci/run` runs everything that
# uses a database.
CHOSEN = {
    "benchapp": (
        *("test_leases", "test_one_writer", "test_recording", "test_searching", "test_wishes", "test_jobs"),
        *("test_deletion", "test_packed_trials", "test_claiming", "test_populations", "test_passes"),
    ),
    "inspector": ("test_habits", "test_joined_suites", "test_sides"),
}
# Odd queries and what is inline never reach the database; a twin asks what its page asks; conditions write the same
# rows.
LEFT_OUT = (
    "not (test_no_query_breaks_a_page or test_nothing_is_inline or test_every_page_has_a_twin"
    " or test_it_records_the_history_that_the_list_recorder_keeps)"
)


@pytest.mark.postgresql
@pytest.mark.slow
def test_the_same_tests_pass_on_postgresql():
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    files = [find_test(layer, name) for layer, names in CHOSEN.items() for name in names]
    chosen = [
        *(["tests/benchapp", "tests/inspector"] if IS_FULL else files),
        *("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder"),  # this one item takes longer than any other
        *("-m", "django_db and not slow and not browser"),
        *("-k", "" if IS_FULL else LEFT_OUT),
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
