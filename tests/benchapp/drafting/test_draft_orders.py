"""Drafting as work for the queue: every call on record before and after, within its limits, whoever vanishes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import orjson
import pytest
from django.utils import timezone

from benchapp.audit import findings
from benchapp.deploy import workers
from benchapp.drafting import draft_orders
from benchapp.drafting.draft_orders import (
    WORK,
    DraftConflict,
    draft_slice,
    edit_file,
    enqueue_due,
    go_on,
    start_draft,
    stop,
    work_off,
)
from benchapp.models import Activity, Blob, Draft, DraftStep, Snapshot, User
from benchapp.record import slices
from benchapp.record.slices import MAX_FAILURES, SlicedWork
from runner.base.errors import KeyRefused, ModelUnavailable, SetupError
from runner.base.types import File, Files, ModelReply, ModelRequest
from runner.drafting import loops
from runner.drafting.draft import DraftBrief, Taken
from runner.sandboxes.processes import ProcessName, this_machine
from tests.worlds.drafting_loop import BRIEF, CORPUS, RETURNED, UNUSABLE, Drafter, install_loop, take_answer

pytestmark = pytest.mark.django_db

DEAD = str(ProcessName(this_machine(), 2**22 + 7, "0"))
KEYS = ["plan", "task/1/1", "critic/1/1", "task/2/1", "critic/2/1"]
SECRET = "sk-proj-0123456789abcdefghij"


@pytest.fixture(autouse=True)
def hints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Hints go into this list instead of a broker."""
    found: list[str] = []

    class Empty:
        def __init__(self) -> None:
            self.started_job_registry = self

        def get_job_ids(self, **_: object) -> list[str]:
            return []

    monkeypatch.setattr("django_rq.get_queue", Empty)
    monkeypatch.setattr(SlicedWork, "enqueue", lambda _, row_id: found.append(row_id))
    return found


@pytest.fixture
def drafter(monkeypatch: pytest.MonkeyPatch) -> Drafter:
    install_loop(monkeypatch)
    model = Drafter()
    monkeypatch.setattr(draft_orders, "make_model", lambda name: model)
    return model


@pytest.fixture
def one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every slice is over after its first call."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", -1.0)


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", level="operator")


def begin(**options: int | float) -> Draft:
    return start_draft(BRIEF, CORPUS, "litellm/test/drafter", **options)  # type: ignore[arg-type]


def read_steps(draft: Draft) -> list[tuple[str, str]]:
    return list(draft.steps.values_list("key", "status"))


def read_head(draft: Draft) -> dict[str, str]:
    draft.refresh_from_db()
    return {path: file.content.decode() for path, file in draft.head.read().items()}


# --- the whole way --------------------------------------------------------------------------------------------------


def test_a_draft_is_worked_off_with_every_call_on_record(drafter: Drafter, ada: User) -> None:
    drafter.replies = {"critic/1/1": [RETURNED]}
    draft = start_draft(BRIEF, CORPUS, "litellm/test/drafter", ada, name="Fees")
    work_off(draft)
    assert (draft.status, draft.reason, draft.worker, draft.failures) == ("done", "", "", 0)
    keys = ["plan", "task/1/1", "critic/1/1", "task/1/2", "critic/1/2", "task/2/1", "critic/2/1"]
    assert drafter.keys == keys
    assert read_steps(draft) == [("", "taken"), *((key, "taken") for key in keys)]
    first = draft.steps.get(number=1)
    assert (first.kind, first.by, first.before.files_total, set(first.after.read())) == ("given", ada, 0, set(CORPUS))
    returned = draft.steps.get(key="critic/1/1")
    assert (returned.accepts, returned.words, returned.before) == (False, "too easy", returned.after)
    task = draft.steps.get(key="task/2/1")
    assert (task.role, task.model, task.summary) == ("writer", "litellm/test/drafter", "Wrote fees-2.")
    assert (task.input_tokens, task.output_tokens, task.cost_usd, task.findings) == (
        100,
        10,
        0.001,
        ["a line left out"],
    )
    assert set(task.after.manifest()) - set(task.before.manifest()) == {
        f"tasks/fees-2/{name}"
        for name in ("instruction.md", "task.toml", "environment/input.txt", "tests/test.sh", "solution/solve.sh")
    }
    assert task.request is not None
    assert task.reply is not None
    assert orjson.loads(task.request.content())["messages"][1]["content"] == "ask task/2/1\n"
    assert orjson.loads(task.reply.content())["text"] == "good"
    assert task.finished_at is not None
    assert list(findings()) == []


def test_slices_ask_once_each_and_hint_at_what_is_left(drafter: Drafter, hints: list[str], one_call: None) -> None:
    draft = begin()
    assert (enqueue_due(), hints) == (1, [str(draft.public_id)])
    draft_slice(str(draft.public_id))
    assert drafter.keys == KEYS[:1]
    assert hints == [str(draft.public_id)] * 2
    work_off(draft)
    assert (draft.status, drafter.keys) == ("done", KEYS)
    assert enqueue_due() == 0


def test_a_worker_that_looks_round_hints_at_drafts_too(
    drafter: Drafter, hints: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = begin()
    monkeypatch.setattr(workers.advance, "reconcile", lambda labels: 0)
    monkeypatch.setattr(workers.connections, "close_all", lambda: None)
    worker = workers.EpisodeWorker.__new__(workers.EpisodeWorker)
    worker.queues = []
    worker._reconcile()
    assert hints == [str(draft.public_id)]


def test_a_loop_that_ends_early_stops_with_its_reason(drafter: Drafter) -> None:
    drafter.replies = {f"critic/1/{turn}": [RETURNED] for turn in range(1, 7)}
    draft = begin()
    work_off(draft)
    assert (draft.status, draft.reason) == ("stopped", "task 1 was returned 6 times")


def test_what_a_loop_lacks_and_a_model_that_cannot_be_had_open_no_draft(
    drafter: Drafter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SetupError, match="corpus/: no file"):
        start_draft(BRIEF, {}, "litellm/test/drafter")
    monkeypatch.undo()
    install_loop(monkeypatch)
    with pytest.raises(SetupError, match="unknown model provider"):
        start_draft(BRIEF, CORPUS, "nobody/knows")
    assert not Draft.objects.exists()


@pytest.mark.parametrize(
    "path", ["../escape", "/etc/passwd", "corpus/../../x", "corpus/a\nb", "x" * 1_001, "corpus/rules.md/x"]
)
def test_a_file_with_a_path_that_leads_away_opens_no_draft(drafter: Drafter, path: str) -> None:
    with pytest.raises(SetupError):
        start_draft(BRIEF, {**CORPUS, path: File(b"")}, "litellm/test/drafter")


def test_keys_reach_neither_files_nor_calls(drafter: Drafter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_API_KEY", "the-house-key-of-ours")
    drafter.replies = {"plan": ["the-house-key-of-ours"], "task/1/1": [f"use {SECRET}"]}
    files = {**CORPUS, "corpus/a.md": File(f"key {SECRET}".encode())}
    draft = start_draft(BRIEF, files, "litellm/test/drafter")
    work_off(draft)
    assert draft.status == "done"
    assert draft.steps.get(number=1).findings == ["corpus/a.md: what looked like a key or a password was taken out"]
    kept = b"".join(blob.content() for blob in Blob.objects.all())
    assert SECRET.encode() not in kept
    assert b"the-house-key-of-ours" not in kept
    assert b"[redacted:api-key]" in kept


# --- answers that are none ------------------------------------------------------------------------------------------


def test_an_unusable_answer_is_asked_for_again_and_told_why(drafter: Drafter) -> None:
    drafter.replies = {"task/1/1": [UNUSABLE, UNUSABLE, "good"]}
    draft = begin()
    work_off(draft)
    assert draft.status == "done"
    asked = list(draft.steps.filter(key="task/1/1"))
    assert [each.status for each in asked] == ["unusable", "unusable", "taken"]
    assert asked[0].error == "answer: expected a JSON object"
    assert asked[0].before == asked[0].after
    first, second, _ = [each for each in drafter.asked if "task/1/1" in each.messages[-1]["content"]]
    assert "expected a JSON object" not in first.messages[-1]["content"]
    assert "expected a JSON object" in second.messages[-1]["content"]
    assert (first.seed, second.seed) == (1, 2)


def test_three_unusable_answers_stop_the_draft_and_going_on_asks_anew(drafter: Drafter, ada: User) -> None:
    drafter.replies = {"task/1/1": [UNUSABLE] * 4 + ["good"]}
    draft = begin()
    work_off(draft)
    assert draft.status == "stopped"
    assert draft.reason.startswith("3 answers of the writer cannot be used (task/1/1); the last: answer: expected")
    assert drafter.keys.count("task/1/1") == 3
    go_on(draft, ada)
    work_off(draft)
    assert (draft.status, drafter.keys.count("task/1/1")) == ("done", 5)


def test_a_provider_that_is_away_fails_three_calls_and_stops_the_draft(drafter: Drafter) -> None:
    drafter.replies = {"plan": [ModelUnavailable("503 for now")]}
    draft = begin()
    work_off(draft)
    assert read_steps(draft)[1:] == [("plan", "failed")] * 3
    assert draft.reason == "3 calls in a row got no reply; the last: 503 for now"
    assert list(findings()) == []


def test_a_refused_key_stops_at_once_and_is_not_kept(drafter: Drafter) -> None:
    drafter.replies = {"plan": [KeyRefused(f"401: {SECRET} is wrong")]}
    draft = begin()
    work_off(draft)
    assert read_steps(draft)[1:] == [("plan", "failed")]
    assert (draft.status, draft.reason) == ("stopped", "401: [redacted:api-key] is wrong")
    assert SECRET not in draft.steps.get(key="plan").error


# --- limits ---------------------------------------------------------------------------------------------------------


def test_a_limit_of_calls_holds_over_slices_and_going_on_gives_it_anew(
    drafter: Drafter, one_call: None, ada: User
) -> None:
    draft = begin(max_calls=2)
    work_off(draft)
    assert (draft.status, draft.reason, drafter.keys) == ("stopped", "the limit of 2 calls is used up", KEYS[:2])
    go_on(draft, ada)
    work_off(draft)
    assert (draft.status, drafter.keys) == ("stopped", KEYS[:4])


def test_a_limit_in_dollars_holds_and_needs_prices(drafter: Drafter, one_call: None) -> None:
    draft = begin(max_usd=0.0015)
    work_off(draft)
    assert (draft.status, len(drafter.asked)) == ("stopped", 2)  # the second was allowed with $0.001 spent
    drafter.cost_usd = None
    draft = begin(max_usd=1.0)
    work_off(draft)
    assert "cost of this model is unknown" in draft.reason


# --- who vanishes ---------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """As a signal: nothing is cleaned up after it."""


def test_a_worker_killed_in_a_call_loses_that_call_alone(drafter: Drafter, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(request: ModelRequest) -> ModelReply:
        raise Killed

    draft = begin()
    with monkeypatch.context() as patch:
        patch.setattr(Drafter, "complete", lambda _, request: die(request))
        with pytest.raises(Killed):
            draft_slice(str(draft.public_id))
    draft.refresh_from_db()
    assert (draft.status, draft.failures, read_steps(draft)[1:]) == ("waiting", 1, [("plan", "started")])
    draft_slice(str(draft.public_id))
    assert drafter.asked == [], "its lease holds"
    Draft.objects.update(worker=DEAD)
    enqueue_due()
    work_off(draft)
    assert (draft.status, drafter.keys) == ("done", KEYS)
    assert read_steps(draft)[1:3] == [("plan", "failed"), ("plan", "taken")]
    assert "vanished" in draft.steps.get(number=2).error


def test_a_reply_that_was_committed_is_taken_and_never_paid_twice(
    drafter: Drafter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> bool:
        raise Killed

    draft = begin()
    with monkeypatch.context() as patch:
        patch.setattr(draft_orders._Drafting, "_take", die)
        with pytest.raises(Killed):
            draft_slice(str(draft.public_id))
    assert read_steps(draft)[1:] == [("plan", "started")]
    Draft.objects.update(worker=DEAD)
    enqueue_due()
    work_off(draft)
    assert (draft.status, drafter.keys) == ("done", KEYS)
    assert [status for _, status in read_steps(draft)] == ["taken"] * 6


def test_a_draft_that_kills_every_process_stops_and_says_so(drafter: Drafter) -> None:
    draft = begin()
    Draft.objects.update(failures=MAX_FAILURES)
    draft_slice(str(draft.public_id))
    draft.refresh_from_db()
    assert (draft.status, drafter.asked) == ("stopped", [])
    assert "vanished" in draft.reason


def test_a_failure_of_the_machine_is_kept_as_reason_and_tried_again(drafter: Drafter) -> None:
    drafter.replies = {"plan": [MemoryError("no room")]}
    draft = begin()
    with pytest.raises(MemoryError):
        draft_slice(str(draft.public_id))
    draft.refresh_from_db()
    assert (draft.status, draft.reason, draft.worker) == ("waiting", "MemoryError: no room", "")
    assert (read_steps(draft)[1:], draft.steps.get(key="plan").error) == ([("plan", "failed")], draft.reason)
    drafter.replies = {}
    work_off(draft)
    assert (draft.status, draft.reason) == ("done", "")


def test_who_lost_the_lease_during_a_call_takes_nothing(drafter: Drafter) -> None:
    def lose() -> str:
        Draft.objects.update(lease_until=timezone.now() - timedelta(minutes=1))
        assert WORK.claim(str(draft.public_id)) is not None  # another worker
        return "late"

    drafter.replies = {"plan": [lose]}
    draft = begin()
    draft_slice(str(draft.public_id))
    step = draft.steps.get(key="plan")
    assert (step.status, step.reply is not None) == ("started", True)
    assert read_head(draft) == {"corpus/rules.md": CORPUS["corpus/rules.md"].content.decode()}
    assert draft.lease_until is not None
    assert draft.lease_until > timezone.now()
    Draft.objects.update(worker=DEAD)
    enqueue_due()
    work_off(draft)
    assert (draft.status, read_head(draft)["notes/plan.txt"], drafter.keys) == ("done", "late", KEYS)


# --- people ---------------------------------------------------------------------------------------------------------


def test_an_edit_counts_in_what_is_asked_next_and_is_a_step_of_its_own(drafter: Drafter, ada: User) -> None:
    draft = begin()
    step = edit_file(draft, "notes/plan.txt", "My own\r\nplan", ada, draft.head.digest)
    assert (step.kind, step.status, step.by, step.summary) == ("edit", "taken", ada, "Added notes/plan.txt")
    assert read_head(draft)["notes/plan.txt"] == "My own\nplan"
    work_off(draft)
    assert (draft.status, drafter.keys) == ("done", KEYS[1:])
    edit_file(draft, "tasks/fees-1/tests/test.sh", "exit 1\n", ada, draft.head.digest)
    removed = edit_file(draft, "corpus/rules.md", None, ada, draft.head.digest)
    assert (removed.summary, "corpus/rules.md" in read_head(draft)) == ("Removed corpus/rules.md", False)
    assert Activity.objects.filter(actor=ada, verb="draft.edited").count() == 3
    assert list(findings()) == []


def test_an_edit_of_files_that_moved_is_refused_and_names_who_was_first(drafter: Drafter, ada: User) -> None:
    draft = begin()
    seen = draft.head.digest
    bob = User.objects.create_user("bob", level="operator")
    edit_file(draft, "notes/a.txt", "of bob", bob, seen)
    with pytest.raises(DraftConflict, match=r"bob in step 2\.$"):
        edit_file(draft, "notes/a.txt", "of ada", ada, seen)
    seen = draft.head.digest
    work_off(draft)
    with pytest.raises(DraftConflict, match=r"the critic \(litellm/test/drafter\) in step 7"):
        edit_file(draft, "notes/a.txt", "of ada", ada, seen)
    assert read_head(draft)["notes/a.txt"] == "of bob"
    with pytest.raises(DraftConflict):
        edit_file(draft, "notes/a.txt", "of ada", ada, "no digest")


def test_an_edit_during_a_call_stays_and_the_answer_comes_on_top_and_says_so(drafter: Drafter, ada: User) -> None:
    def edited() -> str:
        now = Draft.objects.get(pk=draft.pk)
        edit_file(now, "notes/a.txt", "mine", ada, now.head.digest)
        return "planned"

    drafter.replies = {"plan": [edited]}
    draft = begin()
    work_off(draft)
    assert draft.status == "done"
    files = read_head(draft)
    assert (files["notes/a.txt"], files["notes/plan.txt"]) == ("mine", "planned")
    answer, edit = draft.steps.get(key="plan"), draft.steps.get(kind="edit")
    assert answer.before == edit.after
    assert answer.findings == [
        "ada edited the files during this call (step 3). The answer was applied to the edited files."
    ]
    assert list(findings()) == []


def test_an_answer_that_replaces_what_was_edited_during_its_call_names_the_file(drafter: Drafter, ada: User) -> None:
    def edited() -> str:
        now = Draft.objects.get(pk=draft.pk)
        edit_file(now, "notes/plan.txt", "mine", ada, now.head.digest)
        return "planned"

    drafter.replies = {"plan": [edited]}
    draft = begin()
    work_off(draft)
    assert read_head(draft)["notes/plan.txt"] == "planned"
    told = "notes/plan.txt: the answer replaced what was edited during its call"
    assert draft.steps.get(key="plan").findings[1:] == [told]


def test_of_two_workers_that_read_the_same_free_draft_one_takes_it(
    drafter: Drafter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second comes between the first one's look and its write, as two workers may on any database."""
    draft, mine, others = begin(), SlicedWork.mine, list[Draft | None]()

    def meanwhile(work: SlicedWork[Draft], row: Draft) -> object:
        if not others:
            others.append(None)
            others.append(WORK.claim(str(draft.public_id)))
        return mine(work, row)

    monkeypatch.setattr(SlicedWork, "mine", meanwhile)
    assert WORK.claim(str(draft.public_id)) is None
    held = others[1]
    draft.refresh_from_db()
    assert held is not None
    assert (held.lease_epoch, held.failures, held.worker) == (draft.lease_epoch, draft.failures, draft.worker)
    assert draft.lease_epoch == 1


def test_a_reply_to_what_another_call_answered_meanwhile_is_kept_and_not_used(drafter: Drafter) -> None:
    draft = begin()
    work_off(draft)
    taken = draft.steps.get(key="plan")
    DraftStep.objects.filter(pk=taken.pk).update(status="started", number=99)
    DraftStep.objects.create(
        draft=draft, number=100, kind="answer", status="taken", key="plan", before=taken.before, after=taken.after,
        started_at=timezone.now(),
    )  # fmt: skip
    go_on(draft, None)
    work_off(draft)
    assert (draft.status, drafter.keys) == ("done", KEYS)
    late = draft.steps.get(pk=taken.pk)
    assert (late.status, late.error) == ("failed", draft_orders.ANSWERED_TWICE)


def test_a_brief_that_no_loop_can_go_by_starts_nothing() -> None:
    for changes, told in (({"tasks": 50}, "tasks"), ({"family": "f" * 41}, "family"), ({"image": "a b"}, "image")):
        with pytest.raises(SetupError, match=told):
            start_draft(replace(BRIEF, **changes), CORPUS, "scripted/careful")  # type: ignore[arg-type]
    assert not Draft.objects.exists()


def test_keys_in_goal_and_name_are_taken_out(drafter: Drafter) -> None:
    draft = start_draft(replace(BRIEF, goal=f"Use {SECRET}."), CORPUS, "litellm/test/drafter", name=f"With {SECRET}")
    assert SECRET not in f"{draft.name} {draft.brief}"


def test_an_edit_keeps_the_line_ends_of_a_file(drafter: Drafter, ada: User) -> None:
    files = {**CORPUS, "corpus/a.csv": File(b"a\r\n1\r\n")}
    draft = start_draft(BRIEF, files, "litellm/test/drafter")
    edit_file(draft, "corpus/a.csv", "a\n2\n", ada, draft.head.digest)
    assert read_head(draft)["corpus/a.csv"] == "a\r\n2\r\n"


def test_an_edit_while_an_answer_is_made_into_files_is_not_lost(
    drafter: Drafter, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def take(brief: DraftBrief, files: Files, key: str, text: str) -> Taken:
        if not seen:
            now = Draft.objects.get(pk=draft.pk)
            edit_file(now, "notes/a.txt", "mine", ada, now.head.digest)
        seen.append(key)
        return take_answer(brief, files, key, text)

    monkeypatch.setattr(loops, "take_answer", take)
    draft = begin()
    work_off(draft)
    assert seen == ["plan", *KEYS], "made twice, asked once"
    assert (draft.status, drafter.keys, read_head(draft)["notes/a.txt"]) == ("done", KEYS, "mine")
    assert len(draft.steps.get(key="plan").findings) == 1


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("../x", "y", "plain relative path"),
        ("corpus", "y", "it is a folder"),
        ("corpus/Rules.md", "y", "differ only in case"),
        ("corpus/ä.md", "y", "beyond printable ASCII"),
        ("corpus/rules.md/x", "y", "is a file already"),
        ("corpus/none.md", None, "no such file"),
        ("corpus/rules.md", "# Fees\n\n- A fee above 100 is halved.\n", "says this already"),
        ("corpus/big.md", "x" * 5_000_000, "5,000,000 bytes"),
    ],
)
def test_an_edit_that_cannot_be_says_what_was_expected(
    drafter: Drafter, ada: User, path: str, text: str | None, told: str
) -> None:
    draft = begin()
    with pytest.raises(SetupError, match=told):
        edit_file(draft, path, text, ada, draft.head.digest)
    assert draft.steps.count() == 1


def test_stopping_waits_for_the_call_under_way_and_takes_its_answer(drafter: Drafter, ada: User) -> None:
    def stopped() -> str:
        stop(Draft.objects.get(pk=draft.pk), ada)
        return "planned"

    drafter.replies = {"plan": [stopped]}
    draft = begin()
    work_off(draft)
    assert (draft.status, draft.reason, draft.worker) == ("stopped", "stopped by ada", "")
    assert read_steps(draft)[1:] == [("plan", "taken")]
    with pytest.raises(DraftConflict):
        stop(draft, ada)
    go_on(draft, ada)
    with pytest.raises(DraftConflict):
        go_on(draft, ada)
    work_off(draft)
    assert (draft.status, drafter.keys) == ("done", KEYS)
    assert list(Activity.objects.filter(actor=ada).order_by("pk").values_list("verb", flat=True)) == [
        "draft.stopped",
        "draft.resumed",
    ]


def test_going_on_after_the_end_asks_only_for_what_is_open_and_pays_for_nothing_twice(
    drafter: Drafter, ada: User
) -> None:
    draft = begin()
    work_off(draft)
    go_on(draft, ada)
    work_off(draft)
    assert (draft.status, drafter.keys) == ("done", KEYS)
    edit_file(draft, "notes/plan.txt", None, ada, draft.head.digest)
    go_on(draft, ada)
    work_off(draft)
    assert (draft.status, drafter.keys) == ("stopped", KEYS)
    assert draft.reason.startswith("plan was answered, but the files no longer show it")


# --- the record -----------------------------------------------------------------------------------------------------


def test_the_audit_names_an_answer_without_its_reply_and_files_that_no_step_left(drafter: Drafter) -> None:
    draft = begin()
    work_off(draft)
    step = draft.steps.get(key="plan")
    DraftStep.objects.filter(pk=step.pk).update(reply=None)
    Draft.objects.filter(pk=draft.pk).update(head=Snapshot.objects.put({"a": File(b"b")}))
    told = [str(each) for each in findings()]
    assert f"draft step {step.public_id}: was taken, but its request or its reply is missing" in told
    assert f"draft {draft.public_id}: none of its steps left its present files" in told
