"""Decide where a file of an upload may be stored: below the upload's own folder, under a name no other file can take.

Paths come from a browser, a program or an archive, so nothing in them is trusted.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path, PurePosixPath

from django.conf import settings

from benchapp.archive import ENDINGS

MAX_DEPTH = 32
MAX_NAME_BYTES = 255  # what file systems take
ARCHIVE_ENDINGS = (*ENDINGS, ".tar", ".zip")
ARCHIVES = PurePosixPath("archives")
# An experiment without an id is identified by the end of its path (`walking.tail_of`). A browser does not send the folders above
# the chosen one, so these two replace them. They never change: uploading a folder again finds its rows.
TREE = PurePosixPath("browser/uploaded")
LOOSE = "files"  # the folder of files that were chosen without one

_DRIVE = re.compile(r"[A-Za-z]:")


class UploadRefused(ValueError):
    """The upload is not acceptable; the message says why. No part of it is kept."""


class TooMuch(UploadRefused):
    """More than the limits allow."""


def check_path(path: object) -> str:
    """Return the path. Raise UploadRefused if it is not plainly relative, or too long or deep."""
    if not isinstance(path, str) or not path:
        raise UploadRefused("A file has no path.")
    shown = ascii(path[:120])
    if len(path) > settings.UPLOAD_PATH_LENGTH:
        raise TooMuch(
            f"The path {shown} has {len(path):,} characters; at most {settings.UPLOAD_PATH_LENGTH:,} are taken."
        )
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in path):
        raise UploadRefused(f"The path {shown} has a control character.")
    if path.startswith("/") or "\\" in path or _DRIVE.match(path):
        raise UploadRefused(f"The path {shown} must be relative, with / between folders.")
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise UploadRefused(f"The path {shown} has an empty part, or one that leads out.")
    if len(parts) > MAX_DEPTH:
        raise TooMuch(f"The path {shown} is {len(parts)} folders deep; at most {MAX_DEPTH} are taken.")
    if any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise TooMuch(f"A name in the path {shown} is longer than {MAX_NAME_BYTES} bytes.")
    return path


class Names:
    """Paths that are taken. A new one must not equal another in other letters, or be its parent."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: dict[str, str] = {}

    def add(self, path: str) -> None:
        """Raise UploadRefused if the path, or a folder of it, equals another one except for case or normalisation."""
        folded = _fold(path)
        if folded in self._files or folded in self._folders:
            raise UploadRefused(f"{ascii(path[:120])} comes twice, as one name differs only by case or accents.")
        self._files.add(folded)
        for folder in map(str, PurePosixPath(path).parents):
            folded = _fold(folder)
            if folded in self._files or self._folders.setdefault(folded, folder) != folder:
                raise UploadRefused(f"{ascii(folder[:120])} comes twice, as one name differs only by case or accents.")


def _fold(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def place_of(folder: Path, path: str) -> Path:
    """Return the path of an uploaded file below the upload's folder."""
    if "/" in path:
        return folder / TREE / path
    return folder / (ARCHIVES / path if path.endswith(ARCHIVE_ENDINGS) else TREE / LOOSE / path)
