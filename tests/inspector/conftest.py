"""Pages in tests name static files as they are: nobody collected them;
no template names what an object of ours lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.template.base import Variable, VariableDoesNotExist

PLAIN = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
LAYERS = {"runner", "benchapp", "inspector"}
# Attributes of one of several classes that a template takes.
OF_SOME = {"is_judged", "more", "has_authors", "has_readers", "username"}
RESOLVE = Variable._resolve_lookup  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def plain_static_files(settings: pytest.FixtureRequest) -> None:
    settings.STORAGES = {**settings.STORAGES, "staticfiles": PLAIN}  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def no_misspelt_attributes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if a template reads an attribute that its object lacks: Django renders nothing there and raises nothing."""
    missing = set()

    def resolve(variable: Variable, context: Any) -> Any:
        try:
            return RESOLVE(variable, context)
        except VariableDoesNotExist as error:
            name, owner = error.params
            if (
                type(owner).__module__.partition(".")[0] in LAYERS
                and name not in OF_SOME
                and not isinstance(owner, dict | tuple)
            ):
                missing.add(f"{variable.var}: {type(owner).__name__} has no {name}")
            raise

    monkeypatch.setattr(Variable, "_resolve_lookup", resolve)
    yield
    assert not missing, "\n".join(sorted(missing))
