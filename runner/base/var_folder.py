"""Where an installation keeps what it writes, for the parts that know no settings."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def var_folder() -> Path:
    """$SKILLGLASS_VAR, which is `var` beside manage.py."""
    return Path(os.environ.get("SKILLGLASS_VAR", "").strip() or ROOT / "var").resolve()
