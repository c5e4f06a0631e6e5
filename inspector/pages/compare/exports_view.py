"""`/compare/export/<what>.<format>`: numbers as files; `/compare/dictionary/`: what every column of them means."""

from __future__ import annotations

from tempfile import TemporaryFile

from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.views.decorators.http import require_safe

from benchapp.exports.dictionary import EXPORTS, ROWS_ARE, group_column
from benchapp.exports.export_request import parse_export_request
from benchapp.exports.export_run import FORMATS, Export, metrics_of
from benchapp.exports.latex import condition_table
from benchapp.record.json_shape import JsonShape
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.metrics.catalogue import METRICS, RUN_METRICS
from inspector.web.responses import render_page
from runner.suites.tasks.task_groups import KNOWN

TEX = "application/x-tex; charset=utf-8"


@require_safe
def export(request: HttpRequest, what: str, form: str) -> HttpResponseBase:
    """Streamed; Parquet, whose end says where its parts lie, goes through a temporary file. `table.tex` is the condition
    table for a paper."""
    if (what, form) == ("table", "tex"):
        return _table_tex(request)
    if what not in EXPORTS or form not in FORMATS:
        raise Http404(f"There are {', '.join(EXPORTS)}, each as {', '.join(FORMATS)}.")
    asked, problems = parse_export_request(what, request.GET)
    return refuse_export(problems) if problems else stream_export(asked, form)


def stream_export(asked: Export, form: str) -> HttpResponseBase:
    name = f"skillglass-{asked.what}.{form}"
    if form == "parquet":
        file = TemporaryFile()  # noqa: SIM115  (the response closes it)
        asked.write(file, form)
        file.seek(0)
        return FileResponse(file, as_attachment=True, filename=name, content_type=FORMATS[form])
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingHttpResponse(asked.pieces(form), content_type=FORMATS[form], headers=disposition)


def _table_tex(request: HttpRequest) -> HttpResponseBase:
    asked, problems = parse_export_request("aggregates", request.GET)
    if problems:
        return refuse_export(problems)
    comparison = comparison_of(asked.choices)
    text = condition_table(comparison, metrics_of(comparison))
    disposition = {"Content-Disposition": 'attachment; filename="skillglass-conditions.tex"'}
    return HttpResponse(text, content_type=TEX, headers=disposition)


def refuse_export(problems: list[str]) -> HttpResponse:
    """What is not understood is not left out of the filter: that would give out more than was asked for."""
    text = "\n".join(["Nothing was exported:", *(f"- {problem}" for problem in problems), ""])
    return HttpResponse(text, content_type="text/plain; charset=utf-8", status=400)


METRIC = JsonShape("key", "unit", "meaning", "phases", "role", "source?")
NONE = ("phases", lambda _: None), ("role", lambda _: None)  # a metric of whole runs is of no phase
RUN_METRIC = JsonShape("key", "unit", "meaning", *NONE, "source?")


@require_safe
def dictionary(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    data = {
        "exports": {
            name: {"rows_are": ROWS_ARE[name], "columns": [field.as_json() for field in fields]}
            for name, fields in EXPORTS.items()
        },
        "group_columns": [group_column(name).as_json() for name in KNOWN],
        "formats": list(FORMATS),
        "metrics": [*METRIC.read_all(METRICS.values()), *RUN_METRIC.read_all(RUN_METRICS.values())],
        "next": None,
    }
    return render_page(request, "compare/compare_dictionary.html", data=data, as_json=as_json)
