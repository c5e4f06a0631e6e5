"""The suites at hand: those that come with the package, and those loaded from a folder of this machine."""

from __future__ import annotations

from runner.suites import load_suite
from runner.types import Suite


def suite_named(key: str) -> Suite:
    """The suite as it lies on disk now. SetupError names the known ones; SuiteError says what is wrong in one."""
    return load_suite(key)
