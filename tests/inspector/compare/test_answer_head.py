"""The head of the experiment and compare pages: the answer in words, the forest or every trial, questions as tabs."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from benchapp.models import Experiment, Run, Trial
from benchapp.stats.comparing.effects import Effect
from inspector.charts import CHARTS, QUESTIONS
from inspector.pages.compare.comparison_table import DifferenceText
from inspector.pages.compare.forest_lanes import PointAxis
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db
T, F = True, False
BASE = (T, F, F, T, F, F, T, F, F)
OWN = (T, T, F, T, T, F, T, T, T)


def make_pair(environments: int, replicates: int = 1) -> Experiment:
    experiment = make_experiment(suite=make_suite(environments=environments, families=1))
    for replicate in range(1, replicates + 1):
        make_learning_run(experiment, condition="no-skill", author_model="", outcomes=BASE, replicate=replicate)
        make_learning_run(experiment, condition="selfgen-always", outcomes=OWN, replicate=replicate)
    return experiment


def words(client: Client, address: str) -> str:
    return " ".join(re.sub("<[^>]+>", " ", client.get(address).text).split())


def test_no_chart_stands_under_two_questions_and_at_most_six_under_each() -> None:
    assert len(CHARTS) == 1 + sum(len(question.charts) for question in QUESTIONS)
    assert all(len(question.charts) <= 6 for question in QUESTIONS)


def test_few_episodes_show_every_trial_and_no_interval(client: Client) -> None:
    text = client.get(make_pair(2).get_absolute_url()).text
    assert "Too little data for an answer (2 episodes)." in text
    assert "Deployment success, trial by trial" in text
    assert 'class="lanes"' not in text
    assert len(re.findall(r'class="cell (?:passed|failed)[^"]*" href', text)) == 2 * 6


def test_enough_episodes_show_the_forest_with_a_verdict(client: Client) -> None:
    said = words(client, make_pair(8).get_absolute_url())
    assert "Yes, skills clearly helped." in said
    assert "clearly better" in said
    assert "Deployment success, against no skill" in said


def test_a_tab_is_an_address_and_shows_its_own_charts(client: Client) -> None:
    experiment = make_pair(2)
    text = client.get(f"{experiment.get_absolute_url()}?q=cost").text
    assert 'id="chart-tokens"' in text
    assert 'id="chart-gains"' not in text
    assert "Needs authors with their own token budget." in text


def test_why_trials_failed_is_read_where_it_is_asked(client: Client) -> None:
    experiment = make_pair(2)
    assert 'class="why"' not in client.get(experiment.get_absolute_url()).text
    assert 'class="why"' in client.get(f"{experiment.get_absolute_url()}?q=fail").text


def test_the_twin_gains_the_answer(client: Client) -> None:
    answer = client.get(f"/experiments/{make_pair(2).public_id}.json").json()["answer"]
    assert (answer["metric"], answer["question"]) == ("ESR", "Did skills help?")
    (judged,) = answer["judged"]
    assert (judged["label"], judged["effect"]) == ("selfgen-always", "cannot be tested yet")


def make_three(environments: int) -> Experiment:
    experiment = make_pair(environments)
    make_learning_run(experiment, condition="raw-trajectory", outcomes=BASE)
    return experiment


def test_three_conditions_have_the_ranks_that_are_left_open(client: Client) -> None:
    experiment = make_three(8)
    text = client.get(experiment.get_absolute_url()).text
    cells = re.findall(r'class="num rank">(.*?)</td>', text)
    assert [re.sub("<[^>]+>", "", cell) for cell in cells] == ["rank 2 to 3 of 3", "rank 2 to 3 of 3", "rank 1 of 3"]
    assert "corrected together within the model: 3 pairs." in text
    ranks = client.get(f"/experiments/{experiment.public_id}.json").json()["answer"]["ranks"]
    assert ranks["pairs"] == 3
    assert {"label": "selfgen-always", "best": 1, "worst": 1, "of": 3} in ranks["ranges"]


def test_two_conditions_have_a_verdict_and_no_ranks(client: Client) -> None:
    experiment = make_pair(8)
    assert "num rank" not in client.get(experiment.get_absolute_url()).text
    assert client.get(f"/experiments/{experiment.public_id}.json").json()["answer"]["ranks"] is None


def test_too_many_pairs_for_ranks_are_said(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchapp.stats.comparing.ranks.MOST_PAIRS", 2)
    text = client.get(make_three(8).get_absolute_url()).text
    assert "No ranks: they would rest on 3 pairs of conditions." in text
    assert "num rank" not in text


@pytest.mark.parametrize(("environments", "is_given"), [(3, False), (8, True), (10, False)])
def test_the_second_opinion_stands_beside_sentences_over_few_episodes(
    client: Client, environments: int, is_given: bool
) -> None:
    experiment = make_pair(environments)
    assert ("Second opinion, deciding nothing" in words(client, experiment.get_absolute_url())) == is_given
    twin = client.get(f"/experiments/{experiment.public_id}.json").json()
    (found,) = [group["differences"]["ESR"] for group in twin["groups"] if group["differences"]]
    assert ("second_opinion" in found) == is_given
    assert not is_given or set(found["second_opinion"]) == {"mean", "low", "high", "above", "episodes"}


def test_an_axis_holds_every_value_and_zero() -> None:
    axis = PointAxis.around([-3.0, 41.0])
    assert axis.ticks == (0.0, 10.0, 20.0, 30.0, 40.0)
    assert axis.place(axis.low) == "0.00%"
    assert PointAxis.around([]).ticks == (-1.0, 0.0, 1.0)


def test_without_a_baseline_values_are_bars_and_no_verdict(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=8, families=1))
    make_learning_run(experiment, condition="selfgen-always", outcomes=OWN)
    text = client.get(experiment.get_absolute_url()).text
    assert text.count('class="bar c-own-3"') == 1
    assert 'class="whisker"' in text  # 24 trials of one run allow an interval
    assert "no baseline" not in text
    assert "comparisons" not in text.partition('class="key"')[2].partition("</div>")[0]


def test_groups_without_a_baseline_fold_where_others_have_one(client: Client) -> None:
    make_pair(8)
    alone = make_experiment(name="alone", suite=make_suite(environments=1, families=1))
    make_learning_run(alone, condition="curated-static", outcomes=OWN, agent_model="another")
    text = client.get("/compare/").text
    fold = text.partition('<ul class="alone">')[2].partition("</ul>")[0]
    assert "1 group without a baseline" in text
    assert "Human-written, as is" in fold
    assert "Human-written, as is" not in text.partition('class="lanes"')[2].partition("</table>")[0]


def test_what_is_missing_is_what_to_add(client: Client) -> None:
    """Without skills it asks for skills; without no-skill it asks for no-skill."""
    alone = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(alone, condition="no-skill", author_model="", outcomes=BASE)
    said = words(client, alone.get_absolute_url())
    assert "Add a condition with skills, with the same models and tasks." in said
    assert "Add runs without a skill" not in said
    other = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(other, condition="selfgen-always", outcomes=OWN)
    assert "Add runs without a skill, with the same models and tasks." in words(client, other.get_absolute_url())


def test_the_head_names_all_that_tie(client: Client) -> None:
    experiment = make_pair(8)
    make_learning_run(experiment, condition="raw-trajectory", outcomes=OWN)
    said = words(client, experiment.get_absolute_url()).partition("Did skills help?")[2].partition("Go deeper")[0]
    lede = said.partition("95 % interval")[0].partition("correcting")[0]
    assert lede.index("Raw traces") < lede.index("Self-written, always revised")
    assert "Read the best library" not in said


def test_a_verdict_is_the_same_beside_other_experiments(client: Client) -> None:
    """Each experiment asks its own question: what stands beside it takes nothing from it."""
    experiment = make_pair(8)
    alone = words(client, experiment.get_absolute_url())
    assert "after correcting for" not in alone
    make_pair(4)
    assert read_corrected(client, experiment.get_absolute_url())[0] in read_corrected(client, "/compare/")
    said = words(client, "/compare/")
    assert "after correcting for comparisons within each experiment;" in said
    assert "An experiment has the verdicts here that it has on its own page." in said


def test_experiments_that_share_a_baseline_are_corrected_together(client: Client) -> None:
    """The second has no run without a skill; it is held against the first's."""
    first = make_pair(8)
    other = make_experiment(suite=first.suite)
    make_learning_run(other, condition="selfgen-always", outcomes=OWN)
    said = words(client, "/compare/")
    assert "after correcting for 2 comparisons of 2 experiments;" in said
    assert "An experiment has the verdicts here that it has on its own page." not in said


def read_corrected(client: Client, url: str) -> list[object]:
    answer = client.get(f"{url.rstrip('/')}.json").json()["answer"]
    return [
        (each["label"].split(" · ")[0], each["p_holm"], each["p_joint"], each["effect"]) for each in answer["judged"]
    ]


def test_a_replay_s_difference_names_the_first_try_it_is_taken_from(client: Client) -> None:
    """The baseline's row shows nothing there: it replayed nothing."""
    experiment = make_pair(8)
    Trial.objects.filter(episode__run__condition="no-skill", phase="replay").delete()
    said = words(client, experiment.get_absolute_url())
    assert re.search(r"no skill, first try: \d+\.\d", said)


def test_a_replay_s_tile_says_whose_first_try_it_meets(client: Client) -> None:
    """No skill's, as the paper has it, and not the first try of the condition whose tile it is."""
    assert "no skill, first try " in words(client, make_pair(8).get_absolute_url())


def test_a_sentence_gives_the_corrected_p_too(client: Client) -> None:
    """The page's words rest on it, so it can be read beside the p of the test alone."""
    experiment = make_pair(8)
    make_learning_run(experiment, condition="curated-static", outcomes=OWN)
    said = words(client, experiment.get_absolute_url())
    assert "p = 0.008" in said
    assert said.count("Corrected for 2 comparisons together (joint sign-flip): p = 0.008.") == 2
    assert "Settle 10 points" not in said
    assert "“Detect a difference of 10 points” means" in said


def test_a_verdict_before_the_end_is_called_interim(client: Client) -> None:
    experiment = make_pair(8)
    assert "Interim" not in words(client, experiment.get_absolute_url())
    waiting = Trial.objects.filter(episode__run__condition="selfgen-always", phase="replay").first()
    Trial.objects.filter(pk=waiting.pk).update(success=None, is_done=False, status="waiting")
    Run.objects.all().touch()
    said = words(client, experiment.get_absolute_url())
    assert "Interim, found at any look. After 8 episodes evidence for a rise reached 78; 20 let you stop." in said
    assert "Results are preliminary and may change. Checking repeatedly inflates false positives." in said
    (twin,) = client.get(f"{experiment.get_absolute_url()[:-1]}.json").json()["answer"]["judged"]
    assert (int(twin["evidence"]), twin["evidence_needed"], twin["evidence_over"]) == (78, 20, 1)
    assert twin["found_at_any_look"]


def test_evidence_rests_on_finished_episodes_and_stays_with_a_run_that_was_stopped(client: Client) -> None:
    experiment = make_pair(8)
    late = Trial.objects.filter(episode__run__condition="selfgen-always", phase="deployment").order_by("pk")[18:]
    Trial.objects.filter(pk__in=[each.pk for each in late]).update(success=None, is_done=False, status="waiting")
    Trial.objects.filter(pk=late[0].pk).update(success=True, is_done=True, status="passed")  # a third of the seventh
    Run.objects.all().touch()
    assert "Interim, found at any look. After 6 episodes evidence for a rise reached 21; 20 let you stop." in words(
        client, experiment.get_absolute_url()
    )
    Run.objects.filter(condition="selfgen-always").update(status="cancelled")
    Run.objects.all().touch()
    said = words(client, experiment.get_absolute_url())
    assert "Stopped early, found at any look. After 6 episodes evidence for a rise reached 21; 20 let you stop." in said
    assert "So far: yes, skills clearly helped." in said
    Trial.objects.filter(pk__in=[each.pk for each in late]).update(success=True, is_done=True, status="passed")
    Run.objects.all().touch()
    assert "let you stop" not in words(client, experiment.get_absolute_url())


def test_replicates_have_no_evidence_and_keep_their_warning(client: Client) -> None:
    experiment = make_pair(6, replicates=2)
    waiting = Trial.objects.filter(episode__run__condition="selfgen-always", phase="replay").first()
    Trial.objects.filter(pk=waiting.pk).update(success=None, is_done=False, status="waiting")
    Run.objects.all().touch()
    said = words(client, experiment.get_absolute_url())
    assert "Interim, not corrected for looking again." in said
    assert "look at evidence" not in said


def ask(client: Client, experiment: Experiment, metric: str, table: str) -> str:
    return words(client, f"/compare/?experiment={experiment.public_id}&metric={metric}&table={table}")


def test_what_costs_more_is_named_and_not_called_the_best(client: Client) -> None:
    experiment = make_pair(8)
    trials = Trial.objects.filter(episode__run__experiment=experiment)
    trials.update(cost_usd=0.01)
    for place, trial in enumerate(trials.filter(episode__run__condition="selfgen-always")):
        Trial.objects.filter(pk=trial.pk).update(cost_usd=0.05 + 0.0001 * place)
    Run.objects.all().touch()
    said = ask(client, experiment, "cost-per-trial", "usage")
    assert "Clearly worse. Cost: $0.0536 with “Self-written, always revised”, $0.0100 with no skill." in said
    assert "best condition" not in said
    assert "Read the best library" not in said
    assert re.search(r"\+\$0\.0\d{3} to \+\$0\.0\d{3}, 95 % interval\.", said)
    assert "Of 1 groups" not in said


def test_a_metric_without_a_better_side_is_told_without_praise(client: Client) -> None:
    experiment = make_pair(8)
    Trial.objects.filter(episode__run__condition="no-skill").update(skills_read=0)
    Run.objects.all().touch()
    said = ask(client, experiment, "use", "skillflow")
    assert "What did skills change? Clearly different. “Self-written, always revised” used a skill in" in said
    assert re.search(r"tasks; the baseline in \d+\.", said)
    assert "clearly different" in said.partition("Clearly different")[2]
    assert "best" not in said.partition("What did skills change?")[2].partition("Deployment")[0][:300]


def test_one_comparison_is_corrected_for_nothing_and_counts_of_one_are_left_out(client: Client) -> None:
    said = words(client, make_pair(8).get_absolute_url())
    assert "1 comparison" not in said
    assert "One comparison in deployment success: there is nothing to correct it for." in said


@pytest.mark.parametrize("table", ["success", "skillflow", "usage"])
def test_a_table_colours_what_its_verdict_says(client: Client, table: str) -> None:
    """Every coloured cell has the mark of a clear effect; what did not survive the correction has neither."""
    experiment = make_pair(8)
    make_learning_run(experiment, condition="curated-static", outcomes=OWN)
    text = client.get(f"{experiment.get_absolute_url()}?table={table}").text
    cells = re.findall(r'<td(?: class="([^"]*)")?>(.*?)</td>', text.partition('class="rows compared"')[2])
    assert cells
    for classes, cell in cells:
        assert bool(re.search("[▲▼]", cell)) == ("has-verdict" in classes)
    assert ("better has-verdict" in text) == (table != "usage")
    assert "hold after correction" in text


def test_only_a_clear_effect_is_coloured() -> None:
    tones = {effect: DifferenceText("", effect=effect).tone for effect in Effect}
    assert {effect: tone for effect, tone in tones.items() if tone} == {Effect.UP: "better", Effect.DOWN: "worse"}
    assert DifferenceText("").tone == ""


def test_the_form_sends_no_metric_that_nobody_chose(client: Client) -> None:
    """The default fits the runs; named in the address, it would be reported as ignored for the next runs."""
    make_pair(2)
    automatic = client.get("/compare/").text
    assert re.search(r'<option value="" selected>Deployment success', automatic)
    chosen = client.get("/compare/?metric=ESR").text
    assert re.search(r'<option value="ESR" selected>', chosen)
