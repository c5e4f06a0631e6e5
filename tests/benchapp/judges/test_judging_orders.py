"""Judging as work for the queue: in slices, after the run has ended, within its limits, whoever vanishes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from benchapp.experiments.launch import launch
from benchapp.experiments.launch_spec import LaunchSpec, Unlaunchable, read_spec
from benchapp.experiments.preparation import prepare
from benchapp.judges import judging_orders
from benchapp.judges.judge_passes import judge_run
from benchapp.judges.judging_orders import WORK, JudgingWish, enqueue_due, judge_slice, order_judging
from benchapp.models import JudgedUnit, Judging, JudgingOrder, JudgingTry, Run
from benchapp.record import slices
from benchapp.record.slices import MAX_FAILURES, SliceBudget, SlicedWork, SliceEnd
from benchapp.stats.metrics.spending import spending_of
from runner.base.errors import SetupError
from runner.base.types import ModelReply, ModelRequest
from runner.sandboxes.processes import ProcessName, this_machine
from tests.worlds.judging_worlds import Judge, World, make_world

pytestmark = pytest.mark.django_db

WISH = JudgingWish("litellm/test/judge")
DEAD = str(ProcessName(this_machine(), 2**22 + 7, "0"))


@pytest.fixture(autouse=True)
def hints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Hints go into this list instead of a broker."""
    found: list[str] = []
    monkeypatch.setattr(SlicedWork, "enqueue", lambda _, order_id: found.append(order_id))
    return found


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Judge:
    model = Judge()
    monkeypatch.setattr(judging_orders, "make_model", lambda name: model)
    return model


@pytest.fixture
def world(judge: Judge) -> World:
    return make_world()


@pytest.fixture
def one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every slice is over after its first call."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", -1.0)


def ordered(run: Run, wish: JudgingWish = WISH) -> JudgingOrder:
    order_judging([run], wish)
    return JudgingOrder.objects.get(run=run)


def work_off(order: JudgingOrder, most: int = 60) -> int:
    """Slices until nothing is left. How many."""
    for number in range(1, most + 1):
        judge_slice(str(order.public_id))
        order.refresh_from_db()
        if order.status != JudgingOrder.Status.WAITING:
            return number
    raise AssertionError("it never ends")


def test_an_order_is_worked_off_and_is_what_the_command_does(world: World, judge: Judge) -> None:
    order = ordered(world.run)
    work_off(order)
    assert (order.status, order.reason, order.tasks_done, order.tasks_total) == ("done", "", 2, 2)
    assert (order.worker, order.failures) == ("", 0)
    judging = world.run.judgings.get()
    assert judging.finished_at is not None
    assert judging.units.filter(status="ok").count() == 20
    assert len(judge.asked) == 18


def test_slices_ask_each_question_once_and_every_slice_comes_further(
    world: World, judge: Judge, one_call: None
) -> None:
    order = ordered(world.run)
    judge_slice(str(order.public_id))
    order.refresh_from_db()
    judging = world.run.judgings.get()
    assert (order.status, order.tasks_done, judging.finished_at, judging.stopped) == ("waiting", 0, None, "")
    assert len(judge.asked) == 1
    assert work_off(order) == 17  # one call each
    assert len(judge.asked) == 18
    assert order.status == "done"


def test_nothing_is_hinted_at_while_the_run_is_open(world: World, hints: list[str]) -> None:
    Run.objects.filter(pk=world.run.pk).update(status="running")
    order = ordered(world.run)
    assert enqueue_due() == 0
    judge_slice(str(order.public_id))
    assert not Judging.objects.exists()
    Run.objects.filter(pk=world.run.pk).update(status="done")
    assert enqueue_due() == 1
    assert hints == [str(order.public_id)]


def test_an_order_of_a_vanished_process_is_free_at_once_and_one_under_way_is_not(
    world: World, hints: list[str]
) -> None:
    order = ordered(world.run)
    later = timezone.now() + timedelta(minutes=10)
    JudgingOrder.objects.update(worker="elsewhere-1 1 1", lease_until=later)
    assert enqueue_due() == 0
    judge_slice(str(order.public_id))
    assert not Judging.objects.exists()
    JudgingOrder.objects.update(worker=DEAD)
    assert enqueue_due() == 1
    work_off(order)
    assert order.status == "done"


def test_a_process_killed_in_a_call_loses_that_answer_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        """As a signal: nothing is cleaned up after it."""

    judge = Judge()

    class Dying(Judge):
        def complete(self, request: ModelRequest) -> ModelReply:
            if len(judge.asked) == 7:
                raise Killed
            return judge.complete(request)

    monkeypatch.setattr(judging_orders, "make_model", lambda name: Dying())
    order = ordered(world.run)
    with pytest.raises(Killed):
        judge_slice(str(order.public_id))
    order.refresh_from_db()
    assert (order.status, order.failures, order.worker != "") == ("waiting", 1, True)
    monkeypatch.setattr(judging_orders, "make_model", lambda name: judge)
    JudgingOrder.objects.update(worker=DEAD)
    enqueue_due()
    work_off(order)
    assert (order.status, len(judge.asked)) == ("done", 18)
    assert JudgingTry.objects.filter(reply=None).count() == 1


def test_an_order_that_kills_every_process_stops_and_says_so(world: World, judge: Judge) -> None:
    order = ordered(world.run)
    JudgingOrder.objects.update(failures=MAX_FAILURES)
    judge_slice(str(order.public_id))
    order.refresh_from_db()
    assert order.status == "stopped"
    assert "vanished" in order.reason
    assert judge.asked == []


def test_a_failure_of_the_machine_is_kept_and_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    order = ordered(world.run)

    def break_down(*_: object, **__: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(judging_orders, "judge_run", break_down)
    for _ in range(MAX_FAILURES):
        with pytest.raises(MemoryError):
            judge_slice(str(order.public_id))
    judge_slice(str(order.public_id))
    order.refresh_from_db()
    assert (order.status, order.reason) == ("stopped", "MemoryError: no room")


def test_limits_hold_over_all_slices_and_asking_again_goes_on(world: World, judge: Judge, one_call: None) -> None:
    order = ordered(world.run, JudgingWish("litellm/test/judge", max_calls=5))
    work_off(order)
    assert (order.status, len(judge.asked)) == ("stopped", 5)
    assert order.reason == "the limit of 5 calls is used up"
    order = ordered(world.run)
    work_off(order)
    assert (order.status, len(judge.asked)) == ("done", 18)
    assert JudgingOrder.objects.count() == 1


def test_a_limit_in_dollars_holds_over_slices(world: World, judge: Judge, one_call: None) -> None:
    order = ordered(world.run, JudgingWish("litellm/test/judge", max_usd=0.0035))
    work_off(order)
    assert order.status == "stopped"
    assert len(judge.asked) == 4  # $0.001 each; the fourth was allowed with $0.003 spent


def test_an_order_that_is_asked_for_again_takes_it_from_who_works_on_it(world: World, judge: Judge) -> None:
    order = ordered(world.run)
    held = WORK.claim(str(order.public_id))
    assert held is not None
    ordered(world.run)
    budget = SliceBudget(renew=lambda: WORK.hold(held))
    outcome = judge_run(world.run, judge, budget=budget)
    assert (outcome.goes_on, judge.asked) == (True, [])
    WORK.release(held, SliceEnd(JudgingOrder.Status.DONE))
    order.refresh_from_db()
    assert order.status == "waiting"


def test_a_judge_that_cannot_be_had_stops_the_order_with_its_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> Judge:
        raise SetupError("no such model (expected a preset or provider/name)")

    monkeypatch.setattr(judging_orders, "make_model", refuse)
    order = ordered(world.run)
    work_off(order)
    assert (order.status, order.reason) == ("stopped", "no such model (expected a preset or provider/name)")


def test_what_a_judge_cost_is_part_of_the_bill_and_of_no_method(world: World) -> None:
    before = spending_of([world.run])[world.run.pk]
    work_off(ordered(world.run))
    run = Run.objects.get(pk=world.run.pk)
    spent = spending_of([run])[run.pk]
    assert (spent.judge.things, spent.judge.input_tokens, spent.judge.output_tokens) == (18, 1800, 180)
    assert spent.judge.cost_usd == pytest.approx(0.018)
    assert spent.of_first_tries == before.of_first_tries
    early = spending_of([run], timezone.now() - timedelta(hours=1))[run.pk]
    assert early.judge.things == 0


def test_only_the_metrics_asked_for_are_judged(world: World) -> None:
    work_off(ordered(world.run, JudgingWish("litellm/test/judge", metrics=("safety",))))
    assert set(JudgedUnit.objects.values_list("metric", flat=True)) == {"safety"}


# --- the experiment file ------------------------------------------------------------------------------------------

FILE: dict[str, Any] = {
    "name": "Judged",
    "suite": "starter-learning",
    "protocol": "skilllearnbench",
    "environments": ["joined-tables"],
    "conditions": ["one-shot"],
    "replicates": 1,
    "agent": "shell",
    "agent_model": "scripted/careful",
    "author_model": "scripted/careful",
}


def test_a_file_that_asks_for_a_judge_orders_one_for_each_run() -> None:
    judging = {"model": "scripted/careful", "metrics": ["coverage"], "calls": 40}
    experiment = launch({**FILE, "replicates": 2, "judging": judging})
    orders = JudgingOrder.objects.filter(run__experiment=experiment)
    assert orders.count() == 2
    assert set(orders.values_list("model", "prompts", "max_calls", "max_usd", "status")) == {
        ("scripted/careful", "skillglass", 40, None, "waiting")
    }
    assert enqueue_due() == 0, "its runs are not at their end"
    assert experiment.spec["judging"] == {**judging, "prompts": "skillglass", "usd": None}


def test_judging_is_no_part_of_a_setup_and_of_no_file_without_it() -> None:
    plain, judged = prepare(FILE), prepare({**FILE, "judging": {"model": "scripted/careful"}})
    assert list(plain.setups.values()) == list(judged.setups.values())
    assert "judging" not in plain.spec.file
    assert LaunchSpec.model_validate(judged.spec.file).judging == judged.spec.judging


@pytest.mark.parametrize(
    ("judging", "told"),
    [
        ({}, "judging.model: expected, and not there"),
        ({"model": "nobody/knows"}, "judging.model: "),
        ({"model": "scripted/careful", "metrics": ["beauty"]}, "judging.metrics: beauty: no such metric of a judge"),
        ({"model": "scripted/careful", "prompts": "none-such"}, "judging.prompts: "),
        ({"model": "scripted/careful", "calls": 0}, "judging.calls: "),
        ({"model": "scripted/careful", "call": 5}, "judging.call: there is no such field (expected calls?)"),
    ],
)
def test_a_faulty_wish_names_its_field_and_what_was_expected(judging: dict[str, Any], told: str) -> None:
    with pytest.raises(Unlaunchable) as refused:
        prepare({**FILE, "judging": judging})
    assert told in str(refused.value)
    assert read_spec(FILE).judging is None


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking which hints wait finds none."""

    class Empty:
        started_job_registry: Any = None

        def get_job_ids(self, **_: object) -> list[str]:
            return []

    Empty.started_job_registry = Empty()
    monkeypatch.setattr(slices.django_rq, "get_queue", Empty)
