"""Digests: SHA-256 over canonical bytes, as 64 hex characters, with the format's version inside what is hashed."""

from __future__ import annotations

import hashlib
import json

from runner.base.types import Files

LIBRARY_FORMAT = "library/1"
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def digest_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def canonical_json(value: object) -> bytes:
    """UTF-8 JSON with sorted keys and no spaces; equal values give equal bytes. NaN and infinities are refused."""
    return _encode(value).encode("utf-8", "surrogatepass")


def digest_json(value: object) -> str:
    return digest_bytes(canonical_json(value))


def manifest(files: Files) -> dict[str, list[object]]:
    """path -> [content digest, mode], the identity of a tree of files."""
    return {path: [digest_bytes(file.content), file.mode] for path, file in sorted(files.items())}


def library_digest(files: Files) -> str:
    """The digest of a library's files on disk, never of a commit or a log."""
    return digest_json([LIBRARY_FORMAT, manifest(files)])


EMPTY_LIBRARY = library_digest({})
