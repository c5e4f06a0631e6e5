"""Archives in and out of containers, without an engine: what comes out is hostile."""

from __future__ import annotations

import io
import socket
import tarfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.base.errors import SuiteError
from runner.base.trees import TreeCaps
from runner.base.types import File
from runner.sandboxes import archives
from runner.sandboxes.archives import pack_files, unpack_tree
from runner.sandboxes.docker.docker_contexts import read_context
from runner.sandboxes.docker.docker_exec import CommandOutput, Frames, RunningCommand
from tests.cases import every


def entry(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, link: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.size, found.linkname = kind, size, link
    return found


def archive(*entries: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for each in entries:
            made.addfile(each, io.BytesIO(b"x" * each.size) if each.isreg() else None)
    return buffer.getvalue()


def test_what_is_packed_comes_out_again() -> None:
    files = {"a.txt": File(b"one"), "deep/er/run.sh": File(b"two", 0o755)}
    content = pack_files(files, top="skills")
    with tarfile.open(fileobj=io.BytesIO(content)) as made:
        names = made.getnames()
    assert names == ["skills", "skills/deep", "skills/deep/er", "skills/a.txt", "skills/deep/er/run.sh"]
    assert unpack_tree(content[place : place + 7] for place in range(0, len(content), 7)).files == files


@every("../x", "/x", "a/../../x", "", "a\0b", "a//b")
def test_no_path_leaves_its_folder(path: str) -> None:
    with pytest.raises(ValueError, match="plain relative path"):
        pack_files({path: File(b"")}, top="skills")


def test_links_and_special_files_are_named_and_not_followed() -> None:
    content = archive(
        entry("skills", tarfile.DIRTYPE),
        entry("skills/a", size=2),
        entry("skills/link", tarfile.SYMTYPE, link="/etc/passwd"),
        entry("skills/hard", tarfile.LNKTYPE, link="skills/a"),
        entry("skills/lost", tarfile.LNKTYPE, link="../etc/shadow"),
        entry("skills/pipe", tarfile.FIFOTYPE),
        entry("skills/disk", tarfile.BLKTYPE),
    )
    tree = unpack_tree([content])
    assert tree.files == {"a": File(b"xx"), "hard": File(b"xx")}
    assert tree.left_out == [
        "link: a link",
        "lost: a hard link to something that is not here",
        "pipe: a special file",
        "disk: a special file",
    ]


def test_sizes_and_count_are_capped_and_the_rest_is_named() -> None:
    content = archive(*(entry(f"skills/{name}", size=100) for name in "abcd"))
    tree = unpack_tree([content], TreeCaps(file_bytes=60, total_bytes=10_000, count=3))
    assert tree.files["a"].content == b"x" * 60 + b"\n[... 40 bytes left out ...]\n"
    assert sorted(tree.files) == ["a", "b", "c"]
    assert tree.left_out[-1] == "d: and all after it, more than 3 files"


def test_a_terabyte_is_not_read_to_its_end() -> None:
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        yield entry("skills/big", size=2**33).tobuf()
        while True:
            read += 65_536
            yield b"\0" * 65_536

    tree = unpack_tree(endless(), TreeCaps(file_bytes=1_000))
    assert tree.left_out[-1] == "big: and all after it, too large to pass over"
    assert read < 1_000_000


def test_thousands_of_sparse_files_are_not_read_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "ALL_SKIP_BYTES", 1_000_000)
    content = archive(*(entry(f"skills/{number}", size=300_000) for number in range(10)))
    tree = unpack_tree([content], TreeCaps(file_bytes=1_000))
    assert list(tree.files) == ["0", "1", "2", "3"]
    assert tree.left_out[-1] == "3: and all after it, too large to pass over"


def test_links_without_number_are_not_all_named() -> None:
    content = archive(*(entry(f"skills/{number}", tarfile.SYMTYPE, link="x") for number in range(50)))
    tree = unpack_tree([content], TreeCaps(count=10))
    assert len(tree.left_out) == 11
    assert tree.left_out[-1] == "10: and all after it, more than 10 files"


class Engine:
    """Says of its one command what a test wants, and hands out the stream that the test writes to."""

    def __init__(self, stream: socket.socket, *, code: int = 0, runs: Callable[[], bool] = lambda: False) -> None:
        self.stream, self.code, self.runs = stream, code, runs

    def exec_create(self, *_: object, **__: object) -> dict[str, str]:
        return {"Id": "one"}

    def exec_start(self, *_: object, **__: object) -> socket.socket:
        return self.stream

    def exec_inspect(self, _: str) -> dict[str, object]:
        return {"Running": self.runs(), "ExitCode": self.code}


def test_an_error_that_overtakes_the_process_id_hides_it_not() -> None:
    ours, theirs = socket.socketpair()
    for kind, text in ((2, b"err\n"), (1, b"16\nout\n")):
        theirs.sendall(bytes([kind, 0, 0, 0]) + len(text).to_bytes(4, "big") + text)
    theirs.close()
    execution = RunningCommand(Engine(ours, code=7), "c", "true", folder="/", user="0", environment={})
    executed = execution.follow(1_000, time.monotonic() + 60)
    assert (executed.started, executed.exit_code, executed.text) == (True, 7, "err\nout\n")
    assert execution.pid == 16


def test_a_shell_that_tells_no_process_id_is_held_in_little_memory() -> None:
    """As an agent leaves one that puts something else where the image has its shell."""
    piece = b"y" * 60_000
    ours, theirs = socket.socketpair()

    def talk() -> None:
        for _ in range(500):
            theirs.sendall(b"\1\0\0\0" + len(piece).to_bytes(4, "big") + piece)
        done.set()
        theirs.close()

    done = threading.Event()
    execution = RunningCommand(
        Engine(ours, runs=lambda: not done.is_set()), "c", "true", folder="/", user="0", environment={}
    )
    threading.Thread(target=talk, daemon=True).start()
    tracemalloc.start()
    executed = execution.follow(1_000, time.monotonic() + 60)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000, "of thirty million"
    assert (executed.started, executed.truncated, executed.exit_code) == (False, True, 0)
    assert executed.text.endswith("y" * 500)


def test_a_broken_archive_keeps_what_came_before() -> None:
    content = archive(entry("skills/a", size=10), entry("skills/b", size=5_000))
    tree = unpack_tree([content[:2_000]])
    assert tree.files["a"] == File(b"x" * 10)
    assert any("cannot be read" in line or line.startswith("b:") for line in tree.left_out)


def test_a_stream_is_taken_apart_wherever_it_is_cut() -> None:
    stream = b"".join(
        bytes([kind, 0, 0, 0]) + len(text).to_bytes(4, "big") + text
        for kind, text in ((1, b"one"), (2, b""), (1, b"three"))
    )
    for cut in range(len(stream)):
        frames = Frames()
        found = frames.feed(stream[:cut]) + frames.feed(stream[cut:])
        assert b"".join(piece for _, piece in found) == b"onethree"
        assert {kind for kind, _ in found} == {1}


def test_output_is_held_in_little_memory() -> None:
    output = CommandOutput(100)
    for _ in range(10_000):
        output.add(b"y" * 100)
    output.add(b"end")
    assert sum(map(len, output._tail)) + len(output._head) <= 600
    text, truncated = output.text()
    assert truncated
    assert text == f"{'y' * 50}\n[... 999,903 characters left out ...]\n{'y' * 47}end"


def test_a_context_is_named_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM a AS one\nFROM --platform=linux/amd64 b\nFROM one\nFROM scratch\n")
    (tmp_path / "x").write_text("1")
    context = read_context(tmp_path)
    assert context.bases == ("a", "b")
    digest = context.digest()
    assert read_context(tmp_path).digest() == digest
    assert context.digest(("sha256:1",)) != digest
    (tmp_path / "x").chmod(0o755)
    assert read_context(tmp_path).digest() != digest
    assert len(b"".join(context.stream())) % 512 == 0


def test_a_context_needs_a_dockerfile(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="expected a Dockerfile"):
        read_context(tmp_path)
