"""What every chart says of two fixed worlds: a change of its code that is no change of its numbers or words leaves it.

Where a chart is meant to say something else, delete tests/golden/charts.json, run this file once, and read the
difference.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from inspector.charts import CHARTS
from inspector.charts.chart import ChartDrawing
from inspector.charts.chart_table import csv_text, text_rows
from tests.worlds.charted import drawn
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "charts.json"
PUBLIC_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PUBLISHED = "published=skillevolbench&published=skillflow&published=skilllearnbench&published=skillgenbench"
NOTHING = "condition=no-such-condition"
SPOKEN = ("name", "type", "mode", "x", "y", "z", "text", "hovertext", "customdata", "showlegend", "marker", "line")
T, F = True, False


def learn() -> None:
    """Three conditions, one of them twice, over four families in two environments."""
    experiment = make_experiment(suite=make_suite(environments=2, families=2))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=(T, F, F, T, F, F, T, F, F))
    make_learning_run(experiment, condition="raw-trajectory", author_model="", outcomes=(T, F, T, T, F, F, T, T, F))
    make_learning_run(experiment, condition="selfgen-always", replicate=1, outcomes=(T, T, F, T, T, F, T, T, F))
    make_learning_run(experiment, condition="selfgen-always", replicate=2, outcomes=(T, F, F, T, None, T, T, T, T))


def digest_parts(drawing: ChartDrawing) -> dict[str, str]:
    """By part of the drawing, so that a failure says which one changed; public ids are drawn by lot and left out."""
    figure = drawing.figure.to_plotly_json() if drawing.figure else {"data": [], "layout": {}}
    layout: dict[str, Any] = {name: value for name, value in figure["layout"].items() if name != "template"}
    parts = {
        "columns": [[column.key, column.title, column.unit] for column in drawing.table.columns],
        "rows": [[row.values, row.url] for row in drawing.table.rows],
        "csv": csv_text(drawing.table, str),
        "page": [[text for text, _ in cells] for cells, _ in text_rows(drawing.table)],
        "words": [drawing.notes, drawing.absent],
        "traces": [{name: trace[name] for name in SPOKEN if name in trace} for trace in figure["data"]],
        "layout": layout,
    }
    return {name: _digest(part) for name, part in parts.items()}


def _digest(part: Any) -> str:
    text = json.dumps(part, sort_keys=True, default=list)
    return sha256(PUBLIC_ID.sub("an id", text).encode()).hexdigest()[:16]


def test_every_chart_says_what_it_said() -> None:
    found = {}
    learn()
    for key, chart in CHARTS.items():
        options = ["", *(f"&option={name}:{values[-1]}" for name, values in chart.options.items())]
        for query in ("", PUBLISHED, f"{NOTHING}&{PUBLISHED}", NOTHING):
            for option in options:
                name = f"{key}?{query.replace(PUBLISHED, 'published')}{option}"
                found[name] = digest_parts(drawn(chart, f"{query}{option}".lstrip("&")))
    if not GOLDEN.exists():
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(GOLDEN.read_text())
