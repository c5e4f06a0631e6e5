"""The client against a live server, and the same rows out of an archive."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

import skillglass
from benchapp.imports.batch import import_paths
from benchapp.imports.shipped_example import FOLDER
from benchapp.models import User
from benchapp.people.accounts import make_token
from skillglass import ServedRecord, record_columns
from tests.conftest import require
from tests.worlds.factories import make_experiment

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = FOLDER / "example.tar.zst"
DOCUMENT = (ROOT / "docs" / "how-to" / "python.md").read_text()
HAS_PANDAS = importlib.util.find_spec("pandas") is not None


PLAIN = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}


@pytest.fixture(autouse=True)
def plain_static_files(settings: Any) -> None:
    """The form to log in has a style."""
    settings.STORAGES = {**settings.STORAGES, "staticfiles": PLAIN}


@pytest.fixture
def served(live_server: LiveServer) -> ServedRecord:
    import_paths([ARCHIVE])
    return ServedRecord(live_server.url)


def cut_times(row: dict[str, Any]) -> dict[str, Any]:
    """A twin writes milliseconds."""
    return row | {name: row[name][:23] for name in ("started_at", "finished_at")}


def by(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda each: str(each[name]))


def test_an_archive_gives_the_rows_that_its_import_serves(served: ServedRecord) -> None:
    archive = skillglass.open(ARCHIVE)
    (experiment,) = served.experiments()
    assert list(map(cut_times, archive.experiments())) == [cut_times(experiment)]
    assert (experiment["runs"], experiment["trials"], experiment["trials_passed"]) == (16, 432, 221)
    key = experiment["experiment"]
    trials, decisions = served.trials(key), served.decisions(key)
    assert (len(trials), len(decisions)) == (432, 72)
    assert by("decision", archive.decisions(key)) == by("decision", decisions)
    assert by("trial", archive.trials(key)) == by("trial", [{**each, "settled_at": None} for each in trials])
    for one, other in ((archive.trials(), trials), (archive.decisions(), decisions)):
        assert one.columns == other.columns
        assert list(one[0]) == list(other[0]) == list(one.columns)
    assert {each["after_success"] for each in decisions} == {None, True, False}


def test_metrics_and_choices_are_those_of_the_exports(served: ServedRecord) -> None:
    (experiment,) = served.experiments(q="four ways")
    found = {each["condition"]: each for each in served.metrics(experiment["experiment"]) if each["metric"] == "ESR"}
    assert (found["selfgen-always"]["passed"], found["selfgen-always"]["scored"]) == (33, 48)
    (difference,) = (
        each
        for each in served.differences(experiment["experiment"], condition=["no-skill", "selfgen-always"])
        if each["metric"] == "ESR"
    )
    assert difference["condition"] == "selfgen-always"
    assert difference["delta"] == pytest.approx(15 / 48)
    assert {each["phase"] for each in served.trials(phase="deployment")} == {"deployment"}
    with pytest.raises(skillglass.RecordError, match="400.*phases: no such choice"):
        served.trials(phases="deployment")


def test_every_page_of_a_list_is_read(live_server: LiveServer) -> None:
    for number in range(60):
        make_experiment(name=f"number {number}")
    assert len(ServedRecord(live_server.url).experiments()) == 60


def test_the_document_runs_as_it_stands(
    served: ServedRecord, live_server: LiveServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require(HAS_PANDAS, "pandas, for data frames")
    monkeypatch.chdir(FOLDER)
    known: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL):
        exec(block.replace("http://127.0.0.1:8000", live_server.url), known)  # noqa: S102
    told = capsys.readouterr().out
    assert "Example: four ways to remember (scripted) 221 of 432" in told
    assert "selfgen-always 33 of 48" in told


# --- frames -----------------------------------------------------------------------------------------------------


def test_a_frame_keeps_types_and_what_is_missing() -> None:
    require(HAS_PANDAS, "pandas, for data frames")
    frame = skillglass.open(ARCHIVE).trials().frame()
    kinds = {name: str(frame[name].dtype) for name in ("success", "steps", "cost_usd", "finished_at", "settled_at")}
    assert kinds["success"] == "boolean"
    assert (kinds["steps"], kinds["cost_usd"]) == ("Int64", "float64")
    assert kinds["finished_at"].startswith("datetime64[")
    assert kinds["finished_at"].endswith(", UTC]")
    assert frame.cost_usd.isna().all()
    assert int(frame.success.sum()) == 221
    nothing = skillglass.RecordRows([], record_columns.DECISIONS).frame()
    assert list(nothing.columns) == list(record_columns.DECISIONS)


def test_a_frame_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        skillglass.RecordRows([], {}).frame()


def test_the_client_loads_neither_django_nor_a_layer() -> None:
    code = "import skillglass, sys; print(sorted({'django', 'benchapp', 'runner', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- who asks ---------------------------------------------------------------------------------------------------


def test_an_installation_with_accounts_asks_for_one(live_server: LiveServer, settings: Any) -> None:
    settings.SINGLE_USER = False
    User.objects.create_user("ada", password="a-long-password")
    with pytest.raises(
        skillglass.RecordError, match=r"expected a token that works: skillglass.open\(address, token=...\)"
    ):
        skillglass.open(live_server.url).experiments()
    with pytest.raises(skillglass.RecordError, match="ada is not known by this password") as told:
        skillglass.open(live_server.url, "ada", "something-else")
    assert "something-else" not in str(told.value)
    assert skillglass.open(live_server.url, "ada", "a-long-password").experiments() == []
    _, token = make_token(User.objects.get(username="ada"), "notebook", "read")
    assert skillglass.open(live_server.url, token=token).experiments() == []
    with pytest.raises(skillglass.RecordError, match="unknown or revoked|a token that works") as told:
        skillglass.open(live_server.url, token=f"{token}x").experiments()
    assert token not in str(told.value)


@contextmanager
def answering(status: int, content: bytes = b"", **headers: str) -> Iterator[tuple[str, list[str]]]:
    """A server that answers so, and what it was asked: the request line and the headers."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.requestline}\n{self.headers}")
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()


def test_nothing_is_sent_where_a_redirect_leads() -> None:
    """Not to another port of this host either, to which the session's cookie would be sent."""
    with answering(200, b'{"experiments": [], "next": null}') as (elsewhere, asked):
        leads = {"Location": f"{elsewhere}/index.json", "Set_Cookie": "csrftoken=abc; Path=/"}
        with answering(302, **leads) as (address, _):
            with pytest.raises(skillglass.RecordError, match="leads to .*, and nothing is sent there"):
                skillglass.open(address).experiments()
            with pytest.raises(skillglass.RecordError, match="leads to"):
                skillglass.open(address, "ada", "a-long-password")
        assert asked == []


@pytest.mark.parametrize("address", ["ftp://127.0.0.1", "http://", "http://ada:secret@127.0.0.1:8000"])
def test_an_address_that_is_none_is_told_without_its_secret(address: str) -> None:
    with pytest.raises(skillglass.RecordError, match="expected http://HOST or https://HOST") as told:
        skillglass.open(address)
    assert "secret" not in str(told.value)


def test_other_servers_and_none_are_told_by_address(live_server: LiveServer) -> None:
    for content in (b"<html>", b"[" * 100_000, b"[]", b'{"experiments": []}'):
        with answering(200, content) as (address, _), pytest.raises(skillglass.RecordError, match="expected JSON"):
            skillglass.open(address).experiments()
    with pytest.raises(skillglass.RecordError, match="does not answer"):
        skillglass.open(address).experiments()
    with pytest.raises(skillglass.RecordError, match=r"/experiments/.*\.json.*answered 404"):
        skillglass.open(live_server.url).decisions("00000000-0000-0000-0000-000000000000")
