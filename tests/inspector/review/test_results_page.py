"""The results page, its twin, its figures and its files, over the small world."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.models import Code, CodeExample, Mark, Queue, User
from inspector.pages.review.results.results_charts import FIGURES
from tests.queries import count_queries
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_item, make_queue, make_review, make_version
from tests.worlds.review_worlds import World, draw_one_more, make_reviewed_world, say

pytestmark = pytest.mark.django_db

ANSWERS = (["stale"], ["stale"], ["stale"], ["tool"], [], [], ["tool"], ["tool"], ["misapplied"])


def reviewed() -> World:
    world = make_reviewed_world()
    for place, codes in enumerate(ANSWERS):
        say(world, place, codes, codes)
    return world


def page(world: World) -> str:
    return reverse("results", args=[world.queue.public_id])


def twin(client: Client, world: World, query: str = "") -> dict[str, Any]:
    return client.get(page(world).rstrip("/") + f".json?{query}").json()


def codes(answer: dict[str, Any], per: str = "population") -> dict[str, Any]:
    return {row["code"]: row["shares"][per] for row in answer["codes"]}


def test_it_says_the_same_on_the_page_and_in_the_twin(client: Client) -> None:
    world = reviewed()
    answer = twin(client, world)
    assert codes(answer)["tool"]["value"] == pytest.approx(5 / 12)
    assert codes(answer, "attempted")["tool"]["value"] == pytest.approx(5 / 24)
    assert (answer["items_coded"], answer["items_drawn"], answer["items_overlap"]) == (9, 9, 9)
    assert answer["alpha_says"] == "not computed"
    text = client.get(page(world)).text
    assert "<b>9</b> of 9 drawn, from 12" in text
    assert "3/9" in text
    assert "24 trials ran and 12 failed" in text


def test_marks_with_a_memo_and_no_code_are_told(client: Client) -> None:
    world = reviewed()
    assert "a memo and no code" not in client.get(page(world)).text
    for item, step, memo in ((world.items[1], 3, "odd"), (world.items[4], None, "very odd"), (world.items[2], 1, "")):
        Mark(review=item.reviews.first(), step=step, memo=memo).save_base(force_insert=True)
    text = client.get(page(world)).text
    assert "2 marks have a memo and no code" in text
    address = world.items[1].get_absolute_url()
    assert f'<a href="{address}?step=3#step-3">item 2, step 3</a>' in text
    assert f'<a href="{world.items[4].get_absolute_url()}">item 5</a>' in text
    assert client.get(f"{address}?step=3").status_code == 200


def test_the_table_of_the_picture_leads_to_the_trials_of_each_cause(client: Client) -> None:
    world = reviewed()
    text = client.get(reverse("results-chart", args=[world.queue.public_id, "taxonomy", "csv"])).text
    rows = {row["code"]: row["trials"] for row in csv.DictReader(StringIO(text))}
    assert all("?code=" in address for address in rows.values())
    listed = client.get(rows["tool"].removeprefix("http://testserver")).context["rows"]
    assert [row.number for row in listed] == [4, 7, 8]


def test_it_puts_the_most_frequent_code_of_each_level_first(client: Client) -> None:
    found = [row["code"] for row in twin(client, reviewed())["codes"]]
    assert found in (["skill", "stale", "misapplied", "tool"], ["tool", "skill", "stale", "misapplied"])


def test_it_narrows_by_any_facet_and_says_so_in_the_address(client: Client) -> None:
    world = reviewed()
    answer = twin(client, world, "condition=no-skill&per=population")
    assert (codes(answer)["tool"]["k"], codes(answer)["tool"]["n"]) == (2, 3)
    assert answer["choices"]["chosen"] == {"condition": ["no-skill"]}
    text = client.get(page(world) + "?condition=no-skill").text
    assert '<option value="no-skill" selected>' in text
    assert f"{reverse('results-export', args=[world.queue.public_id, 'csv'])}?condition=no-skill" in text


def test_it_breaks_down_by_a_facet(client: Client) -> None:
    groups = twin(client, reviewed(), "by=agent_model")["groups"]
    assert groups["facet"] == "agent_model"
    assert [(each["value"], each["codes"]["tool"]["n"]) for each in groups["values"]] == [
        ("model-memory", 6),
        ("model-no-skill", 3),
    ]


@pytest.mark.parametrize("query", ["per=dozen", "covers=all", "counts=x", "by=weather", "also=x"])
def test_it_refuses_a_choice_that_means_nothing(client: Client, query: str) -> None:
    response = client.get(f"{page(make_reviewed_world())}?{query}")
    assert response.status_code == 400
    assert query.partition("=")[0] in response.text


def test_it_leaves_unresolved_items_out_when_asked(client: Client) -> None:
    world = make_reviewed_world()
    say(world, 0, ["stale"], ["tool"])
    say(world, 1, ["stale"], ["stale"])
    assert codes(twin(client, world))["stale"]["k"] == 1.5
    settled = twin(client, world, "counts=settled")
    assert (codes(settled)["stale"]["k"], codes(settled)["stale"]["n"]) == (1, 1)
    assert settled["items_by_basis"]["unresolved"] == 1
    assert any("1 item is not settled yet" in note for note in settled["notes"])


def test_it_adds_queues_of_one_version_and_refuses_others(client: Client) -> None:
    world = reviewed()
    trial = make_trial(success=False)
    population = f"experiment={trial.episode.run.experiment.public_id}&preset=failed"
    other = make_queue([trial], version=world.queue.version, population=population)
    assert twin(client, world, f"also={other.public_id}")["items_drawn"] == 10
    stranger = make_queue()
    response = client.get(f"{page(world)}?also={stranger.public_id}")
    assert response.status_code == 400
    assert "different codebook versions" in response.text


# --- who may look ---------------------------------------------------------------------------------------------------


def test_it_is_closed_to_somebody_who_still_codes_blind(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    world = make_reviewed_world()
    first, second = world.people
    say(world, 0, ["stale"], ["misapplied"])
    client.force_login(first)
    for address in _addresses(world):
        response = client.get(address)
        assert response.status_code == 403, address
        assert "misapplied" not in response.text
    assert "8 items" in client.get(page(world)).text


def test_it_opens_when_nothing_can_come_to_them_any_more(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    world = reviewed()
    client.force_login(world.people[0])
    assert client.get(page(world)).status_code == 200


def test_it_opens_with_the_closing_of_the_queue_and_to_those_who_review_nothing(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    world = make_reviewed_world()
    client.force_login(User.objects.create_user("reader"))
    assert client.get(page(world)).status_code == 200
    client.force_login(world.people[0])
    assert client.get(page(world)).status_code == 403
    Queue.objects.filter(pk=world.queue.pk).update(closed_at=timezone.now())
    assert client.get(page(world)).status_code == 200


def test_it_is_open_where_nothing_is_hidden(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    world = make_reviewed_world(hides_labels=False, hides_conditions=False, hides_models=False)
    client.force_login(world.people[0])
    assert client.get(page(world)).status_code == 200


def _addresses(world: World) -> list[str]:
    place = world.queue.public_id
    return [
        page(world),
        page(world).rstrip("/") + ".json",
        reverse("results-export", args=[place, "csv"]),
        reverse("results-export", args=[place, "tex"]),
        *(reverse("labels-export", args=[place, form]) for form in ("csv", "json", "jsonl")),
        *(reverse("results-chart", args=[place, key, form]) for key in FIGURES for form in ("json", "csv")),
    ]


# --- parts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", FIGURES)
def test_every_figure_carries_the_heading_and_its_numbers(client: Client, key: str) -> None:
    world = draw_one_more(make_reviewed_world())
    for place, given in enumerate([*ANSWERS, ["tool"]]):
        trajectory = world.items[place].trial.counting_attempt().trajectories.first()
        mark = {"trajectory": trajectory, "step": 1 + place % 8, "is_first_failure": True}
        make_review(world.items[place], world.people[0], given, mark=mark)
    answer = client.get(reverse("results-chart", args=[world.queue.public_id, key, "json"])).json()
    assert answer["figure"]["data"]
    assert answer["table"]["rows"]
    assert world.queue.version.codebook.name in answer["title"]
    assert "n = 10 of 10 drawn, 0 in the overlap, alpha not computed" in answer["question"]
    text = client.get(reverse("results-chart", args=[world.queue.public_id, key, "csv"])).text
    assert len(text.splitlines()) == len(answer["table"]["rows"]) + 1


@pytest.mark.parametrize("key", FIGURES)
def test_a_figure_without_anything_to_draw_says_why(client: Client, key: str) -> None:
    answer = client.get(reverse("results-chart", args=[make_reviewed_world().queue.public_id, key, "json"])).json()
    assert answer["figure"] is None
    assert answer["absent"]


def test_too_few_items_have_counts_alone_on_page_and_chart(client: Client) -> None:
    world = reviewed()
    place = world.queue.public_id
    chart = client.get(reverse("results-chart", args=[place, "taxonomy", "json"])).json()
    assert chart["figure"] is None
    assert chart["absent"] == "9 reviewed are too few for shares. From 10 on they are drawn."
    assert {row["population"] for row in chart["table"]["rows"]} == {None}
    rows = client.get(page(world)).context["taxonomy_rows"]
    assert {(row["estimated"], *(cell["value"] for cell in row["cells"])) for row in rows} == {("", "", "", "")}


def test_the_files_are_what_the_links_say(client: Client) -> None:
    world = reviewed()
    csv = client.get(reverse("results-export", args=[world.queue.public_id, "csv"]))
    assert csv["Content-Disposition"] == 'attachment; filename="taxonomy.csv"'
    assert len(csv.text.splitlines()) == 5
    tex = client.get(reverse("results-export", args=[world.queue.public_id, "tex"]))
    assert r"\begin{tabular}" in tex.text
    definitions = reverse("codebook-export", args=[world.queue.version.public_id, "yaml"])
    assert f'href="{definitions}" download' in client.get(page(world)).text
    lines = client.get(reverse("labels-export", args=[world.queue.public_id, "jsonl"]))
    assert len(b"".join(lines.streaming_content).splitlines()) == 18
    assert client.get(reverse("labels-export", args=[world.queue.public_id, "xlsx"])).status_code == 404
    assert client.get(reverse("results-export", args=[world.queue.public_id, "doc"])).status_code == 404


def test_it_shows_examples_of_the_codebook_before_marks_of_reviewers(client: Client) -> None:
    world = make_reviewed_world(frozen=False)  # examples are frozen with their version
    say(world, 0, ["stale"])
    code = Code.objects.get(version=world.queue.version, name="stale")
    shown = make_trial()
    CodeExample.objects.create(code=code, trial=shown, step=7, quote="<b>it failed</b>")
    text = client.get(page(world)).text
    assert f'<a href="{shown.get_absolute_url()}?step=7" title="&lt;b&gt;it failed&lt;/b&gt;">step 7</a>' in text
    assert text.index(f"{shown.get_absolute_url()}?step=7") < text.index(world.items[0].trial.get_absolute_url())


def test_it_shows_no_example_of_a_trial_that_is_closed_to_the_reader(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    world = reviewed()
    reader = User.objects.create_user("elsewhere", level=User.Level.REVIEWER)
    make_queue([world.items[0].trial], reviewers=[reader], hides_labels=False)
    client.force_login(reader)
    text = client.get(page(world)).text
    assert world.items[0].trial.get_absolute_url() not in text
    assert world.items[1].trial.get_absolute_url() in text


def test_it_tells_whether_the_hidden_condition_was_guessed(client: Client) -> None:
    world = make_reviewed_world()
    now = timezone.now()
    make_review(world.items[0], world.people[0], [], guess="memory", guessed_at=now)
    make_review(world.items[6], world.people[0], [], guess="memory", guessed_at=now)
    make_review(world.items[7], world.people[0], [], guess="", guessed_at=now)
    make_review(world.items[8], world.people[0], [])
    assert twin(client, world)["guesses"] == {"right": 1, "named": 2, "unsure": 1, "chance": 0.5, "p": 0.75}


def test_it_gives_the_median_time_of_reviews_that_took_some(client: Client) -> None:
    world = make_reviewed_world()
    for place, seconds in enumerate((30, 50, 90, 0)):
        make_review(world.items[place], world.people[0], [], seconds=seconds)
    assert twin(client, world)["seconds_per_item"] == {"median": 50, "reviews": 3}


@pytest.mark.parametrize("unit", ["decision", "snapshot"])
def test_it_stands_for_other_units_too(client: Client, unit: str) -> None:
    queue = make_queue([], unit=unit)
    answer = client.get(reverse("results-json", args=[queue.public_id])).json()
    assert {per for row in answer["codes"] for per in row["shares"]} == {"population"}
    assert answer["selection"] is None
    assert client.get(reverse("results", args=[queue.public_id])).status_code == 200


def test_it_asks_as_much_of_the_database_for_many_items_as_for_few(client: Client) -> None:
    count_queries(client, reverse("results", args=[make_queue().public_id]))  # makes the local user
    counts = []
    for size in (2, 9):
        world = make_reviewed_world()
        for place in range(size):
            say(world, place, ["stale"], ["tool"])
        counts.append(count_queries(client, page(world)))
    assert counts[0] == counts[1] < 32


def test_a_hostile_name_stays_text_in_the_figure(client: Client) -> None:
    hostile = "<a href='//x'>tool</a>"
    queue = make_queue([make_trial(success=False)], version=make_version((hostile,)))
    make_review(queue.items.get(), make_user(), [hostile])
    body = client.get(reverse("results-chart", args=[queue.public_id, "taxonomy", "json"])).content
    assert b"tool" in body
    assert b"<a href" not in body.split(b'"table"')[0]
    assert hostile not in client.get(reverse("results", args=[queue.public_id])).text


def test_controls_stand_beside_the_population(client: Client) -> None:
    world = reviewed()
    control = make_item(world.queue, trial=make_trial(success=True), is_control=True, inclusion=0.1)
    make_review(control, world.people[0], ["tool"])
    row = next(row for row in twin(client, world)["codes"] if row["code"] == "tool")
    assert row["controls"] == {"k": 1, "n": 1}
    assert row["shares"]["population"]["n"] == 9


@pytest.mark.parametrize("used", [0, 3])
def test_it_draws_the_used_codes_of_a_large_codebook_and_says_so(client: Client, used: int) -> None:
    names = [f"code {place}" for place in range(45)]
    queue = make_queue([make_trial(success=False) for _ in range(30)], version=make_version(names))
    for item in queue.items.all():
        make_review(item, make_user(), names[:used])
    answer = client.get(reverse("results-chart", args=[queue.public_id, "taxonomy", "json"])).json()
    drawn = used or 40
    assert answer["notes"] == [f"{drawn} of 45 causes are drawn; the table has all."]
    assert f"{45 - drawn} codes not drawn" in client.get(reverse("results", args=[queue.public_id])).text


def test_a_cause_leads_to_its_items_for_whoever_may_know(client: Client, settings: Any) -> None:
    world = reviewed()
    code = Code.objects.get(version=world.queue.version, name="skill")
    link = f"{world.queue.get_absolute_url()}?code={code.public_id}"
    assert f'href="{link}#items"' in client.get(page(world)).text
    twin_link = link.replace("/?", ".json?")
    assert len(client.get(twin_link).json()["rows"]) == 4  # three stale, one misapplied
    assert len(client.get(twin_link.replace("?code=", "?code=x")).json()["rows"]) == 9
    settings.SINGLE_USER = False
    reader = User.objects.create_user("blind", level=User.Level.REVIEWER)
    make_queue([world.items[0].trial], reviewers=[reader])
    client.force_login(reader)
    assert len(client.get(twin_link).json()["rows"]) == 9
    assert "cause: skill" not in client.get(link).text


def test_who_still_codes_sees_their_own_counts_and_how_to_end(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    me, other = make_user(level=User.Level.REVIEWER), make_user(level=User.Level.REVIEWER)
    trials = [make_trial(success=False) for _ in range(4)]
    queue = make_queue(trials, reviewers=[me, other], created_by=me)
    first, second, third, _ = queue.items.all()
    for item in (first, second):
        make_review(item, me, ["misapplied"])
    make_review(third, me, [])
    make_review(first, other, ["over-specific"])
    client.force_login(me)
    answer = client.get(reverse("results", args=[queue.public_id]))
    assert answer.status_code == 403
    told = client.get(reverse("results-json", args=[queue.public_id])).json()
    assert told["own_items"] == 3
    assert told["own"] == [{"code": "misapplied", "items": 2, "of": 3, "interval": None}]
    assert "2 of 3" in answer.text
    assert "over-specific" not in answer.text  # what others said stays hidden
    assert f'href="{queue.get_absolute_url()}#manage">Close the queue</a>' in answer.text
