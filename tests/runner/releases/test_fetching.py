"""Fetching a release: pinned, whole or not at all, and the same from whatever it is taken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.errors import SetupError
from runner.releases import UNKNOWN, PublicRelease, fetching, find_release, read_releases
from runner.releases.fetching import fetch_release
from runner.suites import FORMATS
from tests.release_servers import COMMIT, Hub, git, git_daemon, plain_files, publish

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching, "PAUSE", 0.01)


def release_of(url: str, commit: str = UNKNOWN, digest: str = UNKNOWN) -> PublicRelease:
    return PublicRelease("ours", "Ours", url, commit, digest, "none", "small", "", "harbor", ())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files that a checkout likes to change: line ends, keywords, links, executable bits, names with blanks."""
    folder = tmp_path / "work"
    for name, content in {
        "README.md": b"# Ours\n",
        "LICENSE": b"MIT License\n",
        "tasks/a/rubric.yaml": b"one: 1\r\ntwo: 2\r\n",
        "tasks/a/what & why.md": b"$Id$\n",
        "tasks/a/data.bin": bytes(range(256)) * 40,
        "tasks/a/tests/test.sh": b"#!/bin/sh\n",
        ".gitattributes": b"*.yaml text eol=lf\n*.md ident\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "tasks/a/tests/test.sh").chmod(0o755)
    return folder


def content_of(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if (path.is_symlink() or path.is_file()) and ".git" not in path.relative_to(folder).parts
    }


# --- the table ----------------------------------------------------------------------------------------------------


def test_the_table_pins_what_git_holds_and_every_image_has_a_recipe() -> None:
    releases = read_releases()
    assert list(releases) == ["skillevolbench", "skillflow", "skilllearnbench"]
    for release in releases.values():
        assert release.format in FORMATS
        assert release.is_data_set or len(release.commit) == 40
        assert all((image.recipe / "Dockerfile").is_file() for image in release.images)
    with pytest.raises(SetupError, match="unknown release 'other'; known: skillevolbench, skillflow"):
        find_release("other")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"commit": "main"}, "expected commit and digest in full"),
        ({"digest": "12"}, "expected commit and digest in full"),
        ({"commit": "unknown"}, "pinned commit only"),
        ({"url": None}, "KeyError: 'url'"),
    ],
)
def test_a_table_that_pins_nothing_is_refused(tmp_path: Path, change: dict[str, str | None], said: str) -> None:
    values = {
        "title": "Ours",
        "url": "https://example.org/ours.git",
        "commit": "a" * 40,
        "digest": "unknown",
        "licence": "MIT",
        "size": "1 MB",
        "folder": "",
        "format": "harbor",
        **change,
    }
    table = tmp_path / "releases.toml"
    table.write_text(
        "[ours]\n" + "".join(f'{name} = "{value}"\n' for name, value in values.items() if value is not None)
    )
    with pytest.raises(SetupError, match=said):
        read_releases(table)


# --- git ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", ["daemon", "files", "clone"])
def test_a_commit_is_fetched_byte_for_byte_and_without_its_history(tree: Path, tmp_path: Path, server: str) -> None:
    (tree / "tasks/link.md").symlink_to("../README.md")
    expected = content_of(tree)
    commit = publish(tree, tmp_path / "repositories" / "ours.git")
    told: list[str] = []
    place = tmp_path / "suites" / "ours"
    if server == "clone":
        fetched = fetch_release(release_of("http://127.0.0.1:1/ours.git", commit), place, tree, told.append)
    else:
        with (git_daemon if server == "daemon" else plain_files)(tmp_path / "repositories") as address:
            fetched = fetch_release(release_of(f"{address}/ours.git", commit), place, None, told.append)
    assert content_of(place) == expected
    assert os.access(place / "tasks/a/tests/test.sh", os.X_OK)
    assert not (place / ".git").exists()
    assert (fetched.commit, fetched.files, fetched.licences) == (commit, 8, ("LICENSE",))
    assert any("fetching the whole history" in line for line in told) == (server == "files")
    assert sorted(path.name for path in place.parent.iterdir()) == [".ours.lock", "ours", "ours.fetched.json"]
    receipt = json.loads((place.parent / "ours.fetched.json").read_text())
    assert (receipt["commit"], receipt["digest"], receipt["asked"][1]) == (commit, fetched.digest, commit)


def test_a_commit_that_is_not_there_leaves_nothing(tree: Path, tmp_path: Path) -> None:
    publish(tree, tmp_path / "repositories" / "ours.git")
    place = tmp_path / "suites" / "ours"
    with git_daemon(tmp_path / "repositories") as address:
        with pytest.raises(SetupError, match=f"has no commit {'b' * 40}"):
            fetch_release(release_of(f"{address}/ours.git", "b" * 40), place)
        with pytest.raises(SetupError, match="git ended with exit code"):
            fetch_release(release_of(f"{address}/other.git", "b" * 40), place)
    assert not place.exists()


def test_another_digest_than_the_tables_leaves_nothing(tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "suites" / "ours"
    commit = publish(tree, tmp_path / "repositories" / "ours.git")
    with pytest.raises(SetupError, match=f"expected a tree with the digest {'0' * 64}; found [0-9a-f]{{64}}"):
        fetch_release(release_of("unused", commit, "0" * 64), place, tree)
    assert not place.exists()
    right = fetch_release(release_of("unused", commit), tmp_path / "other", tree).digest
    assert fetch_release(release_of("unused", commit, right), place, tree).digest == right


# --- what is there already ----------------------------------------------------------------------------------------


def test_what_is_there_is_taken_again_only_as_it_was_fetched(tree: Path, tmp_path: Path) -> None:
    commit = publish(tree, tmp_path / "repositories" / "ours.git")
    place, told = tmp_path / "suites" / "ours", list[str]()
    first = fetch_release(release_of("unused", commit), place, tree)
    git(tree, "checkout", "--quiet", "--orphan", "gone")
    assert fetch_release(release_of("unused", commit), place, tree, told.append) == first
    assert told == [f"{place} is here already, as it was fetched at {first.fetched_at}"]
    later = git(tree, "rev-parse", "main")
    with pytest.raises(SetupError, match=f"holds {tree} at {commit}; move it to fetch {tree} at {later}"):
        fetch_release(release_of("unused", later), place, tree)
    with (place / "README.md").open("a") as file:
        file.write("ours\n")
    with pytest.raises(SetupError, match="its files have changed since"):
        fetch_release(release_of("unused", commit), place, tree)


def test_a_folder_that_somebody_else_made_is_left_alone(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(SetupError, match="was not put there by fetch_suite"):
        fetch_release(release_of("unused", "a" * 40), tmp_path / "mine", tree)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


# --- the hub ------------------------------------------------------------------------------------------------------


def test_a_data_set_is_fetched_page_by_page_and_every_file_is_checked(tree: Path, tmp_path: Path) -> None:
    hub, place, told = Hub(tree, page=3), tmp_path / "suites" / "ours", list[str]()
    with hub.serving() as url:
        fetched = fetch_release(release_of(url), place, None, told.append)
    assert content_of(place) == content_of(tree)
    assert (fetched.commit, fetched.asked) == (COMMIT, (url, UNKNOWN))
    assert f"commit {COMMIT}: 7 files, 0.0 MB" in told
    assert sum(path.endswith(f"/tree/{COMMIT}") for path, _ in hub.requests) == 4
    assert ("/store/tasks/a/data.bin", "") in hub.requests  # where the hub sends whoever asks for a large file
    other = Hub(tree)
    other.changed["README.md"] = b"# Oops\n"
    with (
        other.serving() as url,
        pytest.raises(SetupError, match="README.md: its content is not what the list of files"),
    ):
        fetch_release(release_of(url), tmp_path / "other")
    other.changed = {"tasks/a/data.bin": b"\0" * 20_000}
    with other.serving() as url, pytest.raises(SetupError, match="expected 10,240 bytes; the server sends more"):
        fetch_release(release_of(url), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_what_broke_off_is_continued(tree: Path, tmp_path: Path) -> None:
    hub = Hub(tree, breaks=2, failures=[503, 429])
    with hub.serving() as url:
        fetch_release(release_of(url), tmp_path / "ours")
    assert content_of(tmp_path / "ours") == content_of(tree)
    assert any(ranged.startswith("bytes=") for _, ranged in hub.requests)
    hub.failures = [404]
    with hub.serving() as url, pytest.raises(SetupError, match="the server answers 404"):
        fetch_release(release_of(url), tmp_path / "other")
    hub.failures = [503] * fetching.TRIES
    with hub.serving() as url, pytest.raises(SetupError, match="the server answers 503"):
        fetch_release(release_of(url), tmp_path / "other")


@pytest.mark.parametrize(
    "row",
    [
        {"path": "../outside.txt"},
        {"path": "/etc/outside.txt"},
        {"path": "tasks//outside.txt"},
        {"path": ".git/config"},
        {"path": "a\\b"},
        {"path": "tasks/\x1b[2J"},
        {"path": None},
        {"size": "many"},
        {"path": "README.md/outside.txt"},
    ],
)
def test_a_list_of_files_that_leads_elsewhere_is_refused(tree: Path, tmp_path: Path, row: dict[str, object]) -> None:
    hub = Hub(tree, extra=[{"type": "file", "oid": "0" * 40, "size": 1, "path": "x", **row}])
    with hub.serving() as url, pytest.raises(SetupError):
        fetch_release(release_of(url), tmp_path / "suites" / "ours")
    assert not list(tmp_path.rglob("outside.txt"))
    assert not (tmp_path / "suites" / "ours").exists()


FETCH = """
import sys
from pathlib import Path
from runner.releases import PublicRelease
from runner.releases.fetching import fetch_release
release = PublicRelease("ours", "Ours", sys.argv[1], "unknown", "unknown", "none", "small", "", "harbor", ())
fetch_release(release, Path(sys.argv[2]))
"""


def test_a_killed_fetch_leaves_nothing_half_written_and_the_next_continues_it(tree: Path, tmp_path: Path) -> None:
    hub, place = Hub(tree, slow=30.0), tmp_path / "suites" / "ours"
    with hub.serving() as url:
        process = subprocess.Popen([sys.executable, "-c", FETCH, url, str(place)], cwd=ROOT)
        parts = place.with_name(".ours.fetching") / "parts"
        for _ in range(200):
            if parts.is_dir() and any(path.stat().st_size for path in parts.iterdir()):
                break
            time.sleep(0.05)
        with pytest.raises(SetupError, match="another fetch_suite is fetching it"):
            fetch_release(release_of(url), place)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        assert not place.exists()
        hub.slow = 0.0
        hub.requests.clear()
        fetch_release(release_of(url), place)
    assert content_of(place) == content_of(tree)
    assert any(ranged for _, ranged in hub.requests)  # not from its start


def test_a_file_of_another_revision_does_not_stay(tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "ours"
    left = tmp_path / ".ours.fetching" / "tree"
    (left / "tasks" / "old").mkdir(parents=True)
    (left / "tasks" / "old" / "gone.txt").write_text("gone")
    (left / "README.md").write_text("# Oops\n")
    with Hub(tree).serving() as url:
        fetch_release(release_of(url), place)
    assert content_of(place) == content_of(tree)


# --- a copy at hand -----------------------------------------------------------------------------------------------


def test_a_folder_at_hand_is_copied_and_says_that_its_commit_is_unknown(tree: Path, tmp_path: Path) -> None:
    data_set = release_of("https://example.org/datasets/owner/tasks")
    git(tree, "init", "--quiet")
    (tree / "link.md").symlink_to("README.md")
    fetched = fetch_release(data_set, tmp_path / "ours", tree)
    assert (fetched.commit, content_of(tmp_path / "ours")) == (UNKNOWN, content_of(tree))
    assert not (tmp_path / "ours" / ".git").exists()
    without = fetch_release(replace(data_set, name="other"), tmp_path / "other", tmp_path / "ours")
    assert without.digest == fetched.digest
    with pytest.raises(SetupError, match="expected a folder with the release; there is none"):
        fetch_release(data_set, tmp_path / "third", tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("printed", "meaning"),
    [
        (
            "Error downloading object: x.bin: Smudge error: batch response: quota\nerror: external filter",
            "Git LFS could",
        ),
        ("fatal: unable to access 'https://h/': Could not resolve host: h", "the server's name is unknown"),
        ("fatal: could not read Username for 'https://h': terminal prompts disabled", "the server asks for a login"),
        ("remote: Repository not found.\nfatal: repository 'https://h/' not found", "there is no such repository"),
        ("fatal: write error: No space left on device", "the disk is full"),
        ("hint: use --abc\nusage: git fetch [<options>]", "it gave no reason that is known here"),
    ],
)
def test_what_git_prints_becomes_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, meaning: str
) -> None:
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{printed}\nEND\nexit 128\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    told: list[str] = []
    with pytest.raises(SetupError, match=meaning) as caught:
        fetch_release(release_of("https://h/ours.git", COMMIT), tmp_path / "place", tell=told.append)
    for line in (str(caught.value), *told):
        assert printed.splitlines()[0] not in line
