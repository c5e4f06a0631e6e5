"""Where this program is and where it keeps what it writes, for modules without settings."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A wheel puts everything below the package `skillglass`; a clone has no package around it.
IS_INSTALLED = (ROOT.parent / "__init__.py").is_file()
MANAGE = "skillglass" if IS_INSTALLED else "manage.py"  # what a person types before the name of a command
DEMO = "skillglass demo" if IS_INSTALLED else "make demo"


def var_folder() -> Path:
    """$SKILLGLASS_VAR, by default `var` next to manage.py. An installed program uses the user's data folder."""
    if configured := os.environ.get("SKILLGLASS_VAR", "").strip():
        return Path(configured).resolve()
    return _find_data_folder() if IS_INSTALLED else ROOT / "var"


def _find_data_folder() -> Path:
    """The user's data folder: an upgrade replaces the program's folder, and another user may not write there."""
    data = os.environ.get("XDG_DATA_HOME", "").strip() or "~/.local/share"
    return Path(os.path.expanduser(data)).resolve() / "skillglass"  # noqa: PTH111  (without a home: stays as it is)
