"""Archives of strangers: confined, counted, and whole or refused."""

from __future__ import annotations

import contextlib
import io
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from benchapp.imports import upload_import
from benchapp.imports.upload_import import is_ours, unpack
from benchapp.imports.uploads import UploadRefused


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w:gz", format=form) as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def zipped(path: Path, *members: tuple[str, bytes], mode: int = stat.S_IFREG | 0o644) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return path


def out(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["/etc/evil", "../evil", "a/../../evil", "a//b", "C:/evil", "a\\..\\evil", "a/b\x01"])
@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
def test_a_member_that_leads_out_refuses_the_archive(tmp_path: Path, name: str, ending: str) -> None:
    path = tmp_path / f"one{ending}"
    made = zipped(path, ("run/fine", b"x"), (name, b"x")) if ending == ".zip" else tar(path, (member(name), b"x"))
    with pytest.raises(UploadRefused, match="cannot be unpacked"):
        unpack(made, tmp_path / "inside" / "folder")
    assert not [found for found in tmp_path.rglob("*evil*") if found.is_file()]


def test_links_are_passed_over_and_nothing_goes_through_them(tmp_path: Path) -> None:
    made = tar(
        tmp_path / "one.tar.gz",
        (member("run/out", tarfile.SYMTYPE, "/tmp"), b""),
        (member("run/fine"), b"x"),
    )
    unpack(made, tmp_path / "out")
    assert out(tmp_path / "out") == {"run/fine": b"x"}
    unpack(zipped(tmp_path / "two.zip", ("link", b"/tmp"), mode=stat.S_IFLNK | 0o777), tmp_path / "two")
    assert out(tmp_path / "two") == {}


def test_a_file_does_not_go_through_a_link_of_the_archive(tmp_path: Path) -> None:
    made = tar(
        tmp_path / "one.tar.gz",
        (member("run/out", tarfile.SYMTYPE, str(tmp_path / "target")), b""),
        (member("run/out/evil"), b"x"),
    )
    (tmp_path / "target").mkdir()
    unpack(made, tmp_path / "out")
    assert list((tmp_path / "target").iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_a_device_or_a_hard_link_refuses_the_archive(tmp_path: Path, kind: bytes) -> None:
    made = tar(tmp_path / "one.tar.gz", (member("run/odd", kind, "run/fine"), b""))
    with pytest.raises(UploadRefused, match="hard link, a device"):
        unpack(made, tmp_path / "out")


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
def test_a_bomb_ends_at_the_bound(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_import, "FREE_OF_RATIO", 1024 * 1024)
    zeros = bytes(30 * 1024 * 1024)
    path = tmp_path / f"one{ending}"
    made = zipped(path, ("run/a", zeros)) if ending == ".zip" else tar(path, (member("run/a"), zeros))
    with pytest.raises(UploadRefused, match="holds more than"):
        unpack(made, tmp_path / "out")
    assert sum(found.stat().st_size for found in tmp_path.rglob("a")) < 10 * 1024 * 1024


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
def test_too_many_members_refuse_the_archive(tmp_path: Path, ending: str, settings: Any) -> None:
    settings.UPLOAD_FILES = 3
    path, names = tmp_path / f"one{ending}", [f"run/{number}" for number in range(4)]
    made = (
        zipped(path, *((name, b"") for name in names))
        if ending == ".zip"
        else tar(path, *((member(name), b"") for name in names))
    )
    with pytest.raises(UploadRefused, match="more than 3 files"):
        unpack(made, tmp_path / "out")


def test_a_header_that_would_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    info = member("run/a")
    info.pax_headers = {"comment": "x" * 100_000}
    with pytest.raises(UploadRefused, match="one of its headers is too long"):
        unpack(tar(tmp_path / "one.tar.gz", (info, b"")), tmp_path / "out")


def test_long_names_are_read_all_the_same(tmp_path: Path) -> None:
    name = f"run/{'a' * 120}/{'b' * 120}"
    for number, form in enumerate((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)):
        unpack(tar(tmp_path / f"{number}.tar.gz", (member(name), b"x"), form=form), tmp_path / str(number))
        assert out(tmp_path / str(number)) == {name: b"x"}


@pytest.mark.parametrize("names", [("run/a", "run/A"), ("run/a", "Run/b"), ("run/a", "run/a/b"), ("run/a", "run/a")])
def test_names_that_clash_refuse_the_archive(tmp_path: Path, names: tuple[str, str]) -> None:
    made = tar(tmp_path / "one.tar.gz", *((member(name), b"x") for name in names))
    with pytest.raises(UploadRefused, match="twice"):
        unpack(made, tmp_path / "out")


@pytest.mark.parametrize(
    "content", [b"", b"PK\x05\x06" + bytes(18), b"PK\x03\x04 cut", b"\x1f\x8b\x08 cut", b"neither"], ids=range(5)
)
@pytest.mark.parametrize("ending", [".zip", ".tar.gz", ".tar"])
def test_what_is_no_archive_is_refused_or_empty(tmp_path: Path, content: bytes, ending: str) -> None:
    path = tmp_path / f"one{ending}"
    path.write_bytes(content)
    with contextlib.suppress(UploadRefused):
        unpack(path, tmp_path / "out")
    assert out(tmp_path / "out") == {}


def test_a_locked_zip_is_refused(tmp_path: Path) -> None:
    made = zipped(tmp_path / "one.zip", ("run/a", b"x"))
    content = bytearray(made.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + offset] |= 1
    made.write_bytes(content)
    with pytest.raises(UploadRefused, match="encrypted"):
        unpack(made, tmp_path / "out")


def test_loose_members_lie_in_a_folder_called_like_the_archive(tmp_path: Path) -> None:
    unpack(zipped(tmp_path / "one.zip", ("a", b"x"), ("b/c", b"y"), ("__MACOSX/._a", b"z")), tmp_path / "out")
    assert out(tmp_path / "out") == {"one/a": b"x", "one/b/c": b"y"}


def test_ours_are_told_by_their_first_member(tmp_path: Path) -> None:
    assert is_ours(tar(tmp_path / "one.tar.gz", (member("manifest.json"), b"{}")))
    assert not is_ours(tar(tmp_path / "two.tar.gz", (member("run/manifest.json"), b"{}")))
    assert is_ours(tmp_path / "any.tar.zst")
