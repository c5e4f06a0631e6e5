from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import zstandard
from django.db import models

from runner.base.digests import digest_bytes

LEVEL = 3  # 6 makes a record 6 to 9 % smaller, and takes four to nine times as long
MAX_BLOB_BYTES = 64 * 1024 * 1024  # of content; larger things are stored in pieces by their owner


class _Compressor(threading.local):
    """One compressor for each thread: creating one costs as much as compressing a small content."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=LEVEL).compress


_compressor = _Compressor()


class BlobStore(Protocol):
    """Where contents go: into the database at once (`Blob.objects`), or into a batch for later (`GatheredBlobs`)."""

    def put(self, content: bytes) -> str:
        """Store the content and return its digest."""
        ...

    def put_many(self, contents: Iterable[bytes]) -> list[str]:
        """Return the digests in the order given."""
        ...


class BlobQuerySet(models.QuerySet["Blob"]):
    """Contents by their digests."""

    def put(self, content: bytes) -> str:
        """Store the content once and return its digest."""
        return self.put_many([content])[0]

    def put_many(self, contents: Iterable[bytes]) -> list[str]:
        """Return the digests in the order given. Contents that are already stored are not written again."""
        digests: list[str] = []
        packed: dict[str, bytes] = {}
        for content in contents:
            digests.append(digest := digest_bytes(content))
            packed[digest] = content
        known = set(self.filter(digest__in=packed).values_list("digest", flat=True))
        self.bulk_create(
            (
                Blob(digest=digest, size=len(content), data=_compressor.compress(content))
                for digest, content in packed.items()
                if digest not in known
            ),
            ignore_conflicts=True,  # another worker may store the same content at this moment
            batch_size=200,
        )
        return digests

    def put_gathered(self, gathered: Iterable[GatheredBlobs]) -> None:
        """Store the gathered contents, 200 in one statement."""
        waiting: dict[str, tuple[int, bytes]] = {}
        for each in gathered:
            waiting |= each.waiting
        self.bulk_create(
            (Blob(digest=digest, size=size, data=data) for digest, (size, data) in waiting.items()),
            ignore_conflicts=True,
            batch_size=200,
        )

    def read(self, digest: str) -> bytes:
        return self.get(digest=digest).content()

    def read_text(self, digest: str) -> str:
        return self.get(digest=digest).text()

    def read_texts(self, digests: Iterable[str]) -> dict[str, str]:
        return {blob.digest: blob.text() for blob in self.filter(digest__in=set(digests))}

    def read_many(self, digests: Sequence[str]) -> dict[str, bytes]:
        return {blob.digest: blob.content() for blob in self.filter(digest__in=set(digests))}


@dataclass(slots=True)
class GatheredBlobs:
    """Compressed contents that `Blob.objects.put_gathered` stores later, together with those of others."""

    waiting: dict[str, tuple[int, bytes]] = field(default_factory=dict)  # size and compressed bytes by digest

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return sum(len(data) for _, data in self.waiting.values())

    def put(self, content: bytes) -> str:
        return self.put_many([content])[0]

    def put_many(self, contents: Iterable[bytes]) -> list[str]:
        digests = []
        for content in contents:
            digests.append(digest := digest_bytes(content))
            if digest not in self.waiting:
                self.waiting[digest] = len(content), _compressor.compress(content)
        return digests


class Blob(models.Model):
    """Content under its own digest: SHA-256 of the uncompressed bytes. Immutable."""

    digest = models.CharField(max_length=64, primary_key=True)
    size = models.PositiveBigIntegerField()  # uncompressed bytes
    data = models.BinaryField()  # zstd

    objects = BlobQuerySet.as_manager()

    def __str__(self) -> str:
        return self.digest[:12]

    def content(self) -> bytes:
        return zstandard.ZstdDecompressor().decompress(bytes(self.data), max_output_size=MAX_BLOB_BYTES)

    def text(self) -> str:
        """Return the content as UTF-8. Invalid bytes become a replacement character."""
        return self.content().decode("utf-8", "replace")
