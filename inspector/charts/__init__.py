"""The charts of the compare pages, by key. A new one is a module here with a `Chart`, and its name in this list."""

from __future__ import annotations

from inspector.charts.drawing import Chart

_ALL: tuple[Chart, ...] = ()
CHARTS: dict[str, Chart] = {chart.key: chart for chart in _ALL}
