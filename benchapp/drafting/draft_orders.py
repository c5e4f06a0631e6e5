"""Draft in the background: a draft is begun, then processed in slices, one call after the other.

What to ask next follows from the files and the answers so far, so a killed worker loses at most the call under way. A
call's request is committed before the model is asked, and its reply before it is used. The rows of its steps are
written in order, each in the transaction of what it records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import orjson
from django.db import transaction
from django.db.models import Max
from django.db.models.functions import Now
from django.utils import timezone

from benchapp.models import Blob, Draft, DraftStep, Snapshot, User
from benchapp.record.error_text import render_error, text_of_error
from benchapp.record.redaction import Redactor, own_secrets
from benchapp.record.slices import LEASE, SliceBudget, SlicedWork, SliceEnd, SliceOver, Stopped
from benchapp.record.writing.human_acts import name_actor, note_activity
from runner.base.digests import canonical_json
from runner.base.encoding import decode, encode
from runner.base.errors import ModelRefused, ModelUnavailable, SetupError
from runner.base.text import cut, plural, replace_unprintable, storable
from runner.base.trees import check_relative
from runner.base.types import File, Files, ModelReply, ModelRequest
from runner.drafting import loops
from runner.drafting.draft import Answered, Ask, DraftBrief, Ended, Taken, UnusableAnswer
from runner.drafting.drafted_answers import collision_problem, path_problem
from runner.engine.toolbox import Cleaner
from runner.models import Model, make_model

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
        f"{name_actor(edit.by)} edited the files during this call (step {edit.number}). The answer was applied to the "
        "edited files."
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


MAX_UNUSABLE = 3  # answers to one ask, before a person must look
MAX_FAILED = 3  # calls in a row without a reply
MAX_ERROR_CHARS = 4_000
MAX_NAME = 200
ANSWERED_TWICE = "Another call had answered this already. This reply is not used."
VANISHED = "The worker vanished during this call. Its cost is unknown."

WORK = SlicedWork(Draft.objects.all, "drafting", f"{__name__}.draft_slice")


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
    """Open it with the given files. SetupError names what the loop lacks, or the file or model that is not allowed."""
    redactor = Redactor(own_secrets())
    brief = loops.brief_from_plain(loops.brief_to_plain(replace(brief, goal=redactor.text(brief.goal))))
    files, findings = clean_files(files)
    given, files = files, loops.name_tasks(brief, files)
    if files != given:
        findings.append(f"Its tasks were named as the family's: {', '.join(loops.tasks_in(files))}")
    loops.check_start(brief, files)
    make_model(model)
    now = timezone.now()
    with transaction.atomic():
        head = Snapshot.objects.put(files)
        draft = Draft.objects.create(
            name=redactor.text(name or brief.family)[:MAX_NAME],
            loop=brief.loop.value,
            brief=loops.brief_to_plain(brief),
            model=model,
            max_calls=max_calls,
            max_usd=max_usd,
            head=head,
            asked_by=by,
            asked_at=now,
        )
        record_step(
            draft,
            DraftStep.Kind.GIVEN,
            by=by,
            before=Snapshot.objects.put({}),
            after=head,
            summary=f"{plural(len(files), 'file')} given",
            findings=findings,
        )
        note_activity(by, "draft.started", draft, detail={"loop": draft.loop, "family": brief.family, "model": model})
        transaction.on_commit(enqueue_due)
    return draft


def enqueue_due() -> int:
    return WORK.enqueue_due()


def draft_slice(draft_id: str) -> None:
    """Run the job: ask for a slice of time, then put the rest at the end of the queue."""
    WORK.run(draft_id, _work)


def work_off(draft: Draft) -> None:
    """Process all its slices here, until its end or until another process holds it."""
    while draft.status == Draft.Status.WAITING:
        before = draft.lease_epoch
        draft_slice(str(draft.public_id))
        draft.refresh_from_db()
        if draft.lease_epoch == before:
            return


def _work(draft: Draft) -> SliceEnd:
    status = Draft.Status
    try:
        ended = _Drafting(draft).go()
    except SliceOver:
        return SliceEnd(status.WAITING)
    except Stopped as stop:
        return SliceEnd(status.STOPPED, str(stop))
    return SliceEnd(status.DONE) if ended.is_whole else SliceEnd(status.STOPPED, ended.reason)


class _Drafting:
    """One slice of a draft, under its lease."""

    def __init__(self, draft: Draft) -> None:
        redactor = Redactor(own_secrets())
        self.draft, self.brief = draft, loops.brief_from_plain(draft.brief)
        self.model, self.budget = make_model(draft.model), _budget_of(draft)
        self.clean = Cleaner(lambda text: redactor.text(storable(text)))

    def go(self) -> Ended:
        """Run until the loop ends. Raise Stopped or SliceOver if it does not get that far."""
        self._take_up()
        while True:
            self.draft.refresh_from_db(fields=["head"])
            ask = loops.next_ask(self.brief, self.draft.head.read(), list_answered(self.draft))
            if isinstance(ask, Ended):
                return ask
            ask = self._prepare(ask)
            self.budget.check()
            if (step := self._call(ask)) is not None:
                self._take(step)

    def _take_up(self) -> None:
        """Take over from an earlier holder: a reply that was not used is used, a call without one has failed."""
        for step in self.draft.steps.filter(kind=DraftStep.Kind.ANSWER, status=DraftStep.Status.STARTED):
            if step.reply_id is None:
                self._fail(step, VANISHED)
            elif self.draft.steps.filter(key=step.key, status=DraftStep.Status.TAKEN).exists():
                self._fail(step, ANSWERED_TWICE)
            else:
                self._take(step)

    def _prepare(self, ask: Ask) -> Ask:
        """Return what is sent and recorded. Raise Stopped if it failed too often since a person last resumed."""
        asked = self.draft.steps.filter(key=ask.key, started_at__gte=self.draft.asked_at)
        tries = list(asked.defer("words", "findings"))
        if self.draft.steps.filter(key=ask.key, status=DraftStep.Status.TAKEN).exists():
            raise Stopped(f"{ask.key} was answered, but the files no longer show it: undo that edit")
        unusable = [each for each in tries if each.status == DraftStep.Status.UNUSABLE]
        if len(unusable) >= MAX_UNUSABLE:
            last = unusable[-1].error[:500]
            raise Stopped(f"{len(unusable)} answers of the {ask.role} cannot be used ({ask.key}); the last: {last}")
        latest = tries[-MAX_FAILED:]
        if len(latest) == MAX_FAILED and all(each.status == DraftStep.Status.FAILED for each in latest):
            raise Stopped(f"{MAX_FAILED} calls in a row got no reply; the last: {latest[-1].error[:500]}")
        request = ask_again(ask.request, unusable[-1].error, len(unusable)) if unusable else ask.request
        return replace(ask, request=self.clean.request(request))

    def _call(self, ask: Ask) -> DraftStep | None:
        """Return the step with its reply on record; None if there is no reply and another try may get one."""
        step = begin_call(self.draft, ask, self.model)
        self.budget.used_calls += 1
        try:
            reply = self.model.complete(ask.request)
        except (ModelRefused, ModelUnavailable, SetupError) as error:
            message = render_error(type(error).__name__, self.clean.text(str(error)))
            self._fail(step, message)
            if isinstance(error, ModelUnavailable):
                return None
            raise Stopped(message[:500]) from error
        except Exception as error:  # a failure of the machine: the queue reports it, and the draft is tried again
            self._fail(step, self.clean.text(text_of_error(error)))
            raise
        self.budget.note(reply.usage.cost_usd)
        self._record_reply(step, reply)
        return step

    def _fail(self, step: DraftStep, error: str) -> None:
        still = DraftStep.objects.filter(pk=step.pk, status=DraftStep.Status.STARTED)
        error = cut(error, MAX_ERROR_CHARS)
        still.update(status=DraftStep.Status.FAILED, error=error, finished_at=timezone.now())

    def _record_reply(self, step: DraftStep, reply: ModelReply) -> None:
        """Record the reply even if the lease was lost during the call: it is paid for."""
        reply = self.clean.reply(replace(reply, tool_calls=(), carried=None))  # a draft's call is never continued
        with transaction.atomic():  # a sweep between the two would remove the reply
            step.reply_id = Blob.objects.put(canonical_json(encode(reply)))
            step.input_tokens, step.output_tokens = reply.usage.input_tokens, reply.usage.output_tokens
            step.cost_usd = reply.usage.cost_usd
            step.save(update_fields=["reply", "input_tokens", "output_tokens", "cost_usd"])

    def _take(self, step: DraftStep) -> None:
        """Apply the reply as its loop does, on the current files: a person may have edited them during the call."""
        text = decode(ModelReply, orjson.loads(Blob.objects.read(str(step.reply_id)))).text
        while True:
            head = Snapshot.objects.get(pk=Draft.objects.values_list("head", flat=True).get(pk=self.draft.pk))
            try:
                taken = _clean_taken(loops.take_answer(self.brief, files := head.read(), step.key, text), files)
            except (UnusableAnswer, SetupError) as error:
                with transaction.atomic():
                    self._keep_lease()
                    step.status, step.finished_at = DraftStep.Status.UNUSABLE, timezone.now()
                    step.error = cut(storable(str(error)), MAX_ERROR_CHARS)
                    step.save(update_fields=["status", "error", "finished_at"])
                return
            if self._commit(step, head, taken):
                return

    @transaction.atomic
    def _commit(self, step: DraftStep, head: Snapshot, taken: Taken) -> bool:
        """Return False if somebody edited the draft since `head`. Raise SliceOver if the lease is lost."""
        self._keep_lease()
        after = Snapshot.objects.put(taken.files)
        if not Draft.objects.filter(pk=self.draft.pk, head=head).update(head=after):
            return False
        edited = (
            [*word_edits_since(step), *_name_overwritten(step.before, head, after)] if step.before_id != head.pk else []
        )
        step.before, step.after, step.status = head, after, DraftStep.Status.TAKEN
        step.summary, step.accepts, step.words = storable(taken.summary), taken.accepts, storable(taken.words)
        step.findings = [*edited, *map(storable, taken.findings)]
        step.finished_at = timezone.now()
        step.save()
        return True

    def _keep_lease(self) -> None:
        """Keep the lease. An answer is taken even if a person stopped the draft during the call: it is paid for."""
        if not WORK.mine(self.draft).update(lease_until=Now() + LEASE):
            raise SliceOver


def _clean_taken(taken: Taken, before: Files) -> Taken:
    """Remove secrets from what changed: a reply is cleaned before parsing, and its JSON may spell a secret differently.
    Raise SetupError if the draft grew too large."""
    check_totals(taken.files)
    cleaned, lines = clean_files({path: file for path, file in taken.files.items() if before.get(path) != file})
    return replace(taken, files={**taken.files, **cleaned}, findings=(*taken.findings, *lines))


def _name_overwritten(asked: Snapshot, head: Snapshot, after: Snapshot) -> list[str]:
    """Return a line for each file that people changed during the call, and the answer again."""
    was, now, then = (each.manifest() for each in (asked, head, after))
    paths = sorted(was.keys() | now.keys() | then.keys())
    both = [path for path in paths if was.get(path) != now.get(path) and now.get(path) != then.get(path)]
    return [f"{path}: the answer replaced what was edited during its call" for path in both]


def ask_again(request: ModelRequest, error: str, number: int) -> ModelRequest:
    """Return the request after `number` unusable answers: it says why, and samples with another seed."""
    *earlier, last = request.messages
    content = f"{last['content']}\n\nAn earlier answer could not be used: {error}\nSend the whole answer again."
    seed = None if request.seed is None else request.seed + number
    return replace(request, messages=(*earlier, {**last, "content": content}), seed=seed)


def _budget_of(draft: Draft) -> SliceBudget:
    """Return the budget with what was used since a person last resumed the draft."""
    calls = draft.steps.filter(kind=DraftStep.Kind.ANSWER, started_at__gte=draft.asked_at)
    return SliceBudget.of(calls, calls=draft.max_calls, usd=draft.max_usd, renew=lambda: WORK.hold(draft))


# --- what people do to a draft between its steps ---------------------------------------------------------------------


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
    where = f" in step {last.number}" if last else ""
    return DraftConflict(f"The files changed since you opened them: {who}{where}.")


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
