"""The addresses of all pages. Every page has a JSON twin: the path without its trailing slash, with .json."""

from __future__ import annotations

from collections.abc import Callable

from django.urls import URLPattern, path

from inspector.pages.compare import (
    chart_view,
    compare_view,
    compared_libraries_view,
    compared_trials_view,
    comparisons_view,
    failures_view,
    published_view,
    sides_view,
    tabs_view,
)
from inspector.pages.documents import documents_view
from inspector.pages.drafts import drafts_view
from inspector.pages.experiments import experiment_view
from inspector.pages.imports import imports_view, upload_view
from inspector.pages.jobs import jobs_view, operate_view
from inspector.pages.launch import launch_view, server_view
from inspector.pages.library import (
    author_call_view,
    beside_view,
    blame_view,
    capsule_view,
    findings_view,
    library_view,
    probe_view,
    take_view,
)
from inspector.pages.overview import overview_view
from inspector.pages.people import activity_view, comments_view, login_view, people_view, sso_view
from inspector.pages.publish import publish_view
from inspector.pages.review import review_view
from inspector.pages.review.codebooks import codebooks_view, versions_view
from inspector.pages.review.coding import coding_view, resolution_view
from inspector.pages.review.exhibits import exhibit
from inspector.pages.review.queues import new_queue_view, queues_view
from inspector.pages.review.results import agreement_view, results_view
from inspector.pages.review.suggestions import suggestions_view
from inspector.pages.runs import judgements_view, run_view, skills_view
from inspector.pages.search import palette_view, search_view
from inspector.pages.suites import suites_view, workflows_view
from inspector.pages.trials import pair_view, pieces, trial
from inspector.web import health
from inspector.web.responses import View

Routes = Callable[[str], list[URLPattern]]  # below a prefix


def page(route: str, view: View, name: str) -> Routes:
    """The page and its JSON twin ("/" answers as /index.json)."""

    def build(prefix: str) -> list[URLPattern]:
        whole = prefix + route
        json_route = f"{whole.rstrip('/') or 'index'}.json"
        return [path(whole, view, name=name), path(json_route, view, {"as_json": True}, name=f"{name}-json")]

    return build


def part(route: str, view: View, name: str) -> Routes:
    """What has no twin: a file, a fragment of a page, an act."""
    return lambda prefix: [path(prefix + route, view, name=name)]


ROUTES: dict[str, list[Routes]] = {
    "": [
        part("healthz", health.healthz, "healthz"),
        part("readyz", health.readyz, "readyz"),
        part("metrics", health.metrics, "metrics"),
        page("", overview_view.index, "index"),
        page("experiments/<uuid:public_id>/", experiment_view.experiment, "experiment"),
        page("experiments/<uuid:public_id>/judgements/", experiment_view.experiment_judging, "experiment-judging"),
        page("experiments/<uuid:public_id>/rounds/", experiment_view.experiment_rounds, "experiment-rounds"),
        page("published/", published_view.published, "published"),
        page("publish/", publish_view.publish, "publish"),
        part("publish/<uuid:public_id>/file/", publish_view.publication_file, "publication-file"),
        part("publish/<uuid:public_id>/delete/", publish_view.publication_delete, "publication-delete"),
        page("docs/", documents_view.document, "documents"),
        page("docs/<path:name>/", documents_view.document, "document"),
        part("docs/pictures/<path:name>.png", documents_view.picture, "document-picture"),
        page("search/", search_view.search, "search"),
        part("palette/", palette_view.palette, "palette"),
        page("imports/", imports_view.imports, "imports"),
        part("imports/assign/", imports_view.assign, "imports-assign"),
        part("imports/accept/", imports_view.accept, "imports-accept"),
        part("imports/arrange/", imports_view.arrange, "imports-arrange"),
        part("imports/undo/", imports_view.undo, "imports-undo"),
        part("imports/paths/", upload_view.read_path, "imports-paths"),
        part("imports/logs/<uuid:log>/", upload_view.run_log, "run-log"),
        part("imports/uploads/", upload_view.begin, "uploads"),
        part("imports/uploads/<uuid:public_id>/", upload_view.upload, "upload"),
        part("imports/uploads/<uuid:public_id>/pieces/", upload_view.pieces, "upload-pieces"),
        part("imports/uploads/<uuid:public_id>/finish/", upload_view.finish, "upload-finish"),
        part("imports/uploads/<uuid:public_id>/discard/", upload_view.discard, "upload-discard"),
        page("jobs/", jobs_view.jobs, "jobs"),
        page("launch/", launch_view.launch, "launch"),
        page("launch/server/", server_view.server, "launch-server"),
        page("jobs/<slug:kind>/<uuid:public_id>/", operate_view.operate, "operate"),
        part("jobs/<slug:kind>/<uuid:public_id>/<slug:act>/", operate_view.operate_act, "operate-act"),
        part("login/", login_view.login, "login"),
        part("login/sso/", sso_view.begin, "sso"),
        part("login/sso/callback/", sso_view.callback, "sso-callback"),
        part("join/", login_view.join, "join"),
        part("logout/", login_view.logout, "logout"),
        part("password/", login_view.password, "password"),
        page("activity/", activity_view.activity, "activity"),
    ],
    "runs/<uuid:public_id>/": [
        page("", run_view.run_page, "run"),
        page("library/", library_view.library, "library"),
        part("library/file/", library_view.library_file, "library-file"),
        page("library/beside/", beside_view.library_beside, "library-beside"),
        page("library/sessions/", library_view.library_sessions, "library-sessions"),
        page("library/blame/", blame_view.blame, "blame"),
        page("library/findings/", findings_view.findings, "findings"),
        part("library/findings/ask/", findings_view.findings_ask, "findings-ask"),
        page("library/author/", author_call_view.author_call, "author-call"),
        part("library/author/<uuid:call_id>/<slug:part>.txt", author_call_view.author_text, "author-text"),
        page("skills/", skills_view.skills, "skills"),
        page("judgements/", judgements_view.judgements, "judgements"),
        page("judgements/<uuid:unit_id>/", judgements_view.judged_unit, "judged-unit"),
        part("library/capsule/", capsule_view.library_capsule, "library-capsule"),
        part("library/take/<slug:form>/", take_view.library_take, "library-take"),
        page("library/probe/", probe_view.probe, "probe"),
    ],
    "trials/<uuid:public_id>/": [
        page("", trial.trial, "trial"),
        part("live/", trial.live_trial, "trial-live"),
        part("field/", pieces.field, "trial-field"),
        part("image/<slug:digest>/", pieces.image, "trial-image"),
        part("steps/", trial.steps, "trial-steps"),
        part("outline/", pieces.outline_rows, "trial-outline"),
        part("parting/<uuid:other_id>/", pieces.parting, "trial-parting"),
        part("<slug:name>.txt", pieces.text, "trial-text"),
        page("compare/<uuid:other_id>/", pair_view.pair, "compare-pair"),
        part("trajectory.json", pieces.trajectory_file, "trial-trajectory"),
        part("capsule/", capsule_view.trial_capsule, "trial-capsule"),
    ],
    "compare/": [
        page("", compare_view.compare, "compare"),
        page("sides/", sides_view.choose_sides, "compare-sides"),
        page("where/", tabs_view.where, "compare-where"),
        page("cost/", tabs_view.cost, "compare-cost"),
        page("runs/", tabs_view.compared_runs, "compare-runs"),
        page("trials/", compared_trials_view.compared_trials, "compare-trials"),
        page("libraries/", compared_libraries_view.compared_libraries, "compare-libraries"),
        page("replay/", tabs_view.replay, "compare-replay"),
        page("certainty/", tabs_view.certainty, "compare-certainty"),
        page("failures/", failures_view.failures, "compare-failures"),
        page("lines/", compared_libraries_view.lines, "compare-lines"),
        page("dictionary/", comparisons_view.dictionary, "compare-dictionary"),
        part("report/", comparisons_view.compare_report, "compare-report"),
        part("export/<str:what>.<str:form>", comparisons_view.export, "compare-export"),
        page("charts/<slug:key>/", chart_view.chart, "chart"),
        part("charts/<slug:key>.csv", chart_view.chart_csv, "chart-csv"),
    ],
    "comparisons/": [
        page("", comparisons_view.comparisons, "comparisons"),
        part("save/", comparisons_view.comparison_save, "comparison-save"),
        page("<uuid:public_id>/", comparisons_view.comparison, "comparison"),
        part("<uuid:public_id>/report/", comparisons_view.comparison_report, "comparison-report"),
        part("<uuid:public_id>/differences.<str:form>", comparisons_view.comparison_export, "comparison-export"),
    ],
    "suites/": [
        page("", suites_view.suites, "suites"),
        part("<path:name>/families/", suites_view.families, "suite-families"),
        part("<path:name>/join/", suites_view.join, "suite-join"),
        part("<path:name>/workflows.yaml", workflows_view.workflows_file, "suite-workflows-file"),
        page("<path:name>/workflows/", workflows_view.workflows, "suite-workflows"),
        page("<path:name>/workflows/<path:task>/settle/", workflows_view.workflow_settle, "suite-workflow-settle"),
        page("<path:name>/workflows/<path:task>/", workflows_view.workflow, "suite-workflow"),
        page("<path:name>/", suites_view.suite, "suite"),
    ],
    "drafts/": [
        page("", drafts_view.drafts, "drafts"),
        page("new/", drafts_view.draft_new, "draft-new"),
        page("<uuid:public_id>/", drafts_view.draft, "draft"),
        page("<uuid:public_id>/steps/<int:number>/", drafts_view.draft_step, "draft-step"),
        page("<uuid:public_id>/files/<path:path>/", drafts_view.draft_file, "draft-file"),
    ],
    "people/": [
        page("", people_view.accounts, "people"),
        page("me/", people_view.me, "account"),
        part("me/tokens/", people_view.token_make, "token-make"),
        part("tokens/<uuid:public_id>/revoke/", people_view.token_revoke, "token-revoke"),
        part("invite/", people_view.account_invite, "account-invite"),
        part("invitations/<uuid:public_id>/withdraw/", people_view.invitation_withdraw, "invitation-withdraw"),
        part("<path:name>/change/", people_view.account_change, "account-change"),
    ],
    "comments/": [
        page("", comments_view.comments, "comments"),
        part("about/", comments_view.about, "comments-about"),
        part("write/", comments_view.write, "comment-write"),
        part("read/", comments_view.read, "comments-read"),
        part("<uuid:public_id>/retract/", comments_view.retract, "comment-retract"),
    ],
    "review/queues/<uuid:public_id>/": [
        page("", queues_view.queue, "queue"),
        part("next/", queues_view.queue_next, "queue-next"),
        part("people/", queues_view.queue_people, "queue-people"),
        part("close/", queues_view.queue_close, "queue-close"),
        part("reviews/", queues_view.queue_reviews, "queue-reviews"),
        part("second-pass/", queues_view.queue_second_pass, "queue-second-pass"),
        page("results/", results_view.results, "results"),
        part("results.<str:form>", results_view.results_export, "results-export"),
        part("labels.<str:form>", results_view.labels_export, "labels-export"),
        part("results/<slug:key>.<str:form>", results_view.results_chart, "results-chart"),
        page("agreement/", agreement_view.agreement, "agreement"),
        part("agreement/keep/", agreement_view.agreement_keep, "agreement-keep"),
        page("disagreements/", agreement_view.disagreements, "disagreements"),
        part("disagreements/open/", agreement_view.disagreements_open, "disagreements-open"),
        page("suggestions/", suggestions_view.suggestions, "suggestions"),
        part("suggestions/run/", suggestions_view.suggestions_run, "suggestions-run"),
    ],
    "review/items/<uuid:public_id>/": [
        page("", coding_view.item, "review-item"),
        part("save/", coding_view.save, "review-save"),
        part("submit/", coding_view.finish, "review-submit"),
        part("skip/", coding_view.pass_over, "review-skip"),
        part("release/", coding_view.release, "review-release"),
        part("ahead/", coding_view.ahead, "review-ahead"),
        part("guess/", coding_view.guess_condition, "review-guess"),
        part("propose/", coding_view.propose, "review-propose"),
        part("field/", exhibit.field, "review-field"),
        page("resolve/", resolution_view.resolution, "resolve"),
    ],
    "review/versions/<uuid:public_id>/": [
        page("", versions_view.version, "codebook-version"),
        page("diff/", codebooks_view.version_diff, "codebook-diff"),
        page("carry/<uuid:queue_id>/", codebooks_view.version_carry, "codebook-carry"),
        part("codebook.<str:form>", versions_view.version_export, "codebook-export"),
        part("freeze/", versions_view.version_freeze, "codebook-freeze"),
        part("discard/", versions_view.version_discard, "codebook-discard"),
        part("clone/", versions_view.version_clone, "codebook-clone"),
        part("add/", versions_view.code_add, "code-add"),
    ],
    "review/codebooks/": [
        page("", codebooks_view.codebooks, "codebooks"),
        part("new/", codebooks_view.codebook_new, "codebook-new"),
        page("<uuid:public_id>/", codebooks_view.codebook, "codebook"),
        part("<uuid:public_id>/draft/", codebooks_view.codebook_draft, "codebook-draft"),
    ],
    "review/": [
        page("", review_view.review, "review"),
        page("queues/new/", new_queue_view.queue_new, "queue-new"),
        part("queues/new/forget/", new_queue_view.queue_forget, "queue-forget"),
        part("codes/<uuid:public_id>/<slug:act>/", versions_view.code_act, "code-act"),
        part("examples/<uuid:public_id>/remove/", versions_view.example_remove, "example-remove"),
        part(
            "reviews/<uuid:review_id>/marks/<uuid:mark_id>/example-of/<uuid:code_id>/",
            versions_view.mark_example,
            "mark-example",
        ),
    ],
}

urlpatterns: list[URLPattern] = [
    pattern for prefix, routes in ROUTES.items() for below in routes for pattern in below(prefix)
]
