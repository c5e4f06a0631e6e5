"""Files come in by pieces, whole or not at all, and what they hold is what the command would have imported."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import tarfile
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from benchapp.experiments.work.progress import WorkerAtHand, Workforce
from benchapp.imports import upload_import, uploads
from benchapp.imports.batch import import_paths
from benchapp.imports.upload_import import import_upload
from benchapp.models import Attempt, Experiment, ImportBatch, Trial, Upload, UploadFile, User
from benchapp.people.accounts import make_token
from benchapp.record.slices import SlicedWork
from inspector.pages.imports import upload_view
from inspector.web.access import local_user
from tests.benchapp.import_folders import job
from tests.cases import every
from tests.conftest import SHARED_DATA, require
from tests.uploading import begin, declare, finish, read_tree, send_body, send_piece, upload
from tests.worlds.factories import make_batch, make_user

pytestmark = pytest.mark.django_db
FILES = {"job/a.json": b"0123456789", "job/deep/b.txt": b"abc", "job/empty": b""}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(uploads, "FOLDER", tmp_path / "uploads")
    return tmp_path / "uploads"


def kept(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def start(client: Client, files: dict[str, bytes] = FILES) -> str:
    url: str = begin(client, files).json()["url"]
    return url


# --- what comes in ----------------------------------------------------------------------------------------------------


def test_a_folder_comes_in_as_by_the_command(client: Client, tmp_path: Path, folder: Path) -> None:
    sent = upload(client, read_tree(job(tmp_path / "first")))
    assert (sent.state, sent.batch.status, sent.batch.counts["trials"]) == ("done", "done", 3)
    assert sent.batch.paths == ["uploaded/first"]
    assert sent.batch.actor == sent.by
    text = client.get(f"/imports/?batch={sent.batch.public_id}").text
    assert "3 trials came in." in text
    assert str(tmp_path) not in text
    assert not any(path.is_file() for path in folder.rglob("*")), "the record has it: nothing stays"
    assert not UploadFile.objects.exists()


def test_the_same_folder_again_adds_nothing_by_whatever_way(client: Client, tmp_path: Path) -> None:
    tree = read_tree(job(tmp_path / "first"))
    upload(client, tree)
    again = upload(client, tree)
    assert (again.batch.counts["created"], again.batch.counts["unchanged"]) == (0, 3)
    report = import_paths([tmp_path / "first"])
    assert (report.counts["created"], report.counts["unchanged"]) == (0, 3)
    assert (Experiment.objects.count(), Trial.objects.count()) == (1, 3)


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["harbor", "skillsbench", "skilllearnbench"])
def test_real_folders_come_in_again_without_a_change(client: Client, name: str) -> None:
    require((SHARED_DATA / name).is_dir(), f"{SHARED_DATA / name} is not there")
    tree = read_tree(SHARED_DATA / name)
    first, again = upload(client, tree), upload(client, tree)
    assert first.batch.counts["created"] > 0
    assert (again.batch.counts["created"], again.batch.counts["changed"]) == (0, 0)
    before = Attempt.objects.count(), Experiment.objects.count()
    if name != "skilllearnbench":  # its trials go by the folder that they lie in
        import_paths([SHARED_DATA / name])
        assert (Attempt.objects.count(), Experiment.objects.count()) == before


def test_an_upload_of_another_folder_of_that_name_shows_only_its_own(client: Client, tmp_path: Path) -> None:
    upload(client, read_tree(job(tmp_path / "a" / "job")))
    call = {"job/notes.txt": b"nothing that is known"}
    other = upload(client, call)
    assert "Nothing came in" in client.get(f"/imports/?batch={other.batch.public_id}").text
    assert not Experiment.objects.brought_by(other.batch).exists()


def test_small_files_travel_together_and_a_file_in_pieces(client: Client, folder: Path) -> None:
    url = start(client)
    answer = send_piece(client, url, [[0, 0, 4], [1, 0, 3]], b"0123abc")
    assert dict(answer.json()["files"]) == {0: 4, 1: 3}
    assert send_piece(client, url, [[0, 4, 6]], b"456789").status_code == 200
    assert finish(client, url).json()["state"] == "waiting"
    assert kept(folder) == {"a.json": b"0123456789", "b.txt": b"abc", "empty": b""}


def test_files_are_private_and_keep_their_times(client: Client, folder: Path) -> None:
    sent = declare(client, [{"path": "job/deep/a", "size": 1, "modified": 1_700_000_000_000}]).json()
    send_piece(client, sent["url"], [[0, 0, 1]], b"x")
    finish(client, sent["url"])
    found = [folder, *folder.rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in found if path.is_dir()} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in found if path.is_file()} == {0o600}
    (file,) = (path for path in found if path.name == "a")
    assert file.stat().st_mtime == 1_700_000_000


# --- going on ---------------------------------------------------------------------------------------------------------


def test_the_same_files_chosen_again_go_on_where_they_stopped(client: Client) -> None:
    first = begin(client, FILES)
    send_piece(client, first.json()["url"], [[0, 0, 4]], b"0123")
    reordered = dict(reversed(FILES.items()))
    again = begin(client, reordered)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    assert again.json()["files"] == [[2, 0], [1, 0], [0, 4]]
    assert "job: 0.0 of 0.0 MB arrived. Choose the same again to continue." in client.get("/imports/").text
    assert begin(client, {**FILES, "job/b": b"1"}).json()["id"] != first.json()["id"]


def test_a_piece_whose_answer_was_lost_may_be_sent_again(client: Client, folder: Path) -> None:
    url = start(client)
    for _ in range(2):
        assert send_piece(client, url, [[0, 0, 4]], b"0123").json()["files"] == [[0, 4]]
    assert send_piece(client, url, [[0, 2, 8]], b"23456789").json()["files"] == [[0, 10]]
    assert kept(folder)["a.json"] == b"0123456789"


def test_a_full_disk_is_said_and_nothing_of_the_piece_counts(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = start(client)
    send_piece(client, url, [[0, 0, 4]], b"0123")
    with monkeypatch.context() as patched:

        def full(*_: object, **__: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        patched.setattr(os, "fdopen", full)
        answer = send_piece(client, url, [[1, 0, 3], [0, 4, 6]], b"abc456789")
    assert answer.status_code == 507
    assert "disk is full" in answer.json()["error"]
    assert list(UploadFile.objects.values_list("received", flat=True)) == [4, 0, 0]
    assert send_piece(client, url, [[1, 0, 3], [0, 4, 6]], b"abc456789").status_code == 200
    assert finish(client, url).status_code == 202


def test_an_upload_that_the_disk_has_no_room_for_is_not_begun(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "FREE_BYTES", 2**60)
    answer = begin(client, FILES)
    assert answer.status_code == 507
    assert not Upload.objects.exists()


# --- hostile input ----------------------------------------------------------------------------------------------------


@every(
    (None, 422),
    ([], 422),
    ("job/a", 422),
    ([{"path": "job/a"}], 422),
    ([{"path": "job/a", "size": -1}], 422),
    ([{"path": "job/a", "size": True}], 422),
    ([{"path": "job/a", "size": 1.5}], 422),
    ([{"path": "job/a", "size": 1, "modified": "now"}], 422),
    ([{"path": 7, "size": 1}], 422),
    ([{"path": "", "size": 1}], 422),
    ([{"path": "/etc/passwd", "size": 1}], 422),
    ([{"path": "../a", "size": 1}], 422),
    ([{"path": "job/../../a", "size": 1}], 422),
    ([{"path": "job/./a", "size": 1}], 422),
    ([{"path": "job//a", "size": 1}], 422),
    ([{"path": "job/", "size": 1}], 422),
    ([{"path": "C:/a", "size": 1}], 422),
    ([{"path": "c:a", "size": 1}], 422),
    ([{"path": "job\\..\\a", "size": 1}], 422),
    ([{"path": "job/a\x00.json", "size": 1}], 422),
    ([{"path": "job/a\nb", "size": 1}], 422),
    ([{"path": "job/\ud800", "size": 1}], 422),
    ([{"path": "job/" + "a" * 256, "size": 1}], 413),
    ([{"path": "job/" + "ä" * 128, "size": 1}], 413),
    ([{"path": "/".join("a" * 40), "size": 1}], 413),
    ([{"path": "job/" + "a/" * 300 + "a", "size": 1}], 413),
    ([{"path": "job/a", "size": 2**62}], 413),
    ([{"path": "job/a", "size": 2**40}], 413),
    ([{"path": "job/a", "size": 1}] * 2, 422),
    ([{"path": "job/a", "size": 1}, {"path": "job/A", "size": 1}], 422),
    ([{"path": "job/straße", "size": 1}, {"path": "job/STRASSE", "size": 1}], 422),
    ([{"path": "job/\u00e9", "size": 1}, {"path": "job/e\u0301", "size": 1}], 422),
    ([{"path": "job/a", "size": 1}, {"path": "Job/b", "size": 1}], 422),
    ([{"path": "job/a", "size": 1}, {"path": "job/a/b", "size": 1}], 422),
    ([{"path": "job/a/b", "size": 1}, {"path": "job/a", "size": 1}], 422),
    ([{"path": "a.json", "size": 1}, {"path": "files/a.json", "size": 1}], 422),
)
def test_a_hostile_list_is_refused_and_leaves_nothing(files: object, status: int, client: Client, folder: Path) -> None:
    answer = declare(client, files)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert not Upload.objects.exists()
    assert not kept(folder)


@every(b"", b"nonsense", b"[1]", b"[" * 100_000, b'"\xff"')
def test_a_list_that_is_no_json_is_refused(body: bytes, client: Client) -> None:
    answer = client.post("/imports/uploads/", body, "application/json", headers={"Accept": "application/json"})
    assert (answer.status_code, list(answer.json())) == (422, ["error"])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[[0, 0, 1]]", 422),  # no line ends
        (b"{}\n", 422),
        (b"[]\n", 422),
        (b"[" * 100_000 + b"\n", 422),
        (b"[[0, 0]]\nx", 422),
        (b"[[0, 0, 0]]\n", 422),
        (b"[[0, -1, 1]]\nx", 422),
        (b"[[0, 0, -1]]\n", 422),
        (b"[[true, 0, 1]]\nx", 422),
        (b'[["0", 0, 1]]\nx', 422),
        (b"[[0, 0, 4]]\n012", 422),  # shorter than it says
        (b"[[0, 0, 4]]\n01234", 422),  # longer
        (b"[[9, 0, 1]]\nx", 422),  # no such file
        (b"[[2, 0, 1]]\nx", 413),  # declared empty
        (b"[[0, 0, 11]]\n0123456789x", 413),  # beyond the declared size
        (b"[[0, 10, 1]]\nx", 413),
        (b"[[0, 4, 2]]\n45", 409),  # a hole before it
        (b"[[0, 0, 4], [0, 6, 2]]\n012367", 409),
        (b"[[0, 0, 99999999]]\n", 413),
        (json.dumps([[0, 0, 1]] * 1_001).encode() + b"\n" + b"x" * 1_001, 413),
    ],
)
def test_a_hostile_piece_is_refused_and_does_not_count(client: Client, body: bytes, status: int) -> None:
    url = start(client)
    answer = send_body(client, url, body)
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert sum(UploadFile.objects.values_list("received", flat=True)) in (0, 4)
    assert UploadFile.objects.get(number=1).received == 0


def test_a_piece_of_another_type_is_refused(client: Client) -> None:
    url = start(client)
    assert send_body(client, url, b"a=b", "application/x-www-form-urlencoded").status_code == 415


def test_an_upload_ends_only_with_all_its_bytes(client: Client, folder: Path) -> None:
    url = start(client)
    send_piece(client, url, [[0, 0, 4]], b"0123")
    answer = finish(client, url)
    assert answer.status_code == 409
    assert "2 files are not here whole: 'job/a.json', 'job/deep/b.txt'." in answer.json()["error"]
    send_piece(client, url, [[0, 4, 6], [1, 0, 3]], b"456789abc")
    next(folder.rglob("a.json")).write_bytes(b"cut")  # by whatever hand
    assert finish(client, url).status_code == 409
    send_piece(client, url, [[0, 0, 10]], b"0123456789")
    assert finish(client, url).status_code == 202
    assert finish(client, url).status_code == 202, "twice is as once"
    assert send_piece(client, url, [[0, 0, 1]], b"x").status_code == 409


def test_no_link_is_followed(client: Client, folder: Path, tmp_path: Path) -> None:
    url = start(client)
    send_piece(client, url, [[1, 0, 3]], b"abc")
    (tmp_path / "target").write_bytes(b"untouched")
    (next(folder.rglob("b.txt")).parent.parent / "a.json").symlink_to(tmp_path / "target")
    client.raise_request_exception = False
    assert send_piece(client, url, [[0, 0, 10]], b"0123456789").status_code == 500
    assert (tmp_path / "target").read_bytes() == b"untouched"


def test_the_limits_are_settings(client: Client, settings: Any) -> None:
    settings.UPLOAD_FILES, settings.UPLOAD_BYTES, settings.UPLOADS_OPEN, settings.UPLOAD_PATH_LENGTH = 2, 5, 1, 10
    for files in ({"a": b"1", "b": b"1", "c": b"1"}, {"a": b"123456"}, {"a" * 11: b"1"}):
        assert begin(client, files).status_code == 413
    assert begin(client, {"a": b"1"}).status_code == 201
    assert "At most 1 imports of yours may be under way." in begin(client, {"b": b"1"}).json()["error"]


# --- archives ---------------------------------------------------------------------------------------------------------


def pack(tree: dict[str, bytes], ending: str) -> bytes:
    made = io.BytesIO()
    if ending == ".zip":
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
            for path, content in tree.items():
                packed.writestr(path, content)
    else:
        with tarfile.open(fileobj=made, mode="w:gz") as tar:
            for path, content in tree.items():
                info = tarfile.TarInfo(path)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
def test_a_packed_folder_is_the_folder(client: Client, tmp_path: Path, ending: str) -> None:
    tree = read_tree(job(tmp_path / "first"))
    packed = upload(client, {f"anything{ending}": pack(tree, ending)})
    assert packed.batch.paths == ["uploaded/first"]
    assert packed.batch.counts["trials"] == 3
    assert upload(client, tree).batch.counts["created"] == 0


def test_a_packed_skill_is_shown_as_it_is(client: Client) -> None:
    packed = upload(client, {"sums.skill": pack({"sums/SKILL.md": b"# Sums\n", "sums/references/a.md": b"a"}, ".zip")})
    assert (packed.batch.paths, packed.batch.counts["skills"]) == (["uploaded/sums"], 1)


def test_an_archive_of_ours_comes_in_as_it_is(client: Client, tmp_path: Path) -> None:
    upload(client, read_tree(job(tmp_path / "first")))
    experiment = Experiment.objects.get()
    call_command("export_experiment", str(experiment.public_id), str(tmp_path / "one.tar.gz"))
    content = (tmp_path / "one.tar.gz").read_bytes()
    again = upload(client, {"one.tar.gz": content})
    assert (again.batch.counts["unchanged"], again.batch.problems.count()) == (3, 0)
    assert again.batch.paths == ["uploaded/one.tar.gz"]


def test_a_hostile_archive_stops_the_import_in_words_and_can_be_discarded(client: Client, folder: Path) -> None:
    sent = upload(client, {"evil.zip": pack({"run/fine": b"x", "../../evil": b"x"}, ".zip")})
    assert sent.state == "stopped"
    text = client.get("/imports/").text
    assert (
        "evil.zip cannot be unpacked: The path &#x27;../../evil&#x27; has an empty part, or one that leads out." in text
    )
    assert not ImportBatch.objects.exists()
    assert list(kept(folder)) == ["evil.zip"], "what was unpacked is gone"
    assert client.post(f"/imports/uploads/{sent.public_id}/discard/").status_code == 302
    assert not Upload.objects.exists()
    assert not any(folder.iterdir())


# --- whose it is ------------------------------------------------------------------------------------------------------


def test_an_upload_is_private_to_its_sender(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    client.force_login(make_user(level=User.Level.OPERATOR))
    url = start(client)
    client.force_login(make_user(level=User.Level.OPERATOR))
    assert client.get(url, headers={"Accept": "application/json"}).status_code == 404
    for answer in (
        send_piece(client, url, [[0, 0, 1]], b"x"),
        finish(client, url),
        client.post(f"{url}discard/", headers={"Accept": "application/json"}),
    ):
        assert (answer.status_code, answer.json()) == (404, {"error": "There is no such upload of yours."})
    assert "arrived. Choose the same" not in client.get("/imports/").text


def test_a_viewer_sees_no_way_in_and_has_none(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    client.force_login(make_user(level=User.Level.VIEWER))
    text = client.get("/imports/").text
    assert "Drop a folder" not in text
    assert "upload.js" not in text
    answer = begin(client, FILES)
    assert answer.status_code == 403
    assert "Only operators" in answer.json()["error"]


def test_nothing_is_taken_without_the_token_of_the_page() -> None:
    client = Client(enforce_csrf_checks=True)
    assert begin(client, FILES).status_code == 403
    assert not Upload.objects.exists()


# --- the import -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        (None, "The broker of the jobs does not answer."),
        ((), "No worker is running. Start one: manage.py work"),
        ((WorkerAtHand("w", "idle", None, None),), "waiting for a worker."),
    ],
)
def test_the_page_says_what_an_import_waits_for(
    client: Client, monkeypatch: pytest.MonkeyPatch, workers: tuple[WorkerAtHand, ...] | None, said: str
) -> None:
    monkeypatch.setattr(upload_view, "workforce", lambda: Workforce(workers, 0))
    url = start(client, {"job/a": b""})
    answer = finish(client, url).json()
    assert said in answer["sentence"]
    assert said in client.get("/imports/").text
    make_batch(counts={"trials": 7})
    text = client.get("/imports/").text
    assert f'data-watch="{url}"' in text
    assert said in text.partition("<h1")[2].partition("</h1>")[0]  # the upload is the headline until it is in
    assert "7 trials came in" not in text


def test_a_long_import_says_what_it_does(client: Client) -> None:
    def says(title: str, **fields: object) -> str:
        return upload_view.write_sentence(Upload(title=title, whole_at=timezone.now(), worker="one", **fields), 0)

    assert says("one.tar.zst", files_total=1) == "one.tar.zst: reading the archive. It comes in as a whole, at the end."
    assert says("job", files_total=1_200) == "job: looking for runs in 1,200 files."
    assert says("/srv/jobs") == "/srv/jobs: looking for runs."
    batch = make_batch(status="running", finished_at=None, counts={"trials": 7})
    assert "Still reading. 7 trials came in so far." in client.get(f"/imports/?batch={batch.public_id}").text


def test_progress_is_kept_and_its_end_is_the_batch(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(upload_import, "PROGRESS_SECONDS", -1.0)
    original = SlicedWork.hold

    def look(self: Any, row: Upload, **fields: object) -> None:
        original(self, row, **fields)
        told.append(client.get(f"/imports/uploads/{row.public_id}/").json()["sentence"])

    monkeypatch.setattr(SlicedWork, "hold", look)
    sent = upload(client, read_tree(job(tmp_path / "first")))
    assert told[0] == f"first: looking for runs in {sent.files_total} files."
    assert told[-1].startswith("first: 3 trials and libraries read so far. Now ")
    assert told[-1].endswith(", 3 of 3.")
    answer = client.get(f"/imports/uploads/{sent.public_id}/").json()
    assert (answer["state"], answer["sentence"]) == ("done", "first was imported.")
    assert answer["imported"].endswith(f"/imports/?batch={sent.batch.public_id}")


def test_the_bar_counts_files_where_more_than_this_experiment_comes(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(upload_import, "PROGRESS_SECONDS", -1.0)
    original = SlicedWork.hold

    def look(self: Any, row: Upload, **fields: object) -> None:
        original(self, row, **fields)
        told.append(client.get(f"/imports/uploads/{row.public_id}/").json())

    monkeypatch.setattr(SlicedWork, "hold", look)
    sent = upload(client, {**read_tree(job(tmp_path / "first")), **read_tree(job(tmp_path / "second"))})
    files = [each["progress"]["files"] for each in told if "files" in each["progress"]]
    assert files[:6] == [5, 11, 17, 22, 28, sent.files_total]
    assert f", 17 of {sent.files_total} files. Now first, 3 of 3." in told[3]["sentence"]


def test_many_folders_are_counted_not_listed(client: Client) -> None:
    start(client, {"2026-01-26/a": b"", "2026-01-27/a": b"", "one.json": b""})
    assert Upload.objects.get().title == "2 folders and 1 file"


def test_an_import_that_fails_is_tried_again_and_then_stops(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = read_tree(job(tmp_path / "first"))
    begun = begin(client, tree).json()
    for (number, _), content in zip(begun["files"], tree.values(), strict=True):
        send_piece(client, begun["url"], [[number, 0, len(content)]], content)
    finish(client, begun["url"])
    with monkeypatch.context() as patched:

        def fail(*_: object, **__: object) -> None:
            raise ZeroDivisionError("by a bug")

        patched.setattr(upload_import, "import_paths", fail)
        for _ in range(5):
            with pytest.raises(ZeroDivisionError):
                import_upload(begun["id"])
        import_upload(begun["id"])
    text = client.get("/imports/").text
    assert "first: the import stopped. ZeroDivisionError: by a bug" in text
    client.post(f"/imports/uploads/{begun['id']}/finish/")
    import_upload(begun["id"])
    assert Upload.objects.get().state == "done"


def test_files_that_the_worker_does_not_have_are_said(client: Client, folder: Path) -> None:
    url = start(client, {"job/a": b""})
    finish(client, url)
    folder.rename(folder.with_name("elsewhere"))
    import_upload(str(Upload.objects.get().public_id))
    assert "Pages and workers need the same folder SKILLGLASS_VAR." in client.get("/imports/").text


def test_what_is_discarded_while_it_is_read_leaves_nothing(
    client: Client, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_import, "PROGRESS_SECONDS", -1.0)
    original = SlicedWork.hold

    def discard(self: Any, row: Upload, **fields: Any) -> None:
        if fields.get("progress", {}).get("read") == 2:
            text = client.get("/imports/").text
            assert f'action="/imports/uploads/{row.public_id}/discard/"' in text
            assert client.post(f"/imports/uploads/{row.public_id}/discard/").status_code == 302
        original(self, row, **fields)

    monkeypatch.setattr(SlicedWork, "hold", discard)
    begun = begin(client, tree := read_tree(job(tmp_path / "first"))).json()
    for (number, _), content in zip(begun["files"], tree.values(), strict=True):
        send_piece(client, begun["url"], [[number, 0, len(content)]], content)
    finish(client, begun["url"])
    import_upload(begun["id"])
    assert not Upload.objects.exists()
    assert not Experiment.objects.not_deleted().exists()
    assert ImportBatch.objects.get().undo_reason == "Discarded while it was read."
    assert kept(folder) == {}
    assert "Discarded while it was read." in client.get("/imports/").text


def test_a_log_is_not_discarded_while_it_is_read(client: Client) -> None:
    url = start(client)
    Upload.objects.update(worker="somebody", digest=f"{Upload.LOG}x")
    answer = client.post(f"{url}discard/", headers={"Accept": "application/json"})
    assert answer.status_code == 409
    assert Upload.objects.exists()


# --- a path on the server ---------------------------------------------------------------------------------------------


def test_a_path_on_the_server_is_read(client: Client, settings: Any, tmp_path: Path) -> None:
    settings.IMPORT_ROOTS = [tmp_path]
    place = job(tmp_path / "first")
    assert 'name="path"' in client.get("/imports/").text
    assert client.post("/imports/paths/", {"path": str(place)}).status_code == 302
    client.post("/imports/paths/", {"path": str(place)})  # a double click
    import_upload(str(Upload.objects.get().public_id))
    assert ImportBatch.objects.get().paths == [str(place)]
    assert place.is_dir()


@pytest.mark.parametrize(
    "path", ["/etc", "first", "{root}/../other", "{root}/link", "{root}/loop", "", "\x01", "{root}x", "~"]
)
def test_a_path_elsewhere_is_refused(client: Client, settings: Any, tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    (tmp_path / "other").mkdir()
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "other")
    (root / "loop").symlink_to(root / "loop")
    settings.IMPORT_ROOTS = [root]
    answer = client.post("/imports/paths/", {"path": path.format(root=root)}, headers={"Accept": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["error"]
    assert not Upload.objects.exists()


def test_without_the_setting_no_path_is_read_nor_asked_for(client: Client, settings: Any, tmp_path: Path) -> None:
    settings.IMPORT_ROOTS, settings.IMPORTS_FROM_HOME = [], False
    assert 'name="path"' not in client.get("/imports/").text
    said = client.post("/imports/paths/", {"path": str(tmp_path)}, follow=True).text
    assert "This server imports from no path: IMPORT_ROOTS names no folder." in said


def test_a_path_that_became_a_link_is_not_followed(client: Client, settings: Any, tmp_path: Path) -> None:
    settings.IMPORT_ROOTS = [tmp_path]
    place = job(tmp_path / "first")
    client.post("/imports/paths/", {"path": str(place)})
    place.rename(tmp_path / "second")
    place.symlink_to(tmp_path / "second")
    import_upload(str(Upload.objects.get().public_id))
    assert "leads elsewhere by now" in Upload.objects.get().reason


# --- sweeping ---------------------------------------------------------------------------------------------------------


def test_old_uploads_and_stray_folders_are_swept(
    client: Client, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, fresh, waiting = start(client), start(client, {"job/b": b"1"}), start(client, {"job/c": b""})
    finish(client, waiting)
    send_piece(client, old, [[0, 0, 4]], b"0123")
    send_piece(client, fresh, [[0, 0, 1]], b"1")
    stray = folder / "00000000-0000-4000-8000-000000000000"
    stray.mkdir()
    ids = {url: url.rstrip("/").rpartition("/")[2] for url in (old, fresh, waiting)}
    long_ago = timezone.now() - timedelta(hours=49)
    Upload.objects.filter(public_id__in=[ids[old], ids[waiting]]).update(changed_at=long_ago)
    call_command("sweep")
    assert "removed 2 unfinished uploads" in capsys.readouterr().out
    assert {path.name for path in folder.iterdir()} == {ids[fresh], ids[waiting]}
    assert {str(each) for each in Upload.objects.values_list("public_id", flat=True)} == {ids[fresh], ids[waiting]}


def test_the_home_folder_is_for_the_person_at_the_machine_alone(
    client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An invited operator, or a program with a token, would read files that are not theirs."""
    settings.SINGLE_USER, settings.IMPORT_ROOTS, settings.IMPORTS_FROM_HOME = True, [], True
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    (tmp_path / "runs").mkdir()
    address, told = "/imports/paths/", {"path": str(tmp_path / "runs")}
    json = {"Accept": "application/json"}
    assert client.post(address, told, headers=json).status_code == 202
    _, token = make_token(local_user(), "loop", "log")
    assert Client().post(address, told, headers={**json, "Authorization": f"Bearer {token}"}).status_code == 422
    invited = Client()
    invited.force_login(make_user(level=User.Level.OPERATOR))
    assert invited.post(address, told, headers=json).status_code == 422
    assert 'name="path"' not in invited.get("/imports/").text
    assert 'name="path"' in client.get("/imports/").text
