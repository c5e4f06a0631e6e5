"""Stand-in: what people do to a draft."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from benchapp.models import Draft, DraftStep, Snapshot, User
from runner.base.errors import SetupError
from runner.base.types import File


class DraftConflict(SetupError):
    """Somebody changed the draft in the meantime. The message names them."""


@transaction.atomic
def edit_file(draft: Draft, path: str, text: str | None, by: User, head_digest: str) -> DraftStep:
    """None as text removes the file."""
    if draft.head.digest != head_digest:
        last = draft.steps.exclude(before=None).order_by("-number").first()
        who = str(last.by) if last and last.by else "the model"
        raise DraftConflict(f"{who} changed the draft in the meantime.")
    files = draft.head.read()
    if text is None:
        files.pop(path, None)
    else:
        files[path] = File(text.encode())
    before, draft.head = draft.head, Snapshot.objects.put(files)
    draft.save(update_fields=["head"])
    now = timezone.now()
    return DraftStep.objects.create(
        draft=draft,
        number=draft.steps.count() + 1,
        kind=DraftStep.Kind.EDIT,
        status=DraftStep.Status.TAKEN,
        by=by,
        before=before,
        after=draft.head,
        summary=f"{'Removed' if text is None else 'Wrote'} {path}",
        started_at=now,
        finished_at=now,
    )


def stop(draft: Draft, by: User) -> None:
    Draft.objects.filter(pk=draft.pk).update(status=Draft.Status.STOPPED, reason=f"{by} stopped it.")


def go_on(draft: Draft, by: User) -> None:
    Draft.objects.filter(pk=draft.pk).update(status=Draft.Status.WAITING, reason="")
