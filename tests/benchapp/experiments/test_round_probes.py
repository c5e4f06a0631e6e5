"""Each round's library tried on all deployed tasks, ordered and worked on for real with the scripted model,
and the curve drawn."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from benchapp.analysis.lineage.library_states import read_history
from benchapp.audit import findings
from benchapp.experiments import library_probes, probe_runs
from benchapp.experiments.foresight import Past
from benchapp.experiments.launch import launch
from benchapp.experiments.library_probes import (
    RoundsPreview,
    launch_rounds,
    list_judges,
    list_learning_runs,
    preview_rounds,
    preview_skills,
    read_left_out,
)
from benchapp.experiments.preparation import Prepared
from benchapp.experiments.probe_runs import list_skills
from benchapp.experiments.work import advance
from benchapp.experiments.work.operations import cancel
from benchapp.judges import judging_orders
from benchapp.judges.judging_orders import JudgingWish, judge_slice, order_judging
from benchapp.models import Episode, Experiment, JudgingOrder, KeyPoint, ModelCall, Probe, Run, Task, Trial
from benchapp.record.record_digest import record_digest
from benchapp.record.writing.human_acts import NotPossible
from inspector.charts.figures.rounds import CURVE_CHART as CHART
from tests.worlds.charted import drawn

pytestmark = pytest.mark.django_db

JUDGED = ("coverage", "key-point-recall", "execution-order", "completeness")
SPEC: dict[str, Any] = {
    "name": "To be measured",
    "suite": "starter-learning",
    "protocol": "skilllearnbench",
    "environments": ["joined-tables", "group-averages"],
    "conditions": ["no-skill", "one-shot", "self-feedback@3", "teacher-feedback@3"],
    "replicates": 1,
    "seed": 3,
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
    "budget": {"tokens": 50_000_000},
}


def work_off() -> None:
    for _ in range(400):
        waiting = Episode.objects.filter(status__in=["waiting", "running"]).first()
        if waiting is None:
            return
        advance.advance(str(waiting.public_id))
    raise AssertionError("it never ends")


@pytest.fixture(scope="module")
def learned(django_db_setup: None, django_db_blocker: Any) -> Iterator[int]:
    """An experiment at its end. Written once; what a test adds is rolled back."""
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(advance, "hint", lambda _, **named: True)
        found = launch(SPEC)
        work_off()
    yield found.pk
    with django_db_blocker.unblock():
        call_command("flush", interactive=False, verbosity=0)


@pytest.fixture
def experiment(learned: int, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    monkeypatch.setattr(judging_orders, "enqueue_due", lambda: 0)
    return Experiment.objects.get(pk=learned)


def measured(experiment: Experiment, *, times: int = 1) -> RoundsPreview:
    return preview_rounds(list_learning_runs(experiment), times=times)


def read_curve(experiment: Experiment, metric: str = "accuracy") -> dict[str, list[tuple[int, int | None, int]]]:
    """Condition -> round, passed, scored."""
    found: dict[str, list[tuple[int, int | None, int]]] = {}
    for row in drawn(CHART, f"experiment={experiment.public_id}").table.records():
        if row["metric"] == metric:
            found.setdefault(row["group"], []).append((row["round"], row["passed"], row["scored"]))
    return found


def test_it_lists_what_the_runs_measured_themselves(experiment: Experiment) -> None:
    rows = {
        each.run.condition: (each.libraries, each.measured, len(each.open)) for each in list_learning_runs(experiment)
    }
    assert rows == {"one-shot": (2, 2, 0), "self-feedback@3": (5, 2, 3), "teacher-feedback@3": (6, 2, 4)}


def test_every_open_library_becomes_a_probe_on_all_instances_and_the_curve_has_every_round(
    experiment: Experiment,
) -> None:
    before = record_digest(experiment)
    found = measured(experiment)
    assert (len(found.probes), found.trials, found.estimate.trials) == (7, 21, 21)
    assert found.estimate.tokens.is_whole  # from the trials of these tasks in the runs that learned
    assert not Probe.objects.exists()
    probes = launch_rounds(found, reason="the curve")
    assert {len(each.tasks) for each in found.probes} == {3}
    assert set(read_curve(experiment)) == {"one-shot"}  # the only one that needs no probe
    work_off()
    curve = read_curve(experiment)
    assert {name: [number for number, *_ in steps] for name, steps in curve.items()} == {
        "one-shot": [0, 1], "self-feedback@3": [0, 1, 2, 3], "teacher-feedback@3": [0, 1, 2, 3],
    }  # fmt: skip
    assert {scored for steps in curve.values() for _, _, scored in steps} == {6}  # all instances, in every round
    first = [probe for probe in probes if probe.state == "R1" and probe.origin.run.condition == "teacher-feedback@3"]
    passed = Trial.objects.filter(episode__run__in=[probe.run for probe in first], success=True).count()
    assert curve["teacher-feedback@3"][1] == (1, passed, 6)
    own = Trial.objects.filter(episode__run__condition="teacher-feedback@3", phase="deployment", success=True).count()
    assert curve["teacher-feedback@3"][3] == (3, own, 6)
    assert record_digest(experiment) == before
    assert not ModelCall.objects.filter(episode__run__probe__isnull=False, purpose="author").exists()
    assert list(findings()) == []


def test_earlier_trials_are_read_once_for_all_libraries_of_a_condition(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def read(prepared: Prepared) -> Past:
        asked.extend(arm.condition for arm in prepared.setups)
        return Past(prepared)

    monkeypatch.setattr(probe_runs, "Past", read)
    found = measured(experiment)
    assert len(found.probes) == 7
    assert sorted(asked) == ["self-feedback@3", "teacher-feedback@3"]


def test_what_was_ordered_is_not_ordered_again_until_it_is_cancelled(experiment: Experiment) -> None:
    found = measured(experiment)
    probes = launch_rounds(found, reason="the curve")
    with pytest.raises(NotPossible, match="measured or under way"):
        measured(experiment)
    with pytest.raises(NotPossible, match="since the estimate"):
        launch_rounds(found, reason="the button was pressed twice")
    assert Probe.objects.count() == len(probes)
    cancel(probes[0].run, reason="too dear")
    assert [(each.episode, each.state.key) for each in measured(experiment).probes] == [
        (probes[0].origin, probes[0].state)
    ]


def test_a_run_at_work_waits_for_its_own_deployment(experiment: Experiment) -> None:
    Run.objects.filter(condition="self-feedback@3").update(status="running")
    assert {each.episode.run.condition for each in measured(experiment).probes} == {"teacher-feedback@3"}


def test_each_task_is_tried_so_often_and_what_is_too_much_is_said(experiment: Experiment, settings: Any) -> None:
    assert measured(experiment, times=4).trials == 84
    settings.MAX_TRIALS = 83
    with pytest.raises(NotPossible, match="84 trials .expected at most 83"):
        measured(experiment, times=4)
    with pytest.raises(NotPossible, match="0 times"):
        measured(experiment, times=0)
    with pytest.raises(NotPossible, match="reason"):
        launch_rounds(measured(experiment), reason=" ")
    assert not Probe.objects.exists()


def test_an_amount_is_shared_out_by_trials(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = list_learning_runs(experiment)
    with pytest.raises(NotPossible, match="scripted/apprentice reports no cost"):
        preview_rounds(runs, times=1, max_usd=7.0)
    monkeypatch.setattr(library_probes, "make_model", lambda _: SimpleNamespace(priced=True))
    probes = launch_rounds(preview_rounds(runs, times=1, max_usd=7.0), reason="the curve")
    limits = [(probe.run.budget_usd, probe.run.budget_tokens) for probe in probes]
    assert limits == [(pytest.approx(1.0), 50_000_000)] * 7


def test_the_judge_of_the_runs_gives_coverage_and_alignment_by_round(experiment: Experiment) -> None:
    learned = [each.run for each in list_learning_runs(experiment)]
    for task in Task.objects.filter(trials__episode__run__in=learned).distinct():
        for kind in KeyPoint.Kind.values:
            KeyPoint.objects.create(task=task, kind=kind, ordinal=0, text=f"{kind} of {task.key}", reason="it matters")
    order_judging(learned, JudgingWish("scripted/careful", metrics=JUDGED))
    judge_all()
    launch_rounds(measured(experiment), reason="the curve", judged=True)
    work_off()
    assert set(read_curve(experiment, "coverage")) == {"one-shot"}  # the probes are not judged yet
    judge_all()
    assert list_judges(learned) == ["scripted/careful"]
    for metric in ("coverage", "alignment"):
        steps = read_curve(experiment, metric)["teacher-feedback@3"]
        assert [number for number, *_ in steps] == [1, 2, 3]  # no-skill was not judged
        assert {scored for _, _, scored in steps} == {6}
    notes = drawn(CHART, f"experiment={experiment.public_id}").notes
    assert any("scripted/careful (scripted: its scores say nothing)" in note for note in notes)


def test_leaving_out_each_skill_says_what_a_skill_adds(experiment: Experiment, client: Client) -> None:
    before = record_digest(experiment)
    runs = [each.run for each in list_learning_runs(experiment) if each.run.condition == "teacher-feedback@3"]
    assert read_left_out(runs) == []
    found = preview_skills(runs, times=1)
    assert sorted((each.episode.key, each.skill) for each in found.probes) == [
        (episode.key, skill)
        for episode in Episode.objects.filter(run__condition="teacher-feedback@3").order_by("key")
        for skill in ["", *list_skills(read_history(episode).states[-1].snapshot.read())]
    ]
    probes = launch_rounds(found, reason="which skill helps?")
    with pytest.raises(NotPossible, match="no skill is left to leave out"):
        preview_skills(runs, times=1)
    with pytest.raises(NotPossible, match="since the estimate"):
        launch_rounds(found, reason="the button was pressed twice")
    assert read_left_out(runs) == [], "nothing before the end"
    work_off()

    rows = {(each.condition, each.skill): each for each in read_left_out(runs)}
    deltas: dict[str, list[float]] = {}  # library -> what each of its skills adds
    for probe in (probe for probe in probes if probe.skill):
        assert not any(path.startswith(f"{probe.skill}/") for path in probe.library.read())
        whole = next(each for each in probes if each.origin == probe.origin and not each.skill)
        passed = [Trial.objects.filter(episode__run=each.run, success=True).count() for each in (whole, probe)]
        deltas.setdefault(probe.origin.key, []).append((passed[0] - passed[1]) / 3)
    means = [fmean(each) for each in deltas.values()]
    row = rows["teacher-feedback@3", ""]
    assert (row.libraries, row.delta) == (2, pytest.approx(fmean(means)))
    assert (row.interval is None) == (means[0] == means[1])
    assert any(each.delta > 0 for each in rows.values())
    shown = client.get("/compare/certainty.json", {"experiment": str(experiment.public_id)}).json()["left_out"]
    assert [(each["condition"], each["skill"]) for each in shown] == [(name, skill or None) for name, skill in rows]
    assert record_digest(experiment) == before
    assert list(findings()) == []


def judge_all() -> None:
    for _ in range(200):
        waiting = JudgingOrder.objects.filter(status="waiting").first()
        if waiting is None:
            return
        judge_slice(str(waiting.public_id))
    raise AssertionError("it never ends")
