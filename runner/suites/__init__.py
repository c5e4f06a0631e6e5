"""Readers of task folders, and the starter suite that ships with the project."""

from __future__ import annotations

import importlib
from typing import cast

from runner.errors import SetupError
from runner.types import Suite

SUITES: dict[str, str] = {"starter": "runner.suites.starter_suite:load_starter"}


def load_suite(name: str) -> Suite:
    """The suite of that name, read from disk now. SetupError names the known ones; SuiteError says what is wrong in one."""
    if name not in SUITES:
        raise SetupError(f"unknown suite {name!r}; known: {', '.join(sorted(SUITES))}")
    module, _, function = SUITES[name].partition(":")
    return cast(Suite, getattr(importlib.import_module(module), function)())
