from __future__ import annotations

from typing import Any

import orjson
import pytest
from django.test import Client

from benchapp.exports.dictionary import EXPORTS
from benchapp.models import Comparison, Experiment, User
from benchapp.stats.comparing.effects import Effect
from tests.queries import assert_queries_flat
from tests.worlds.factories import make_experiment, make_learning_run, make_suite, make_user

pytestmark = pytest.mark.django_db

BASELINE = (True, False, False, True, False, False, True, False, False)


def make_pair(**fields: object) -> Experiment:
    experiment = make_experiment(suite=make_suite(environments=2, families=1), **fields)
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=BASELINE)
    make_learning_run(experiment, condition="selfgen-always")
    return experiment


def save(client: Client, query: str = "", **fields: object) -> Comparison:
    given = {"name": "A pair", "metrics": ["ESR"], **fields}
    given["understood"] = " ".join(given["metrics"])
    response = client.post(f"/comparisons/save/?{query}", given)
    assert response.status_code == 302, response.text
    found = Comparison.objects.latest("id")
    assert response.headers["Location"] == found.get_absolute_url()
    return found


def test_it_saves_the_choices_pinned_with_their_fingerprint(client: Client, settings: Any) -> None:
    make_pair()
    settings.SINGLE_USER = False
    client.force_login(make_user(username="ada", level=User.Level.REVIEWER))
    saved = save(client, "condition=no-skill&condition=selfgen-always&baseline=no-skill", metrics=["ESR", "LSR"])
    assert saved.query.startswith("condition=no-skill&condition=selfgen-always&as_of=")
    assert saved.query.endswith(f"seen={saved.fingerprint}")
    assert (saved.name, saved.metrics) == ("A pair", ["ESR", "LSR"])
    assert saved.created_by is not None
    assert saved.created_by.username == "ada"


def test_the_form_proposes_esr_and_says_what_it_would_declare(client: Client) -> None:
    make_pair()
    text = client.get("/comparisons/save/?condition=no-skill&condition=selfgen-always").text
    ticked = [line for line in text.splitlines() if 'name="metrics"' in line and "checked" in line]
    assert len(ticked) == 1
    assert 'value="ESR"' in ticked[0]
    assert "2 runs in 2 groups. Compares 1 with no skill" in text


def make_several(conditions: int, episodes: int) -> None:
    experiment = make_experiment(suite=make_suite(environments=episodes, families=1))
    for number in range(conditions):
        make_learning_run(experiment, condition=f"curated-static@{number}" if number else "no-skill", outcomes=BASELINE)


TWO = "2 episodes with one replicate show too little of it. More episodes, or two replicates of each condition, would."


def test_a_set_that_can_find_nothing_is_saved_only_after_the_form_said_so(client: Client) -> None:
    make_several(conditions=3, episodes=2)
    asked = {"name": "Two", "metrics": ["ESR"]}
    assert TWO in client.get("/comparisons/save/").text
    response = client.post("/comparisons/save/", asked)
    assert (response.status_code, Comparison.objects.count()) == (400, 0)
    assert TWO in response.text
    other = client.post("/comparisons/save/", {**asked, "metrics": ["ESR", "LSR"], "understood": "ESR"})
    assert (other.status_code, Comparison.objects.count()) == (400, 0), "what was said was said of another set"
    saved = client.post("/comparisons/save/", {**asked, "understood": "ESR"}).headers["Location"]
    assert TWO in client.get(saved).text
    assert TWO in client.get(f"{saved}report/").text
    assert (
        client.get(f"{saved.rstrip('/')}.json")
        .json()["futile"]
        .startswith("No result here could be distinguished from chance")
    )


def test_a_set_that_can_find_something_is_saved_at_once(client: Client) -> None:
    make_several(conditions=4, episodes=3)
    assert "could be distinguished from chance" not in client.get("/comparisons/save/").text
    saved = client.post("/comparisons/save/", {"name": "Three", "metrics": ["ESR"]}).headers["Location"]
    assert client.get(f"{saved.rstrip('/')}.json").json()["futile"] is None


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"name": ""}, "Give it a name"),
        ({"metrics": []}, "Choose at least one metric"),
        ({"metrics": ["XSR"]}, "Select a valid choice"),
        ({"name": "x" * 201}, "at most 200 characters"),
    ],
)
def test_it_saves_nothing_that_is_not_whole(client: Client, fields: dict[str, object], says: str) -> None:
    make_pair()
    response = client.post("/comparisons/save/", {"name": "A pair", "metrics": ["ESR"], **fields})
    assert response.status_code == 400
    assert says in response.text
    assert not Comparison.objects.exists()


def test_it_saves_no_address_that_it_does_not_understand(client: Client) -> None:
    make_pair()
    response = client.post("/comparisons/save/?replicate=one", {"name": "A pair", "metrics": ["ESR"]})
    assert response.status_code == 400
    assert "replicate:" in response.text
    assert not Comparison.objects.exists()


def test_it_takes_no_post_from_elsewhere() -> None:
    make_pair()
    strict = Client(enforce_csrf_checks=True)
    assert strict.post("/comparisons/save/", {"name": "A pair", "metrics": ["ESR"]}).status_code == 403


def test_nothing_edits_or_deletes_one(client: Client) -> None:
    make_pair()
    saved = save(client)
    for method in (client.post, client.put, client.patch, client.delete):
        assert method(saved.get_absolute_url()).status_code == 405
    assert Comparison.objects.count() == 1


def test_it_shows_each_declared_difference_with_its_corrected_p(client: Client) -> None:
    make_pair()
    saved = save(client, metrics=["ESR", "LSR"])
    data = client.get(f"/comparisons/{saved.public_id}.json").json()
    assert (data["declared"], data["tested"], data["moved_on"]) == (2, 0, []), "one episode is too small to test"
    for each in data["differences"]:
        assert each["difference"]["comparisons"] == 2
        assert each["group"].startswith("selfgen-always")
        assert each["p_holm"] is None
        name = {"ESR": "Deployment", "LSR": "Acquisition"}[each["metric"]]
        told = f"{name} success: Self-written, always revised solved"
        assert each["sentence"].startswith(told)
    text = client.get(saved.get_absolute_url()).text
    assert data["differences"][0]["sentence"].split(":")[2].split(";")[0].strip() in text
    assert Effect.TOO_SMALL.words in text


def test_it_announces_what_came_later(client: Client) -> None:
    experiment = make_pair()
    saved = save(client)
    make_learning_run(experiment, condition="raw-trajectory", author_model="")
    data = client.get(f"/comparisons/{saved.public_id}.json").json()
    assert data["declared"] == 1
    (sentence,) = data["moved_on"]
    assert "1 run that matches" in sentence
    assert sentence in client.get(saved.get_absolute_url()).text


def test_it_names_a_scripted_model(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(experiment, condition="no-skill", scripted=True)
    saved = save(client)
    assert "scripted model" in client.get(saved.get_absolute_url()).text
    assert client.get(f"/comparisons/{saved.public_id}.json").json()["scripted"] is True


def test_its_export_holds_the_corrected_p_values(client: Client) -> None:
    make_pair()
    saved = save(client, metrics=["ESR", "LSR"])
    response = client.get(f"/comparisons/{saved.public_id}/differences.json")
    data = orjson.loads(b"".join(response.streaming_content))
    assert data["declared_together"] == ["ESR", "LSR"]
    by_metric = {row["metric"]: row for row in data["rows"]}
    assert {key: row["comparisons"] for key, row in by_metric.items()} == {
        key: 2 if key in ("ESR", "LSR") else 1 for key in by_metric
    }
    assert client.get(f"/comparisons/{saved.public_id}/differences.xlsx").status_code == 404


def test_it_lists_them_newest_first(client: Client) -> None:
    assert "Nothing was saved yet" in client.get("/comparisons/").text
    make_pair()
    first, second = save(client, name="<i>first</i>"), save(client, name="second")
    data = client.get("/comparisons.json").json()
    assert [each["id"] for each in data["comparisons"]] == [str(second.public_id), str(first.public_id)]
    assert "<i>first" not in client.get("/comparisons/").text


def test_the_list_asks_no_more_of_the_database_for_more(client: Client) -> None:
    def make(count: int) -> None:
        for number in range(count):
            Comparison.objects.create(name=str(number), query="", metrics=["ESR"], created_by=make_user())

    assert assert_queries_flat(client, "/comparisons/", make) <= 3


# --- exports by their address ---------------------------------------------------------------------------------------


def test_it_knows_no_other_file(client: Client) -> None:
    assert client.get("/compare/export/secrets.csv").status_code == 404
    assert client.get("/compare/export/trials.xlsx").status_code == 404


def test_the_latex_table_has_the_address_of_an_export(client: Client) -> None:
    make_pair()
    response = client.get("/compare/export/table.tex?condition=no-skill")
    assert response.headers["Content-Type"].startswith("application/x-tex")
    assert r"\begin{tabular}" in response.text
    assert "selfgen-always" not in response.text
    assert client.get("/compare/export/table.tex?conditon=no-skill").status_code == 400


def test_it_shows_every_column_on_the_page_and_in_its_twin(client: Client) -> None:
    text, data = client.get("/compare/dictionary/").text, client.get("/compare/dictionary.json").json()
    for what, fields in EXPORTS.items():
        assert data["exports"][what]["columns"] == [field.as_json() for field in fields]
        for field in fields:
            assert f"<code>{field.name}</code>" in text
