"""Real outputs of skill tools, which are not part of the project:
tests that read them are skipped where they are absent."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT

SKILL_TOOLS = ROOT.parent / "shared" / "contact" / "skill-tools"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("shared_data") and not SKILL_TOOLS.is_dir():
        pytest.skip("the outputs of skill tools are not beside the project")
