"""Every page has a JSON twin: the path without its trailing slash, with .json."""

from __future__ import annotations

from django.urls import URLPattern, path

from inspector.pages import twin
from inspector.views import (
    activity,
    charts,
    comments,
    compare,
    compared_libraries,
    compared_trials,
    comparisons,
    experiments,
    exports,
    health,
    imports,
    jobs,
    launch,
    library,
    login,
    operate,
    overview,
    people,
    published,
    replay,
    runs,
    search,
    trials,
)
from inspector.views.review import (
    agreement,
    codebooks,
    codes,
    coding,
    exhibits,
    index,
    new_queue,
    queues,
    resolution,
    results,
    suggestions,
    versions,
)

urlpatterns: list[URLPattern] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    *twin("", overview.index, "index"),
    *twin("experiments/<uuid:public_id>/", experiments.experiment, "experiment"),
    # /runs/<id>/
    *twin("runs/<uuid:public_id>/", runs.run, "run"),
    *twin("runs/<uuid:public_id>/library/", library.library, "library"),
    # /trials/<id>/
    *twin("trials/<uuid:public_id>/", trials.trial, "trial"),
    path("trials/<uuid:public_id>/field/", trials.field, name="trial-field"),
    # /compare/
    *twin("compare/", compare.compare, "compare"),
    *twin("compare/trials/", compared_trials.compared_trials, "compare-trials"),
    *twin("compare/libraries/", compared_libraries.compared_libraries, "compare-libraries"),
    *twin("compare/replay/", replay.replay, "compare-replay"),
    *twin("compare/dictionary/", exports.dictionary, "compare-dictionary"),
    path("compare/report/", comparisons.compare_report, name="compare-report"),
    path("compare/export/<str:what>.<str:form>", exports.export, name="compare-export"),
    *twin("compare/charts/<slug:key>/", charts.chart, "chart"),
    path("compare/charts/<slug:key>.csv", charts.chart_csv, name="chart-csv"),
    # /comparisons/<id>/
    *twin("comparisons/", comparisons.comparisons, "comparisons"),
    path("comparisons/save/", comparisons.comparison_save, name="comparison-save"),
    *twin("comparisons/<uuid:public_id>/", comparisons.comparison, "comparison"),
    path("comparisons/<uuid:public_id>/report/", comparisons.comparison_report, name="comparison-report"),
    path(
        "comparisons/<uuid:public_id>/differences.<str:form>", comparisons.comparison_export, name="comparison-export"
    ),
    # /published/
    *twin("published/", published.published, "published"),
    # /search/
    *twin("search/", search.search, "search"),
    path("search/complete/", search.search_complete, name="search-complete"),
    # /imports/
    *twin("imports/", imports.imports, "imports"),
    path("imports/assign/", imports.assign, name="imports-assign"),
    # /jobs/, /launch/
    *twin("jobs/", jobs.jobs, "jobs"),
    *twin("launch/", launch.launch, "launch"),
    *twin("jobs/<slug:kind>/<uuid:public_id>/", operate.operate, "operate"),
    path("jobs/<slug:kind>/<uuid:public_id>/<slug:act>/", operate.operate_act, name="operate-act"),
    # /login/, /people/
    path("login/", login.login, name="login"),
    path("logout/", login.logout, name="logout"),
    path("password/", login.password, name="password"),
    *twin("people/", people.accounts, "people"),
    *twin("people/me/", people.me, "account"),
    path("people/add/", people.account_add, name="account-add"),
    path("people/<path:name>/change/", people.account_change, name="account-change"),
    *twin("activity/", activity.activity, "activity"),
    *twin("comments/", comments.comments, "comments"),
    path("comments/about/", comments.about, name="comments-about"),
    path("comments/write/", comments.write, name="comment-write"),
    path("comments/read/", comments.read, name="comments-read"),
    path("comments/<uuid:public_id>/retract/", comments.retract, name="comment-retract"),
    # /review/queues/<id>/results/
    *twin("review/queues/<uuid:public_id>/results/", results.results, "results"),
    path("review/queues/<uuid:public_id>/results.<str:form>", results.results_export, name="results-export"),
    path("review/queues/<uuid:public_id>/labels.<str:form>", results.labels_export, name="labels-export"),
    path("review/queues/<uuid:public_id>/results/<slug:key>.<str:form>", results.results_chart, name="results-chart"),
    # /review/items/<id>/
    *twin("review/items/<uuid:public_id>/", coding.item, "review-item"),
    path("review/items/<uuid:public_id>/save/", coding.save, name="review-save"),
    path("review/items/<uuid:public_id>/submit/", coding.finish, name="review-submit"),
    path("review/items/<uuid:public_id>/skip/", coding.pass_over, name="review-skip"),
    path("review/items/<uuid:public_id>/release/", coding.release, name="review-release"),
    path("review/items/<uuid:public_id>/ahead/", coding.ahead, name="review-ahead"),
    path("review/items/<uuid:public_id>/guess/", coding.guess_condition, name="review-guess"),
    # /review/items/<id>/field/
    path("review/items/<uuid:public_id>/field/", exhibits.field, name="review-field"),
    # /review/queues/<id>/agreement/, /disagreements/, /review/items/<id>/resolve/
    *twin("review/queues/<uuid:public_id>/agreement/", agreement.agreement, "agreement"),
    path("review/queues/<uuid:public_id>/agreement/keep/", agreement.agreement_keep, name="agreement-keep"),
    *twin("review/queues/<uuid:public_id>/disagreements/", agreement.disagreements, "disagreements"),
    path("review/queues/<uuid:public_id>/disagreements/open/", agreement.disagreements_open, name="disagreements-open"),
    *twin("review/items/<uuid:public_id>/resolve/", resolution.resolution, "resolve"),
    # /review/queues/<id>/suggestions/
    *twin("review/queues/<uuid:public_id>/suggestions/", suggestions.suggestions, "suggestions"),
    path("review/queues/<uuid:public_id>/suggestions/run/", suggestions.suggestions_run, name="suggestions-run"),
    # /review/, /review/queues/<id>/
    *twin("review/", index.review, "review"),
    *twin("review/queues/new/", new_queue.queue_new, "queue-new"),
    *twin("review/queues/<uuid:public_id>/", queues.queue, "queue"),
    path("review/queues/<uuid:public_id>/next/", queues.queue_next, name="queue-next"),
    path("review/queues/<uuid:public_id>/people/", queues.queue_people, name="queue-people"),
    path("review/queues/<uuid:public_id>/close/", queues.queue_close, name="queue-close"),
    # /review/codebooks/, /review/versions/<id>/, /review/codes/<id>/
    *twin("review/codebooks/", codebooks.codebooks, "codebooks"),
    path("review/codebooks/new/", codebooks.codebook_new, name="codebook-new"),
    *twin("review/codebooks/<uuid:public_id>/", codebooks.codebook, "codebook"),
    path("review/codebooks/<uuid:public_id>/draft/", codebooks.codebook_draft, name="codebook-draft"),
    *twin("review/versions/<uuid:public_id>/", versions.version, "codebook-version"),
    *twin("review/versions/<uuid:public_id>/diff/", versions.version_diff, "codebook-diff"),
    *twin("review/versions/<uuid:public_id>/carry/<uuid:queue_id>/", versions.version_carry, "codebook-carry"),
    path("review/versions/<uuid:public_id>/codebook.<str:form>", versions.version_export, name="codebook-export"),
    path("review/versions/<uuid:public_id>/freeze/", versions.version_freeze, name="codebook-freeze"),
    path("review/versions/<uuid:public_id>/discard/", versions.version_discard, name="codebook-discard"),
    path("review/versions/<uuid:public_id>/clone/", versions.version_clone, name="codebook-clone"),
    path("review/versions/<uuid:public_id>/add/", codes.code_add, name="code-add"),
    path("review/codes/<uuid:public_id>/<slug:act>/", codes.code_act, name="code-act"),
    path("review/examples/<uuid:public_id>/remove/", codes.example_remove, name="example-remove"),
    path(
        "review/reviews/<uuid:review_id>/marks/<uuid:mark_id>/example-of/<uuid:code_id>/",
        codes.mark_example,
        name="mark-example",
    ),
]
