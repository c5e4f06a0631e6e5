"""The suite that comes with the package: 24 tasks about tables, records and logs, safe for the local sandbox."""

from __future__ import annotations

from pathlib import Path

from runner.suites.folder import read_suite
from runner.types import Suite

STARTER = Path(__file__).with_name("starter")


def load_starter() -> Suite:
    return read_suite(STARTER)
