"""Rows of a draft's steps: written in order, each in the transaction of what it records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from benchapp.models import Blob, Draft, DraftStep, Snapshot, User
from benchapp.record.redaction import Redactor, own_secrets
from benchapp.record.writing.human_acts import name_actor
from runner.base.digests import canonical_json
from runner.base.encoding import encode
from runner.base.errors import SetupError
from runner.base.text import replace_unprintable
from runner.base.trees import check_relative
from runner.base.types import File, Files
from runner.drafting.draft import Answered, Ask
from runner.models import Model

MAX_FILES = 2_000
MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_TOTAL_BYTES = 64 * 1024 * 1024
MAX_PATH = 1_000  # characters


def record_step(
    draft: Draft,
    kind: DraftStep.Kind,
    *,
    by: User | None,
    before: Snapshot,
    after: Snapshot,
    summary: str,
    findings: Sequence[str] = (),
) -> DraftStep:
    """Record a person's step, which is complete at once. Call it inside the transaction of the act."""
    now = timezone.now()
    return DraftStep.objects.create(
        draft=draft,
        number=_take_number(draft),
        kind=kind,
        status=DraftStep.Status.TAKEN,
        by=by,
        before=before,
        after=after,
        summary=summary,
        findings=list(findings),
        started_at=now,
        finished_at=now,
    )


@transaction.atomic
def begin_call(draft: Draft, ask: Ask, model: Model) -> DraftStep:
    """Record the step with its request, together: a sweep takes contents that nothing refers to."""
    return DraftStep.objects.create(
        draft=draft,
        number=_take_number(draft),
        kind=DraftStep.Kind.ANSWER,
        status=DraftStep.Status.STARTED,
        key=ask.key,
        role=ask.role,
        before=draft.head,
        after=draft.head,
        model=model.name[:200],
        scripted=model.scripted,
        request_id=Blob.objects.put(canonical_json(encode(ask.request))),
        started_at=timezone.now(),
    )


def _take_number(draft: Draft) -> int:
    """Return the next number. Holds the draft's row, so that a worker and a person do not get the same."""
    Draft.objects.select_for_update().get(pk=draft.pk)
    return 1 + (draft.steps.aggregate(last=Max("number"))["last"] or 0)


def list_answered(draft: Draft) -> list[Answered]:
    """Return answers that were taken, in order."""
    taken = draft.steps.filter(kind=DraftStep.Kind.ANSWER, status=DraftStep.Status.TAKEN)
    return [Answered(*row) for row in taken.values_list("key", "accepts", "words")]


def word_edits_since(step: DraftStep) -> list[str]:
    """Return a line for each edit that was made while this step's call was under way."""
    edits = step.draft.steps.filter(kind=DraftStep.Kind.EDIT, number__gt=step.number).select_related("by")
    return [
        f"{name_actor(edit.by)} edited the files during this call (step {edit.number}). The answer was applied to the edited files."
        for edit in edits
    ]


def clean_files(files: Files) -> tuple[dict[str, File], list[str]]:
    """Return people's files without secrets, and a line for each that held one. SetupError names a refused file."""
    check_totals(files)
    redactor = Redactor(own_secrets())
    cleaned, findings = dict[str, File](), list[str]()
    for path, file in sorted(files.items()):
        check_path(path, files)
        if len(file.content) > MAX_FILE_BYTES:
            raise SetupError(f"{path}: {len(file.content):,} bytes (expected at most {MAX_FILE_BYTES:,})")
        cleaned[path] = _clean(file, redactor)
        if cleaned[path].content != file.content:
            findings.append(f"{path}: what looked like a key or a password was taken out")
    return cleaned, findings


def check_totals(files: Files) -> None:
    """Raise SetupError if a draft cannot hold as much."""
    if len(files) > MAX_FILES:
        raise SetupError(f"{len(files):,} files (expected at most {MAX_FILES:,})")
    if (total := sum(len(file.content) for file in files.values())) > MAX_TOTAL_BYTES:
        raise SetupError(f"{total:,} bytes of files (expected at most {MAX_TOTAL_BYTES:,})")


def check_path(path: str, others: Iterable[str]) -> None:
    """Raise SetupError if a file cannot have this path together with these others."""
    try:
        check_relative(path)
    except ValueError as error:
        raise SetupError(str(error)) from error
    if len(path) > MAX_PATH or not path.isprintable():
        shown = replace_unprintable(path[:80])
        raise SetupError(f"{shown}: expected a printable path of at most {MAX_PATH:,} characters")
    folders = {path[:place] for place, letter in enumerate(path) if letter == "/"}
    if taken := folders & set(others):
        raise SetupError(f"{path}: {min(taken)} is a file already (expected a folder)")


def _clean(file: File, redactor: Redactor) -> File:
    mode = 0o755 if file.mode & 0o100 else 0o644
    try:
        text = file.content.decode()
    except UnicodeDecodeError:
        return replace(file, mode=mode)
    return File(redactor.text(text).encode(), mode)
