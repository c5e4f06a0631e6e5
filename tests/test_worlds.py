"""A world that is copied is the world that was built."""

from __future__ import annotations

import re

import pytest
from django.core.management import call_command
from django.db import transaction

from benchapp.models import Run
from tests.worlds.copies import built_once
from tests.worlds.factories import make_learning_run


@built_once
def make_world() -> Run:
    return make_learning_run()


def make_and_undo(capsys: pytest.CaptureFixture[str]) -> tuple[Run, str]:
    with transaction.atomic():
        made = make_world()
        call_command("dumpdata", "benchapp")
        transaction.set_rollback(True)
    return made, re.sub(r'"revision": "?[^",]+', '"revision": "', capsys.readouterr().out)


@pytest.mark.django_db
def test_every_row_is_copied_and_no_cache_takes_the_copy_for_its_original(capsys: pytest.CaptureFixture[str]) -> None:
    built, rows = make_and_undo(capsys)
    assert not Run.objects.exists()
    copied, same_rows = make_and_undo(capsys)
    assert copied == built
    assert copied.revision != built.revision
    assert '"benchapp.verdict"' in rows
    assert same_rows == rows


@pytest.mark.django_db
def test_beside_rows_of_a_test_it_is_built_again() -> None:
    assert make_world() != make_world()
