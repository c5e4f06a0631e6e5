"""`skillglass COMMAND`: the equivalent of `python manage.py COMMAND` in a clone.

A wheel has the whole project below `skillglass/app/`, laid out as in a clone. Only this program can import its packages
(`runner`, `inspector`, ...), so that their names do not collide with other installed ones.
"""

from __future__ import annotations

import sys
from pathlib import Path

APP = Path(__file__).resolve().parent / "app"


def main() -> None:
    sys.path.insert(0, str(APP))
    from manage import main as manage

    manage()
