"""`/comparisons/`: comparisons that were saved, and what was declared with them; saved once, never edited. Their
numbers as files: reports, `/compare/export/<what>.<format>`, and `/compare/dictionary/` for what every column
means."""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryFile
from uuid import UUID

from django import forms
from django.http import (
    FileResponse,
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    QueryDict,
    StreamingHttpResponse,
)
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.text import slugify

from benchapp.exports.dictionary import EXPORTS, ROWS_ARE, group_column
from benchapp.exports.export_run import FORMATS, Export, metrics_of, parse_export_request
from benchapp.exports.latex import condition_table
from benchapp.models import Comparison, User
from benchapp.record.json_shape import JsonShape
from benchapp.stats.comparing.choices import parse_choices
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.comparing.hypotheses import Corrected, Reopened, save_comparison
from benchapp.stats.metrics.catalogue import DEFAULT_METRIC, METRICS, RUN_METRICS, name_metric
from benchapp.stats.metrics.metric import TrialMetric
from inspector.charts.chart_request import build_sheet
from inspector.pages.compare.answer_page import HYPOTHESIS, say_held, write_declared
from inspector.pages.compare.report import least_bytes, report_of, title_of
from inspector.pages.compare.results import name_baseline
from inspector.web.access import needs
from inspector.web.responses import attach, link_to, paginate, render_page
from inspector.web.text.row_shapes import SETUP
from runner.suites.tasks.task_groups import KNOWN

PER_PAGE = 50
TEX = "application/x-tex; charset=utf-8"


class SaveForm(forms.Form):
    """The form that saves a comparison. `metrics`: the differences of these, every group against its baseline, are
    corrected together. `understood`: the metrics that the form has called too weak to find anything."""

    name = forms.CharField(max_length=200, error_messages={"required": "Give it a name, so that others find it."})
    metrics = forms.MultipleChoiceField(error_messages={"required": "Choose at least one metric to correct."})
    understood = forms.CharField(required=False)

    def __init__(self, metrics: Sequence[TrialMetric], data: QueryDict | None, default: Sequence[str]) -> None:
        super().__init__(data, initial={"metrics": default})
        self.known = {metric.key: metric for metric in metrics}
        self.fields["metrics"].choices = [(key, key) for key in self.known]  # type: ignore[attr-defined]

    def chosen(self) -> list[TrialMetric]:
        return [self.known[key] for key in self.cleaned_data["metrics"]]


def join_keys(metrics: Sequence[TrialMetric]) -> str:
    return " ".join(metric.key for metric in metrics)


def comparisons(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    page = paginate(request, Comparison.objects.select_related("created_by"), per_page=PER_PAGE)
    data = {"comparisons": LISTED.read_all(page)}
    context = {"names": {key: name_metric(metric).title for key, metric in METRICS.items()}}
    return render_page(request, "compare/comparisons.html", data=data, context=context, page=page, as_json=as_json)


@needs(User.Level.REVIEWER)
def comparison_save(request: HttpRequest) -> HttpResponse:
    """Save a comparison: its choices from the address, the name and the metrics from the form. A set of metrics that
    can show nothing is saved only after a warning."""
    choices, problems = parse_choices(request.GET)
    sheet = build_sheet(choices)
    problems += sheet.problems
    comparison = sheet.comparison
    default = [metric.key for metric in sheet.metrics if metric.key == DEFAULT_METRIC]
    default = default or ([sheet.metric.key] if sheet.metric else [])
    form = SaveForm(sheet.metrics, request.POST if request.method == "POST" else None, default)
    chosen = form.chosen() if form.is_valid() else [metric for metric in sheet.metrics if metric.key in default]
    futile = Corrected.of(comparison, chosen).futile
    is_understood = form.is_valid() and (not futile or form.cleaned_data["understood"] == join_keys(chosen))
    if request.method == "POST" and not problems and is_understood:
        author: User = request.user  # type: ignore[assignment]
        saved = save_comparison(choices, chosen, name=form.cleaned_data["name"], user=author)
        return HttpResponseRedirect(saved.get_absolute_url())
    compared = [group for group in comparison.groups.all if comparison.groups.baseline_of(group)]
    context = {
        "form": form,
        "ticked": request.POST.getlist("metrics") if form.is_bound else default,
        "metrics": sheet.metrics,
        "choices": choices,
        "query": choices.query(),
        "baseline": name_baseline(comparison),
        "groups": len(comparison.groups.all),
        "compared": len(compared),
        "runs": len(comparison.runs),
        "problems": problems,
        "futile": futile,
        "understood": join_keys(chosen) if futile else "",
        "unfinished": comparison.unfinished,
    }
    status = 400 if request.method == "POST" else 200
    return render(request, "compare/comparison_save.html", context, status=status)


def comparison(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    reopened = _reopen(public_id)
    corrected = reopened.corrected
    data = {
        **SAVED.read(reopened.saved),
        "moved_on": reopened.moved_on(),
        "unknown_metrics": reopened.unknown_metrics,
        "problems": reopened.problems,
        "scripted": reopened.comparison.scripted,
        "unfinished": reopened.comparison.unfinished or None,
        "setup": SETUP.read(reopened.comparison.setups),
        "declared": len(corrected.hypotheses),
        "futile": corrected.futile or None,
        "tested": corrected.tested,
        "below_level": corrected.found,
        "differences": DIFFERENCE.read_all(corrected.hypotheses),
        "compare": request.build_absolute_uri(f"{reverse('compare-json')}?{reopened.choices.query()}"),
    }
    rows = [write_declared(each) for each in corrected.hypotheses]
    context = {
        "saved": reopened.saved,
        "reopened": reopened,
        "comparison": reopened.comparison,
        "rows": rows,
        "held": [row for row, each in zip(rows, corrected.hypotheses, strict=True) if each.is_found],
        "held_in_words": say_held(corrected.hypotheses),
        "all_alike": len({run.stand_ins for run in reopened.comparison.runs}) == 1,
        "futile": corrected.futile,
        "untested": corrected.untested_in_words,
        "judged_by": reopened.comparison.judged_by if any(each.is_judged for each in reopened.metrics) else "",
        "now_query": reopened.choices.but(as_of=None, seen="").query(),
        "report_bytes": least_bytes(),
    }
    return render_page(request, "compare/comparison.html", data=data, context=context, as_json=as_json)


def comparison_report(request: HttpRequest, public_id: UUID) -> HttpResponse:
    reopened = _reopen(public_id)
    text = report_of(reopened.choices, request.build_absolute_uri(reverse("compare")), saved=reopened)
    return HttpResponse(text, headers=attach(f"skillglass-{str(public_id)[:8]}.html"))


def compare_report(request: HttpRequest) -> HttpResponse:
    """Return the report of unsaved choices, without a correction for several tests."""
    choices, problems = parse_choices(request.GET)
    slug = slugify(title_of(comparison_of(choices))) or "comparison"
    text = report_of(choices, request.build_absolute_uri(reverse("compare")), problems=problems)
    return HttpResponse(text, headers=attach(f"skillglass-{slug}.html"))


def comparison_export(request: HttpRequest, public_id: UUID, form: str) -> HttpResponseBase:
    """Export the differences with their corrected p values."""
    if form not in FORMATS:
        raise Http404(f"There are {', '.join(FORMATS)}.")
    reopened = _reopen(public_id)
    return _stream_export(Export("differences", reopened.choices, declared=reopened.metrics), form)


def _reopen(public_id: UUID) -> Reopened:
    return Reopened(get_object_or_404(Comparison.objects.select_related("created_by"), public_id=public_id))


_SAVED = "id=public_id name created_at created_by=created_by.username query metrics fingerprint"
SAVED = JsonShape(_SAVED)
LISTED = JsonShape(_SAVED, link_to("comparison-json"))
DIFFERENCE = JsonShape(HYPOTHESIS)


# --- numbers as files, and what every column of them means ------------------------------------------------------------


def export(request: HttpRequest, what: str, form: str) -> HttpResponseBase:
    """Export what is compared; `table.tex` is the condition table for a paper. A part of the filter that is not
    understood is refused: ignoring it would give more than was asked for."""
    is_table = (what, form) == ("table", "tex")
    if not is_table and (what not in EXPORTS or form not in FORMATS):
        raise Http404(f"There are {', '.join(EXPORTS)}, each as {', '.join(FORMATS)}.")
    asked, problems = parse_export_request("aggregates" if is_table else what, request.GET)
    if problems:
        text = "\n".join(["Nothing was exported:", *(f"- {problem}" for problem in problems), ""])
        return HttpResponse(text, content_type="text/plain; charset=utf-8", status=400)
    if not is_table:
        return _stream_export(asked, form)
    found = comparison_of(asked.choices)
    text = condition_table(found, metrics_of(found))
    return HttpResponse(text, content_type=TEX, headers=attach("skillglass-conditions.tex"))


def _stream_export(asked: Export, form: str) -> HttpResponseBase:
    """Stream an export. Parquet, whose end holds the places of its parts, goes through a temporary file."""
    name = f"skillglass-{asked.what}.{form}"
    if form == "parquet":
        file = TemporaryFile()  # noqa: SIM115  (the response closes it)
        asked.write(file, form)
        file.seek(0)
        return FileResponse(file, as_attachment=True, filename=name, content_type=FORMATS[form])
    return StreamingHttpResponse(asked.pieces(form), content_type=FORMATS[form], headers=attach(name))


METRIC = JsonShape("key unit meaning phases role source?")
NONE = ("phases", lambda _: None), ("role", lambda _: None)  # a metric of whole runs is of no phase
RUN_METRIC = JsonShape("key unit meaning", *NONE, "source?")


def dictionary(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    data = {
        "exports": {
            name: {"rows_are": ROWS_ARE[name], "columns": [field.as_json() for field in fields]}
            for name, fields in EXPORTS.items()
        },
        "group_columns": [group_column(name).as_json() for name in KNOWN],
        "formats": list(FORMATS),
        "metrics": [*METRIC.read_all(METRICS.values()), *RUN_METRIC.read_all(RUN_METRICS.values())],
    }
    return render_page(request, "compare/compare_dictionary.html", data=data, as_json=as_json)
