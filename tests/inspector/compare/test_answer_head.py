"""The answer of an experiment and of a comparison: its words, the table that is its chart, and its tabs."""

from __future__ import annotations

import re
from uuid import UUID

import pytest
from django.test import Client

from benchapp.models import Experiment, Run, Trial
from benchapp.stats.comparing.effects import NO_VERDICT_YET, Effect
from inspector.charts import CHARTS, OF_PAGES
from inspector.pages.compare.lanes import PointAxis
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db
T, F = True, False
EVERYTHING = "/compare/?since=2020-01-01"
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


def test_every_chart_is_on_one_page() -> None:
    assert len(CHARTS) == 1 + sum(map(len, OF_PAGES.values()))


def test_few_episodes_have_a_difference_and_no_interval(client: Client) -> None:
    experiment = make_pair(2)
    text = client.get(experiment.get_absolute_url()).text
    assert f"{Effect.TOO_SMALL.words.capitalize()}." in text
    assert "no interval" in text
    assert 'class="range' not in text
    where = client.get(f"/compare/where/?experiment={experiment.public_id}").text
    assert len(re.findall(r'class="cell (?:passed|failed)[^"]*" href', where)) == 2 * 6


def test_enough_episodes_show_the_forest_with_a_verdict(client: Client) -> None:
    said = words(client, make_pair(8).get_absolute_url())
    assert "Yes, skills clearly helped, in this run; reruns not measured." in said
    assert f"{Effect.BETTER.words} in this run; reruns not measured" in said
    assert "Deployment success , points against no skill" in said


def test_a_tab_is_an_address_and_shows_its_own_charts(client: Client) -> None:
    text = client.get(f"/compare/cost/?experiment={make_pair(2).public_id}").text
    assert "Tokens and cost</a>: The same in all 2 conditions: " in text
    assert 'id="chart-gains"' not in text
    assert "Needs authors with their own token budget." in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/compare/?experiment={}", "/experiments/{}/"),
        ("/compare.json?experiment={}&metric=ESR", "/experiments/{}.json?metric=ESR"),
        ("/compare/?experiment={}&q=cost", "/compare/cost/?experiment={}"),
        ("/compare/?experiment={}&q=help", "/experiments/{}/"),
        ("/compare.json?experiment={}&q=where", "/compare/where.json?experiment={}"),
        ("/compare/?condition=no-skill&q=fail", "/compare/failures/?condition=no-skill"),
    ],
)
def test_old_addresses_lead_to_the_page_that_answers_now(client: Client, old: str, new: str) -> None:
    own = make_pair(2).public_id
    assert client.get(old.format(own)).url == new.format(own)


def test_nothing_chosen_is_where_a_comparison_begins(client: Client) -> None:
    make_pair(2)
    text = client.get("/compare/").text
    assert "Found in your runs" in text
    assert text.index("What do you want to compare?") < text.index("Found in your runs")
    assert 'class="lanes"' not in text
    assert client.get("/compare.json").json()["groups"] == []


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("experiment={0}", 404),
        ("a={0}&b={0}:no-skill", 404),
        ("a={0}&b={1}", 400),
        ("a={1}&b={1}:nothing-like-it", 400),
        ("a={1}&b=nothing:foo", 400),
        ("condition=no-skill&metric=nonsense", 400),
        ("nonsense=1", 400),
        ("experiment={0}&condition=no-skill", 404),
        ("condition=nothing-like-it", 200),
        ("experiment=nonsense", 400),
        ("condition=no-skill&experiment=nonsense", 400),
    ],
)
def test_an_unknown_experiment_is_not_found_and_a_wrong_address_is_a_bad_one(
    client: Client, query: str, status: int
) -> None:
    query = query.format(UUID(int=1), make_pair(2).public_id)
    page = client.get(f"/compare/?{query}")
    assert (page.status_code, client.get(f"/compare.json?{query}").status_code) == (status, status)
    assert ("Page not found" in page.text, "expected" in page.text) == (status == 404, status == 400)
    assert "What do you want to compare?" in page.text or status in (200, 404)
    if "experiment" in query:  # nothing is left that names runs, and every run would be pooled
        assert client.get(f"/compare/cost/?{query}").status_code == 404


def test_the_twin_gains_the_answer(client: Client) -> None:
    answer = client.get(f"/experiments/{make_pair(2).public_id}.json").json()["answer"]
    assert (answer["metric"], answer["question"]) == ("ESR", "Did skills help?")
    (judged,) = answer["judged"]
    assert (judged["label"], judged["effect"]) == ("selfgen-always", "too-small")


def make_three(environments: int) -> Experiment:
    experiment = make_pair(environments)
    make_learning_run(experiment, condition="raw-trajectory", outcomes=BASE)
    return experiment


def test_three_conditions_have_the_ranks_that_are_left_open(client: Client) -> None:
    experiment = make_three(8)
    text = client.get(f"/compare/certainty/?experiment={experiment.public_id}").text
    cells = re.findall(r'<td class="num">([0-9to ]+ of 3)</td>', text.partition('id="ranks"')[2])
    assert sorted(cells) == ["1 of 3", "2 to 3 of 3", "2 to 3 of 3"]
    assert "judged together within the model: 3 pairs." in text
    ranks = client.get(f"/experiments/{experiment.public_id}.json").json()["answer"]["ranks"]
    assert ranks["pairs"] == 3
    assert {"label": "selfgen-always", "best": 1, "worst": 1, "of": 3} in ranks["ranges"]


def test_two_conditions_have_a_verdict_and_no_ranks(client: Client) -> None:
    experiment = make_pair(8)
    assert 'id="ranks"' not in client.get(f"/compare/certainty/?experiment={experiment.public_id}").text
    assert client.get(f"/experiments/{experiment.public_id}.json").json()["answer"]["ranks"] is None


def test_too_many_pairs_for_ranks_are_said(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchapp.stats.comparing.answer.MOST_PAIRS", 2)
    text = client.get(f"/compare/certainty/?experiment={make_three(8).public_id}").text
    assert "No ranks: they would rest on 3 pairs of conditions." in text


def test_an_axis_holds_every_value_and_zero() -> None:
    axis = PointAxis([0.0, -3.0, 41.0])
    assert axis.ticks == [0.0, 10.0, 20.0, 30.0, 40.0]
    assert axis.place(axis.low) == "0.00%"
    assert PointAxis([0.0]).ticks == [-1.0, 0.0, 1.0]


def test_without_a_baseline_values_are_bars_and_no_verdict(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=8, families=1))
    make_learning_run(experiment, condition="selfgen-always", outcomes=OWN)
    text = client.get(experiment.get_absolute_url()).text
    assert text.count('class="bar c-own-3"') == 1
    assert 'class="whisker"' in text  # 24 trials of one run allow an interval
    assert "no baseline" not in text
    assert "comparisons" not in text.partition('class="key cluster muted fine ruled"')[2].partition("</div>")[0]


def test_groups_without_a_baseline_say_so_where_others_have_one(client: Client) -> None:
    make_pair(8)
    alone = make_experiment(name="alone", suite=make_suite(environments=1, families=1))
    make_learning_run(alone, condition="curated-static", outcomes=OWN, agent_model="another")
    text = client.get(EVERYTHING).text
    row = text.partition('class="lanes"')[2].partition("Human-written, as is")[2].partition("</tr>")[0]
    assert "no baseline" in row


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
    said = words(client, experiment.get_absolute_url()).partition("Did skills help?")[2].partition("Condition")[0]
    lede = said
    assert lede.index("Raw traces") < lede.index("Self-written, always revised")
    assert "Read the best library" not in said


def test_a_verdict_is_the_same_beside_other_experiments(client: Client) -> None:
    """Each experiment asks its own question: what stands beside it takes nothing from it."""
    experiment = make_pair(8)
    alone = words(client, experiment.get_absolute_url())
    assert "comparisons together" not in alone
    make_pair(4)
    assert read_corrected(client, experiment.get_absolute_url())[0] in read_corrected(client, EVERYTHING)


def test_experiments_that_share_a_baseline_are_corrected_together(client: Client) -> None:
    """The second has no run without a skill; it is held against the first's."""
    first = make_pair(8)
    other = make_experiment(suite=first.suite)
    make_learning_run(other, condition="selfgen-always", outcomes=OWN)
    assert "Intervals hold for 2 comparisons together." in words(client, EVERYTHING)


def read_corrected(client: Client, url: str) -> list[object]:
    path, _, query = url.partition("?")
    answer = client.get(f"{path.rstrip('/')}.json?{query}").json()["answer"]
    return [(each["label"].split(" · ")[0], each["p_holm"], each["claim"], each["effect"]) for each in answer["judged"]]


def test_a_replay_says_what_it_is_compared_with(client: Client) -> None:
    """The baseline's row shows nothing there: it replayed nothing."""
    experiment = make_pair(8)
    Trial.objects.filter(episode__run__condition="no-skill", phase="replay").delete()
    said = words(client, experiment.get_absolute_url())
    assert "Replay is compared with the first try at the same tasks without a skill." in said


def test_a_sentence_gives_the_corrected_p(client: Client) -> None:
    """The page's words rest on it."""
    experiment = make_pair(8)
    make_learning_run(experiment, condition="curated-static", outcomes=OWN)
    said = words(client, experiment.get_absolute_url())
    assert said.count("(95 % interval for 2 comparisons together ") == 2
    assert said.count(f"); {Effect.BETTER.words}, in this run; reruns not measured.") == 2
    assert "“Detect a difference of 10 points” means" in said


def test_before_the_end_there_is_no_verdict(client: Client) -> None:
    experiment = make_pair(8)
    waiting = Trial.objects.filter(episode__run__condition="selfgen-always", phase="replay").first()
    Trial.objects.filter(pk=waiting.pk).update(success=None, is_done=False, status="waiting")
    Run.objects.all().touch()
    text = client.get(experiment.get_absolute_url()).text
    said = " ".join(re.sub("<[^>]+>", " ", text).split())
    assert f"Did skills help? {NO_VERDICT_YET.capitalize()}. Self-written, always revised solved" in said
    assert re.search(r"[+−]\d+ to [+−]\d+", said), "the estimate is there"
    assert "clearly" not in said.partition("Did skills help?")[2].partition("How these numbers are made")[0]
    assert 'class="judged better' not in text
    (twin,) = client.get(f"{experiment.get_absolute_url()[:-1]}.json").json()["answer"]["judged"]
    assert twin["effect"] == "estimate"
    assert "evidence" not in twin, "one run a side has none"


def test_runs_of_another_experiment_take_no_verdict_away(client: Client) -> None:
    make_pair(8)
    other = make_experiment(name="just begun", suite=make_suite(environments=2, families=1))
    make_learning_run(other, condition="selfgen-always", outcomes=OWN)
    Trial.objects.filter(episode__run__experiment=other).update(success=None, is_done=False, status="waiting")
    Run.objects.all().touch()
    said = words(client, EVERYTHING)
    assert f"{NO_VERDICT_YET.capitalize()}." in said, "the line above all"
    assert "Did skills help? Yes, skills clearly helped, in this run; reruns not measured." in said


def test_a_run_that_was_cancelled_has_ended(client: Client) -> None:
    experiment = make_pair(8)
    late = Trial.objects.filter(episode__run__condition="selfgen-always", phase="deployment").order_by("pk")[18:]
    Trial.objects.filter(pk__in=[each.pk for each in late]).update(success=None, is_done=False, status="waiting")
    Run.objects.all().touch()
    assert f"{NO_VERDICT_YET.capitalize()}." in words(client, experiment.get_absolute_url())
    Run.objects.filter(condition="selfgen-always").update(status="cancelled")
    Run.objects.all().touch()
    said = words(client, experiment.get_absolute_url())
    assert "Yes, skills clearly helped, in this run; reruns not measured." in said


def test_whole_replicates_give_evidence_before_the_end(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=4, families=1))
    for replicate in (1, 2, 3):
        odd = replicate % 2 == 1
        base, own = (T, F, F, odd, F, F, T, F, F), (T, T, F, T, T, not odd, T, T, T)
        make_learning_run(experiment, condition="no-skill", author_model="", outcomes=base, replicate=replicate)
        make_learning_run(experiment, condition="selfgen-always", outcomes=own, replicate=replicate)
    last = Trial.objects.filter(episode__run__condition="selfgen-always", episode__run__replicate=3, phase="replay")
    Trial.objects.filter(pk=last.first().pk).update(success=None, is_done=False, status="waiting")
    Run.objects.all().touch()
    said = words(client, experiment.get_absolute_url())
    assert re.search(r"Evidence (for a rise )?after 2 whole replicates: ", said)
    (twin,) = client.get(f"{experiment.get_absolute_url()[:-1]}.json").json()["answer"]["judged"]
    assert (twin["evidence_needed"], twin["evidence_over"], twin["evidence_replicates"]) == (20, 1, 2)


def ask(client: Client, experiment: Experiment, metric: str, table: str) -> str:
    return words(client, f"{experiment.get_absolute_url()}?metric={metric}&table={table}")


def test_what_costs_more_is_named_and_not_called_the_best(client: Client) -> None:
    experiment = make_pair(8)
    trials = Trial.objects.filter(episode__run__experiment=experiment)
    trials.update(cost_usd=0.01)
    for place, trial in enumerate(trials.filter(episode__run__condition="selfgen-always")):
        Trial.objects.filter(pk=trial.pk).update(cost_usd=0.05 + 0.0001 * place)
    Run.objects.all().touch()
    said = ask(client, experiment, "cost-per-trial", "usage")
    assert (
        f"{Effect.ESTIMATE.words.capitalize()} in this metric. Cost: $0.0536 with “Self-written, always revised”, "
        "$0.0100 with no skill." in said
    )
    assert "Read the best library" not in said
    assert re.search(r"\+0\.0\d{3} to \+0\.0\d{3}", said)
    assert "Of 1 groups" not in said


def test_a_metric_without_a_better_side_is_told_without_praise(client: Client) -> None:
    experiment = make_pair(8)
    Trial.objects.filter(episode__run__condition="no-skill").update(skills_read=0)
    Run.objects.all().touch()
    said = ask(client, experiment, "use", "skillflow")
    assert (
        f"{Effect.ESTIMATE.words.capitalize()} in this metric. “Self-written, always revised” used a skill in" in said
    )
    assert re.search(r"tasks; the baseline in \d+\.", said)
    assert "best" not in said.partition("What did skills change?")[2].partition("Condition")[0]


def test_one_comparison_is_judged_alone_and_counts_of_one_are_left_out(client: Client) -> None:
    said = words(client, make_pair(8).get_absolute_url())
    assert "1 comparison" not in said
    assert "together" not in said.partition("Did skills help?")[2].partition("How these numbers are made")[0]


@pytest.mark.parametrize("table", ["success", "skillflow", "usage"])
def test_a_column_is_coloured_only_by_a_verdict(client: Client, table: str) -> None:
    """Only the primary metric has one, and it is in the chart."""
    experiment = make_pair(8)
    make_learning_run(experiment, condition="curated-static", outcomes=OWN)
    text = client.get(f"{experiment.get_absolute_url()}?table={table}").text
    cells = re.findall(r'<td class="num other([^"]*)"[^>]*>(.*?)</td>', text)
    assert cells
    assert not any(classes or re.search("[▲▼]", cell) for classes, cell in cells)
    assert (Effect.BETTER.words in text) == (table == "success")


def test_a_column_head_moves_it_into_the_chart(client: Client) -> None:
    experiment = make_pair(8)
    heads = re.findall(
        r'<th scope="col" class="num other"><a href="([^"]+)"[^>]*>([^<]+)</a>',
        client.get(experiment.get_absolute_url()).text,
    )
    addresses = {name: url.replace("&amp;", "&") for url, name in heads}
    moved = client.get(experiment.get_absolute_url() + addresses["Acquisition"]).text
    assert "<b>Acquisition success</b>, points against no skill" in moved
    assert ">Deployment</a></th>" in moved


def test_only_a_clear_effect_is_coloured() -> None:
    tones = {effect: effect.tone for effect in Effect}
    assert {effect: tone for effect, tone in tones.items() if tone} == {Effect.BETTER: "better", Effect.WORSE: "worse"}


def test_the_form_sends_no_metric_that_nobody_chose(client: Client) -> None:
    """The default fits the runs; named in the address, it would be reported as ignored for the next runs."""
    make_pair(2)
    assert 'name="metric"' not in client.get(EVERYTHING).text
    assert '<input type="hidden" name="metric" value="ESR">' in client.get(f"{EVERYTHING}&metric=ESR").text
