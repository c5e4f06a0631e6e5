"""Every page has a JSON twin: the path without its trailing slash, with .json."""

from __future__ import annotations

from django.urls import URLPattern, path

from inspector.pages import twin
from inspector.views import experiments, imports, library, overview, runs, trials

urlpatterns: list[URLPattern] = [
    *twin("", overview.index, "index"),
    *twin("experiments/<uuid:public_id>/", experiments.experiment, "experiment"),
    # /runs/<id>/
    *twin("runs/<uuid:public_id>/", runs.run, "run"),
    *twin("runs/<uuid:public_id>/library/", library.library, "library"),
    # /trials/<id>/
    *twin("trials/<uuid:public_id>/", trials.trial, "trial"),
    path("trials/<uuid:public_id>/field/", trials.field, name="trial-field"),
    # /imports/
    *twin("imports/", imports.imports, "imports"),
    path("imports/assign/", imports.assign, name="imports-assign"),
]
