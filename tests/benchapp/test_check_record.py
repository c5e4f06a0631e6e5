"""Whatever is wrong with the record is found and named. Each case spoils one thing in a record that held."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.db.models import F

from benchapp import record_check
from benchapp.models import (
    Attempt,
    Blob,
    Chunk,
    Decision,
    Entry,
    Episode,
    Run,
    Seal,
    Snapshot,
    SnapshotFile,
    Trajectory,
    Trial,
    Verdict,
)
from benchapp.synthesis.campaign import Size, write_campaign

pytestmark = pytest.mark.django_db


def learner() -> Episode:
    """An episode with decisions and a freeze."""
    return Episode.objects.filter(decisions__status="applied", entries__kind="freeze").distinct()[0]


def spoil_blob() -> str:
    blob = Blob.objects.first()
    Blob.objects.filter(pk=blob.pk).update(data=Blob.objects.exclude(pk=blob.pk)[0].data)
    return blob.digest


def spoil_blob_bytes() -> str:
    blob = Blob.objects.first()
    Blob.objects.filter(pk=blob.pk).update(data=b"not zstd")
    return blob.digest


def lose_chunk() -> str:
    chunk = Chunk.objects.first()
    chunk.delete()
    return str(chunk.trajectory.public_id)


def swap_chunk() -> str:
    first, other = Chunk.objects.all()[:2]
    Chunk.objects.filter(pk=first.pk).update(blob=other.blob)
    return str(first.trajectory.public_id)


def miscount_steps() -> str:
    Trajectory.objects.filter(pk=(trajectory := Trajectory.objects.first()).pk).update(steps_total=99)
    return str(trajectory.public_id)


def lose_snapshot_file() -> str:
    file = SnapshotFile.objects.first()
    file.delete()
    return file.snapshot.digest


def hole_in_spine() -> str:
    entry = Entry.objects.filter(episode=learner(), sequence=2).get()
    entry.delete()
    return str(entry.episode.public_id)


def entry_without_target() -> str:
    episode = learner()
    Entry.objects.filter(episode=episode, kind="decision").update(decision=None)
    return str(episode.public_id)


def hole_in_decisions() -> str:
    episode = learner()
    episode.decisions.filter(number=2).update(number=900)
    return str(episode.public_id)


def rejected_but_changed() -> str:
    decision = Decision.objects.filter(status="applied").first()
    Decision.objects.filter(pk=decision.pk).update(status="rejected")
    return str(decision.public_id)


def trial_with_another_library() -> str:
    trial = Trial.objects.filter(episode=learner(), phase="deployment").first()
    Trial.objects.filter(pk=trial.pk).update(snapshot=Snapshot.objects.exclude(pk=trial.snapshot_id)[0])
    return str(trial.public_id)


def forged_seal() -> str:
    Seal.objects.filter(pk=(seal := Seal.objects.first()).pk).update(seal="0" * 64)
    return str(seal.public_id)


def changed_setup() -> str:
    Run.objects.filter(pk=(run := Run.objects.first()).pk).update(setup={"agent": "another"})
    return str(run.public_id)


def outcome_turned() -> str:
    Trial.objects.filter(pk=(trial := Trial.objects.first()).pk).update(success=not trial.success)
    return str(trial.public_id)


def reward_lost() -> str:
    Verdict.objects.filter(attempt__trial=(trial := Trial.objects.first())).update(reward=None)
    return str(trial.public_id)


def nothing_counts() -> str:
    Attempt.objects.filter(trial=(trial := Trial.objects.first())).update(counts=False)
    return str(trial.public_id)


def process_turned() -> str:
    Trial.objects.filter(pk=(trial := Trial.objects.exclude(process=None).first()).pk).update(process=0.123)
    return str(trial.public_id)


def verdict_lost() -> str:
    trial = Trial.objects.exclude(success=None).first()
    Verdict.objects.filter(attempt__trial=trial).delete()
    return str(trial.public_id)


def deployed_before_the_freeze() -> str:
    """The freeze takes the last place of the spine."""
    episode = learner()
    freeze = episode.entries.get(kind="freeze")
    after = list(episode.entries.filter(sequence__gt=freeze.sequence).order_by("sequence"))
    Entry.objects.filter(pk=freeze.pk).update(sequence=10_000)
    for entry in after:
        Entry.objects.filter(pk=entry.pk).update(sequence=entry.sequence - 1)
    Entry.objects.filter(pk=freeze.pk).update(sequence=after[-1].sequence)
    return str(after[0].attempt.trial.public_id)


def other_library_at_the_end() -> str:
    episode = learner()
    Episode.objects.filter(pk=episode.pk).update(library=Snapshot.objects.exclude(pk=episode.library_id)[0])
    return str(episode.public_id)


def written_after_the_freeze() -> str:
    """Moves the freeze before the last decision by giving the two each other's place."""
    episode = learner()
    freeze = episode.entries.get(kind="freeze")
    last = episode.entries.filter(kind="decision").order_by("-sequence")[0]
    Entry.objects.filter(pk=freeze.pk).update(sequence=10_000)
    Entry.objects.filter(pk=last.pk).update(sequence=freeze.sequence)
    Entry.objects.filter(pk=freeze.pk).update(sequence=last.sequence)
    return str(episode.public_id)


SPOILERS: list[Callable[[], str]] = [
    spoil_blob,
    spoil_blob_bytes,
    lose_chunk,
    swap_chunk,
    miscount_steps,
    lose_snapshot_file,
    hole_in_spine,
    entry_without_target,
    hole_in_decisions,
    rejected_but_changed,
    trial_with_another_library,
    forged_seal,
    changed_setup,
    outcome_turned,
    reward_lost,
    nothing_counts,
    process_turned,
    verdict_lost,
    deployed_before_the_freeze,
    other_library_at_the_end,
    written_after_the_freeze,
]


@pytest.fixture(scope="module")
def record(django_db_setup, django_db_blocker):
    """Written once; every test spoils it inside a transaction that is rolled back."""
    with django_db_blocker.unblock():
        write_campaign(Size(130, 260, 60))
    yield
    with django_db_blocker.unblock():
        call_command("flush", interactive=False, verbosity=0)


def test_it_passes_a_record_that_holds(record):
    out = StringIO()
    call_command("check_record", stdout=out)
    assert "The record holds: 130 trials" in out.getvalue()


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda spoil: spoil.__name__)
def test_it_names_what_is_wrong(record, spoil):
    ident = spoil()
    out = StringIO()
    with pytest.raises(CommandError, match="flaws? in"):
        call_command("check_record", stdout=out)
    assert ident in out.getvalue()


def of_a_chunk() -> str:
    return Chunk.objects.first().blob_id


def of_a_library() -> str:
    return SnapshotFile.objects.first().blob_id


def of_an_outline() -> str:
    return Chunk.objects.first().outline_id


@pytest.mark.parametrize("content", [of_a_chunk, of_a_library, of_an_outline], ids=lambda content: content.__name__)
def test_it_finds_content_that_is_gone(record, content):
    """The database forbids it; a torn file or a restored dump might not."""
    digest = content()
    with transaction.atomic():
        Blob.objects.filter(pk=digest)._raw_delete("default")  # foreign keys are looked at when a transaction ends
        found = [flaw for flaw in record_check.flaws() if "is missing" in flaw.message]
        assert found
        assert {digest in flaw.message for flaw in found} == {True}
        transaction.set_rollback(True)


def test_it_finds_a_trial_that_counts_twice(record):
    """The database forbids it; a restored dump might not."""
    from django.db import connection

    trial = Trial.objects.first()
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX one_counting_attempt")
    Attempt.objects.create(trial=trial, number=2, counts=True)
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("check_record", stdout=out)
    assert f"trial {trial.public_id}: 2 attempts count" in out.getvalue()
    assert Attempt.objects.filter(trial=trial).update(number=F("number")) == 2
