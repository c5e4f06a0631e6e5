"""Send files to `/imports/uploads/` as a program does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.test import Client

from benchapp.imports.upload_import import import_upload
from benchapp.models import Upload


def read_tree(folder: Path) -> dict[str, bytes]:
    """The files below a folder by the paths that a browser gives them."""
    return {
        path.relative_to(folder.parent).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def declare(client: Client, files: object) -> Any:
    body = json.dumps({"files": files}).encode()
    return client.post("/imports/uploads/", body, "application/json", headers={"Accept": "application/json"})


def begin(client: Client, files: Mapping[str, bytes]) -> Any:
    return declare(client, [{"path": path, "size": len(content)} for path, content in files.items()])


def send_piece(client: Client, url: str, parts: Sequence[Sequence[object]], content: bytes) -> Any:
    return send_body(client, url, json.dumps(parts).encode() + b"\n" + content)


def send_body(client: Client, url: str, body: bytes, type: str = "application/octet-stream") -> Any:
    return client.post(f"{url}pieces/", body, type, headers={"Accept": "application/json"})


def finish(client: Client, url: str) -> Any:
    return client.post(f"{url}finish/", headers={"Accept": "application/json"})


def upload(client: Client, files: Mapping[str, bytes]) -> Upload:
    """Send all of them, and have them imported as a worker would."""
    begun = begin(client, files).json()
    for (number, received), content in zip(begun["files"], files.values(), strict=True):
        if received < len(content):
            send_piece(client, begun["url"], [[number, received, len(content) - received]], content[received:])
    assert finish(client, begun["url"]).status_code == 202
    import_upload(begun["id"])
    return Upload.objects.get(public_id=begun["id"])
