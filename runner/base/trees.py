"""Trees of files that hostile programs may have changed: written without following links, read with caps."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from runner.base.types import File, Files


def slugs(files: Iterable[str]) -> tuple[str, ...]:
    """Return the skills of a library: the first part of its paths, sorted."""
    return tuple(sorted({path.partition("/")[0] for path in files}))


@dataclass(frozen=True, slots=True)
class TreeCaps:
    """How much of a tree is read: per file, in total, and how many files."""

    file_bytes: int = 16 * 1024 * 1024
    total_bytes: int = 128 * 1024 * 1024
    count: int = 5_000


@dataclass(slots=True)
class Tree:
    """What was read. `left_out` has one line with the reason per thing that is missing or cut in `files`."""

    files: dict[str, File] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def check_relative(path: str) -> PurePosixPath:
    """Return `path` as a confined relative path, or raise ValueError with the reason."""
    pure = PurePosixPath(path)
    if not path or "\0" in path or "\\" in path or pure.is_absolute() or ".." in pure.parts or str(pure) != path:
        raise ValueError(f"{path!r} is not a plain relative path inside the folder")
    return pure


def make_real_folder(folder: Path) -> None:
    """Make `folder` a writable folder: a link or a file in its place is removed."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        folder.unlink()
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)


def make_room(root: Path, path: str) -> Path:
    """Return where `path` is written below `root`, with its folders made. Anything in its way (link, file, folder) is
    removed. ValueError if the path leads out."""
    *parents, name = check_relative(path).parts
    folder = root
    for part in parents:
        folder = folder / part
        make_real_folder(folder)
    target = folder / name
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    return target


def write_tree(root: Path, files: Files) -> None:
    """Write `files` below `root`. Anything in the way of a path is replaced."""
    make_real_folder(root)
    for path, file in files.items():
        target = make_room(root, path)
        target.write_bytes(file.content)
        target.chmod(file.mode)


def read_tree(
    root: Path,
    caps: TreeCaps = TreeCaps(),
    names: frozenset[str] | None = None,
    *,
    skip: frozenset[str] = frozenset(),
) -> Tree:
    """Read the regular files below `root` in sorted order, or only those in `names`. `skip`: names of folders to
    leave out.

    Links are not followed, special files are named in `left_out`.
    """
    tree = Tree()
    total = 0
    for path, entry in _walk(root, "", tree, names, skip):
        if len(tree.files) >= caps.count:
            tree.left_out.append(f"{path}: and all after it, more than {caps.count:,} files")
            break
        allowed = max(0, min(caps.file_bytes, caps.total_bytes - total))
        file = _read(entry, path, allowed, tree)
        if file is not None:
            tree.files[path] = file
            total += len(file.content)
    return tree


def _walk(
    root: Path, prefix: str, tree: Tree, names: frozenset[str] | None, skip: frozenset[str]
) -> Iterator[tuple[str, Path]]:
    try:
        entries = sorted(os.scandir(root / prefix), key=lambda entry: entry.name)
    except OSError as error:
        if prefix or root.exists():
            tree.left_out.append(f"{_printable(prefix) or '.'}: cannot be listed ({error.strerror})")
        return
    for entry in entries:
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in skip:
                yield from _walk(root, path, tree, names, skip)
        elif names is not None and path not in names:
            continue
        elif entry.is_file(follow_symlinks=False):
            yield _printable(path), root / path
        else:
            kind = "a link" if entry.is_symlink() else "a special file"
            tree.left_out.append(f"{_printable(path)}: {kind}")


def _read(entry: Path, path: str, allowed: int, tree: Tree) -> File | None:
    try:
        descriptor = os.open(entry, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            content = stream.read(allowed)
    except OSError as error:
        tree.left_out.append(f"{path}: cannot be read ({error.strerror})")
        return None
    if status.st_size > len(content):
        tree.left_out.append(f"{path}: {status.st_size:,} bytes, only the first {len(content):,} read")
        content += f"\n[... {status.st_size - len(content):,} bytes left out ...]\n".encode()
    return File(content, 0o755 if status.st_mode & stat.S_IXUSR else 0o644)


def _printable(path: str) -> str:
    """Show names that are not UTF-8 with their bytes escaped."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def measure(root: Path, stop_at_bytes: int, stop_at_count: int) -> tuple[int, int]:
    """(bytes, entries) below `root`, counted until either limit is passed."""
    size = count = 0
    pending = [root]
    while pending and size <= stop_at_bytes and count <= stop_at_count:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:
            continue  # removed or locked since then; what cannot be listed cannot be counted
        for entry in entries:
            count += 1
            if entry.is_dir(follow_symlinks=False):
                pending.append(Path(entry.path))
            else:
                size += _size(entry)
    return size, count


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0  # removed between listing and looking


def links_below(root: Path) -> Iterator[str]:
    """Every link below `root`, as an absolute path. None is followed."""
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(folder, name)
            if path.is_symlink():
                yield str(path)


def read_link(path: str) -> str | None:
    """Return the link's target. None if it is not a link, or is one that the system makes up for each process."""
    if path.startswith(("/proc/", "/dev/")):
        return None
    try:
        return str(Path(path).readlink())
    except OSError:
        return None


def remove_tree(root: Path) -> None:
    """Remove `root` and everything below, locked folders too. Does nothing if it does not exist; other processes may
    remove it at the same time, such as two workers that start after a crash."""
    for folder, names, _ in os.walk(root):  # top down, so that each folder is unlocked before it is listed
        for name in names:
            if not Path(folder, name).is_symlink():
                with suppress(FileNotFoundError):
                    Path(folder, name).chmod(0o700)
    if root.exists():
        shutil.rmtree(root, onerror=_raise_unless_gone)


def _raise_unless_gone(function: object, path: str, failure: tuple[object, BaseException, object]) -> None:
    if not isinstance(failure[1], FileNotFoundError):
        raise failure[1]
