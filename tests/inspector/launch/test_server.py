"""`/launch/server/`: a worker tries a server, the page shows each answer, and a preset is stored and selected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django_rq
import pytest
import yaml
from django.test import Client
from rq import SimpleWorker

from benchapp.experiments.work import tryouts
from benchapp.models import User
from runner.models.presets import read_preset_named
from tests.providers.home_server import HomeServer
from tests.providers.live_streams import running_broker
from tests.worlds.factories import make_user

pytestmark = pytest.mark.django_db

KEY = "key-of-the-test-0123456789"


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with running_broker(tmp_path / "valkey", monkeypatch) as url:
        yield url


@pytest.fixture
def home(broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HomeServer]:
    monkeypatch.setenv("SKILLGLASS_VAR", str(tmp_path / "var"))
    monkeypatch.delenv("SKILLGLASS_PRESETS", raising=False)
    monkeypatch.setenv("HOME_SERVER_PASS", KEY)
    found = HomeServer({"id": "acme/Tiny-1", "owned_by": "vllm", "max_model_len": 8_192}, {"id": "other"})
    yield found
    found.close()


def work() -> None:
    queue = django_rq.get_queue()
    SimpleWorker([queue], connection=queue.connection).work(burst=True)


def try_it(client: Client, **sent: str) -> str:
    """The address of the page that shows the answers."""
    response = client.post("/launch/server/", sent)
    assert response.status_code == 302, response.text
    return str(response["Location"])


def test_a_server_is_tried_by_a_worker_and_shown_answer_by_answer(client: Client, home: HomeServer) -> None:
    shown = try_it(client, address=home.url, key_variable="HOME_SERVER_PASS")
    assert home.asked == [], "this process makes no call"
    page = client.get(shown).text
    assert 'hx-trigger="every 2s"' in page
    assert "Store and select" not in page
    work()
    page = client.get(shown).text
    assert "every 2s" not in page
    assert "It serves acme/Tiny-1, other (vLLM)" in page
    assert "8,192 tokens, as the server says" in page
    assert 'value="tiny-1"' in page
    twin = client.get(shown.replace("/launch/server/", "/launch/server.json")).json()["tried"]
    assert [answer["passed"] for answer in twin["answers"]] == [True] * 6
    assert twin["preset"]["context_window"] == 8_192
    assert KEY not in page + str(twin)


def test_what_was_tried_is_stored_once_and_selected(client: Client, home: HomeServer, tmp_path: Path) -> None:
    home.json_mode = False
    shown = try_it(client, address=home.url, key_variable="HOME_SERVER_PASS")
    work()
    stored = client.post(shown, {"act": "store", "name": "house"})
    assert stored["Location"] == "/launch/?model=house"
    text = (tmp_path / "var" / "presets" / "house.yaml").read_text()
    assert KEY not in text
    assert yaml.safe_load(text) == {
        "provider": "own server",
        "agent_model": "acme/Tiny-1",
        "host_model": "openai/acme/Tiny-1",
        "api_base": home.url,
        "key_variable": "HOME_SERVER_PASS",
        "context_window": 8_192,
        "options": {"response_format": None},
        "note": "Stored by /launch/server/ after trying it: vLLM; it calls tools.",
    }
    assert read_preset_named("house").context_window == 8_192
    page = client.get("/launch/?model=house").text
    assert "agent_models: [house]" in page
    assert "author_models: [house]" in page
    again = client.post(shown, {"act": "store", "name": "house"})
    assert again.status_code == 422
    assert "exists already" in again.text


def test_slots_that_a_server_tells_are_stored(client: Client, home: HomeServer, tmp_path: Path) -> None:
    home.pages["/v1/models"] = {"data": [{"id": "tiny", "owned_by": "llamacpp"}]}
    home.pages["/props"] = {"total_slots": 4, "default_generation_settings": {"n_ctx": 8_192}}
    shown = try_it(client, address=home.url)
    work()
    client.post(shown, {"act": "store", "name": "house"})
    assert read_preset_named("house").endpoint().at_a_time == 4


@pytest.mark.parametrize("name", ["../up", "A", "", "x" * 60, "gpt-5.4"])
def test_a_name_that_no_preset_may_have_is_refused(client: Client, home: HomeServer, tmp_path: Path, name: str) -> None:
    shown = try_it(client, address=home.url)
    work()
    assert client.post(shown, {"act": "store", "name": name}).status_code == 422
    assert not list(tmp_path.rglob("*.yaml"))


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ({}, "Give the server&#x27;s address"),
        ({"address": "file:///etc/passwd"}, "expected an address such as"),
        ({"address": "http://me:pass@x/v1"}, "without user, password"),
        ({"address": "http://x/v1", "key_variable": "sk-proj-4fT9xQ2LmZ8vB1nC"}, "expected the NAME"),
        ({"preset": "no-such"}, "there is no preset"),
    ],
)
def test_what_cannot_be_tried_is_told_at_once_and_quotes_no_key(client: Client, sent: Any, told: str) -> None:
    response = client.post("/launch/server/", sent)
    assert response.status_code == 422
    assert told in response.text
    assert response.text.count("4fT9xQ2LmZ8vB1nC") == ("key_variable" in sent), "only in the field it was typed into"


def test_a_server_that_is_not_there_is_told_and_offers_no_preset(client: Client, home: HomeServer) -> None:
    home.close()
    shown = try_it(client, address=home.url)
    work()
    page = client.get(shown).text
    assert "nobody listens there" in page
    assert "Store and select" not in page
    assert client.post(shown, {"act": "store", "name": "house"}).status_code == 409


def test_what_a_server_says_is_escaped(client: Client, home: HomeServer) -> None:
    home.pages["/v1/models"] = {"data": [{"id": "<script>x</script>"}]}
    shown = try_it(client, address=home.url)
    work()
    assert "<script>x" not in client.get(shown).text


def test_only_operators_try_and_store(client: Client, settings: Any, home: HomeServer) -> None:
    settings.SINGLE_USER = False
    client.force_login(make_user(level=User.Level.REVIEWER))
    assert client.post("/launch/server/", {"address": home.url}).status_code == 403
    assert "Only operators try models" in client.get("/launch/server/").text
    assert django_rq.get_queue().count == 0


def test_an_id_of_another_job_shows_nothing(client: Client, home: HomeServer) -> None:
    job = django_rq.get_queue().enqueue(print, "x")
    page = client.get(f"/launch/server/?tried={job.id}").text
    assert "no longer kept" in page


def test_without_a_broker_the_page_names_the_command(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tryouts.django_rq, "get_queue", _raise)
    response = client.post("/launch/server/", {"address": "http://127.0.0.1:9/v1"})
    assert response.status_code == 503
    assert "manage.py presets --url ADDRESS" in response.text


def _raise() -> None:
    raise OSError("no broker")
