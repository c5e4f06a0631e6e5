"""Where this program lies and where it keeps what it writes, for the parts that know no settings."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A wheel lays everything below the package `skillglass`; in a clone, no package is around it.
IS_INSTALLED = (ROOT.parent / "__init__.py").is_file()
MANAGE = "skillglass" if IS_INSTALLED else "manage.py"  # what a person types before the name of a command
DEMO = "skillglass demo" if IS_INSTALLED else "make demo"


def var_folder() -> Path:
    """$SKILLGLASS_VAR, which is `var` beside manage.py; of an installed program the user's folder for data."""
    if told := os.environ.get("SKILLGLASS_VAR", "").strip():
        return Path(told).resolve()
    return _find_data_folder() if IS_INSTALLED else ROOT / "var"


def _find_data_folder() -> Path:
    """An upgrade replaces the program's own folder, and another user may not write there."""
    data = os.environ.get("XDG_DATA_HOME", "").strip() or "~/.local/share"
    return Path(os.path.expanduser(data)).resolve() / "skillglass"  # noqa: PTH111  (without a home: stays as it is)
