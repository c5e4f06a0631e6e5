"""`/launch/server/`: a worker tries a server, the page shows each answer, and a preset is stored and selected."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import django_rq
import pytest
import yaml
from django.core.management import call_command
from django.test import Client
from rq import SimpleWorker

from benchapp.experiments.work import tryouts
from benchapp.experiments.work.progress import WorkerAtHand, Workforce
from benchapp.models import User
from inspector.pages.launch import server_view
from runner.engine.setup import describe_preset
from runner.models.presets import read_preset_named, store_preset
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
        "lacks": ["json"],
        "note": "Stored by /launch/server/ after trying it: vLLM; it calls tools.",
    }
    assert read_preset_named("house").context_window == 8_192
    page = client.get("/launch/?model=house").text
    assert "agent_models: [house]" in page
    assert "author_models: [house]" in page
    again = client.post(shown, {"act": "store", "name": "house"})
    assert again.status_code == 422
    assert "exists already" in again.text


def test_a_small_model_is_stored_under_a_name_that_says_so_unless_a_person_corrects_it(
    client: Client, home: HomeServer, tmp_path: Path
) -> None:
    home.pages["/v1/models"] = {
        "data": [{"id": "SmolLM2-135M.gguf", "meta": {"n_ctx": 2_048, "n_params": 134_515_008}}]
    }
    shown = try_it(client, address=home.url)
    work()
    page = client.get(shown).text
    assert '<input type="checkbox" name="small" checked>' in page
    assert "135M parameters" in page
    assert (
        client.post(shown, {"act": "store", "name": "smol", "small": "on"})["Location"] == "/launch/?model=small-smol"
    )
    assert client.post(shown, {"act": "store", "name": "smol"})["Location"] == "/launch/?model=smol"
    assert {path.stem for path in (tmp_path / "var" / "presets").iterdir()} == {"small-smol", "smol"}


def test_the_launch_says_what_the_test_of_a_server_did_not_find(
    client: Client, home: HomeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.tools, home.json_text = False, "[1]"
    shown = try_it(client, address=home.url)
    work()
    client.post(shown, {"act": "store", "name": "house"})
    notes = client.get("/launch.json?model=house").json()["checked"]["notes"]
    assert sorted(note for note in notes if note.startswith("house")) == [
        "house called no tool when it was tested, and the agent shell needs tools. Expect trials to end with "
        "NoToolCall.",
        "house did not keep to JSON when it was tested. Expect answers of the author that cannot be used.",
        "house takes 8,192 tokens in one call. Expect trials to end with ContextLimit, and authors to see less "
        "evidence.",
    ]
    out = StringIO()
    file = Path(str(os.environ["SKILLGLASS_VAR"])) / "experiment.yaml"
    file.write_text(client.get("/launch.json?model=house").json()["file"])
    call_command("run_experiment", str(file), "--dry-run", "--keys-elsewhere", stdout=out)
    assert "house called no tool when it was tested" in out.getvalue()


def test_what_a_test_found_changes_no_setup(home: HomeServer, tmp_path: Path) -> None:
    values = {"provider": "x", "agent_model": "m", "host_model": "openai/m", "api_base": home.url}
    store_preset("house", values)
    before = read_preset_named("house")
    (tmp_path / "var" / "presets" / "house.yaml").write_text(yaml.safe_dump({**values, "lacks": ["tools"]}))
    after = read_preset_named("house")
    assert (after.lacks, after.digest) == (("tools",), before.digest)
    assert describe_preset(after) == describe_preset(before)


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (["busy"], "The only worker is busy. The test starts as soon as one is free."),
        (["busy", "busy"], "All 2 workers are busy. The test starts as soon as one is free."),
        (["busy", "idle"], "It waits for a worker."),
    ],
)
def test_the_waiting_page_says_whether_a_worker_is_free(
    client: Client, home: HomeServer, monkeypatch: pytest.MonkeyPatch, states: list[str], said: str
) -> None:
    crew = Workforce(tuple(WorkerAtHand(f"w{n}", state, None, None) for n, state in enumerate(states)), 3)
    monkeypatch.setattr(server_view, "workforce", lambda: crew)
    shown = try_it(client, address=home.url)
    page = client.get(shown).text
    assert said in page
    assert "A worker tests it" not in page


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


@pytest.fixture
def operator(client: Client, settings: Any) -> User:
    settings.SINGLE_USER = False
    user = make_user(level=User.Level.OPERATOR)
    client.force_login(user)
    return user


def put_preset(tmp_path: Path, **values: str) -> None:
    folder = tmp_path / "var" / "presets"
    folder.mkdir(parents=True, exist_ok=True)
    whole = {"provider": "house", "agent_model": "any", "host_model": "openai/any", **values}
    (folder / "house-pair.yaml").write_text(yaml.safe_dump(whole))


@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "HOME_SERVER_PASS", "SECRET_KEY", "PATH", "GLM_API_KEY"])
def test_an_operator_may_not_send_any_variable_to_any_server(
    client: Client, operator: User, home: HomeServer, variable: str
) -> None:
    response = client.post("/launch/server/", {"address": home.url, "key_variable": variable})
    assert response.status_code == 422
    assert f"Only an admin may send {variable} to this server" in response.text
    assert django_rq.get_queue().count == 0


def test_an_operator_may_send_a_key_where_a_preset_sends_it(
    client: Client, operator: User, home: HomeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_preset(tmp_path, api_base=home.url + "/other/path", key_variable="HOME_SERVER_PASS")
    try_it(client, address=home.url, key_variable="HOME_SERVER_PASS")
    for elsewhere in (home.url.replace("http:", "https:"), "http://127.0.0.1:9/v1", home.url.replace("://", "://x.")):
        sent = {"address": elsewhere, "key_variable": "HOME_SERVER_PASS"}
        assert client.post("/launch/server/", sent).status_code == 422
    put_preset(tmp_path, api_base_variable="HOME_URL", key_variable="HOME_SERVER_PASS")
    sent = {"address": home.url, "key_variable": "HOME_SERVER_PASS"}
    assert client.post("/launch/server/", sent).status_code == 422
    monkeypatch.setenv("HOME_URL", home.url)
    try_it(client, **sent)


def test_an_operator_may_send_a_key_that_the_setting_lists(
    client: Client, operator: User, home: HomeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLGLASS_KEY_VARIABLES", "OTHER, HOME_SERVER_PASS")
    try_it(client, address=home.url, key_variable="HOME_SERVER_PASS")
    assert "SKILLGLASS_KEY_VARIABLES" in client.get("/launch/server/").text
    sent = {"address": home.url, "key_variable": "HOME_SERVER"}
    assert client.post("/launch/server/", sent).status_code == 422


def test_what_an_admin_tried_is_not_stored_by_an_operator(
    client: Client, settings: Any, home: HomeServer, tmp_path: Path
) -> None:
    settings.SINGLE_USER = False
    client.force_login(make_user(level=User.Level.ADMIN))
    shown = try_it(client, address=home.url, key_variable="HOME_SERVER_PASS")
    work()
    client.force_login(make_user(level=User.Level.OPERATOR))
    refused = client.post(shown, {"act": "store", "name": "house"})
    assert refused.status_code == 422
    assert "Only an admin may send HOME_SERVER_PASS" in refused.text
    assert not list(tmp_path.rglob("*.yaml"))


def test_a_server_that_repeats_the_key_shows_none_of_it(client: Client, home: HomeServer) -> None:
    home.pages["/v1/models"] = {"data": [{"id": KEY[:-1]}, {"id": KEY[::-1]}]}
    shown = try_it(client, address=home.url, key_variable="HOME_SERVER_PASS")
    work()
    page = client.get(shown).text + client.get(shown.replace("/launch/server/", "/launch/server.json")).text
    assert "[HOME_SERVER_PASS]" in page
    for part in (KEY[:-1], KEY[::-1]):
        assert part not in page


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
