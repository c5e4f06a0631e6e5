"""Transfer of files into and out of a container, as tar. What comes out was made by hostile programs."""

from __future__ import annotations

import io
import stat
import tarfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from runner.base.trees import Tree, TreeCaps, check_relative
from runner.base.types import File, Files

CAPS = TreeCaps()
_PIECE = 1 << 20  # bytes read at once
SKIP_BYTES = 64 * 1024 * 1024  # how much of one oversized file is skipped before reading is given up
ALL_SKIP_BYTES = 1024 * 1024 * 1024  # and of all of them: thousands of sparse files cost their maker nothing


def pack_files(files: Files, *, top: str = "", owner: int = 0) -> bytes:
    """A tar of `files`, below the folder `top` if one is named. Every folder on the way has an entry of its own, which
    replaces a link or file in its place. ValueError for a path that leaves the folder."""
    paths = {path: PurePosixPath(top) / check_relative(path) for path in files}
    folders = {str(parent) for path in paths.values() for parent in path.parents if parent.parts} | (
        {top} if top else set()
    )
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder in sorted(folders):
            _add(archive, folder, tarfile.DIRTYPE, 0o755, owner)
        for path, file in files.items():
            _add(archive, str(paths[path]), tarfile.REGTYPE, file.mode, owner, file.content)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, kind: bytes, mode: int, owner: int, content: bytes = b"") -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.size = kind, mode, len(content)
    entry.uid = entry.gid = owner
    entry.mtime = int(time.time())  # build tools compare times
    archive.addfile(entry, io.BytesIO(content))


class ChunkReader(io.RawIOBase):
    """Chunks of bytes as a readable file. Only the current chunk is held."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def unpack_file(chunks: Iterable[bytes], path: str, tree: Tree) -> None:
    """Put the one file of a tar into `tree` as `path`. If it is not a file, or too large, `left_out` names it."""
    try:
        with _open_tar(chunks) as archive:
            entry = archive.next()
            file = None if entry is None else _file(archive, entry, path, CAPS.file_bytes, tree)
    except tarfile.TarError as error:
        tree.left_out.append(f"{path}: the archive cannot be read ({error})")
        return
    if file is not None:
        tree.files[path] = file


def _open_tar(chunks: Iterable[bytes]) -> tarfile.TarFile:
    stream = io.BufferedReader(ChunkReader(chunks), 1 << 16)
    return tarfile.open(fileobj=stream, mode="r|", errors="surrogateescape")


def unpack_tree(chunks: Iterable[bytes], caps: TreeCaps = CAPS) -> Tree:
    """The regular files of a tar as the engine sends a folder: below one top entry, whose name is removed.

    Links are not followed, special files are named in `left_out`, sizes and count are capped. The engine spells holes
    of a sparse file out as zeros. So after a file of more than SKIP_BYTES over its cap, or ALL_SKIP_BYTES over all
    caps, nothing more is read.
    """
    tree = Tree()
    total = passed_over = 0
    try:
        with _open_tar(chunks) as archive:
            for entry in archive:
                archive.members = []  # type: ignore[attr-defined]  # else it remembers each entry
                path = _inner(entry.name)
                if path is None or entry.isdir():
                    continue
                if len(tree.files) >= caps.count or len(tree.left_out) >= caps.count:
                    tree.left_out.append(f"{path}: and all after it, more than {caps.count:,} files")
                    break
                allowed = max(0, min(caps.file_bytes, caps.total_bytes - total))
                file = _file(archive, entry, path, allowed, tree)
                if file is not None:
                    tree.files[path] = file
                    total += len(file.content)
                too_much = max(0, entry.size - allowed) if entry.isreg() else 0
                passed_over += too_much
                if too_much > SKIP_BYTES or passed_over > ALL_SKIP_BYTES:
                    tree.left_out.append(f"{path}: and all after it, too large to pass over")
                    break
    except tarfile.TarError as error:
        tree.left_out.append(f"the rest: the archive cannot be read ({error})")
    return tree


def _file(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: str, allowed: int, tree: Tree) -> File | None:
    if entry.islnk():
        linked = tree.files.get(_inner(entry.linkname) or "")
        if linked is None:
            tree.left_out.append(f"{path}: a hard link to something that is not here")
        return linked
    if not entry.isreg():
        tree.left_out.append(f"{path}: {'a link' if entry.issym() else 'a special file'}")
        return None
    stream = archive.extractfile(entry)
    content = stream.read(allowed) if stream is not None else b""
    if entry.size > len(content):
        tree.left_out.append(f"{path}: {entry.size:,} bytes, only the first {len(content):,} read")
        content += f"\n[... {entry.size - len(content):,} bytes left out ...]\n".encode()
    return File(content, 0o755 if entry.mode & 0o100 else 0o644)


def _inner(name: str) -> str | None:
    """The path below the top entry, fit to be shown. None for the top itself."""
    parts = name.strip("/").split("/")[1:]
    path = "/".join(parts).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return path or None


def pad_entry(entry: tarfile.TarInfo, content: Iterator[bytes]) -> Iterator[bytes]:
    """One entry of a tar as bytes: header, exactly `entry.size` bytes of content, padding."""
    yield entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    left = entry.size
    for piece in content:
        yield piece[:left]
        left -= len(piece[:left])
        if not left:
            break
    yield b"\0" * (left + -entry.size % tarfile.BLOCKSIZE)


END_OF_ARCHIVE = b"\0" * (2 * tarfile.BLOCKSIZE)


def can_be_packed(path: Path) -> bool:
    """Is it a file, a folder or a link? Pipes, sockets and devices are left out."""
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def make_entry(path: Path, name: str) -> tarfile.TarInfo:
    """Owned by root and readable by everyone, since an image may run as another user. No time of change: it would
    say when something was unpacked, not what it is."""
    status = path.lstat()
    entry = tarfile.TarInfo(name)
    if stat.S_ISLNK(status.st_mode):
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
    elif stat.S_ISDIR(status.st_mode):
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    else:
        entry.size, entry.mode = status.st_size, 0o755 if status.st_mode & stat.S_IXUSR else 0o644
    return entry


def read_pieces(path: Path) -> Iterator[bytes]:
    """The file's content, for `pad_entry`."""
    with path.open("rb") as stream:
        while piece := stream.read(_PIECE):
            yield piece


def list_entries(folder: Path) -> Iterator[tuple[tarfile.TarInfo, Path]]:
    """Entries of everything below a folder of this machine, sorted."""
    for path in sorted(folder.rglob("*")):
        if can_be_packed(path):
            yield make_entry(path, str(path.relative_to(folder))), path


def pack_folder(folder: Path) -> Iterator[bytes]:
    """The folder's entries as bytes of a tar, without its end: more entries may follow."""
    for entry, path in list_entries(folder):
        yield from pad_entry(entry, read_pieces(path) if entry.isreg() else iter(()))
