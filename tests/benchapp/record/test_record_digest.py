"""Equal records have equal digests; whatever the record tells changes it, whatever is local does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchapp.models import Attempt, Blob, Check, Decision, Episode, Experiment, ModelCall, Seal, SkillUse, Trial
from benchapp.record.record_digest import record_digest
from lab.synthesis.campaign import START, Size, write_campaign

pytestmark = pytest.mark.django_db
SIZE = Size(30, 60, 12)

TOLD: dict[str, Callable[[], int]] = {
    "an outcome": lambda: Trial.objects.filter(pk=Trial.objects.first().pk).update(success=None),
    "a check's message": lambda: Check.objects.filter(pk=Check.objects.first().pk).update(message="else"),
    "a decision's summary": lambda: Decision.objects.filter(number=1).update(summary="else"),
    "a skill use": lambda: len(SkillUse.objects.first().delete()),
    "a taint": lambda: Episode.objects.update(is_tainted=True),
    "a seal's time": lambda: Seal.objects.update(sealed_at=START),
    "a call of a model": lambda: bool(
        ModelCall.objects.create(
            episode=Episode.objects.first(),
            key="k",
            purpose="author",
            model="m",
            request_id=Blob.objects.put(b"{}"),
            started_at=START,
        )
    ),
    "what was retrieved": lambda: Trial.objects.first().retrieved.add(Trial.objects.last()) is None,
    "the known part of a cost": lambda: Attempt.objects.filter(pk=Attempt.objects.first().pk).update(priced_usd=0.5),
    "the known part of the tokens": lambda: Attempt.objects.filter(pk=Attempt.objects.first().pk).update(
        output_at_least=5
    ),
    "a second attempt": lambda: bool(Attempt.objects.create(trial=Trial.objects.first(), number=2)),
}


def test_the_same_record_made_again_has_the_same_digest():
    first = write_campaign(SIZE)
    digest, key = record_digest(first), first.pk
    first.delete()
    again = write_campaign(SIZE)
    assert again.pk != key
    assert record_digest(again) == digest


@pytest.mark.parametrize("what", TOLD)
def test_it_covers(what):
    experiment = write_campaign(SIZE)
    before = record_digest(experiment)
    assert TOLD[what]()
    assert record_digest(experiment) != before


def test_it_leaves_out_hosts_and_places():
    experiment = write_campaign(SIZE)
    before = record_digest(experiment)
    Attempt.objects.update(worker="elsewhere", sandbox={"folder": "/somewhere"})
    Experiment.objects.update(source="/a/b")
    experiment.refresh_from_db()
    assert record_digest(experiment) == before
