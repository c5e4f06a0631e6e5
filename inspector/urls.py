"""The addresses of all pages. Every page has a JSON twin: the path without its trailing slash, with .json.

A view is named by its module below `inspector` and is imported with the first request for it. So a command that answers
one page, or none, does not wait for all of them. An address takes GET and HEAD unless it is declared as a form or an
act.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from django.utils.module_loading import import_string
from django.views.decorators.http import require_http_methods

from inspector.web.responses import View

Routes = Callable[[str], list[URLPattern]]  # below a prefix
SAFE = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class LazyView:
    """A view that is imported when it is first called.
    `open_to_all` and `takes_runs`: what `inspector.web.access` asks a view for."""

    name: str  # dotted, below `inspector`
    methods: tuple[str, ...]

    def __call__(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        return require_http_methods(self.methods)(self.load())(request, *args, **kwargs)

    def load(self) -> View:
        return cast(View, import_string(f"inspector.{self.name}"))

    @property
    def open_to_all(self) -> bool:
        return getattr(self.load(), "open_to_all", False)

    @property
    def takes_runs(self) -> bool:
        return getattr(self.load(), "takes_runs", False)


def page(route: str, view: str, name: str, methods: tuple[str, ...] = SAFE) -> Routes:
    """The page and its JSON twin ("/" answers as /index.json)."""

    def build(prefix: str) -> list[URLPattern]:
        whole, lazy = prefix + route, LazyView(view, methods)
        json_route = f"{whole.rstrip('/') or 'index'}.json"
        return [path(whole, lazy, name=name), path(json_route, lazy, {"as_json": True}, name=f"{name}-json")]

    return build


def part(route: str, view: str, name: str, methods: tuple[str, ...] = SAFE) -> Routes:
    """What has no twin: a file, a fragment of a page."""
    return lambda prefix: [path(prefix + route, LazyView(view, methods), name=name)]


form_page, form = (partial(kind, methods=(*SAFE, "POST")) for kind in (page, part))
act = partial(part, methods=("POST",))


ROUTES: dict[str, list[Routes]] = {
    "": [
        part("healthz", "web.health.healthz", "healthz"),
        part("readyz", "web.health.readyz", "readyz"),
        part("metrics", "web.health.metrics", "metrics"),
        page("", "pages.overview.overview_view.index", "index"),
        page("experiments/<uuid:public_id>/", "pages.experiments.experiment_view.experiment", "experiment"),
        form_page(
            "experiments/<uuid:public_id>/judgements/",
            "pages.experiments.experiment_view.experiment_judging",
            "experiment-judging",
        ),
        form_page(
            "experiments/<uuid:public_id>/rounds/",
            "pages.experiments.experiment_view.experiment_rounds",
            "experiment-rounds",
        ),
        page("published/", "pages.compare.published_view.published", "published"),
        form_page("publish/", "pages.publish.publish_view.publish", "publish"),
        part("publish/<uuid:public_id>/file/", "pages.publish.publish_view.publication_file", "publication-file"),
        act("publish/<uuid:public_id>/delete/", "pages.publish.publish_view.publication_delete", "publication-delete"),
        page("docs/", "pages.documents.documents_view.document", "documents"),
        page("docs/<path:name>/", "pages.documents.documents_view.document", "document"),
        part("docs/pictures/<path:name>.png", "pages.documents.documents_view.picture", "document-picture"),
        page("search/", "pages.search.search_view.search", "search"),
        part("palette/", "pages.search.palette_view.palette", "palette"),
        page("imports/", "pages.imports.imports_view.imports", "imports"),
        act("imports/assign/", "pages.imports.imports_view.assign", "imports-assign"),
        act("imports/accept/", "pages.imports.imports_view.accept", "imports-accept"),
        act("imports/arrange/", "pages.imports.imports_view.arrange", "imports-arrange"),
        act("imports/undo/", "pages.imports.imports_view.undo", "imports-undo"),
        act("imports/paths/", "pages.imports.upload_view.read_path", "imports-paths"),
        part("imports/logs/<uuid:log>/", "pages.imports.upload_view.run_log", "run-log", ("GET", "POST")),
        act("imports/uploads/", "pages.imports.upload_view.begin", "uploads"),
        part("imports/uploads/<uuid:public_id>/", "pages.imports.upload_view.upload", "upload"),
        act("imports/uploads/<uuid:public_id>/pieces/", "pages.imports.upload_view.pieces", "upload-pieces"),
        act("imports/uploads/<uuid:public_id>/finish/", "pages.imports.upload_view.finish", "upload-finish"),
        act("imports/uploads/<uuid:public_id>/discard/", "pages.imports.upload_view.discard", "upload-discard"),
        page("jobs/", "pages.jobs.jobs_view.jobs", "jobs"),
        form_page("launch/", "pages.launch.launch_view.launch", "launch"),
        form_page("launch/server/", "pages.launch.server_view.server", "launch-server"),
        page("jobs/<slug:kind>/<uuid:public_id>/", "pages.jobs.operate_view.operate", "operate"),
        act("jobs/<slug:kind>/<uuid:public_id>/<slug:act>/", "pages.jobs.operate_view.operate_act", "operate-act"),
        form("login/", "pages.people.login_view.login", "login"),
        part("login/sso/", "pages.people.sso_view.begin", "sso"),
        part("login/sso/callback/", "pages.people.sso_view.callback", "sso-callback"),
        form("join/", "pages.people.login_view.join", "join"),
        act("logout/", "pages.people.login_view.logout", "logout"),
        form("password/", "pages.people.login_view.password", "password"),
        page("activity/", "pages.people.activity_view.activity", "activity"),
    ],
    "runs/<uuid:public_id>/": [
        page("", "pages.runs.run_view.run_page", "run"),
        page("library/", "pages.library.library_view.library", "library"),
        part("library/file/", "pages.library.library_view.library_file", "library-file"),
        page("library/beside/", "pages.library.beside_view.library_beside", "library-beside"),
        page("library/sessions/", "pages.library.library_view.library_sessions", "library-sessions"),
        page("library/blame/", "pages.library.blame_view.blame", "blame"),
        page("library/findings/", "pages.library.findings_view.findings", "findings"),
        act("library/findings/ask/", "pages.library.findings_view.findings_ask", "findings-ask"),
        page("library/author/", "pages.library.author_call_view.author_call", "author-call"),
        part(
            "library/author/<uuid:call_id>/<slug:part>.txt", "pages.library.author_call_view.author_text", "author-text"
        ),
        page("skills/", "pages.runs.skills_view.skills", "skills"),
        page("judgements/", "pages.runs.judgements_view.judgements", "judgements"),
        page("judgements/<uuid:unit_id>/", "pages.runs.judgements_view.judged_unit", "judged-unit"),
        part("library/capsule/", "pages.library.capsule_view.library_capsule", "library-capsule"),
        part("library/take/<slug:form>/", "pages.library.take_view.library_take", "library-take"),
        form_page("library/probe/", "pages.library.probe_view.probe", "probe"),
    ],
    "trials/<uuid:public_id>/": [
        page("", "pages.trials.trial.trial", "trial"),
        part("live/", "pages.trials.trial.live_trial", "trial-live"),
        part("field/", "pages.trials.pieces.field", "trial-field"),
        part("image/<slug:digest>/", "pages.trials.pieces.image", "trial-image"),
        part("steps/", "pages.trials.trial.steps", "trial-steps"),
        part("outline/", "pages.trials.pieces.outline_rows", "trial-outline"),
        part("parting/<uuid:other_id>/", "pages.trials.pieces.parting", "trial-parting"),
        part("<slug:name>.txt", "pages.trials.pieces.text", "trial-text"),
        page("compare/<uuid:other_id>/", "pages.trials.pair_view.pair", "compare-pair"),
        part("trajectory.json", "pages.trials.pieces.trajectory_file", "trial-trajectory"),
        part("capsule/", "pages.library.capsule_view.trial_capsule", "trial-capsule"),
    ],
    "compare/": [
        page("", "pages.compare.compare_view.compare", "compare"),
        page("sides/", "pages.compare.sides_view.choose_sides", "compare-sides"),
        page("where/", "pages.compare.tabs_view.where", "compare-where"),
        page("cost/", "pages.compare.tabs_view.cost", "compare-cost"),
        page("runs/", "pages.compare.tabs_view.compared_runs", "compare-runs"),
        page("trials/", "pages.compare.compared_trials_view.compared_trials", "compare-trials"),
        page("libraries/", "pages.compare.compared_libraries_view.compared_libraries", "compare-libraries"),
        page("replay/", "pages.compare.tabs_view.replay", "compare-replay"),
        page("certainty/", "pages.compare.tabs_view.certainty", "compare-certainty"),
        page("failures/", "pages.compare.failures_view.failures", "compare-failures"),
        page("lines/", "pages.compare.compared_libraries_view.lines", "compare-lines"),
        page("dictionary/", "pages.compare.comparisons_view.dictionary", "compare-dictionary"),
        part("report/", "pages.compare.comparisons_view.compare_report", "compare-report"),
        part("export/<str:what>.<str:form>", "pages.compare.comparisons_view.export", "compare-export"),
        page("charts/<slug:key>/", "pages.compare.chart_view.chart", "chart"),
        part("charts/<slug:key>.csv", "pages.compare.chart_view.chart_csv", "chart-csv"),
    ],
    "comparisons/": [
        page("", "pages.compare.comparisons_view.comparisons", "comparisons"),
        form("save/", "pages.compare.comparisons_view.comparison_save", "comparison-save"),
        page("<uuid:public_id>/", "pages.compare.comparisons_view.comparison", "comparison"),
        part("<uuid:public_id>/report/", "pages.compare.comparisons_view.comparison_report", "comparison-report"),
        part(
            "<uuid:public_id>/differences.<str:form>",
            "pages.compare.comparisons_view.comparison_export",
            "comparison-export",
        ),
    ],
    "suites/": [
        page("", "pages.suites.suites_view.suites", "suites"),
        act("<path:name>/families/", "pages.suites.suites_view.families", "suite-families"),
        act("<path:name>/join/", "pages.suites.suites_view.join", "suite-join"),
        part("<path:name>/workflows.yaml", "pages.suites.workflows_view.workflows_file", "suite-workflows-file"),
        form_page("<path:name>/workflows/", "pages.suites.workflows_view.workflows", "suite-workflows"),
        form_page(
            "<path:name>/workflows/<path:task>/settle/",
            "pages.suites.workflows_view.workflow_settle",
            "suite-workflow-settle",
        ),
        form_page("<path:name>/workflows/<path:task>/", "pages.suites.workflows_view.workflow", "suite-workflow"),
        page("<path:name>/", "pages.suites.suites_view.suite", "suite"),
    ],
    "drafts/": [
        page("", "pages.drafts.drafts_view.drafts", "drafts"),
        form_page("new/", "pages.drafts.drafts_view.draft_new", "draft-new"),
        form_page("<uuid:public_id>/", "pages.drafts.drafts_view.draft", "draft"),
        page("<uuid:public_id>/steps/<int:number>/", "pages.drafts.drafts_view.draft_step", "draft-step"),
        form_page("<uuid:public_id>/files/<path:path>/", "pages.drafts.drafts_view.draft_file", "draft-file"),
    ],
    "people/": [
        page("", "pages.people.people_view.accounts", "people"),
        page("me/", "pages.people.people_view.me", "account"),
        form("me/tokens/", "pages.people.people_view.token_make", "token-make"),
        act("tokens/<uuid:public_id>/revoke/", "pages.people.people_view.token_revoke", "token-revoke"),
        form("invite/", "pages.people.people_view.account_invite", "account-invite"),
        act(
            "invitations/<uuid:public_id>/withdraw/",
            "pages.people.people_view.invitation_withdraw",
            "invitation-withdraw",
        ),
        act("<path:name>/change/", "pages.people.people_view.account_change", "account-change"),
    ],
    "comments/": [
        page("", "pages.people.comments_view.comments", "comments"),
        part("about/", "pages.people.comments_view.about", "comments-about"),
        act("write/", "pages.people.comments_view.write", "comment-write"),
        act("read/", "pages.people.comments_view.read", "comments-read"),
        act("<uuid:public_id>/retract/", "pages.people.comments_view.retract", "comment-retract"),
    ],
    "review/queues/<uuid:public_id>/": [
        page("", "pages.review.queues.queues_view.queue", "queue"),
        act("next/", "pages.review.queues.queues_view.queue_next", "queue-next"),
        act("people/", "pages.review.queues.queues_view.queue_people", "queue-people"),
        act("close/", "pages.review.queues.queues_view.queue_close", "queue-close"),
        act("reviews/", "pages.review.queues.queues_view.queue_reviews", "queue-reviews"),
        act("second-pass/", "pages.review.queues.queues_view.queue_second_pass", "queue-second-pass"),
        page("results/", "pages.review.results.results_view.results", "results"),
        part("results.<str:form>", "pages.review.results.results_view.results_export", "results-export"),
        part("labels.<str:form>", "pages.review.results.results_view.labels_export", "labels-export"),
        part("results/<slug:key>.<str:form>", "pages.review.results.results_view.results_chart", "results-chart"),
        page("agreement/", "pages.review.results.agreement_view.agreement", "agreement"),
        act("agreement/keep/", "pages.review.results.agreement_view.agreement_keep", "agreement-keep"),
        page("disagreements/", "pages.review.results.agreement_view.disagreements", "disagreements"),
        act("disagreements/open/", "pages.review.results.agreement_view.disagreements_open", "disagreements-open"),
        page("suggestions/", "pages.review.suggestions.suggestions_view.suggestions", "suggestions"),
        act("suggestions/run/", "pages.review.suggestions.suggestions_view.suggestions_run", "suggestions-run"),
    ],
    "review/items/<uuid:public_id>/": [
        page("", "pages.review.coding.coding_view.item", "review-item"),
        act("save/", "pages.review.coding.coding_view.save", "review-save"),
        act("submit/", "pages.review.coding.coding_view.finish", "review-submit"),
        act("skip/", "pages.review.coding.coding_view.pass_over", "review-skip"),
        act("release/", "pages.review.coding.coding_view.release", "review-release"),
        act("ahead/", "pages.review.coding.coding_view.ahead", "review-ahead"),
        act("guess/", "pages.review.coding.coding_view.guess_condition", "review-guess"),
        act("propose/", "pages.review.coding.coding_view.propose", "review-propose"),
        part("field/", "pages.review.exhibits.exhibit.field", "review-field"),
        form_page("resolve/", "pages.review.coding.resolution_view.resolution", "resolve"),
    ],
    "review/versions/<uuid:public_id>/": [
        page("", "pages.review.codebooks.versions_view.version", "codebook-version"),
        page("diff/", "pages.review.codebooks.codebooks_view.version_diff", "codebook-diff"),
        form_page("carry/<uuid:queue_id>/", "pages.review.codebooks.codebooks_view.version_carry", "codebook-carry"),
        part("codebook.<str:form>", "pages.review.codebooks.versions_view.version_export", "codebook-export"),
        act("freeze/", "pages.review.codebooks.versions_view.version_freeze", "codebook-freeze"),
        act("discard/", "pages.review.codebooks.versions_view.version_discard", "codebook-discard"),
        act("clone/", "pages.review.codebooks.versions_view.version_clone", "codebook-clone"),
        act("add/", "pages.review.codebooks.versions_view.code_add", "code-add"),
    ],
    "review/codebooks/": [
        page("", "pages.review.codebooks.codebooks_view.codebooks", "codebooks"),
        act("new/", "pages.review.codebooks.codebooks_view.codebook_new", "codebook-new"),
        page("<uuid:public_id>/", "pages.review.codebooks.codebooks_view.codebook", "codebook"),
        act("<uuid:public_id>/draft/", "pages.review.codebooks.codebooks_view.codebook_draft", "codebook-draft"),
    ],
    "review/": [
        page("", "pages.review.review_view.review", "review"),
        form_page("queues/new/", "pages.review.queues.new_queue_view.queue_new", "queue-new"),
        act("queues/new/forget/", "pages.review.queues.new_queue_view.queue_forget", "queue-forget"),
        act("codes/<uuid:public_id>/<slug:act>/", "pages.review.codebooks.versions_view.code_act", "code-act"),
        act(
            "examples/<uuid:public_id>/remove/", "pages.review.codebooks.versions_view.example_remove", "example-remove"
        ),
        act(
            "reviews/<uuid:review_id>/marks/<uuid:mark_id>/example-of/<uuid:code_id>/",
            "pages.review.codebooks.versions_view.mark_example",
            "mark-example",
        ),
    ],
}

urlpatterns: list[URLPattern] = [
    pattern for prefix, routes in ROUTES.items() for below in routes for pattern in below(prefix)
]


def load_views() -> None:
    """Import every view now, as a server does before it answers or forks."""
    for pattern in urlpatterns:
        cast(LazyView, pattern.callback).load()
