"""Pinned programs: what a pin must say, and installing one from packages that are made here."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from runner import programs
from runner.base.errors import SetupError
from runner.programs import find_installed, installing, names, pin_of
from runner.programs.installing import install

SCRIPT = b'#!/bin/sh\necho "started in $(pwd) with $*"\n'


@pytest.fixture
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One pin, "tiny", whose only package lies in this folder."""
    package = tmp_path / "tiny-1.2.3.tgz"
    with tarfile.open(package, "w:gz") as archive:
        about = {"name": "tiny", "version": "1.2.3", "scripts": {"postinstall": f"touch {tmp_path}/ran-a-script"}}
        for name, content in (("package.json", json.dumps(about).encode()), ("start.sh", SCRIPT)):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    pin = tmp_path / "pins" / "tiny"
    pin.mkdir(parents=True)
    needed = {"dependencies": {"tiny": f"file:{package}"}}
    locked = {"version": "1.2.3", "resolved": f"file:{package}", "integrity": integrity, "hasInstallScript": True}
    lock = {
        "name": "tiny",
        "lockfileVersion": 3,
        "requires": True,
        "packages": {"": needed, "node_modules/tiny": locked},
    }
    (pin / "package.json").write_text(json.dumps({"name": "tiny-pin", **needed}))
    (pin / "package-lock.json").write_text(json.dumps(lock))
    (pin / "program.toml").write_text(
        'package = "tiny"\nruntime = "native"\n[start]\nany = "node_modules/tiny/start.sh"\n'
    )
    monkeypatch.setattr(programs, "PINS", tmp_path / "pins")
    monkeypatch.setattr(installing, "PINS", tmp_path / "pins")
    return tmp_path / "pins"


def fits(entry: dict[str, Any]) -> bool:
    """Can npm choose this package for a sandbox?"""
    return "linux" in entry.get("os", ["linux"]) and bool({"x64", "arm64"} & set(entry.get("cpu", ["x64"])))


def test_every_pin_says_one_version_with_a_hash_for_every_package() -> None:
    assert {"claude-code", "codex"} <= set(names())
    for name in set(names()) - {"node"}:
        pin = pin_of(name)
        lock = json.loads((pin.folder / "package-lock.json").read_text())["packages"]
        wanted = json.loads((pin.folder / "package.json").read_text())["dependencies"]
        assert wanted == {pin.package: pin.version}, "pinned, not a range"
        locked = {path: entry for path, entry in lock.items() if path and not entry.get("inBundle") and fits(entry)}
        assert locked
        assert all(entry["integrity"].startswith("sha512-") for entry in locked.values())
        assert not any("resolved" in entry for entry in locked.values()), "no host is named"


def test_node_is_pinned_by_the_hashes_of_its_wheels() -> None:
    pin = pin_of("node")
    lines = (pin.folder / "requirements.txt").read_text().split()
    assert lines[0] == f"{pin.package}=={pin.version}"
    assert sum(word.startswith("--hash=sha256:") for word in lines) >= 2


def test_it_installs_whole_and_runs_no_script_of_a_package(pins: Path, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"tiny 1\.2\.3 is not installed; run: manage\.py install_program tiny"):
        find_installed("tiny", tmp_path / "programs")
    home = install("tiny", tmp_path / "programs")
    assert install("tiny", tmp_path / "programs") == home
    program = find_installed("tiny", tmp_path / "programs")
    assert (program.name, program.version, program.folder) == ("tiny", "1.2.3", home)
    assert program.target == "/opt/skillglass/tiny"
    said = subprocess.run([str(home / "bin/tiny"), "a b"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout == f"started in {tmp_path} with a b\n"
    assert not (tmp_path / "ran-a-script").exists()
    assert [path.name for path in (tmp_path / "programs").iterdir()] == [home.name], "nothing half made is left"


def test_it_refuses_a_package_that_is_not_the_pinned_one(pins: Path, tmp_path: Path) -> None:
    lock = pins / "tiny" / "package-lock.json"
    value = json.loads(lock.read_text())
    value["packages"]["node_modules/tiny"]["integrity"] = "sha512-" + base64.b64encode(bytes(64)).decode()
    lock.write_text(json.dumps(value))
    with pytest.raises(SetupError, match=r"(?s)npm ci.*ended with exit code"):
        install("tiny", tmp_path / "programs")
    assert list((tmp_path / "programs").iterdir()) == []


def test_another_lock_is_another_installation(pins: Path, tmp_path: Path) -> None:
    before = pin_of("tiny").installation
    lock = pins / "tiny" / "package-lock.json"
    lock.write_text(lock.read_text() + "\n")
    assert pin_of("tiny").installation != before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('runtime = "native"', 'runtime = "perl"', "runtime: expected native or node or wheel, found 'perl'"),
        ('package = "tiny"', 'package = "other"', "no pin of a program: KeyError"),
        ('package = "tiny"', "package = ", "no pin of a program: TOMLDecodeError"),
        ("any =", "s390x =", "tiny is made for s390x, not for this machine"),
    ],
)
def test_it_says_what_is_wrong_with_a_pin(pins: Path, old: str, new: str, message: str) -> None:
    path = pins / "tiny" / "program.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(SetupError, match=message):
        pin_of("tiny")


def test_it_names_the_programs_it_knows() -> None:
    with pytest.raises(SetupError, match=r"unknown program 'vim'; known: claude-code, codex"):
        pin_of("vim")
