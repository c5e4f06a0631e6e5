"""What people do to a draft between its steps: change a file, stop it, let it continue."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from benchapp.drafting.draft_orders import enqueue_due
from benchapp.drafting.draft_steps import check_path, check_totals, clean_files, record_step
from benchapp.models import Draft, DraftStep, Snapshot, User
from benchapp.record.writing.human_acts import name_actor, note_activity
from runner.base.errors import SetupError
from runner.base.types import File, Files
from runner.drafting.drafted_answers import collision_problem, path_problem


class DraftConflict(SetupError):
    """Another person was first, or the draft's state does not allow this. The message names the person or the state."""


def edit_file(draft: Draft, path: str, text: str | None, by: User | None, head_digest: str) -> DraftStep:
    """Write a file, or remove it without a `text`. `head_digest`: of the files that the person saw; raise DraftConflict
    if they changed since. A call under way continues, and its answer is applied on top."""
    before = Snapshot.objects.filter(digest=head_digest).first()
    draft.refresh_from_db(fields=["head"])
    if before is None or draft.head_id != before.pk:
        raise _conflict(draft)
    files, findings, summary = _change(before.read(), path, text)
    with transaction.atomic():
        after = Snapshot.objects.put(files)
        if not Draft.objects.filter(pk=draft.pk, head=before).update(head=after):
            raise _conflict(draft)
        draft.head = after
        note_activity(by, "draft.edited", draft, detail={"path": path, "removed": text is None})
        kind = DraftStep.Kind.EDIT
        return record_step(draft, kind, by=by, before=before, after=after, summary=summary, findings=findings)


def _change(files: dict[str, File], path: str, text: str | None) -> tuple[Files, list[str], str]:
    """Return (the changed files, findings, one line that says what was done)."""
    old = files.pop(path, None)
    if text is None:
        if old is None:
            raise SetupError(f"{path[:200]!r}: there is no such file to remove")
        return files, [], f"Removed {path}"
    check_path(path, files)
    if any(other.startswith(f"{path}/") for other in files):
        raise SetupError(f"{path}: it is a folder (expected a file)")
    if problem := path_problem(path) or collision_problem({**files, path: File(b"")}):
        raise SetupError(f"{path}: {problem}")
    mode = old.mode if old else 0o755 if path.endswith(".sh") else 0o644
    content = text.replace("\r\n", "\n").encode()  # forms send both
    if old and b"\r\n" in old.content:
        content = content.replace(b"\n", b"\r\n")
    cleaned, findings = clean_files({path: File(content, mode)})
    if old == cleaned[path]:
        raise SetupError(f"{path}: the file says this already")
    after = {**files, **cleaned}
    check_totals(after)
    return after, findings, f"{'Changed' if old else 'Added'} {path}"


def _conflict(draft: Draft) -> DraftConflict:
    """Name who changed the files last."""
    steps = draft.steps.filter(status=DraftStep.Status.TAKEN).select_related("by")
    last = steps.order_by("-finished_at", "-number").first()
    who = "somebody"
    if last is not None:
        who = f"the {last.role} ({last.model})" if last.kind == DraftStep.Kind.ANSWER else name_actor(last.by)
    told = f" in step {last.number}" if last else ""
    return DraftConflict(f"The files changed since you opened them: {who}{told}.")


@transaction.atomic
def stop(draft: Draft, by: User | None) -> None:
    """Ask nothing more. The answer of a call under way is still taken: it is paid for."""
    reason = f"stopped by {name_actor(by)}"
    if not Draft.objects.open().filter(pk=draft.pk).update(status=Draft.Status.STOPPED, reason=reason):
        raise DraftConflict("The draft is not under way.")
    note_activity(by, "draft.stopped", draft)
    draft.refresh_from_db(fields=["status", "reason"])


@transaction.atomic
def go_on(draft: Draft, by: User | None) -> None:
    """Ask what the files leave open, with its limits reset; also after the end, because people may have edited them."""
    ended = Draft.objects.filter(pk=draft.pk).exclude(status=Draft.Status.WAITING)
    if not ended.update(status=Draft.Status.WAITING, reason="", failures=0, asked_at=timezone.now()):
        raise DraftConflict("The draft is waiting for a worker already.")
    note_activity(by, "draft.resumed", draft)
    draft.refresh_from_db(fields=["status", "reason", "asked_at"])
    transaction.on_commit(enqueue_due)
