"""What is sent of a chart: texts that mean nothing to plotly, bytes that are kept, tables as text."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from plotly import graph_objects as go

from benchapp.models import Run
from benchapp.stats.comparing.choices import Choices
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn, TableRow
from inspector.charts.chart_request import build_sheet
from inspector.charts.chart_table import MAX_ROWS, csv_text, text_rows, value_text
from inspector.charts.drawn_chart import KEPT, DrawnChart, draw_chart, figure_json
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("<b>3/12</b><br>x", "<b>3/12</b><br>x"),
        ('<a href="javascript:alert(1)">x</a>', '&lt;a href="javascript:alert(1)">x&lt;/a>'),
        ("<span style='x'>", "&lt;span style='x'>"),
        ("a < b <<i>", "a &lt; b &lt;<i>"),
        ("\\u003cscript\\u003e \\<a>", "\\u003cscript\\u003e \\&lt;a>"),
    ],
)
def test_it_lets_plotly_read_no_tag_of_somebody_else(text: str, sent: str) -> None:
    figure = go.Figure(go.Scatter(x=[1], y=[1], hovertext=[text]))
    assert json.loads(figure_json(figure))["data"][0]["hovertext"] == [sent]


@pytest.mark.django_db
def test_it_draws_again_only_when_a_run_was_revised_or_the_choice_is_another() -> None:
    make_learning_run(make_experiment(suite=make_suite(environments=1, families=1)))
    calls: list[str] = []

    def draw(sheet: object) -> ChartDrawing:
        calls.append("drawn")
        return ChartDrawing(go.Figure(), ChartTable(()))

    chart = Chart("test", "t", "q?", draw)
    first = draw_chart(chart, build_sheet(Choices(), chart))
    assert draw_chart(chart, build_sheet(Choices(seen="abc"), chart)) is first
    draw_chart(chart, build_sheet(Choices(option=("a:b",)), chart))
    assert len(calls) == 2
    Run.objects.all().touch()
    draw_chart(chart, build_sheet(Choices(), chart))
    assert len(calls) == 3


def test_it_forgets_pictures_beyond_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KEPT, "limit", 250)
    for key in "abc":
        KEPT.put(key, DrawnChart(ChartDrawing(None, ChartTable(())), b"x" * 100))
    assert KEPT.get("a") is None
    assert KEPT.get("c") is not None


TABLE = ChartTable(
    (TableColumn("name", "name"), TableColumn("delta", "difference", "pp"), TableColumn("n", "n")),
    (
        TableRow(("=cmd()", 0.1234567890123, 3), "/compare/trials/?x=1"),
        TableRow(("-1", None, None)),
        TableRow(("plain", -5, 2)),
    ),
)


def test_it_writes_csv_with_units_full_precision_and_nothing_a_spreadsheet_runs() -> None:
    rows = list(csv.reader(StringIO(csv_text(TABLE, lambda url: f"http://h{url}"))))
    assert rows[0] == ["name", "delta (pp)", "n", "trials"]
    assert rows[1] == ["'=cmd()", "0.1234567890123", "3", "http://h/compare/trials/?x=1"]
    assert rows[2] == ["-1", "", "", ""]
    assert rows[3] == ["plain", "-5", "2", ""]


def test_it_writes_numbers_for_readers() -> None:
    cells = [text for text, _ in text_rows(TABLE)[2][0]]
    assert cells == ["plain", "\N{MINUS SIGN}5.0", "2"]
    assert [is_number for _, is_number in text_rows(TABLE)[1][0]] == [False, True, True]
    assert text_rows(TABLE)[1][0][1][0] == ""
    written = [
        value_text(*pair) for pair in [(0.04, "pp"), (12345, ""), (0.31, ""), (1e-6, "USD"), (True, ""), (0.0, "")]
    ]
    assert written == ["0.0", "12,345", "0.31", "1e\N{MINUS SIGN}06", "yes", "0"]
    assert (
        len(text_rows(ChartTable((TableColumn("n", "n"),), tuple(TableRow((place,)) for place in range(1000)))))
        == MAX_ROWS
    )


def test_it_keeps_the_bundle_that_its_table_names_and_the_style_made_from_it() -> None:
    vendor = REPOSITORY / "static" / "vendor"
    rows = re.findall(r"\| `(\S+\.js)` .*\| `([0-9a-f]{64})` \|", (vendor / "SOURCES.md").read_text())
    assert rows
    assert {name for name, _ in rows} == {path.name for path in vendor.glob("*.js")}
    for name, digest in rows:
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest
        assert name in (REPOSITORY / "templates" / "compare" / "_chart_assets.html").read_text()
    made = subprocess.run([sys.executable, REPOSITORY / "tools" / "plotly_css.py", "--check"], capture_output=True)
    assert made.returncode == 0, made.stderr
