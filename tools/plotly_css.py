"""Make static/vendor/plotly.css from the rules inside the vendored bundle: `python tools/plotly_css.py [--check]`.

Plotly writes its rules into a <style> element, which the content policy refuses. It leaves that out where an element
with the id `plotly.js-style-global` has the class `no-inline-styles`; charts link the file made here with both.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

VENDOR = Path(__file__).resolve().parent.parent / "static" / "vendor"
BUNDLE = VENDOR / "plotly-cartesian-4.1.1.min.js"
CSS = VENDOR / "plotly.css"
FIRST = '{"X,X div":'  # the bundle keeps its rules in one object of selector -> declarations


def rules(script: str) -> dict[str, str]:
    """Selector -> declarations as the bundle has them; X stands for a plot and Y for a notice."""
    start = script.find(FIRST)
    if start < 0 or script.find(FIRST, start + 1) >= 0:
        raise ValueError(f"{BUNDLE.name}: expected the rules once, as an object starting with {FIRST}")
    literal = script[start : script.index("}", start) + 1]
    found = ast.literal_eval(re.sub(r"(?<=[{,])([XY]):", r'"\1":', literal))  # a name of one letter has no quotes
    assert isinstance(found, dict)
    return found


def stylesheet(script: str) -> str:
    lines = [f"/* The rules of {BUNDLE.name} (MIT, Plotly, Inc.). Made by tools/plotly_css.py; do not edit. */"]
    for selector, declarations in rules(script).items():
        whole = selector.replace("X", ".js-plotly-plot .plotly").replace("Y", ".plotly-notifier")
        lines.append(f"{whole} {{ {declarations} }}")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    made = stylesheet(BUNDLE.read_text(encoding="utf-8"))
    if "--check" not in arguments:
        CSS.write_text(made, encoding="utf-8")
        return 0
    if CSS.is_file() and CSS.read_text(encoding="utf-8") == made:
        return 0
    print(f"{CSS} is not what {BUNDLE.name} gives: run python tools/plotly_css.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
