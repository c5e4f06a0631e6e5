"""Stand-in: starts a draft; nobody works on it."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from benchapp.models import Draft, DraftStep, Snapshot, User
from runner.base.errors import SetupError
from runner.base.types import Files
from runner.drafting.draft import DraftBrief


@transaction.atomic
def start_draft(
    brief: DraftBrief,
    files: Files,
    model: str,
    by: User | None = None,
    *,
    name: str = "",
    max_calls: int | None = None,
    max_usd: float | None = None,
) -> Draft:
    """Opens it with the files that were given. SetupError names what the loop lacks."""
    if not files:
        raise SetupError(f"{brief.loop}: expected files to begin with")
    now = timezone.now()
    head = Snapshot.objects.put(files)
    draft = Draft.objects.create(
        name=name or brief.family,
        loop=brief.loop.value,
        brief={
            "loop": brief.loop.value,
            "family": brief.family,
            "goal": brief.goal,
            "tasks": brief.tasks,
            "max_revisions": brief.max_revisions,
            "image": brief.image,
            "seed": brief.seed,
        },
        model=model,
        max_calls=max_calls,
        max_usd=max_usd,
        head=head,
        asked_by=by,
        asked_at=now,
    )
    DraftStep.objects.create(
        draft=draft,
        number=1,
        kind=DraftStep.Kind.GIVEN,
        status=DraftStep.Status.TAKEN,
        by=by,
        before=Snapshot.objects.standing_for(Snapshot.objects.put({}).digest),
        after=head,
        started_at=now,
        finished_at=now,
    )
    return draft
