"""`skillglass COMMAND`: what `python manage.py COMMAND` is in a clone.

A wheel has the whole project below `skillglass/app/`, laid out as in a clone. Its packages (`runner`, `inspector`, ...)
are importable for this program alone, so that their names meet no others among what is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

APP = Path(__file__).resolve().parent / "app"


def main() -> None:
    sys.path.insert(0, str(APP))
    from manage import main as manage

    manage()
