"""docs/reference/settings.md lists every environment variable that is read, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READ = re.compile(r"""environ(?:\.(?:text|flag|number|words|secret|get)\(|\[)\s*["']([A-Z_]+)["']""")
OUTSIDE: set[str] = set()  # read by somebody else's code
OF_SENDERS = {"SKILLGLASS_SERVER", "SKILLGLASS_TOKEN"}  # of programs that log their runs, not of an installation
OF_THE_SYSTEM = {"PATH", "HOME", "XDG_DATA_HOME", "DOCKER_CONFIG", "DOCKER_HOST", "PYTEST_CURRENT_TEST"}
OF_TESTS = {
    "TEST_POSTGRESQL_URL",
    "SKILLGLASS_REQUIRE_ALL",
    "SKILLGLASS_TEST_HARBOR",
    "SKILLGLASS_TEST_PROGRAMS",
    "UPDATE_GOLDEN",
}


def test_every_variable_that_is_read_is_documented_and_no_other():
    files = [path for layer in ("benchapp", "runner", "inspector") for path in (ROOT / layer).rglob("*.py")]
    sources = [path.read_text() for path in files if "starter" not in path.parts]
    read = {name for source in sources for name in READ.findall(source)} - OF_THE_SYSTEM - OF_SENDERS
    listed = set(
        re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs" / "reference" / "settings.md").read_text(), re.MULTILINE)
    )
    assert listed == read | OUTSIDE


def test_what_the_tests_read_is_documented():
    document = (ROOT / "docs" / "reference" / "settings.md").read_text()
    assert [name for name in sorted(OF_TESTS | OF_SENDERS) if name not in document] == []
