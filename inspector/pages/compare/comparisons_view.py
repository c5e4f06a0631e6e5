"""`/comparisons/`: comparisons that were saved, and what was declared with them. Saved once, never edited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django import forms
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.text import slugify
from django.views.decorators.http import require_http_methods, require_safe

from benchapp.exports.export_run import FORMATS, Export
from benchapp.models import Comparison, User
from benchapp.record.json_shape import JsonShape
from benchapp.stats.comparing.choices import parse_choices
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.comparing.hypotheses import Corrected, Hypothesis, Reopened, save_comparison
from benchapp.stats.inference.difference import Difference
from benchapp.stats.metrics.amounts import render_change
from benchapp.stats.metrics.catalogue import DEFAULT_METRIC, METRICS, name_metric
from benchapp.stats.metrics.metric import TrialMetric
from inspector.charts.chart_request import build_sheet
from inspector.pages.compare.exports_view import stream_export
from inspector.pages.compare.report import least_bytes, report_of, title_of
from inspector.pages.compare.results import name_baseline
from inspector.web.access import needs
from inspector.web.responses import link_to, next_url, paginate, render_page
from inspector.web.text.row_shapes import SETUP

PER_PAGE = 50


class SaveForm(forms.Form):
    """`metrics`: the differences of these, every group against its baseline, are corrected together. `understood`: the
    metrics that the form has called too weak to find anything."""

    name = forms.CharField(max_length=200, error_messages={"required": "Give it a name, so that others find it."})
    metrics = forms.MultipleChoiceField(error_messages={"required": "Choose at least one metric to correct."})
    understood = forms.CharField(required=False)

    def __init__(self, metrics: Sequence[TrialMetric], data: QueryDict | None, default: Sequence[str]) -> None:
        super().__init__(data, initial={"metrics": default})
        self.known = {metric.key: metric for metric in metrics}
        self.fields["metrics"].choices = [(key, key) for key in self.known]  # type: ignore[attr-defined]

    def chosen(self) -> list[TrialMetric]:
        return [self.known[key] for key in self.cleaned_data["metrics"]]

    def is_understood(self) -> bool:
        return bool(self.cleaned_data["understood"] == join_keys(self.chosen()))


def join_keys(metrics: Sequence[TrialMetric]) -> str:
    return " ".join(metric.key for metric in metrics)


@dataclass(frozen=True, slots=True)
class DeclaredRow:
    """One declared difference as the page shows it: texts are empty where there is none; `effect` after the correction."""

    hypothesis: Hypothesis
    delta: str
    around: str
    drawn: SafeString
    effect: Effect

    @property
    def holds(self) -> bool:
        return self.hypothesis.is_found

    @property
    def stands(self) -> list[str]:
        """Return the note for a comparison that is still interim."""
        each = self.hypothesis
        waits = [f"waits for {each.waiting:,} trial{'' if each.waiting == 1 else 's'}"] if each.waiting else []
        return [*waits, each.interim.short] if each.interim else waits

    @classmethod
    def of(cls, each: Hypothesis) -> DeclaredRow:
        found, metric = each.difference, each.metric
        delta, around = _write_difference(found, metric) if found else ("", "")
        drawn = _draw_difference(found) if found and metric.is_share else SafeString("")
        return cls(each, delta, around, drawn, each.effect)


@require_safe
def comparisons(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    page = paginate(request, Comparison.objects.select_related("created_by"), per_page=PER_PAGE)
    data = {
        "comparisons": LISTED.read_all(page),
        "next": next_url(request, page),
    }
    names = {key: name_metric(metric).title for key, metric in METRICS.items()}
    return render_page(
        request, "compare/comparisons.html", data=data, context={"page": page, "names": names}, as_json=as_json
    )


@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.REVIEWER)
def comparison_save(request: HttpRequest) -> HttpResponse:
    """The choices come from the address, the name and the metrics from the form. A set of metrics that can show nothing is
    saved only after a warning."""
    choices, problems = parse_choices(request.GET)
    sheet = build_sheet(choices)
    problems += sheet.problems
    comparison = sheet.comparison
    default = [metric.key for metric in sheet.metrics if metric.key == DEFAULT_METRIC]
    default = default or ([sheet.metric.key] if sheet.metric else [])
    form = SaveForm(sheet.metrics, request.POST if request.method == "POST" else None, default)
    chosen = form.chosen() if form.is_valid() else [metric for metric in sheet.metrics if metric.key in default]
    futile = Corrected.of(comparison, chosen).futile
    if request.method == "POST" and not problems and form.is_valid() and (not futile or form.is_understood()):
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


@require_safe
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
        "next": None,
    }
    rows = [DeclaredRow.of(each) for each in corrected.hypotheses]
    context = {
        "saved": reopened.saved,
        "choices": reopened.choices,
        "comparability": reopened.comparison.setups,
        "groups": len(reopened.comparison.groups.all),
        "runs": len(reopened.comparison.runs),
        "baseline": reopened.comparison.groups.baseline,
        "metrics": reopened.metrics,
        "rows": rows,
        "held": [row for row in rows if row.holds],
        "held_in_words": say_held(rows),
        "stand_ins": reopened.comparison.stand_ins,
        "all_alike": len({run.stand_ins for run in reopened.comparison.runs}) == 1,
        "futile": corrected.futile,
        "untested": corrected.untested_in_words,
        "judged_by": reopened.comparison.judged_by if any(each.is_judged for each in reopened.metrics) else "",
        "now_query": reopened.choices.but(as_of=None, seen="").query(),
        "report_bytes": least_bytes(),
    }
    return render_page(request, "compare/comparison.html", data=data, context=context, as_json=as_json)


@require_safe
def comparison_report(request: HttpRequest, public_id: UUID) -> HttpResponse:
    reopened = _reopen(public_id)
    text = report_of(reopened.choices, request.build_absolute_uri(reverse("compare")), saved=reopened)
    return report_response(text, f"skillglass-{str(public_id)[:8]}.html")


@require_safe
def compare_report(request: HttpRequest) -> HttpResponse:
    """The report of unsaved choices: no correction is made."""
    choices, problems = parse_choices(request.GET)
    slug = slugify(title_of(comparison_of(choices))) or "comparison"
    text = report_of(choices, request.build_absolute_uri(reverse("compare")), problems=problems)
    return report_response(text, f"skillglass-{slug}.html")


def report_response(text: str, name: str) -> HttpResponse:
    return HttpResponse(text, headers={"Content-Disposition": f'attachment; filename="{name}"'})


@require_safe
def comparison_export(request: HttpRequest, public_id: UUID, form: str) -> HttpResponseBase:
    """Differences with their corrected p values."""
    if form not in FORMATS:
        raise Http404(f"There are {', '.join(FORMATS)}.")
    reopened = _reopen(public_id)
    return stream_export(Export("differences", reopened.choices, declared=reopened.metrics), form)


def _reopen(public_id: UUID) -> Reopened:
    return Reopened(get_object_or_404(Comparison.objects.select_related("created_by"), public_id=public_id))


_SAVED = (
    *("id=public_id", "name", "created_at", "created_by=created_by.username"),
    *("query", "metrics", "fingerprint"),
)
SAVED = JsonShape(*_SAVED)
LISTED = JsonShape(*_SAVED, link_to("comparison-json"))
HYPOTHESIS = (
    *("group=group.label", "baseline=baseline.label", "metric=metric.key", "p_holm=p"),
    *("sentence", "difference", "*interim"),
)
DIFFERENCE = JsonShape(*HYPOTHESIS)


def say_held(rows: Sequence[DeclaredRow]) -> str:
    """Which way those that hold differ: "1 better, 1 worse"; empty where neither way is better, and of one alone."""
    tones = [row.effect.tone for row in rows if row.holds and len(rows) > 1]
    return ", ".join(f"{tones.count(tone)} {tone}" for tone in ("better", "worse") if tone in tones)


def _draw_difference(difference: Difference) -> SafeString:
    """The primary interval on a line from -50 to +50 points, with its mark at the estimate."""
    if difference.interval is None:
        return SafeString("")
    low, point, high = (
        min(100.0, max(0.0, 50 + 100 * value))
        for value in (difference.interval.low, difference.delta, difference.interval.high)
    )
    return SafeString(
        '<svg class="interval difference" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="zero" d="M50 0V8"/><path class="range" d="M{low:.1f} 4H{max(high, low + 0.5):.1f}"/>'
        f'<path class="point" d="M{point:.1f} 1V7"/></svg>'
    )


def _write_difference(difference: Difference, metric: TrialMetric) -> tuple[str, str]:
    """The difference and the ends of the interval about it."""
    delta = render_change(difference.delta, metric.unit)
    if difference.interval is None:
        return delta, ""
    low, high = difference.interval.low, difference.interval.high
    return delta, f"{render_change(low, metric.unit)} to {render_change(high, metric.unit)}"
