"""CSV cells can hold text typed by strangers, and a spreadsheet runs a text that begins like a formula."""

from __future__ import annotations

import re

# Spreadsheets of East Asian locales read the wide forms as the narrow ones.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
# A number, or the single dash for "none" in tables: neither can be run.
_HARMLESS = re.compile(r"-|[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)


def escape_formula(text: str) -> str:
    """Return `text`, with an apostrophe before it if a spreadsheet would run it; not for a number or a lone dash.

    Every CSV that leaves the installation passes its texts through here (OWASP, CSV injection).
    """
    if text.startswith(FORMULA) and not _HARMLESS.fullmatch(text):
        return f"'{text}"
    return text
