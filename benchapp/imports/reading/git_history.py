"""Read the line of commits of somebody else's git repository, without trusting it.

git works in an empty repository of ours and reads only the objects of the other one. No configuration, hook, attribute,
alias, filter or remote there has any effect, and replacements are off. Alternates, links among the objects and a `.git`
that points elsewhere are refused. Sizes are checked before contents are read; time, memory and output are bounded.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from benchapp.imports.reading.walking import Root
from runner.base.text import clean
from runner.base.types import File

MAX_COMMITS = 2_000
MAX_FILES = 5_000  # of one commit
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_LIBRARY_BYTES = 256 * 1024 * 1024
MAX_READ_BYTES = 128 * 1024 * 1024  # of distinct contents in one history; they are held while it is read
READ_AT_ONCE = 16 * 1024 * 1024  # bytes that one process of git reads
MAX_ENTRIES = 1_000_000  # files of all its states together
MAX_LISTING_BYTES = 16 * 1024 * 1024
MAX_SHALLOW_BYTES = 1024 * 1024
MAX_MEMORY_BYTES = 4 * 1024 * 1024 * 1024  # address space of one git process
SECONDS = 300.0  # for one whole history

_OBJECT = re.compile(r"[0-9a-f]{40}")
MODES = {"100644": 0o644, "100755": 0o755}
_TEMPLATE = "--format=%H%x1f%T%x1f%ct%x1f%s%x1f%an%x1f%b%x1e"


class GitProblem(Exception):
    """The history cannot be read. `expected` and the message are for the list of problems."""

    def __init__(self, expected: str, message: str) -> None:
        super().__init__(message)
        self.expected = expected


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of the first-parent line. `tree` names the state of the whole repository."""

    ident: str
    tree: str
    at: datetime
    subject: str
    author: str = ""
    body: str = ""


class History:
    """An opened repository. Use inside `open_history`."""

    def __init__(self, root: Root, folder: Path, scratch: Path) -> None:
        self.root, self.folder = root, folder
        self._left, self._entries_left = MAX_READ_BYTES, MAX_ENTRIES
        self._deadline = time.monotonic() + SECONDS
        self._contents: dict[str, bytes] = {}
        self._reported: set[str] = set()
        self._git = shutil.which("git") or ""
        self._scratch = scratch
        if not self._git:
            raise GitProblem("the program git on this machine, to read the library's history", "there is none")
        self._head = _checked_head(root, folder)
        (scratch / "objects").mkdir()
        (scratch / "refs").mkdir()
        (scratch / "HEAD").write_text("ref: refs/heads/none\n")
        (scratch / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        if root.is_file(folder / ".git" / "shallow"):
            (scratch / "shallow").write_text(_small(root, folder / ".git" / "shallow", MAX_SHALLOW_BYTES) + "\n")
            root.report(folder, "", "a whole history", "a shallow clone, which lacks the earlier commits")

    def commits(self, paths: Sequence[str] = ()) -> list[Commit]:
        """Return the commits from the first to the last. `paths`: only those that change one of these."""
        output = self._log(f"--max-count={MAX_COMMITS + 1}", _TEMPLATE, paths=paths)
        found = [commit for record in output.decode("utf-8", "replace").split("\x1e") if (commit := _commit(record))]
        if len(found) > MAX_COMMITS:
            raise GitProblem(f"at most {MAX_COMMITS:,} commits", "a longer history; it was not read")
        return found[::-1]

    def folders_with(self, name: str) -> list[str]:
        """Return the folders that ever had a file of this name, "." for the top."""
        options = ("-m", "--name-only", "--no-renames", "-z", "--format=", "--diff-filter=d")
        paths = self._log(*options, paths=[f"**/{name}"], pathspecs="GLOB").decode("utf-8", "replace").split("\0")
        return sorted({str(PurePosixPath(path.lstrip("\n")).parent) for path in paths if path.strip("\n")})

    def changes(self, paths: Sequence[str]) -> dict[str, list[tuple[str, str, str]]]:
        """Return what each commit changed in these paths against the one before: (path, object, mode),
        "" for both where the file went."""
        options = ("-m", "--raw", "--no-abbrev", "--no-renames", "--root", "-z", "--format=%x1e%H")
        output = self._log(*options, f"--max-count={MAX_COMMITS}", paths=paths)
        found: dict[str, list[tuple[str, str, str]]] = {}
        for record in output.decode("utf-8", "replace").split("\x1e")[1:]:
            ident, _, rest = record.partition("\0")
            parts = rest.lstrip("\n").split("\0")
            rows = found.setdefault(ident.strip(), [])
            for head, path in zip(parts[::2], parts[1::2], strict=False):
                fields = head.split()
                if len(fields) == 5 and fields[0].startswith(":"):
                    is_gone = fields[4] == "D"
                    rows.append((path, "" if is_gone else fields[3], "" if is_gone else fields[1]))
        return found

    def contents(self, idents: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of objects. Larger ones than MAX_FILE_BYTES are left out, with a report."""
        wanted = {ident for ident in idents if ident not in self._contents and _OBJECT.fullmatch(ident)}
        if wanted:
            asked = "".join(f"{ident}\n" for ident in sorted(wanted))
            output = self._run("cat-file", "--batch-check", given=asked).decode("ascii", "replace")
            sizes: dict[str, int] = {}
            for line in output.splitlines():
                ident, kind, size = [*line.split(), "", ""][:3]
                if kind != "blob" or not size.isdigit():  # such as in a partial clone
                    self._report(ident[:40], "every object of the history", "missing or broken; the file was left out")
                elif int(size) > MAX_FILE_BYTES:
                    self._report(
                        ident, f"a file of at most {MAX_FILE_BYTES:,} bytes", f"{int(size):,}; it was left out"
                    )
                else:
                    sizes[ident] = int(size)
            group, held = dict[str, int](), 0
            for ident, count in sizes.items():
                group[ident], held = count, held + count
                if held > READ_AT_ONCE:
                    self._contents |= self._read(group)
                    group, held = {}, 0
            self._contents |= self._read(group)
        return self._contents

    def files(self, tree: str, below: str) -> dict[str, File]:
        """Return the regular files below a folder of a tree, by path relative to it."""
        entries = list(self._list_tree(tree, below))
        missing = {ident: size for _, _, ident, size in entries if ident not in self._contents}
        self._contents |= self._read(missing)
        return {path: File(self._contents[ident], mode) for path, mode, ident, _ in entries}

    def _list_tree(self, tree: str, below: str) -> Iterator[tuple[str, int, str, int]]:
        """Yield (path, mode, object, size)."""
        where = f"{below}/"
        output = self._run("ls-tree", "-r", "-z", "-l", "--full-tree", tree, "--", where)
        records = [record for record in output.split(b"\0") if record]
        if len(records) > MAX_FILES:
            raise GitProblem(f"at most {MAX_FILES:,} files in one state of the library", f"found {len(records):,}")
        self._entries_left -= len(records)
        if self._entries_left < 0:
            raise GitProblem(f"at most {MAX_ENTRIES:,} files in all states of the library", "more; it was not read")
        total = 0
        for record in records:
            head, _, raw = record.partition(b"\t")
            mode, _, ident, size = head.decode("ascii", "replace").split()
            path = clean(raw.decode("utf-8", "replace")).removeprefix(where)[:1000]
            if mode in MODES and not size.isdigit():
                raise GitProblem("every object of the history", f"{path} is missing or broken")
            if any(part in ("", ".", "..") for part in path.split("/")):  # git never creates it, a person can
                self._report(path, "a path inside the library", "a link out of it, or not a file; left out")
                continue
            if mode not in MODES or not _OBJECT.fullmatch(ident):
                self._report(path, "a regular file", "a link or a nested repository; it was left out")
                continue
            if int(size) > MAX_FILE_BYTES:
                self._report(path, f"a file of at most {MAX_FILE_BYTES:,} bytes", f"{int(size):,}; it was left out")
                continue
            total += int(size)
            if total > MAX_LIBRARY_BYTES:
                raise GitProblem(f"a library of at most {MAX_LIBRARY_BYTES:,} bytes", "a larger one")
            yield path, MODES[mode], ident, int(size)

    def _read(self, sizes: dict[str, int]) -> dict[str, bytes]:
        """Return contents by object, after checking the sizes that git listed."""
        idents, wanted = list(sizes), sum(sizes.values())
        self._left -= wanted
        if self._left < 0:
            raise GitProblem(f"at most {MAX_READ_BYTES:,} bytes of contents in all", "more; the rest was not read")
        if not idents:
            return {}
        output = self._run(
            "cat-file", "--batch", given="".join(f"{ident}\n" for ident in idents), limit=wanted + 100 * len(idents)
        )
        found: dict[str, bytes] = {}
        at = 0
        for ident in idents:
            end = output.find(b"\n", at)
            head = output[at:end].split()
            if end < 0 or len(head) != 3 or head[0] != ident.encode() or int(head[2]) != sizes[ident]:
                raise GitProblem("every object of the history", f"{ident} is missing or broken")
            found[ident] = output[end + 1 : end + 1 + sizes[ident]]
            at = end + 2 + sizes[ident]
        return found

    def _report(self, path: str, expected: str, message: str) -> None:
        if path not in self._reported:
            self._reported.add(path)
            self.root.report(self.folder, path, expected, message)

    def _log(self, *options: str, paths: Sequence[str], pathspecs: str = "LITERAL") -> bytes:
        given = "\n".join([self._head, "--", *paths]) + "\n"
        options = ("--first-parent", "--no-show-signature", *options, "--stdin")
        return self._run("log", *options, given=given, pathspecs=pathspecs)

    def _run(
        self, *arguments: str, given: str = "", limit: int = MAX_LISTING_BYTES, pathspecs: str = "LITERAL"
    ) -> bytes:
        """Return what git writes. It goes to a file, whose size the system limits."""

        def limit_process() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit + 1, limit + 1))

        options = ("-c", "core.commitGraph=false", "-c", "core.multiPackIndex=false")
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.run(
                    [self._git, f"--git-dir={self._scratch}", *options, *arguments],
                    input=given.encode(),
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    cwd=self._scratch,
                    env={
                        "PATH": os.defpath,
                        "HOME": str(self._scratch),
                        "LC_ALL": "C",
                        "GIT_CONFIG_NOSYSTEM": "1",
                        "GIT_CONFIG_GLOBAL": os.devnull,
                        "GIT_ATTR_NOSYSTEM": "1",
                        "GIT_NO_REPLACE_OBJECTS": "1",
                        "GIT_NO_LAZY_FETCH": "1",
                        "GIT_OPTIONAL_LOCKS": "0",
                        "GIT_TERMINAL_PROMPT": "0",
                        f"GIT_{pathspecs}_PATHSPECS": "1",
                        "GIT_OBJECT_DIRECTORY": str(self.folder / ".git" / "objects"),
                    },
                    timeout=max(0.0, self._deadline - time.monotonic()),
                    preexec_fn=limit_process,
                )
            except subprocess.TimeoutExpired:
                raise GitProblem(f"a history that git reads in {SECONDS:.0f} seconds", "it took longer") from None
            output.seek(0)
            found = output.read()
        if len(found) > limit:
            raise GitProblem(f"at most {limit:,} bytes of listing", "more; it was not read")
        if process.returncode:
            raise GitProblem(
                "a git history that is whole", f"git {arguments[0]} ended with status {process.returncode}"
            )
        return found


@contextmanager
def open_history(root: Root, folder: Path) -> Iterator[History]:
    """Open the history of the repository in `folder`. Raise GitProblem if it cannot or must not be read."""
    with tempfile.TemporaryDirectory(prefix="skillglass-git-") as scratch:
        yield History(root, folder, Path(scratch))


def _checked_head(root: Root, folder: Path) -> str:
    """Return the commit that is checked out, without asking git. Raise GitProblem if the repository reaches outside."""
    git = folder / ".git"
    if not root.is_dir(git):
        raise GitProblem("a git repository in the folder itself", "there is none, or one in another place")
    objects = git / "objects"
    if not root.is_dir(objects):
        raise GitProblem("the repository's objects inside it", "they are missing or lie elsewhere")
    for name in ("alternates", "http-alternates"):
        if root.exists(objects / "info" / name):
            raise GitProblem("a repository that holds its own objects", "it borrows them from elsewhere; not read")
    _refuse_special(objects)
    head = _small(root, git / "HEAD")
    for _ in range(5):
        if _OBJECT.fullmatch(head):
            return head
        head = _reference(root, git, head.removeprefix("ref:").strip())
    raise GitProblem("a branch that ends at a commit", "a chain of references")


def _refuse_special(objects: Path) -> None:
    seen = 0
    for folder, folders, files in os.walk(objects):
        for name in (*folders, *files):
            seen += 1
            try:
                mode = Path(folder, name).lstat().st_mode
            except OSError as error:
                raise GitProblem("objects that can be read", error.strerror or str(error)) from error
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # git would wait for a pipe, and follow a link
                raise GitProblem("objects that are regular files", "a link, pipe or socket among them; not read")
        if seen > 500_000:
            raise GitProblem("at most 500,000 objects", "more; not read")


def _reference(root: Root, git: Path, name: str) -> str:
    if not re.fullmatch(r"refs/[A-Za-z0-9._/+-]{1,200}", name) or ".." in name:
        raise GitProblem("HEAD at a commit or a branch", f"found {name[:80]!r}")
    if root.is_file(git / name):
        return _small(root, git / name)
    if root.is_file(git / "packed-refs"):
        for line in _small(root, git / "packed-refs", 4 * 1024 * 1024).splitlines():
            ident, _, packed = line.partition(" ")
            if packed == name:
                return ident
    raise GitProblem("a branch with a commit", f"{name} has none")


def _small(root: Root, path: Path, limit: int = 4096) -> str:
    content = root.read(path, limit)
    if content is None:
        raise GitProblem("a git repository that can be read", f"{path.name} cannot be")
    return content.decode("utf-8", "replace").strip()


def _commit(record: str) -> Commit | None:
    parts = record.strip("\n").split("\x1f")
    if len(parts) != 6 or not _OBJECT.fullmatch(parts[0]) or not _OBJECT.fullmatch(parts[1]):
        return None
    try:
        at = datetime.fromtimestamp(int(parts[2]), UTC)
    except (ValueError, OverflowError, OSError):
        at = datetime.fromtimestamp(0, UTC)
    author, body = clean(parts[4]).strip()[:200], clean(parts[5]).strip()[:10_000]
    return Commit(parts[0], parts[1], at, clean(parts[3])[:1_000], author, body)
