"""What an experiment's file declared before the run is corrected for itself, and the rest stays with its family."""

from __future__ import annotations

import pytest

from benchapp.models import Experiment, Trial
from benchapp.stats.comparing.answer import judge_groups
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.comparing.experiment_verdicts import judge_experiments
from benchapp.stats.comparing.hypotheses import correct_hypotheses
from benchapp.stats.metrics.catalogue import METRICS
from tests.worlds.declaring import ONE, make_declaring

pytestmark = pytest.mark.django_db


def judge(experiment: Experiment, **choices: object) -> dict[str, tuple[float | None, int, bool | None]]:
    """Condition -> its p, how many are judged together, whether it was declared."""
    comparison = comparison_of(Choices(experiment=(experiment.public_id,), **choices))  # type: ignore[arg-type]
    return {
        each.group.condition: (
            each.difference.p,
            each.difference.comparisons,
            each.is_declared,
        )
        for each in judge_groups(comparison, METRICS["ESR"])
    }


def test_a_declared_difference_is_corrected_for_what_was_declared_and_the_others_as_ever() -> None:
    plain, declaring = judge(make_declaring()), judge(make_declaring(ONE))
    assert {name: each[2] for name, each in plain.items()} == dict.fromkeys(plain)
    assert declaring["selfgen-always"][1:] == (1, True)
    assert declaring["curated-static"] == (*plain["curated-static"][:2], False)
    assert declaring["curated-static"][1] == 3


def test_declared_differences_of_several_metrics_and_baselines_are_one_family() -> None:
    other = {"metric": "LSR", "condition": "selfgen-always", "against": "raw-trajectory"}
    experiment = make_declaring(ONE, other)
    (found,) = correct_hypotheses(comparison_of(Choices(experiment=(experiment.public_id,)))).values()
    named = [(each.group.condition, each.baseline.condition, each.metric.key) for each in found.hypotheses]
    assert named == [("selfgen-always", "no-skill", "ESR"), ("selfgen-always", "raw-trajectory", "LSR")]
    assert {each.difference.comparisons for each in found.hypotheses if each.difference} == {2}
    assert found.found == found.tested == 2


def test_what_else_is_shown_or_left_out_changes_nothing_of_it_and_other_runs_are_not_declared() -> None:
    experiment = make_declaring(ONE, {**ONE, "condition": "curated-static"}, replicates=2)
    whole = judge(experiment)["selfgen-always"]
    assert judge(experiment, condition=("no-skill", "selfgen-always"))["selfgen-always"] == whole
    assert judge(experiment, replicate=(1,))["selfgen-always"][2] is False
    assert judge(experiment, baseline="raw-trajectory")["selfgen-always"][2] is False


def test_the_list_of_experiments_gives_the_same_verdict() -> None:
    for hypotheses, alike in (((), False), ((ONE,), True)):
        experiment = make_declaring(*hypotheses)
        verdict = judge_experiments({experiment: list(experiment.runs.all())})[experiment.pk]
        effects = {way.condition: way.effect for way in verdict.ways}
        comparison = comparison_of(Choices(experiment=(experiment.public_id,)))
        assert effects == {each.group.condition: each.effect for each in judge_groups(comparison, METRICS["ESR"])}
        assert bool(correct_hypotheses(comparison)) is alike
        assert effects["selfgen-always"] is Effect.BETTER


def test_what_was_declared_and_has_no_run_stays_in_the_count() -> None:
    """Deleting runs finds nothing that was not found with them."""
    experiment = make_declaring(ONE, {**ONE, "condition": "never-run"}, {**ONE, "against": "never-run"})
    (found,) = correct_hypotheses(comparison_of(Choices(experiment=(experiment.public_id,)))).values()
    assert (len(found.hypotheses), found.missing, found.total) == (1, 2, 3)
    (alone,) = correct_hypotheses(comparison_of(Choices(experiment=(make_declaring(ONE).public_id,)))).values()
    least, most = alone.hypotheses[0].p, found.hypotheses[0].p
    assert least is not None
    assert most == pytest.approx(1 - (1 - least) ** 3)


def test_a_difference_declared_the_other_way_round_is_the_same_one() -> None:
    turned = {"metric": "ESR", "condition": "no-skill", "against": "selfgen-always"}
    assert judge(make_declaring(turned))["selfgen-always"][1:] == (1, True)


def test_evidence_is_divided_by_what_was_planned_and_not_by_what_has_scored() -> None:
    experiment = make_declaring(environments=4, replicates=3)
    for condition in ("no-skill", "selfgen-always"):  # replicates differ, for copies of one run count once
        odd = Trial.objects.filter(
            episode__run__condition=condition, episode__run__replicate=1, phase="deployment"
        ).first()
        Trial.objects.filter(pk=odd.pk).update(success=not odd.success)
    Trial.objects.filter(episode__run__condition__in=["raw-trajectory", "curated-static"]).update(
        success=None, is_done=False, status="waiting"
    )
    late = Trial.objects.filter(episode__run__replicate=3, episode__run__condition="selfgen-always", phase="deployment")
    Trial.objects.filter(pk=late.order_by("pk").last().pk).update(success=None, is_done=False, status="waiting")
    experiment.runs.touch()
    comparison = comparison_of(Choices(experiment=(experiment.public_id,)))
    (judged,) = judge_groups(comparison, METRICS["ESR"])
    assert judged.effect is Effect.ESTIMATE
    assert judged.interim is not None
    assert (judged.interim.comparisons, judged.interim.replicates) == (3, 2)
    assert judged.interim.value > 0


def test_a_skipped_trial_has_ended() -> None:
    """The experiment is judged like any other; the bounds show what the skipped trial could have changed."""
    experiment = make_declaring(environments=7)
    late = Trial.objects.filter(episode__run__condition="selfgen-always", phase="deployment").order_by("pk").last()
    Trial.objects.filter(pk=late.pk).update(success=None, is_done=False, status="skipped")
    experiment.runs.touch()
    comparison = comparison_of(Choices(experiment=(experiment.public_id,)))
    judged = {each.group.condition: each for each in judge_groups(comparison, METRICS["ESR"])}["selfgen-always"]
    assert not comparison.unfinished
    assert judged.effect is Effect.BETTER
    assert judged.difference.missing is not None
    assert judged.difference.missing.trials == 1
