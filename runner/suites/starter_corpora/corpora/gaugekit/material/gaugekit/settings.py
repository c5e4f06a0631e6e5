"""The settings, read once."""

from __future__ import annotations

import tomllib
from pathlib import Path

SETTINGS = tomllib.loads(Path(__file__).with_name("defaults.toml").read_text("utf-8"))
