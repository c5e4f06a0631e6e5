from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from django.test import Client

from benchapp.analysis.lineage.hunks import list_hunks
from benchapp.imports.shipped_example import take_in_example
from benchapp.models import Experiment, Probe, Trial
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.inference.strata import LEVEL
from inspector.pages.overview import tour
from inspector.web.access import local_user
from tests.worlds.copies import built_once
from tests.worlds.review_factories import make_queue, make_review

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


@built_once
def make_example() -> None:
    take_in_example()


def read_probe(client: Client, url: str) -> dict:
    address = urlsplit(url)
    found = client.get(f"{address.path.rstrip('/')}.json?{address.query}").json()["probes"]
    return next(each for each in found if each["reverted"])


def test_the_tour_leads_over_real_pages(client: Client) -> None:
    make_example()
    told = client.get("/index.json").json()["tour"]
    text = client.get("/").text
    assert "Trials that read one line passed" in text
    for number, url in enumerate(told["urls"], start=1):
        address, _, anchor = url.partition("#")
        page = client.get(address)
        assert page.status_code == 200
        assert f'id="{anchor}"' in page.text, f"stop {number} leads to nothing"
        guide = page.text.partition('<nav class="guide cluster loose"')[2].partition("</nav>")[0]
        assert guide.count('aria-current="step"') == 1
        assert ('rel="prev"' in guide, 'rel="next"' in guide) == (number > 1, number < len(told["urls"]))
    assert client.get("/?tour=hide").status_code == 302
    assert "Show the tour" in client.get("/").text
    client.get("/?tour=show")
    assert "Start the tour" in client.get("/").text
    for probed in Experiment.objects.filter(runs__probe__in=Probe.objects.exclude(reverted_digest="")):
        probed.entomb(actor=None, reason="gone")
    assert client.get("/index.json").json()["tour"] is None
    tour.KEPT.clear()


def test_it_waits_while_a_blind_review_closes_one_of_its_stops(client: Client) -> None:
    """Also where the review is of another trial than its first stop: its library is the one of the same episode."""
    make_example()
    told = client.get("/index.json").json()["tour"]
    story = tour.find_tour(local_user())
    assert story is not None
    same = Trial.objects.filter(episode__key=story.decision.episode.key, success=False).exclude(task=story.trial.task)
    queue = make_queue(same[:1], reviewers=[local_user()], name="Failures", hides_conditions=False, hides_models=True)
    assert client.get(told["urls"][2]).status_code == 403
    assert '<nav class="guide cluster loose"' not in client.get(told["urls"][2]).text
    assert client.get("/index.json").json()["tour"] is None
    text = client.get("/").text
    assert "The tour is paused" in text
    assert re.search(r"\d+ items? of [^<]+</a> waits? for you", text)
    assert queue.get_absolute_url() in text
    assert "Later trials that read line" not in text
    make_review(queue.items.get(), local_user(), state="skipped")
    assert client.get("/index.json").json()["tour"] == told


def test_its_words_follow_from_the_probe(client: Client) -> None:
    """Whatever the probe measured: a null is called one."""
    make_example()
    told = client.get("/index.json").json()["tour"]
    probe = read_probe(client, told["urls"][3])
    kept, taken = told["with_lines"], told["without_lines"]
    assert (taken["passed"], kept["passed"]) == (probe["own"]["passed"], probe["control"]["passed"])
    is_clear = probe["tests"]["control"]["p"] <= LEVEL
    up = Effect.BETTER if kept["rate"] > taken["rate"] else Effect.WORSE
    effect = up if is_clear else Effect.OPEN
    assert (told["effect"], told["is_clear"]) == (effect.value, is_clear)
    said = tour.SAID.get(effect, f"{effect.words.capitalize()}.")
    assert f"{said}</span>" in client.get("/").text
    tour.KEPT.clear()


def test_the_story_is_the_line_with_the_largest_gap(client: Client) -> None:
    """The worst line of the condition that nobody revised is there before any trial: the failure comes after it."""
    make_example()
    shown = client.get("/index.json").json()["tour"]
    (accused, *_) = client.get(f"/compare/lines.json?experiment={_find_example().public_id}").json()["groups"]
    assert accused["condition"] == "selfgen-zero-shot"
    assert [line["text"] for line in accused["lines"][0]["lines"]] == shown["lines"]
    assert shown["readers"]["rate"] < shown["no_skill"]["rate"]
    assert ["/library/?" in url for url in shown["urls"]] == [True, False, False, False]
    tour.KEPT.clear()


def _find_example() -> Experiment:
    return Experiment.objects.get(name__startswith="Example", runs__condition="no-skill", runs__replicate=1)


def test_an_address_that_names_no_stop_shows_no_bar(client: Client) -> None:
    make_example()
    for asked in ("0", "5", "x", "-1", "1٣", ""):
        assert 'class="guide cluster loose"' not in client.get(f"/jobs/?tour={asked}").text
    tour.KEPT.clear()


def test_the_probe_takes_back_the_change_that_the_library_opens_on(client: Client) -> None:
    """The rule was fixed before its outcome was known; see docs/explanation/scripted-model.md."""
    make_example()
    probe = Probe.objects.exclude(reverted_digest="").get(origin__run__condition="selfgen-always")
    assert probe.origin is not None
    assert probe.decision is not None
    run = probe.origin.run
    assert run.replicate == 1
    opened = client.get(f"/runs/{run.public_id}/library.json").json()
    assert (opened["episode"], opened["decision"]) == (str(probe.origin.public_id), probe.decision.number)
    assert len(probe.reverted) == len(list_hunks(probe.decision.before.read(), probe.decision.after.read()))
