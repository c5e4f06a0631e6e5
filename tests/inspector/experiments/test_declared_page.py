"""The page of an experiment that declared hypotheses: what was found, what waits, and what was not declared."""

from __future__ import annotations

import pytest
from django.test import Client

from benchapp.models import Experiment, Run, Trial
from benchapp.stats.comparing.effects import NO_VERDICT_YET
from tests.worlds.declaring import ONE, make_declaring

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("stated", ["text", 7, {"metric": "ESR"}, [7, "x", {}, {"metric": [1]}, {"condition": "c"}]])
def test_a_file_from_elsewhere_may_hold_anything(client: Client, stated: object) -> None:
    experiment = make_declaring()
    Experiment.objects.filter(pk=experiment.pk).update(spec={"hypotheses": stated})
    response = client.get(experiment.get_absolute_url())
    assert response.status_code == 200
    assert "Declared before the run" not in response.text


def stop(experiment: Experiment) -> None:
    """The seventh environment of selfgen-always is still to come."""
    late = Trial.objects.filter(episode__run__condition="selfgen-always", episode__run__experiment=experiment)
    last = late.order_by("-episode__pk").values_list("episode", flat=True)[0]
    late.filter(episode=last, phase="deployment").update(success=None, is_done=False, status="waiting")
    Run.objects.all().touch()


def test_the_page_says_what_holds_what_waits_and_what_was_not_declared(client: Client) -> None:
    other = {"metric": "LSR", "condition": "raw-trajectory"}
    experiment = make_declaring(ONE, other, environments=7)
    address = experiment.get_absolute_url()
    text = client.get(address).text
    assert "1 of 2 found: 1 better, judged together. Nothing else on this page was declared." in text
    assert "1 of 3 comparisons in deployment success was declared before the run" in text
    assert "waits for" not in text
    stop(experiment)
    text = client.get(address).text
    assert "None of 2 found yet, judged together." in text
    assert "waits for 3 trials" in text
    assert NO_VERDICT_YET in text
    twin = client.get(f"{address[:-1]}.json").json()["declared"]
    assert (twin["below_level"], twin["tested"], twin["futile"]) == (0, 2, None)
    first, second = twin["differences"]
    assert (first["metric"], first["waiting"], first["is_found"]) == ("ESR", 3, False)
    assert second["is_found"] is False


def test_a_page_without_any_is_as_it_was(client: Client) -> None:
    experiment = make_declaring()
    address = experiment.get_absolute_url()
    assert "eclared" not in client.get(address).text
    twin = client.get(f"{address[:-1]}.json").json()
    assert "declared" not in twin
    assert all({"declared_before_run", "evidence"}.isdisjoint(each) for each in twin["answer"]["judged"])


def test_the_heading_says_whether_its_difference_was_declared(client: Client) -> None:
    address = make_declaring({"metric": "ESR", "condition": "raw-trajectory"}).get_absolute_url()
    assert "Not declared before the run." in client.get(address).text
    judged = client.get(f"{address[:-1]}.json").json()["answer"]["judged"]
    assert sorted(each["declared_before_run"] for each in judged) == [False, False, True]


def test_a_metric_of_another_version_is_named(client: Client) -> None:
    address = make_declaring(ONE, {**ONE, "metric": "gone"}).get_absolute_url()
    assert "This version does not know gone. The correction leaves it out." in client.get(address).text
