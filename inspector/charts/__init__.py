"""The charts of the compare pages, by key. A new one is a module here with a `Chart`, and its name in this list."""

from __future__ import annotations

from inspector.charts import efficiency, environments, forest, gains, library_size, relative
from inspector.charts.drawing import Chart

_ALL: tuple[Chart, ...] = (
    forest.CHART,
    relative.CHART,
    library_size.CHART,
    environments.CHART,
    efficiency.CHART,
    gains.CHART,
)
CHARTS: dict[str, Chart] = {chart.key: chart for chart in _ALL}
