"""How skills are written: static axes and patterns, of libraries that rules have read."""

from __future__ import annotations

import pytest

from benchapp.analysis.diagnoses.diagnosis_queue import diagnose_episode
from benchapp.analysis.diagnoses.profile import PROFILE_GROUPS
from benchapp.models import Episode, Run
from benchapp.stats.comparing.choices import Choices
from inspector.charts.chart import Chart
from inspector.charts.chart_request import build_sheet
from inspector.charts.drawn_chart import draw_chart
from inspector.charts.figures.skill_writing import AXES_CHART, PATTERNS_CHART, UNREAD
from tests.inspector.charts.test_charts_honest import HOSTILE, texts_of
from tests.worlds.charted import drawn, heat_cells, queries_of
from tests.worlds.factories import make_episode, make_experiment, make_run, make_snapshot

pytestmark = pytest.mark.django_db

SKILL = "---\nname: {0}\ndescription: Tidy.\n---\n\n{1}\n"
PLAIN = {"tidy/SKILL.md": SKILL.format("tidy", "1. Always verify it.")}
CODED = {"run/SKILL.md": SKILL.format("run", "Run it."), "run/scripts/run.py": "print(1)\n"}
AGENTS = {"ask/SKILL.md": SKILL.format("ask", "Start a subagent.")}


def make_read(
    files: dict[str, str], condition: str = "selfgen-always", *, read: bool = True, run: Run | None = None
) -> Episode:
    run = run or make_run(make_experiment(), condition=condition)
    episode = make_episode(run, library=make_snapshot(files))
    if read:
        diagnose_episode(episode)
    return episode


def test_it_counts_the_patterns_of_all_skills_that_were_read() -> None:
    run = make_read(PLAIN | CODED).run
    make_read(PLAIN, run=run)
    make_read(AGENTS, run=run)
    make_read(AGENTS, run=run, read=False)
    (row,) = drawn(PATTERNS_CHART).table.records()
    assert (row["pattern_a"], row["pattern_b"], row["pattern_c"]) == (50.0, 25.0, 25.0)
    assert (row["skills"], row["read"], row["libraries"]) == (4, 3, 4)
    bars = {trace.name: trace.x[0] for trace in drawn(PATTERNS_CHART).figure.data if trace.type == "bar"}  # type: ignore[union-attr]
    assert bars == {"A, instructions only": 50.0, "B, with scripts": 25.0, "C, with MCP or subagents": 25.0}


def test_it_lays_the_printed_table_below() -> None:
    told = {row["group"]: row for row in drawn(PATTERNS_CHART, "published=skilllearnbench").table.records()}
    human = told["human-authored"]
    assert (human["pattern_a"], human["pattern_b"], human["pattern_c"]) == (64.3, 33.3, 2.4)
    assert len(told) == 5
    assert human["skills"] is None


def test_the_axes_are_those_of_the_profile() -> None:
    make_read(PLAIN)
    cells = {cell["column"]: (cell["value"], cell["text"]) for cell in heat_cells(drawn(AXES_CHART))}
    assert set(cells) == {*PROFILE_GROUPS, "overall"}
    assert cells["contract"] == (50.0, "50")
    (row,) = drawn(AXES_CHART).table.records()
    assert row["overall"] == pytest.approx(sum(float(row[axis]) for axis in PROFILE_GROUPS) / 6)


@pytest.mark.parametrize("chart", [AXES_CHART, PATTERNS_CHART], ids=lambda chart: chart.key)
def test_what_rules_read_later_is_there_at_once(chart: Chart) -> None:
    """No revision of a run says that a worker has read its library, so nothing drawn before is shown again."""
    episode = make_read(PLAIN, read=False)
    sheet = build_sheet(Choices())
    assert draw_chart(chart, sheet).drawing.absent == UNREAD
    diagnose_episode(episode)
    assert draw_chart(chart, sheet).figure is not None


@pytest.mark.parametrize("chart", [AXES_CHART, PATTERNS_CHART], ids=lambda chart: chart.key)
def test_hostile_names_are_text_and_queries_do_not_grow(chart: Chart) -> None:
    make_read(PLAIN, HOSTILE)
    few = queries_of(chart)
    texts = texts_of(drawn(chart).figure.to_plotly_json())  # type: ignore[union-attr]
    assert not [text for text in texts if "<a" in text]
    assert any("&lt;a" in text for text in texts)
    for condition in ("one", "two"):
        make_read(CODED, condition)
    assert queries_of(chart) <= few
