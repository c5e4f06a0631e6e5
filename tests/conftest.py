"""What every test shares: what it needs is there, or it is skipped with the reason. SKILLGLASS_REQUIRE_ALL=1 forbids skips."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

# Before Django reads its settings: tests never touch an installation's files.
os.environ.setdefault("SKILLGLASS_VAR", tempfile.mkdtemp(prefix="skillglass-tests-"))
os.environ.setdefault("REDIS_URL", "redis://127.0.0.1:1/0")  # nobody listens there; tests that need a broker start one

SHARED_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


def require(available: bool, reason: str) -> None:
    """Goes on where `available`; else skips with the reason, or fails where skips are forbidden."""
    if available:
        return
    if os.environ.get("SKILLGLASS_REQUIRE_ALL") == "1":
        pytest.fail(f"required here: {reason}")
    pytest.skip(reason)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("shared_data") and not SHARED_DATA.is_dir():
        pytest.skip("the sample data does not lie beside the project")  # not part of the project: never required
