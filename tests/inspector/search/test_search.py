from __future__ import annotations

import re
from html import unescape
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest
from django.test import Client

from benchapp.models import User
from benchapp.search.indexing import index_waiting
from inspector.web.access import local_user
from tests.queries import assert_queries_flat
from tests.worlds.factories import make_run, make_trial, make_unordered_episode, record_steps
from tests.worlds.review_factories import make_queue, make_review
from tests.worlds.search_worlds import SKILL, make_search_world, step

pytestmark = pytest.mark.django_db


def hits(client: Client, query: str) -> list[dict[str, Any]]:
    response = client.get("/search.json", {"q": query})
    assert response.status_code == 200
    found: list[dict[str, Any]] = response.json()["hits"]
    return found


def test_an_empty_search_teaches(client: Client) -> None:
    make_search_world()
    page = client.get("/search/")
    assert "autofocus" in page.text
    assert "role:canonical" in page.text
    assert "<b>6</b> texts in the index" in page.text
    assert page.text.count('class="hit"') == 0


def test_it_says_what_is_not_indexed_yet(client: Client) -> None:
    make_search_world(indexed=False)
    page = client.get("/search/?q=zebra").text
    assert "<b>0</b> of <b>6</b> texts indexed" in page
    assert "manage.py index_search" in page
    assert "No hits in the texts indexed so far." in page


def test_a_hit_opens_at_its_step_with_the_words_marked(client: Client) -> None:
    world = make_search_world()
    (hit,) = hits(client, '"KeyError"')
    assert (hit["kind"], hit["step"], hit["status"], hit["condition"]) == ("step", 2, "failed", "selfgen-always")
    assert hit["url"].endswith(f"/trials/{world.failed.public_id}/?step=2#step-2:~:text=KeyError")
    (excerpt,) = hit["excerpts"]
    (start, end) = excerpt["marks"][0]
    assert excerpt["text"][start:end] == "KeyError"
    opened = client.get(urlsplit(hit["url"]).path, {"step": "2"})
    assert 'id="step-2"' in opened.text
    assert "<mark>KeyError</mark>" in client.get("/search/", {"q": '"KeyError"'}).text


@pytest.mark.parametrize("query", ["zebra", "needle", "kind:file cells", "kind:check passed", "is:error"])
def test_every_hit_leads_to_a_page_that_answers(client: Client, query: str) -> None:
    make_search_world()
    found = hits(client, query)
    assert found
    for hit in found:
        parts = urlsplit(hit["url"])
        assert client.get(f"{parts.path}?{parts.query}").status_code == 200
        assert hit["excerpts"]


def test_a_skill_file_opens_at_the_decision_that_wrote_it(client: Client) -> None:
    world = make_search_world()
    (hit,) = hits(client, 'kind:file "empty cells"')
    assert hit["url"].split("?")[0].endswith(f"/runs/{world.run.public_id}/library/")
    assert f"decision={world.decision.number}&file=csv-handling%2FSKILL.md" in hit["url"]


def test_texts_of_trials_are_escaped_and_made_visible(client: Client) -> None:
    make_search_world()
    attempt = make_trial(make_unordered_episode(make_run())).counting_attempt()
    record_steps(attempt, [step(1, 'hostile \u202eevil\x1b[31m <img src=x onerror=alert(1)> "><script>')])
    index_waiting()
    for query in ("hostile", "script", "sums", '"><script>alert(1)</script>', "zebra <b>x</b>"):
        page = client.get("/search/", {"q": query}).text
        for bad in ("<script>alert", "<img src=x", "\u202e", "\x1b", "<b>sums", "<b>here", "<b>x"):
            assert bad not in page, (query, bad)


def test_a_query_that_is_not_understood_says_where_and_searches_nothing(client: Client) -> None:
    make_search_world()
    page = client.get("/search/", {"q": "zebra rol:x"})
    assert page.status_code == 400
    assert "<mark>rol:x</mark>" in page.text
    assert "did you mean role:?" in page.text
    assert 'class="hit"' not in page.text
    data = client.get("/search.json", {"q": "zebra rol:x"}).json()
    assert (data["problems"][0]["start"], data["problems"][0]["end"], data["hits"]) == (6, 11, [])


def test_facets_narrow_and_chips_widen(client: Client) -> None:
    make_search_world()
    page = client.get("/search/", {"q": "zebra kind:check"})
    facets = {facet["name"]: values for facet, values in page.context["listed"]}
    assert [(each["value"], each["count"], url) for each, url in facets["kind"]] == [("check", 1, "")]
    ((_, url),) = facets["is"]
    assert client.get(url).context["query"] == "is:failed zebra kind:check"
    assert page.context["chips"] == [("kind:check", "/search/?q=zebra")]


def test_it_asks_the_database_as_often_for_many_hits_as_for_few(client: Client) -> None:
    world = make_search_world()

    def make(count: int) -> None:
        for _ in range(count):
            trial = make_trial(world.failed.episode, success=False)
            record_steps(trial.counting_attempt(), [step(1, "a gnu", "ls", "gnu " * 20_000)])
        index_waiting()

    assert_queries_flat(client, "/search/?q=gnu", make)
    client.get("/search/?q=cells+or")  # the examples of an empty answer are found once
    assert_queries_flat(client, "/search/?q=cells+or", lambda count: [make_trial() for _ in range(count)])


def test_pages_follow_one_another(client: Client) -> None:
    run = make_run()
    for number in range(45):
        trial = make_trial(make_unordered_episode(run))
        record_steps(trial.counting_attempt(), [step(1, f"gnu {number}")])
    index_waiting()
    seen, url = [], "/search.json?q=gnu"
    while url:
        data = client.get(url).json()
        assert data["total"] == 45
        seen += [hit["trial"] for hit in data["hits"]]
        url = data["next"]
    assert len(set(seen)) == len(seen) == 45


def test_pages_go_on_behind_what_is_counted_at_once(client: Client) -> None:
    run = make_run()
    for number in range(45):
        trial = make_trial(make_unordered_episode(run))
        record_steps(trial.counting_attempt(), [step(1, f"gnu {number} " + "gnu " * (number % 3))])
    index_waiting()
    with patch("benchapp.search.search_hits.MOST", 30):
        page = client.get("/search/?q=gnu").text
        assert "More than 30 hits, best match first. The counts are of the first 30." in page
        assert "The hits after these" not in page
        page = client.get("/search/?q=gnu&page=2").text
        onward = unescape(page.partition('data-key="&gt;" href="')[2].partition('"')[0])
        page = client.get(f"/search/{onward}").text
        assert "The next 15 hits, best match first. The counts are of these." in page
        assert "The hits after these" not in page
        assert "The first hits" in page
        seen, url = [], "/search.json?q=gnu"
        while url:
            data = client.get(url).json()
            assert data["capped"] == (len(seen) < 30)
            seen += [hit["trial"] for hit in data["hits"]]
            url = data["next"]
    assert len(set(seen)) == len(seen) == 45
    assert client.get("/search/?q=gnu&after=x").status_code == 200


# --- blind reviewers ------------------------------------------------------------------------------------------------


def test_a_blind_reviewer_finds_nothing_that_closed_pages_show(client: Client) -> None:
    world = make_search_world()
    other = make_trial(make_unordered_episode(make_run()), success=False)
    record_steps(other.counting_attempt(), [step(1, "another zebra")])
    index_waiting()
    assert {hit["kind"] for hit in hits(client, "zebra")} == {"check", "decision", "note", "step"}
    queue = make_queue([world.failed], reviewers=[local_user()])
    found = hits(client, "zebra")
    assert [(hit["kind"], hit["trial"]) for hit in found] == [("step", str(other.public_id))]
    data = client.get("/search.json?q=condition:selfgen-*+-nothing").json()
    assert str(world.failed.public_id) not in str(data)
    assert SKILL.split()[2] not in str(client.get("/palette/?q=csv").json())
    make_review(queue.items.get(), local_user(), ["misapplied"])
    assert {hit["kind"] for hit in hits(client, "zebra")} == {"check", "decision", "note", "step"}


def test_a_blind_reviewer_of_a_trial_finds_no_trial_of_its_task_in_any_run(client: Client) -> None:
    world = make_search_world()
    twin = make_trial(make_unordered_episode(make_run()), world.failed.task, success=True)
    record_steps(twin.counting_attempt(), [step(1, "twin walrus")])
    index_waiting()
    assert len(hits(client, "walrus")) == 1
    make_queue([world.failed], reviewers=[local_user()])
    assert hits(client, "walrus") == []


def test_it_is_open_to_whoever_may_read(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    make_search_world()
    assert client.get("/search.json?q=zebra").status_code == 401
    client.force_login(User.objects.create_user("vera", level=User.Level.VIEWER))
    assert len(hits(client, "zebra")) == 3


def test_facets_name_values_as_pages_do_and_keep_the_words_of_the_language_in_their_links(client: Client) -> None:
    make_search_world()
    page = client.get("/search/", {"q": "zebra"}).text
    assert 'title="condition:selfgen-always">Self-written, always revised</a>' in page
    assert 'title="role:adversarial">trap</a>' in page
    assert 'title="kind:check">checks</a>' in page
    assert client.get("/search.json", {"q": "zebra"}).json()["facets"]["condition"] == {"selfgen-always": 3}


def test_it_says_that_probes_come_last_where_there_are_some(client: Client) -> None:
    make_search_world()
    assert "3 hits, best match first." in client.get("/search/", {"q": "zebra"}).text
    trial = make_trial(make_unordered_episode(make_run(condition="library-probe")))
    record_steps(trial.counting_attempt(), [step(1, "A zebra.")])
    index_waiting()
    assert "4 hits, best match first, probes last." in client.get("/search/", {"q": "zebra"}).text
    assert "1 hit, best match first." in client.get("/search/", {"q": "condition:library-probe zebra"}).text


def test_only_examples_that_find_something_are_offered(client: Client) -> None:
    make_search_world()
    page = client.get("/search/").text
    offered = re.findall(r'<li><a href="[^"]*"><code>([^<]*)</code>', page)
    assert "role:trap failed" in offered
    assert "kind:decision trial" not in offered
    for text in offered:
        assert hits(client, unescape(text)), text


def test_an_example_is_shown_where_nothing_is_recorded_yet(client: Client) -> None:
    assert "<code>role:trap failed</code>" in client.get("/search/").text


def test_hits_with_the_same_text_are_one_with_the_others_below_it(client: Client) -> None:
    episode = make_unordered_episode(make_run())
    for _ in range(3):
        record_steps(make_trial(episode).counting_attempt(), [step(1, "I tidy up after myself.")])
    record_steps(make_trial(episode).counting_attempt(), [step(1, "Others tidy up.")])
    index_waiting()
    page = client.get("/search/", {"q": "tidy up"}).text
    assert page.count('<li class="hit ') == 2
    assert "and 2 more like it on this page" in page
    assert len(hits(client, "tidy up")) == 4


@pytest.mark.parametrize("role", ["trap", "Trap", "adversarial"])
def test_a_role_is_found_by_the_word_of_the_pages_too(client: Client, role: str) -> None:
    make_search_world()
    assert hits(client, f"role:{role} zebra") == hits(client, "role:adversarial zebra") != []


def test_a_probe_is_called_so_and_not_by_its_key(client: Client) -> None:
    trial = make_trial(make_unordered_episode(make_run(condition="library-probe")))
    record_steps(trial.counting_attempt(), [step(1, "A zebra.")])
    index_waiting()
    page = client.get("/search/", {"q": "zebra"}).text
    assert 'title="condition:library-probe">Probe of a library</a>' in page
