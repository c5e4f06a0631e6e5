"""Every page has a JSON twin: the path without its trailing slash, with .json."""

from __future__ import annotations

from django.urls import URLPattern, path

from inspector.pages.compare import (
    chart_view,
    compare_view,
    compared_libraries_view,
    compared_trials_view,
    comparisons_view,
    exports_view,
    failures_view,
    published_view,
    replay_view,
)
from inspector.pages.documents import documents_view
from inspector.pages.experiments import experiment_view
from inspector.pages.imports import imports_view
from inspector.pages.jobs import jobs_view, operate_view
from inspector.pages.launch import launch_view
from inspector.pages.library import (
    author_call_view,
    blame_view,
    capsule_view,
    findings_view,
    library_view,
    probe_view,
)
from inspector.pages.overview import overview_view
from inspector.pages.people import activity_view, comments_view, login_view, people_view
from inspector.pages.review import review_view
from inspector.pages.review.codebooks import codebooks_view, codes_view, versions_view
from inspector.pages.review.coding import coding_view, resolution_view
from inspector.pages.review.exhibits import exhibits_view
from inspector.pages.review.queues import new_queue_view, queues_view
from inspector.pages.review.results import agreement_view, results_view
from inspector.pages.review.suggestions import suggestions_view
from inspector.pages.runs import judgements_view, run_view, skills_view
from inspector.pages.search import search_view
from inspector.pages.trials import pair_view, trial_view
from inspector.web import health_view
from inspector.web.responses import twin

urlpatterns: list[URLPattern] = [
    path("healthz", health_view.healthz, name="healthz"),
    path("readyz", health_view.readyz, name="readyz"),
    *twin("", overview_view.index, "index"),
    *twin("experiments/<uuid:public_id>/", experiment_view.experiment, "experiment"),
    # /runs/<id>/
    *twin("runs/<uuid:public_id>/", run_view.run, "run"),
    *twin("runs/<uuid:public_id>/library/", library_view.library, "library"),
    path("runs/<uuid:public_id>/library/file/", library_view.library_file, name="library-file"),
    *twin("runs/<uuid:public_id>/library/blame/", blame_view.blame, "blame"),
    *twin("runs/<uuid:public_id>/library/findings/", findings_view.findings, "findings"),
    path("runs/<uuid:public_id>/library/findings/ask/", findings_view.findings_ask, name="findings-ask"),
    *twin("runs/<uuid:public_id>/library/author/", author_call_view.author_call, "author-call"),
    path(
        "runs/<uuid:public_id>/library/author/<uuid:call_id>/<slug:part>.txt",
        author_call_view.author_text,
        name="author-text",
    ),
    *twin("runs/<uuid:public_id>/skills/", skills_view.skills, "skills"),
    *twin("runs/<uuid:public_id>/judgements/", judgements_view.judgements, "judgements"),
    *twin("runs/<uuid:public_id>/judgements/<uuid:unit_id>/", judgements_view.judged_unit, "judged-unit"),
    path("runs/<uuid:public_id>/library/capsule/", capsule_view.library_capsule, name="library-capsule"),
    *twin("runs/<uuid:public_id>/library/probe/", probe_view.probe, "probe"),
    # /trials/<id>/
    *twin("trials/<uuid:public_id>/", trial_view.trial, "trial"),
    path("trials/<uuid:public_id>/live/", trial_view.live_trial, name="trial-live"),
    path("trials/<uuid:public_id>/field/", trial_view.field, name="trial-field"),
    path("trials/<uuid:public_id>/<slug:name>.txt", trial_view.text, name="trial-text"),
    *twin("trials/<uuid:public_id>/compare/<uuid:other_id>/", pair_view.pair, "compare-pair"),
    path("trials/<uuid:public_id>/trajectory.json", trial_view.trajectory_file, name="trial-trajectory"),
    path("trials/<uuid:public_id>/capsule/", capsule_view.trial_capsule, name="trial-capsule"),
    # /compare/
    *twin("compare/", compare_view.compare, "compare"),
    *twin("compare/trials/", compared_trials_view.compared_trials, "compare-trials"),
    *twin("compare/libraries/", compared_libraries_view.compared_libraries, "compare-libraries"),
    *twin("compare/replay/", replay_view.replay, "compare-replay"),
    *twin("compare/failures/", failures_view.failures, "compare-failures"),
    *twin("compare/dictionary/", exports_view.dictionary, "compare-dictionary"),
    path("compare/report/", comparisons_view.compare_report, name="compare-report"),
    path("compare/export/<str:what>.<str:form>", exports_view.export, name="compare-export"),
    *twin("compare/charts/<slug:key>/", chart_view.chart, "chart"),
    path("compare/charts/<slug:key>.csv", chart_view.chart_csv, name="chart-csv"),
    # /comparisons/<id>/
    *twin("comparisons/", comparisons_view.comparisons, "comparisons"),
    path("comparisons/save/", comparisons_view.comparison_save, name="comparison-save"),
    *twin("comparisons/<uuid:public_id>/", comparisons_view.comparison, "comparison"),
    path("comparisons/<uuid:public_id>/report/", comparisons_view.comparison_report, name="comparison-report"),
    path(
        "comparisons/<uuid:public_id>/differences.<str:form>",
        comparisons_view.comparison_export,
        name="comparison-export",
    ),
    # /published/
    *twin("published/", published_view.published, "published"),
    # /docs/
    *twin("docs/", documents_view.document, "documents"),
    *twin("docs/<path:name>/", documents_view.document, "document"),
    path("docs/pictures/<path:name>.png", documents_view.picture, name="document-picture"),
    # /search/
    *twin("search/", search_view.search, "search"),
    path("search/complete/", search_view.search_complete, name="search-complete"),
    # /imports/
    *twin("imports/", imports_view.imports, "imports"),
    path("imports/assign/", imports_view.assign, name="imports-assign"),
    # /jobs/, /launch/
    *twin("jobs/", jobs_view.jobs, "jobs"),
    *twin("launch/", launch_view.launch, "launch"),
    *twin("jobs/<slug:kind>/<uuid:public_id>/", operate_view.operate, "operate"),
    path("jobs/<slug:kind>/<uuid:public_id>/<slug:act>/", operate_view.operate_act, name="operate-act"),
    # /login/, /people/
    path("login/", login_view.login, name="login"),
    path("logout/", login_view.logout, name="logout"),
    path("password/", login_view.password, name="password"),
    *twin("people/", people_view.accounts, "people"),
    *twin("people/me/", people_view.me, "account"),
    path("people/add/", people_view.account_add, name="account-add"),
    path("people/<path:name>/change/", people_view.account_change, name="account-change"),
    *twin("activity/", activity_view.activity, "activity"),
    *twin("comments/", comments_view.comments, "comments"),
    path("comments/about/", comments_view.about, name="comments-about"),
    path("comments/write/", comments_view.write, name="comment-write"),
    path("comments/read/", comments_view.read, name="comments-read"),
    path("comments/<uuid:public_id>/retract/", comments_view.retract, name="comment-retract"),
    # /review/queues/<id>/results/
    *twin("review/queues/<uuid:public_id>/results/", results_view.results, "results"),
    path("review/queues/<uuid:public_id>/results.<str:form>", results_view.results_export, name="results-export"),
    path("review/queues/<uuid:public_id>/labels.<str:form>", results_view.labels_export, name="labels-export"),
    path(
        "review/queues/<uuid:public_id>/results/<slug:key>.<str:form>", results_view.results_chart, name="results-chart"
    ),
    # /review/items/<id>/
    *twin("review/items/<uuid:public_id>/", coding_view.item, "review-item"),
    path("review/items/<uuid:public_id>/save/", coding_view.save, name="review-save"),
    path("review/items/<uuid:public_id>/submit/", coding_view.finish, name="review-submit"),
    path("review/items/<uuid:public_id>/skip/", coding_view.pass_over, name="review-skip"),
    path("review/items/<uuid:public_id>/release/", coding_view.release, name="review-release"),
    path("review/items/<uuid:public_id>/ahead/", coding_view.ahead, name="review-ahead"),
    path("review/items/<uuid:public_id>/guess/", coding_view.guess_condition, name="review-guess"),
    # /review/items/<id>/field/
    path("review/items/<uuid:public_id>/field/", exhibits_view.field, name="review-field"),
    # /review/queues/<id>/agreement/, /disagreements/, /review/items/<id>/resolve/
    *twin("review/queues/<uuid:public_id>/agreement/", agreement_view.agreement, "agreement"),
    path("review/queues/<uuid:public_id>/agreement/keep/", agreement_view.agreement_keep, name="agreement-keep"),
    *twin("review/queues/<uuid:public_id>/disagreements/", agreement_view.disagreements, "disagreements"),
    path(
        "review/queues/<uuid:public_id>/disagreements/open/",
        agreement_view.disagreements_open,
        name="disagreements-open",
    ),
    *twin("review/items/<uuid:public_id>/resolve/", resolution_view.resolution, "resolve"),
    # /review/queues/<id>/suggestions/
    *twin("review/queues/<uuid:public_id>/suggestions/", suggestions_view.suggestions, "suggestions"),
    path("review/queues/<uuid:public_id>/suggestions/run/", suggestions_view.suggestions_run, name="suggestions-run"),
    # /review/, /review/queues/<id>/
    *twin("review/", review_view.review, "review"),
    *twin("review/queues/new/", new_queue_view.queue_new, "queue-new"),
    *twin("review/queues/<uuid:public_id>/", queues_view.queue, "queue"),
    path("review/queues/<uuid:public_id>/next/", queues_view.queue_next, name="queue-next"),
    path("review/queues/<uuid:public_id>/people/", queues_view.queue_people, name="queue-people"),
    path("review/queues/<uuid:public_id>/close/", queues_view.queue_close, name="queue-close"),
    # /review/codebooks/, /review/versions/<id>/, /review/codes/<id>/
    *twin("review/codebooks/", codebooks_view.codebooks, "codebooks"),
    path("review/codebooks/new/", codebooks_view.codebook_new, name="codebook-new"),
    *twin("review/codebooks/<uuid:public_id>/", codebooks_view.codebook, "codebook"),
    path("review/codebooks/<uuid:public_id>/draft/", codebooks_view.codebook_draft, name="codebook-draft"),
    *twin("review/versions/<uuid:public_id>/", versions_view.version, "codebook-version"),
    *twin("review/versions/<uuid:public_id>/diff/", versions_view.version_diff, "codebook-diff"),
    *twin("review/versions/<uuid:public_id>/carry/<uuid:queue_id>/", versions_view.version_carry, "codebook-carry"),
    path("review/versions/<uuid:public_id>/codebook.<str:form>", versions_view.version_export, name="codebook-export"),
    path("review/versions/<uuid:public_id>/freeze/", versions_view.version_freeze, name="codebook-freeze"),
    path("review/versions/<uuid:public_id>/discard/", versions_view.version_discard, name="codebook-discard"),
    path("review/versions/<uuid:public_id>/clone/", versions_view.version_clone, name="codebook-clone"),
    path("review/versions/<uuid:public_id>/add/", codes_view.code_add, name="code-add"),
    path("review/codes/<uuid:public_id>/<slug:act>/", codes_view.code_act, name="code-act"),
    path("review/examples/<uuid:public_id>/remove/", codes_view.example_remove, name="example-remove"),
    path(
        "review/reviews/<uuid:review_id>/marks/<uuid:mark_id>/example-of/<uuid:code_id>/",
        codes_view.mark_example,
        name="mark-example",
    ),
]
