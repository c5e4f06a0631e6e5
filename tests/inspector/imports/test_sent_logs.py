"""Programs send run logs while they write them: each byte arrives once, also after cuts, and the record is updated."""

from __future__ import annotations

import json
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

import skillglass
from benchapp.imports import sent_logs
from benchapp.imports.batch import import_paths
from benchapp.imports.upload_import import import_upload, tend_uploads
from benchapp.models import Decision, Experiment, ImportBatch, Run, Trial, Upload, User
from benchapp.people.accounts import make_token
from skillglass.sending import RunSender
from tests.skillglass.test_run_log import SKILL, log_all, start
from tests.worlds.factories import make_user

pytestmark = pytest.mark.django_db
LOG = uuid.UUID("00000000-0000-4000-8000-000000000001")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sent_logs, "FOLDER", tmp_path / "run_logs")
    return tmp_path / "run_logs"


def make_sender(name: str = "lee", scope: str = "log") -> dict[str, str]:
    """Return the headers of an operator's program."""
    user = User.objects.filter(username=name).first() or make_user(username=name, level=User.Level.OPERATOR)
    return {"Accept": "application/json", "Authorization": f"Bearer {make_token(user, 'loop', scope)[1]}"}


def send(
    client: Client, parts: object, content: bytes, headers: dict[str, str] | None = None, log: uuid.UUID = LOG
) -> Any:
    body = json.dumps(parts).encode() + b"\n" + content
    return client.post(f"/imports/logs/{log}/", body, "application/octet-stream", headers=headers or make_sender())


def test_bytes_arrive_once(client: Client, folder: Path) -> None:
    headers = make_sender()
    blob = f"blobs/{'a' * 64}"
    assert send(client, [[blob, 0, 4]], b"abcd", headers).json() == {"files": {blob: 4}}
    assert send(client, [[blob, 0, 4]], b"abcd", headers).json() == {"files": {blob: 4}}, "sent twice"
    assert send(client, [[blob, 2, 4]], b"cdef", headers).json() == {"files": {blob: 6}}, "half of it is here"
    beyond = send(client, [[blob, 9, 1]], b"x", headers)
    assert (beyond.status_code, beyond.json()["error"]) == (409, f"{blob}: 6 bytes are here. Send on from there.")
    (kept,) = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    assert kept.read_bytes() == b"abcdef"
    answer = client.get(f"/imports/logs/{LOG}/", headers=headers).json()
    assert answer == {"files": {blob: 6}}
    assert client.get(f"/imports/logs/{LOG}/", headers=make_sender("kim")).json() == {"files": {}}, "another person's"
    assert Upload.objects.get().bytes_total == 6


@pytest.mark.parametrize(
    "path",
    [
        "../run.jsonl",
        "/etc/passwd",
        "blobs/../run.jsonl",
        "blobs/abc",
        "messages/.x.jsonl",
        "messages/a/b.jsonl",
        "lock",
        7,
    ],
)
def test_other_paths_are_refused(path: object, client: Client, folder: Path) -> None:
    answer = send(client, [[path, 0, 1]], b"x")
    assert answer.status_code == 422
    assert not [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        ([["run.jsonl", 0, 5]], b"abc"),
        ([["run.jsonl", 0, 2]], b"abc"),
        ([["run.jsonl", -1, 3]], b"abc"),
        ([["run.jsonl", 0, 0]], b""),
        ([["run.jsonl", 0]], b"abc"),
        ({"run.jsonl": 3}, b"abc"),
        ([], b""),
        ([["run.jsonl", 0, 2**62]], b"abc"),
    ],
)
def test_a_body_that_says_something_else_is_refused(parts: object, content: bytes, client: Client) -> None:
    assert send(client, parts, content).status_code in (413, 422)


def test_only_operators_and_tokens_for_logs_may_send(client: Client) -> None:
    reader = make_sender("lee", scope="read")
    assert send(client, [["run.jsonl", 0, 1]], b"x", reader).status_code == 403
    user = make_user(username="vic", level=User.Level.REVIEWER)
    headers = {"Authorization": f"Bearer {make_token(user, 'loop', 'read')[1]}", "Accept": "application/json"}
    assert send(client, [["run.jsonl", 0, 1]], b"x", headers).status_code == 403


def test_a_log_has_a_limit(client: Client, settings: Any) -> None:
    settings.UPLOAD_FILES = 2
    for number, status in enumerate((200, 200, 413)):
        assert (
            send(client, [[f"messages/{number}.jsonl", 0, 1]], b"x", log=uuid.uuid5(LOG, "files")).status_code == status
        )
    settings.UPLOAD_BYTES = 5
    assert send(client, [["run.jsonl", 0, 3]], b"abc").status_code == 200
    assert send(client, [["run.jsonl", 3, 3]], b"def").status_code == 413


def test_the_record_follows_a_run(live_server: LiveServer, tmp_path: Path) -> None:
    token = make_sender()["Authorization"].removeprefix("Bearer ")
    run = start(tmp_path, skills=SKILL)
    sender = RunSender(run.folder, live_server.url, token)
    with run.trial("a", "acquisition", id="a") as trial:
        trial.log({"role": "user", "content": "one"})
        trial.check("right", True)
    sender.send()
    row = Upload.objects.get()
    assert (row.title, row.state) == ("sorting, one", "waiting")
    import_upload(str(row.public_id))
    assert Trial.objects.get().success is True

    run.decision({"sort/SKILL.md": "new"}, evidence=[trial])
    run.finish()
    sender.send()
    row.refresh_from_db()
    assert row.state == "waiting", "it grew"
    import_upload(str(row.public_id))
    assert Decision.objects.count() == 1
    batch = ImportBatch.objects.get()
    assert (batch.paths, batch.counts["created"], batch.status) == (["sorting, one"], 2, "done"), "one import"
    assert sender.send() == 0
    assert RunSender(run.folder, live_server.url, token).send() == 0, "a new process asks what is there"


def test_what_arrives_while_it_is_read_is_read_again(client: Client, tmp_path: Path) -> None:
    log_all(tmp_path)
    content = (tmp_path / "one" / "run.jsonl").read_bytes()
    send(client, [["run.jsonl", 0, 200]], content[:200])
    row = Upload.objects.get()
    import_upload(str(row.public_id))
    Upload.objects.update(bytes_total=len(content), changed_at=timezone.now())  # the worker had begun before
    tend_uploads()
    row.refresh_from_db()
    assert row.state == "waiting"


def test_a_log_that_was_read_long_ago_leaves_the_disk(client: Client, tmp_path: Path, folder: Path) -> None:
    send(client, [["run.jsonl", 0, 2]], b"{}")
    import_upload(str(Upload.objects.get().public_id))
    Upload.objects.update(changed_at=timezone.now() - timedelta(days=9))
    tend_uploads()
    assert not Upload.objects.exists()
    assert not list(folder.rglob("run.jsonl"))


class Wire:
    """Passes connections on to a server, and cuts each one after so many bytes of the sender."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        self.target = (host, int(port))
        self.cuts: Iterator[int | None] = iter(())
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self.socket.accept()
                threading.Thread(target=self._pass, args=(here, next(self.cuts, None)), daemon=True).start()

    def _pass(self, here: socket.socket, left: int | None) -> None:
        with here, socket.create_connection(self.target) as there, suppress(OSError):
            threading.Thread(target=self._back, args=(there, here), daemon=True).start()
            while piece := here.recv(1_000):
                if left is not None and (left := left - len(piece)) < 0:
                    break
                there.sendall(piece)
            there.shutdown(socket.SHUT_RDWR)

    def _back(self, there: socket.socket, here: socket.socket) -> None:
        with suppress(OSError):
            while piece := there.recv(65_536):
                here.sendall(piece)
            here.shutdown(socket.SHUT_WR)


def test_a_sender_goes_on_after_cut_connections(
    live_server: LiveServer, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr("skillglass.sending.PAUSE", 0.05)
    monkeypatch.setattr("skillglass.sending.LONGEST_PAUSE", 0.1)
    wire = Wire(live_server.url)
    wire.cuts = iter([0, 900, 2_000, 5_000, 300, 40_000, 9_000, 0, 0])
    token = make_sender()["Authorization"].removeprefix("Bearer ")
    run = skillglass.start(
        "cut", condition="c", agent_model="m", folder=tmp_path, skills=SKILL, server=wire.url, token=token, name="one"
    )
    for number in range(40):
        with run.trial("t", "acquisition") as trial:
            trial.log({"role": "user", "content": "word " * 300})
            trial.end(success=number % 2 == 0)
    run.finish(seconds=60)
    told = capfd.readouterr().err
    assert "the run goes on, and what it logs is kept here" in told
    assert "not all was sent" not in told
    assert token not in told
    ours = {path.relative_to(run.folder): path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    (there,) = folder.glob("*/*")
    theirs = {
        path.relative_to(there): path.read_bytes()
        for path in there.rglob("*")
        if path.is_file() and path.name != "lock"
    }
    assert theirs == {path: content for path, content in ours.items() if content}


def test_a_server_that_is_away_costs_a_line(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillglass.sending.PAUSE", 0.05)
    run = start(tmp_path, server="http://127.0.0.1:1")
    with run.trial("t", "evaluation") as trial:
        trial.end(success=True)
    run.finish(seconds=0.2)
    told = capfd.readouterr().err
    assert told.count("does not answer") == 2
    assert f"skillglass sync {run.folder}" in told


def test_sync_sends_what_is_left(
    live_server: LiveServer, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    log_all(tmp_path / "runs")
    monkeypatch.setenv("SKILLGLASS_TOKEN", make_sender()["Authorization"].removeprefix("Bearer "))
    for said in ("bytes sent", "nothing left to send"):
        call_command("sync", str(tmp_path / "runs"), server=live_server.url)
        assert said in capsys.readouterr().out
    monkeypatch.setenv("SKILLGLASS_TOKEN", "wrong")
    with pytest.raises(CommandError, match="expected a token that works"):
        call_command("sync", str(tmp_path / "runs"), server=live_server.url)
    with pytest.raises(CommandError, match="there is no run log below it"):
        call_command("sync", str(tmp_path / "runs" / "one" / "blobs"), server=live_server.url)


def test_the_pages_of_a_run_that_grows_ask_again(client: Client, tmp_path: Path) -> None:
    log_all(tmp_path)
    first = import_paths([tmp_path])
    run = Run.objects.get()
    pages = [run.experiment.get_absolute_url(), run.get_absolute_url()]
    assert not any('hx-trigger="every 3s"' in client.get(page).content.decode() for page in pages)
    batch = ImportBatch.objects.get(public_id=first.batch)
    import_paths([tmp_path], continued=batch)
    assert all('hx-trigger="every 3s"' in client.get(page).content.decode() for page in pages)
    ImportBatch.objects.update(finished_at=timezone.now() - timedelta(hours=1))
    assert not any('hx-trigger="every 3s"' in client.get(page).content.decode() for page in pages)


def test_a_run_that_only_learned_is_told_by_round(tmp_path: Path, client: Client) -> None:
    """No metric covers its trials, so its page says how those of the author ended, with each library."""
    with start(tmp_path) as run:
        for number, passed in enumerate(([False, False], [True, False], [True, True])):
            for each in passed:
                with run.trial("t", "acquisition") as trial:
                    trial.end(success=each)
            status = "rejected" if number == 1 else "applied"
            run.decision({"sort/SKILL.md": f"round {number}"}, status=status)
    import_paths([tmp_path])
    page = Experiment.objects.get().get_absolute_url()
    (library,) = client.get(f"{page.rstrip('/')}.json").json()["libraries"]
    rounds = [(each["round"], each["passed"], each["scored"]) for each in library["rounds"]]
    assert rounds == [(0, 0, 2), (1, 3, 4)], "the rejected library had no trial"
    shown = client.get(page).content.decode()
    assert "Only trials that the author learned from: 3 of 6 passed." in shown
    assert "No metric covers" not in shown


def test_scores_without_a_verdict_are_told_by_task_and_condition(tmp_path: Path, client: Client) -> None:
    """A tool that only grades says no pass: its page showed that no metric covers a trial, and nothing else."""
    for condition, scores in {"old-skill": [0.5], "with-skills": [0.25, 0.875]}.items():
        with start(tmp_path, name=condition, condition=condition) as run:
            for score in scores:
                with run.trial("<b>sort</b>", "acquisition") as trial:
                    trial.end(success=None, reward=score)
    import_paths([tmp_path])
    page = Experiment.objects.get().get_absolute_url()
    rows = client.get(f"{page.rstrip('/')}.json").json()["scores"]
    told = [(row["condition"], row["first"], row["last"], row["best"], row["trials"]) for row in rows]
    assert sorted(told) == [("old-skill", 0.5, 0.5, 0.5, 1), ("with-skills", 0.25, 0.875, 0.875, 2)]
    shown = client.get(page).content.decode()
    assert "Scores without a verdict" in shown
    assert "0.875" in shown
    assert "<b>sort</b>" not in shown
    assert "No metric covers" not in shown


def show_two_conditions(folder: Path, client: Client, first: list[bool], second: list[bool]) -> str:
    """The experiment's page after an import of two iterations; of each task whether it was solved."""
    for condition, ends in {"with-skills@1": first, "with-skills@2": second}.items():
        with start(folder, name=condition.replace("@", "-"), condition=condition) as run:
            for number, success in enumerate(ends):
                with run.trial(f"task-{number}", "deployment") as trial:
                    trial.end(success=success)
    import_paths([folder])
    return client.get(Experiment.objects.get().get_absolute_url()).content.decode()


def test_the_best_of_several_groups_without_a_baseline_is_named(tmp_path: Path, client: Client) -> None:
    """ "2 of 2 tasks solved." over two conditions would read as if both had."""
    shown = show_two_conditions(tmp_path, client, [True, False], [True, True])
    assert "2 of 2" in shown
    assert "the most of 2 groups." in shown


def test_of_equal_groups_without_a_baseline_none_is_called_the_best(tmp_path: Path, client: Client) -> None:
    shown = show_two_conditions(tmp_path, client, [True, False], [False, True])
    assert "All 2 groups passed 50 % of instances each." in shown
    assert "the most of" not in shown
