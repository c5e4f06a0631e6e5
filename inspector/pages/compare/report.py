"""The printable report of a comparison: one HTML file that holds everything it shows and asks the network for
nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import mark_safe

from benchapp.papers.published_rows import PAPERS
from benchapp.stats.comparing.answer import Answer, arrange
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import GroupComparison, count_added_since
from benchapp.stats.comparing.condition_names import SEPARATOR, name_condition, say_label
from benchapp.stats.comparing.groups import MODEL, experiment_names
from benchapp.stats.comparing.hypotheses import Reopened
from benchapp.stats.metrics.catalogue import name_metric
from inspector.charts import CHARTS
from inspector.charts.chart import Chart
from inspector.charts.chart_request import build_sheet
from inspector.charts.drawn_chart import draw_chart
from inspector.charts.sheet import ChartSheet
from inspector.pages.compare.answer_page import AnswerHead
from inspector.pages.compare.chart_view import build_table
from inspector.pages.compare.lanes import ForestBuilder, list_run_metrics
from inspector.pages.compare.results import name_comparison
from inspector.web.text.markdown import render_markdown_file
from runner.base.text import plural

BUNDLE = "vendor/plotly-cartesian-*.min.js"


def report_of(choices: Choices, compare: str, *, saved: Reopened | None = None, problems: Sequence[str] = ()) -> str:
    """Write the report. `compare`: the whole address of Compare, for the way back to these numbers. `saved`: add its
    name, its declared set and what has changed in the record since."""
    plates, absent = _draw_plates(choices)
    context = {**_build_context(choices, compare, saved, problems), "plates": plates, "absent": absent}
    return render_to_string("compare/report.html", {**context, **_embed_assets(with_charts=bool(plates))})


def write_markdown(choices: Choices, compare: str, *, saved: Reopened | None = None) -> str:
    """Write the report as text, without its charts."""
    return render_markdown_file("compare/report.md", _build_context(choices, compare, saved, ()))


def _build_context(
    choices: Choices, compare: str, saved: Reopened | None, problems: Sequence[str]
) -> dict[str, object]:
    made_at = timezone.now()
    sheet = build_sheet(choices)
    head = AnswerHead(sheet, sheet.metric) if sheet.metric and not saved else None  # a declared set has its own answers
    forest = None
    if sheet.metric:
        answer = head.answer if head else Answer(sheet.comparison, sheet.metric)
        forest = ForestBuilder(sheet, answer, arrange(sheet.comparison.groups.all)).build()
    # Each sentence with what distinguishes its group beyond the condition.
    if saved:
        sentences = [(each.sentence, SEPARATOR.join(each.lines)) for each in saved.corrected.hypotheses]
    else:
        judged = head.answer.judged if head else []
        sentences = [(each.sentence, each.group.label.partition(SEPARATOR)[2]) for each in judged]
    tables: dict[str, dict[str, None]] = {}  # paper -> the tables and texts of it that the charts were given
    for row in sheet.printed:
        tables.setdefault(row.paper, {})[row.table] = None
    pinned = choices.but(as_of=choices.as_of or made_at, seen=sheet.comparison.fingerprint)
    return {
        "title": saved.saved.name if saved else title_of(sheet.comparison),
        "saved": saved.saved if saved else None,
        "moved_on": saved.moved_on() if saved else _came_since(sheet.comparison),
        "corrected": saved.corrected if saved else None,
        "problems": [*problems, *sheet.problems],
        "choices": _choices_in_words(choices, sheet),
        "address": f"{compare}?{pinned.query()}",
        "as_of": choices.as_of or made_at,
        "made_at": made_at,
        "version": settings.VERSION,
        "comparison": sheet.comparison,
        "setups": sheet.comparison.setups,
        "judged_by": sheet.comparison.judged_by,
        "metrics": (*sheet.metrics, *list_run_metrics(sheet)),
        "metric_name": name_metric(sheet.metric) if sheet.metric else None,
        "head": head,
        "baseline": say_label(choices.baseline.removeprefix(MODEL)),
        "forest": forest,
        "are_marked": len({group.stand_ins for group in sheet.comparison.groups.all}) > 1,
        "sentences": sentences,
        "sources": [(PAPERS.get(paper, paper), ", ".join(names)) for paper, names in tables.items()],
    }


def title_of(comparison: GroupComparison) -> str:
    """Return the title: the sides, or the only experiment by its name."""
    if comparison.choices.sides:
        return name_comparison(comparison)
    names = [*experiment_names(comparison.groups.all).values()]
    return names[0] if len(names) == 1 else "Comparison"


def _came_since(comparison: GroupComparison) -> list[str]:
    """Say what a pinned report leaves out; empty if nothing is pinned or nothing came in later."""
    runs, trials = count_added_since(comparison.choices), comparison.revised
    came = [plural(runs, "matching run")] if runs else []
    came += [f"results of {plural(trials, 'trial')}"] if trials else []
    return [f"Added after the date of this report, and left out: {' and '.join(came)}."] if came else []


def least_bytes() -> int:
    """Return the size of a report with charts before its own numbers: the drawing code and its styles."""
    return sum(len(text.encode()) for text in (static_text("css/report.css"), static_text("js/report.js"), _bundle()))


def _draw_plates(choices: Choices) -> tuple[list[dict[str, object]], list[tuple[Chart, str]]]:
    """Return every chart that has something to draw, each with its own options, and the others with their reason."""
    plates, absent = list[dict[str, object]](), []
    for chart in CHARTS.values():
        sheet = build_sheet(choices, chart)
        drawn_chart = draw_chart(chart, sheet)
        drawing = drawn_chart.drawing
        if drawn_chart.figure is None:
            absent.append((chart, drawing.absent))
            continue
        # JSON that cannot end the script element that holds it: "<" inside its strings is written as its code.
        figure = mark_safe(drawn_chart.figure.replace(b"<", b"\\u003c").decode())  # noqa: S308
        metric = name_metric(sheet.metric) if chart.uses_metric and sheet.metric else None
        plate = {"chart": chart, "drawing": drawing, "figure": figure, "metric": metric}
        plates.append({**plate, **build_table(drawing.table)})
    return plates, absent


def _choices_in_words(choices: Choices, sheet: ChartSheet) -> list[tuple[str, str]]:
    """List everything that narrows the comparison, by the name the page gives it, and the baseline."""
    names = {group.first.experiment.public_id: group.first.experiment.name for group in sheet.comparison.groups.all}
    rows = [("Experiment", ", ".join(names.get(each, str(each)) for each in choices.experiment))]
    rows += [("Condition", "; ".join(name_condition(code).title for code in choices.condition))]
    rows += [
        (name.replace("_", " ").capitalize(), ", ".join(str(each) or "none" for each in getattr(choices, name)))
        for name in ("suite", "agent_model", "author_model", "author_agent", "harness", "replicate")
    ]
    rows += [(f"Taken in {name}", str(getattr(choices, name) or "")) for name in ("since", "until")]
    return [(name, value) for name, value in rows if value] + [
        ("Compared with", say_label(choices.baseline.removeprefix(MODEL)))
    ]


# --- what the file contains -------------------------------------------------------------------------------------------


def _embed_assets(*, with_charts: bool) -> dict[str, object]:
    """Return style and scripts as text, and a policy that lets these scripts run, and nothing else."""
    scripts = [_bundle(), static_text("js/report.js")] if with_charts else []
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src {hashes}"
    return {
        "policy": policy,
        "style": mark_safe(static_text("css/report.css")),  # noqa: S308
        "scripts": [mark_safe(script) for script in scripts],  # noqa: S308
    }


@cache
def _bundle() -> str:
    folder = Path(str(finders.find("vendor")))
    (found,) = folder.glob(Path(BUNDLE).name)
    return _unending(found.read_text(encoding="utf-8"))


@cache
def static_text(name: str) -> str:
    """Return a static file as text for a style or script element."""
    found = finders.find(name)
    if not isinstance(found, str):
        raise FileNotFoundError(f"static/{name}: needed for reports")
    return _unending(Path(found).read_text(encoding="utf-8"))


def _unending(script: str) -> str:
    """Escape the end of a script: HTML ends one at the first "</script" anywhere; inside strings the backslash
    changes nothing."""
    return script.replace("</script", "<\\/script").replace("\r\n", "\n")
