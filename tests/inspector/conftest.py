"""Pages in tests name static files as they are: nobody collected them."""

from __future__ import annotations

import pytest

PLAIN = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}


@pytest.fixture(autouse=True)
def plain_static_files(settings: pytest.FixtureRequest) -> None:
    settings.STORAGES = {**settings.STORAGES, "staticfiles": PLAIN}  # type: ignore[attr-defined]
