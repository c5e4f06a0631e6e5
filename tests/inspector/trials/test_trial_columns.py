"""A number of a trial that is added to the model is copied, exported and shown, or a line here says where it is not."""

from __future__ import annotations

from unittest.mock import MagicMock
from uuid import uuid4

import pytest

from benchapp.models import Attempt, Trial, Verdict
from benchapp.models.trials import NUMBERS
from benchapp.record.json_shape import JsonShape
from inspector.pages.trials.trial import FACTS
from inspector.web.text.row_shapes import TRIAL
from inspector.web.trial_columns import TRIAL_COLUMNS


def test_every_column_that_may_be_unknown_is_one_of_the_numbers() -> None:
    columns = {field.name for field in Trial._meta.concrete_fields if field.null and not field.is_relation}
    assert columns - {"settled_at"} == set(NUMBERS)


def test_every_number_is_taken_from_the_attempt_that_counts() -> None:
    trial = Trial(**dict.fromkeys(NUMBERS, "of another attempt"))
    trial.take_numbers(Attempt(), Verdict(), checks=(), own=(), uses=())
    assert [name for name in NUMBERS if getattr(trial, name) == "of another attempt"] == []


@pytest.mark.parametrize(("shape", "missing"), [(TRIAL, {"overall", "turns", "finished_at"}), (FACTS, {"steps"})])
def test_every_number_is_in_both_twins(shape: JsonShape, missing: set[str]) -> None:
    trial = MagicMock(**{"public_id": uuid4(), "episode.run.public_id": uuid4()})
    assert set(NUMBERS) - set(shape.read(trial)) == missing


def test_every_list_of_trials_sorts_by_columns_that_exist() -> None:
    for _, _, lookup in TRIAL_COLUMNS.values():
        str(Trial.objects.order_by(lookup).query)
