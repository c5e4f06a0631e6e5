"""An archive from a stranger: whatever is wrong with it is named, and nothing of it is written."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from django.core.management import call_command

from benchapp.archive import ArchiveError, archive_import
from benchapp.archive.archive_import import CheckedArchive
from benchapp.archive.archive_tables import TABLES
from benchapp.models import Blob, Experiment, Trial
from lab.synthesis.campaign import Size, write_campaign
from skillglass import envelope
from tests.benchapp.archived import archived, bring, forget_everything
from tests.cases import every

pytestmark = pytest.mark.django_db

Files = dict[str, bytes]
Lines = list[list[Any]]


@pytest.fixture(scope="module")
def files(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    """The members of an honest archive, whose experiment is not here."""
    with django_db_blocker.unblock():
        path = archived(write_campaign(Size(6, 30, 12)), tmp_path_factory.mktemp("honest"))
        forget_everything()
    with path.open("rb") as stream:
        whole = zstandard.ZstdDecompressor().stream_reader(stream).read()
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        yield {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]
    with django_db_blocker.unblock():
        call_command("flush", interactive=False, verbosity=0)


def packed(folder: Path, files: Files, *, true_digests: bool = True) -> Path:
    """As an archive again, its manifest telling the files of rows as they are now, like a forger would."""
    manifest = json.loads(files["manifest.json"])
    if true_digests:
        for each in manifest["files"]:
            content = files[each["name"]]
            each |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        manifest["contents"] = sum(name.startswith("blobs/") for name in files)
    return tarred(
        folder, [(name, files[name]) for name in {**files, "manifest.json": b""}], json.dumps(manifest).encode()
    )


def tarred(folder: Path, members: list[tuple[str, bytes]], manifest: bytes) -> Path:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            content = manifest if name == "manifest.json" else content
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    path = folder / "forged.tar.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(raw.getvalue()))
    return path


def refused(path: Path) -> str:
    """What was said; nothing was written."""
    report = bring(path)
    (problem,) = report.problems
    assert report.exit_status == 1
    written = {name: table.model._default_manager.count() for name, table in TABLES.items()}
    assert not any(written.values()), written
    return f"{problem.place}: expected {problem.expected}; {problem.message}"


def changed(files: Files, name: str, change: Callable[[Lines], object]) -> Files:
    lines = [json.loads(line) for line in files[name].splitlines()]
    change(lines)
    return {**files, name: b"".join(json.dumps(line).encode() + b"\n" for line in lines)}


def first(lines: Lines, table: str) -> dict[str, Any]:
    return next(told for name, told in lines if name == table)


RUN, SHARED = "runs/00001.jsonl", "shared.jsonl"


def sets(table: str, **values: Any) -> Callable[[Lines], object]:
    return lambda lines: first(lines, table).update(values)


LIES: dict[str, tuple[str, Callable[[Lines], object], str]] = {
    "a digest that its files do not have": (SHARED, sets("snapshot", digest="0" * 64), "add up to their snapshot"),
    "a path that leads out": (SHARED, sets("file", path="../../etc/passwd"), "a path inside the library"),
    "an absolute path": (SHARED, sets("file", path="/etc/passwd"), "a path inside the library"),
    "a skill that is not its path's": (SHARED, sets("file", skill="other"), "the skill its path begins with"),
    "another experiment": (
        SHARED,
        sets("experiment", public_id="00000000-0000-4000-8000-000000000001"),
        "the one experiment",
    ),
    "an experiment without an id": (
        SHARED,
        lambda lines: first(lines, "experiment").pop("public_id"),
        "a experiment with its public_id",
    ),
    "a trial without an id": (RUN, lambda lines: first(lines, "trial").pop("public_id"), "a trial with its public_id"),
    "a file without its mode": (SHARED, lambda lines: first(lines, "file").pop("mode"), "a file with its mode"),
    "an origin that there is not": (SHARED, sets("experiment", origin="heaven"), "experiment.origin: expected one of"),
    "a column that the model has not": (RUN, sets("trial", lease_owner="me"), "made by a newer version"),
    "a worker": (RUN, sets("attempt", worker="me"), "made by a newer version"),
    "a reference forward": (RUN, sets("trial", episode=10**6), "trial.episode: expected the place of an earlier line"),
    "a negative reference": (RUN, sets("trial", episode=-1), "the place of an earlier line"),
    "true for a reference": (RUN, sets("trial", episode=False), "the place of an earlier line"),
    "a content that is not there": (RUN, sets("chunk", blob="a" * 64), "contents that the archive holds"),
    "a content that is no digest": (RUN, sets("chunk", blob="../x"), "a SHA-256"),
    "a status that pages do not know": (RUN, sets("trial", status="<b>"), "trial.status: expected one of"),
    "a text over its length": (RUN, sets("run", condition="x" * 101), "at most 100 characters"),
    "a NUL": (RUN, sets("run", condition="x\0"), "without NUL"),
    "a lone surrogate": (RUN, sets("run", condition="\ud800"), "without NUL and lone surrogates"),
    "a NUL inside JSON": (RUN, sets("run", setup={"a": "\0"}), "without NUL"),
    "a list for an object": (RUN, sets("run", setup=[]), "a JSON dict"),
    "a number over 64 bits": (RUN, sets("run", seed=2**64), "a whole number of at most"),
    "a number below 0": (RUN, sets("trial", sample=-1), "at least 0"),
    "a text for a number": (RUN, sets("trial", sample="1"), "a whole number"),
    "not a number": (RUN, sets("trial", reward=float("nan")), "NaN is not a number"),
    "a time without zone": (RUN, sets("attempt", started_at="2026-01-01T00:00:00"), "a time with its zone"),
    "nothing for a name": (RUN, sets("episode", key=None), "episode.key: expected a value"),
    "another outcome": (RUN, sets("trial", success=None, status="unscored"), "a record with digest"),
    "another trajectory": (RUN, sets("trajectory", digest="1" * 64), "a record with digest"),
    "steps that are not there": (RUN, sets("trajectory", steps_total=77), "a record with digest"),
    "tables out of order": (RUN, lambda lines: lines.append(lines[0]), "the tables in their order"),
    "a table of people": (
        SHARED,
        lambda lines: lines.append(["user", {"username": "eve"}]),
        "the tables in their order",
    ),
    "two runs in a file": (RUN, lambda lines: lines.insert(1, lines[0]), "one run in each"),
    "a line twice": (RUN, lambda lines: lines.append(lines[-1]), "rows that fit together"),
    "no object": (RUN, lambda lines: lines.insert(0, ["run"]), "[table, {column: value}]"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_forged_row_is_refused(tmp_path: Path, files: Files, lie: str) -> None:
    name, change, expected = LIES[lie]
    assert expected in refused(packed(tmp_path, changed(files, name, change)))
    if "digest" not in expected and "fit together" not in expected:
        assert not Blob.objects.exists()  # refused at the first reading


def test_a_changed_content_is_refused(tmp_path: Path, files: Files) -> None:
    name = next(name for name in files if name.startswith("blobs/"))
    assert "the digest it is named after" in refused(packed(tmp_path, {**files, name: b"else"}))


def test_a_content_that_no_row_names_is_refused(tmp_path: Path, files: Files) -> None:
    extra = b"\0 not named by anything"
    digest = hashlib.sha256(extra).hexdigest()
    blobs = sorted(
        [*((name, each) for name, each in files.items() if name.startswith("blobs/")), (f"blobs/{digest}", extra)]
    )
    rest = {name: each for name, each in files.items() if not name.startswith(("blobs/", "manifest"))}
    assert "contents that a row names" in refused(
        packed(tmp_path, {"manifest.json": files["manifest.json"], **dict(blobs), **rest})
    )


def test_rows_that_differ_from_the_manifest_are_refused(tmp_path: Path, files: Files) -> None:
    content = files[RUN]
    lied = {**files, RUN: content[:-3] + b" " + content[-2:]}
    assert refused(packed(tmp_path, lied, true_digests=False))


@every("../../evil", "/etc/cron.d/evil", "runs/../x", "blobs/" + "a" * 63, "extra.txt")
def test_a_member_with_another_name_is_refused(name: str, tmp_path: Path, files: Files) -> None:
    members = [*files.items(), (name, b"evil")]
    assert "nothing after the last run" in refused(tarred(tmp_path, members, files["manifest.json"]))
    members = [
        ("manifest.json", b""),
        (name, b"evil"),
        *((each, files[each]) for each in files if each != "manifest.json"),
    ]
    assert "a content named by its digest" in refused(tarred(tmp_path, members, files["manifest.json"]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["forged.tar.zst"]


KINDS = [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
KINDS += [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE]


@every(*KINDS)
def test_links_folders_devices_and_extensions_are_refused(kind: bytes, tmp_path: Path) -> None:
    info = tarfile.TarInfo("manifest.json")
    info.type, info.linkname, info.size = kind, "/etc/passwd", 2**40 if kind == tarfile.XHDTYPE else 0
    head = info.tobuf(tarfile.GNU_FORMAT)
    path = tmp_path / "forged.tar.gz"
    path.write_bytes(gzip.compress(head + bytes(1024)))
    assert "regular files only" in refused(path)


def test_what_is_cut_off_anywhere_is_refused(tmp_path: Path, files: Files) -> None:
    whole = packed(tmp_path, files).read_bytes()
    for share in (0.0, 0.01, 0.5, 0.99):
        path = tmp_path / "forged.tar.zst"
        path.write_bytes(whole[: int(len(whole) * share)])
        assert refused(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip", b"\x1f\x8b\x08 no gzip", b"\x28\xb5\x2f\xfd no zstd"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "one.tar.zst"
    path.write_bytes(content)
    assert refused(path)


def test_a_manifest_must_say_what_it_is(tmp_path: Path, files: Files) -> None:
    told = json.loads(files["manifest.json"])
    broken: list[Any] = [
        {**told, "format": "skillglass-archive/2"},
        {**told, "files": [{**told["files"][0], "name": "../x"}]},
        {**told, "files": [{**told["files"][0], "bytes": -1}]},
        {**told, "contents": 10**12},
        {**told, "record_digest": "short"},
        {**told, "experiment": None},
        {**told, "forked_from": []},
        {**told, "probe_of": {told["experiment"]["id"]: {"episode": "x", "decision": None}}},
        [],
        "x",
    ]
    for manifest in broken:
        members = list(files.items())
        assert "manifest.json" in refused(tarred(tmp_path, members, json.dumps(manifest).encode()))
    deep = b"[" * 200_000
    assert "manifest.json" in refused(tarred(tmp_path, list(files.items()), deep))


def test_a_bomb_is_given_up_early(tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_import, "MAX_TOTAL", 10_000)
    with pytest.raises(ArchiveError, match="over 10,000"):
        CheckedArchive(packed(tmp_path, files))
    info = tarfile.TarInfo("manifest.json")
    info.size = 7 * 1024**3
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(gzip.compress(info.tobuf(tarfile.USTAR_FORMAT) + bytes(1024)))
    with pytest.raises(ArchiveError, match="it has 7,516,192,768"):
        CheckedArchive(path)


def test_a_stream_that_wants_much_memory_is_refused(tmp_path: Path) -> None:
    wanting = zstandard.ZstdCompressionParameters.from_level(19, window_log=30, enable_ldm=True)
    path = tmp_path / "one.tar.zst"
    with path.open("wb") as file, zstandard.ZstdCompressor(compression_params=wanting).stream_writer(file) as stream:
        stream.write(bytes(4096))
    assert envelope.MAX_WINDOW < 2**30
    assert "memory" in refused(path).lower()


def test_a_collision_with_what_is_here_changes_neither(tmp_path: Path, files: Files) -> None:
    """The same trials stand here in an experiment of another id: one thing cannot be in two places."""
    assert bring(packed(tmp_path, files)).exit_status == 0
    mine = Experiment.objects.get()
    mine.public_id = "00000000-0000-4000-8000-00000000000a"  # type: ignore[assignment]
    mine.save()
    before = Trial.objects.count()
    (problem,) = bring(packed(tmp_path, files)).problems
    assert "exists here in another experiment" in problem.message
    assert (Experiment.objects.count(), Trial.objects.count()) == (1, before)


def test_a_deleted_one_must_be_swept_first(tmp_path: Path, files: Files) -> None:
    path = packed(tmp_path, files)
    bring(path)
    Experiment.objects.get().entomb(actor=None, reason="")
    (problem,) = bring(path).problems
    assert "sweep first" in problem.message


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [("reward", 10**400, "a finite number"), ("finished_at", "0001-01-01T00:00:00+23:00", "years 1 to 9999")],
)
def test_a_value_at_the_end_of_its_range_is_refused(
    tmp_path: Path, files: Files, column: str, value: object, expected: str
) -> None:
    lines = [json.loads(line) for line in files["runs/00001.jsonl"].splitlines()]
    trial = next(told for table, told in lines if table == "trial" and told[column] is not None)
    trial[column] = value
    forged = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    with pytest.raises(ArchiveError, match=expected):
        CheckedArchive(packed(tmp_path, {**files, "runs/00001.jsonl": forged}))


def test_a_gzip_that_is_spoiled_inside_is_refused(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(bytes(range(256)) * 40, mtime=0))
    whole[20:200] = b"\xff" * 180
    (tmp_path / "spoiled.tar.gz").write_bytes(whole)
    with pytest.raises(ArchiveError, match="an undamaged archive"):
        CheckedArchive(tmp_path / "spoiled.tar.gz")


def _tar(name: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        info = tarfile.TarInfo(name)
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the file is empty"),
        (b"PK\x03\x04", "the file is neither"),
        (_tar("x.txt"), "it begins with 'x.txt'"),
        (_tar("x.txt")[:60], "it ends too early"),
        (b"\x28\xb5\x2f\xfd" + b"x" * 20, "it does not unpack"),
        (b"\x1f\x8b" + b"x" * 20, "it does not unpack"),
    ],
    ids=["empty", "zip", "another tar", "cut", "damaged zstd", "damaged gzip"],
)
def test_a_refusal_says_what_is_the_matter(tmp_path, content, told):
    path = tmp_path / "one.tar.gz"
    path.write_bytes(content)
    with pytest.raises(ArchiveError) as refused:
        CheckedArchive(path)
    assert told in refused.value.message
    assert "Error" not in refused.value.message
