"""`/compare/lines/`: the lines of conditions that got worse, and where an experiment leads to them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from benchapp.analysis.lineage.attribution import SuspectLine, rank_suspects
from benchapp.analysis.lineage.hunks import list_hunks
from benchapp.models import Experiment, Probe
from tests.benchapp.analysis.test_suspects import LOST, WON, make_runs
from tests.worlds.factories import make_experiment, make_learning_run, make_suite, make_user
from tests.worlds.probe_factories import make_probe
from tests.worlds.review_factories import make_queue

pytestmark = pytest.mark.django_db


def test_a_line_leads_to_its_blame_its_decision_and_a_probe(client: Client) -> None:
    run, _ = make_runs(LOST, WON)
    page = client.get(reverse("compare-lines")).text
    data = client.get(reverse("compare-lines-json")).json()
    (group,) = data["groups"]
    line = group["lines"][0]["lines"][0]
    assert group["condition"] == run.condition
    assert f"/runs/{line['run']}/library/blame/?episode={line['episode']}&amp;at={line['state']}" in page
    assert f"/runs/{line['run']}/library/probe/?episode={line['episode']}&amp;decision={line['decision']}" in page
    assert group["lines"][0]["note"] == "association, not effect"
    assert "This is an observation" in page


def test_a_probe_is_asked_about_every_line_of_its_row(client: Client) -> None:
    make_runs(LOST, WON)
    (group,) = client.get(reverse("compare-lines-json")).json()["groups"]
    asked = group["lines"][0]
    query = urlencode([("lines", len(asked["lines"])), ("libraries", asked["libraries"])])
    named = urlencode([("line", line["text"][:80]) for line in asked["lines"]])
    assert f"&{query}&{named}" in client.get(reverse("compare-lines")).text.replace("&amp;", "&")


def make_tested(line: SuspectLine) -> Probe:
    """A probe that took this line back, and its control, with outcomes that tell them apart."""
    place = line.place
    assert place.decision is not None
    hunks = list_hunks(place.decision.before.read(), place.decision.after.read())
    alone = [each for hunk in hunks for each in (*hunk.lines, hunk)]
    taken = next(each for each in alone if line.text.encode() in [text.strip() for text in each.added])
    make_probe(place.episode, "fffff", decision=place.decision.number)
    probe = make_probe(place.episode, "ppppp", decision=place.decision.number, reverted=1)
    Probe.objects.filter(pk=probe.pk).update(reverted=[taken.as_json()])
    return probe


def test_a_tested_line_shows_what_its_probe_found_and_no_other_line_does(client: Client) -> None:
    run, _ = make_runs(LOST, WON)
    rows = rank_suspects([run])
    line = rows[0].lines[0]
    make_tested(line)
    page = client.get(reverse("compare-lines")).text
    assert page.count("by a probe") == 1
    assert "The lines hurt" in page.partition(escape(line.text))[2].partition("</tr>")[0]
    Probe.objects.exclude(reverted_digest="").update(reverted=[{"id": "of another line", "path": line.place.path}])
    assert "by a probe" not in client.get(reverse("compare-lines")).text


def test_lines_of_a_run_that_the_reader_reviews_blind_are_withheld(client: Client, settings: Any) -> None:
    run, other = make_runs(LOST, WON)
    make_tested(rank_suspects([run])[0].lines[0])
    settings.SINGLE_USER = False
    ada = make_user(username="ada", level="reviewer")
    client.force_login(ada)
    open_page = client.get(reverse("compare-lines")).text
    assert f"/runs/{run.public_id}/" in open_page
    make_queue(list(run.episodes.get().trials.all()[:1]), reviewers=[ada])
    closed_page = client.get(reverse("compare-lines")).text
    assert f"/runs/{run.public_id}/" not in closed_page
    assert "by a probe" not in closed_page


def test_an_experiment_without_a_condition_that_got_worse_loads_no_lines(client: Client) -> None:
    experiment: Experiment = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=LOST)
    make_learning_run(experiment, outcomes=WON)
    assert 'id="suspects"' not in client.get(experiment.get_absolute_url()).text


def test_the_page_lies_below_the_one_experiment_it_is_narrowed_to(client: Client) -> None:
    run, _ = make_runs(LOST, WON)
    narrowed = client.get(reverse("compare-lines"), {"experiment": str(run.experiment.public_id)}).text
    assert f'href="{run.experiment.get_absolute_url()}" data-key="u">' in narrowed
    assert f'<a href="{reverse("index")}" data-key="u">Experiments</a>' in client.get(reverse("compare-lines")).text


def test_the_answer_takes_the_worst_line_alone(client: Client) -> None:
    """The page of lines has it as its first row, and not twice."""
    run, _ = make_runs(LOST, WON)
    chosen = {"experiment": str(run.experiment.public_id)}
    assert 'id="worst-line"' not in client.get(reverse("compare-lines"), chosen).text
    part = client.get(reverse("compare-lines"), chosen, headers={"HX-Request": "true"}).text
    card = part.partition('id="worst-line"')[2].partition("</section>")[0]
    assert "Readers passed <b>" in card


def test_the_library_leads_to_the_lines_of_its_condition(client: Client) -> None:
    run, _ = make_runs(LOST, WON)
    page = client.get(reverse("library", args=[run.public_id])).text
    assert f"{reverse('compare-lines')}?experiment={run.experiment.public_id}&amp;condition={run.condition}" in page


def test_trials_that_failed_where_the_baseline_passed_are_one_click_away(client: Client) -> None:
    run, _ = make_runs(LOST, WON)
    page = client.get(run.experiment.get_absolute_url()).text
    query = f"experiment={run.experiment.public_id}&amp;covered=ESR&amp;outcome=regressions"
    assert f"{reverse('compare-trials')}?{query}" in page
    found = client.get(reverse("compare-trials-json") + "?" + query.replace("&amp;", "&")).json()
    assert {each["condition"] for each in found["trials"]} == {run.condition}
    assert {each["replicate"] for each in found["trials"]} == {1}  # no-skill has that replicate alone
    text = client.get(reverse("compare-trials") + "?" + query.replace("&amp;", "&")).text
    assert "Trials that failed where the baseline passed" in text
    assert f"{reverse('queue-new')}?" in text
    form = client.get(reverse("queue-new") + "?" + query.replace("&amp;", "&")).text
    assert '<option value="trial:regressions" selected>' in form
