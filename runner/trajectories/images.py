"""Images in messages and results: taken out of the text, checked, and kept next to it as contents of their own.

A part with an image is kept as {"type": "image", "media_type", "bytes", "width", "height", "content"}; JSON has the
content's digest instead. Anything else, or a too large image, is kept as {"type", "media_type", "bytes", "left_out"}.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, TypeAlias

from runner.base.digests import digest_bytes
from runner.base.types import Step
from runner.trajectories.log_records import Record, read_object, read_objects

MAX_BYTES = 8 * 1024 * 1024
MAX_PIXELS = 50_000_000  # a browser needs four bytes for each
Kept: TypeAlias = dict[str, object]
TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
PARTS = "content_parts"  # in the extra of a step or an observation
MARK = re.compile(r"^\[image[^\]\n]*\][ \t]*\n?", re.MULTILINE)  # replaces an image in a text
# Replaces a document or other inline data, which is not kept: only this text shows that it existed.
DATA_MARK = re.compile(r"^\[[^\]\n]*: [\d,]+ characters of \w+ data left out\][ \t]*\n?", re.MULTILINE)
_DATA_URL = re.compile(r"data:([\w.+-]{1,50}/[\w.+-]{1,80})?(?:;[\w=.-]{1,80}){0,4}?;base64,", re.IGNORECASE)


def read_image(content: bytes) -> tuple[str, int, int] | None:
    """(media type, width, height) from the head of a PNG, JPEG, GIF or WebP. None for anything else, or for more
    pixels than a page should draw. Nothing is unpacked."""
    from PIL import Image, UnidentifiedImageError  # slow to import, so only when there is an image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=tuple(TYPES)) as image:
                (width, height), kind = image.size, str(image.format)
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return (TYPES[kind], width, height) if 0 < width * height <= MAX_PIXELS else None


def take_image(part: Record) -> Kept | None:
    """The kept form of a part with inline image data, in any program's shape. None if it has none."""
    claimed, data = _find_data(part)
    if data is None or not (claimed.startswith("image/") or not claimed and part.get("type") in _KINDS):
        return None
    size = len(data) * 3 // 4 - data[-2:].count("=")
    if size > MAX_BYTES:
        return _leave_out(claimed, size, f"larger than {MAX_BYTES // 1024 // 1024} MiB")
    try:
        content = base64.b64decode("".join(data.split()), altchars=b"-_" if "-" in data or "_" in data else None)
    except (binascii.Error, ValueError):
        return _leave_out(claimed, size, "not base64")
    return keep_image(claimed, content)


def keep_image(claimed: str, content: bytes) -> Kept:
    """The kept form of an image file. `claimed`: its stated media type, or ""."""
    if len(content) > MAX_BYTES:
        return _leave_out(claimed, len(content), f"larger than {MAX_BYTES // 1024 // 1024} MiB")
    found = read_image(content)
    if found is None:
        return _leave_out(claimed, len(content), "no PNG, JPEG, GIF or WebP")
    media_type, width, height = found
    if claimed and claimed.replace("/jpg", "/jpeg") != media_type:
        return _leave_out(claimed, len(content), f"it is {media_type}")
    size = {"bytes": len(content), "width": width, "height": height}
    return {"type": "image", "media_type": media_type, **size, "content": content}


def write_mark(kept: Record) -> str:
    """The mark that replaces the image in its text."""
    kind = f"[image {kept['media_type']}".rstrip()
    if "left_out" in kept:
        return f"{kind}: {kept['bytes']:,} bytes, not kept: {kept['left_out']}]"
    return f"{kind}: {kept['width']:,} × {kept['height']:,}, {kept['bytes']:,} bytes]"


def select_images(parts: list[object] | None) -> dict[str, list[object]]:
    """Return the extra that keeps the images among these parts; empty without one."""
    found: list[object] = [
        part for part in parts or () if isinstance(part, dict) and part.get("type") == "image" and "bytes" in part
    ]
    return {PARTS: found} if found else {}


def list_contents(step: Step) -> Iterator[bytes]:
    """The contents of the images of a step that has not been stored yet."""
    for extra in (step.extra, *(each.extra for each in step.observations)):
        for part in list_parts(extra):
            if isinstance(content := part.get("content"), bytes):
                yield content


def list_parts(extra: Record | None) -> list[Record]:
    """The parts that an extra keeps of a message or of a result."""
    if not extra:
        return []
    return [*read_objects(extra.get(PARTS)), *read_objects(read_object(extra.get("atif")).get("message"))]


def with_digests(extra: Record) -> dict[str, Any]:
    """Convert the extra to JSON values: digests instead of contents."""
    return _change_parts(extra, _with_digest)


def _change_parts(extra: Record, change: Callable[[object], object]) -> dict[str, Any]:
    """Replace each part that the extra keeps of a message or of a result."""
    found = dict(extra)
    if isinstance(parts := found.get(PARTS), list):
        found[PARTS] = [change(part) for part in parts]
    if isinstance(inner := found.get("atif"), dict) and isinstance(inner.get("message"), list):
        found["atif"] = {**inner, "message": [change(part) for part in inner["message"]]}
    return found


def with_files(step: Step, open_file: Callable[[str], BinaryIO]) -> Step:
    """Read the images that the step's parts name by a path (ATIF: images/…). An unreadable one stays a name."""
    if not any(list_parts(extra) for extra in (step.extra, *(each.extra for each in step.observations))):
        return step

    def fill(extra: Record | None) -> Record | None:
        return _change_parts(extra, lambda part: _read_file(part, open_file)) if extra and list_parts(extra) else extra

    results = tuple(replace(each, extra=fill(each.extra)) for each in step.observations)
    return replace(step, extra=fill(step.extra), observations=results)


def _read_file(part: object, open_file: Callable[[str], BinaryIO]) -> object:
    source = read_object(read_object(part).get("source"))
    path = source.get("path")
    if not isinstance(part, dict) or part.get("type") != "image" or not isinstance(path, str):
        return part
    try:
        with open_file(path) as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError):  # no such file, or a path that no file can have
        return part
    return {**part, **keep_image(str(source.get("media_type") or ""), content)}


def _with_digest(part: object) -> object:
    if not isinstance(part, dict) or not isinstance(content := part.get("content"), bytes):
        return part
    return {**{key: value for key, value in part.items() if key != "content"}, "digest": digest_bytes(content)}


_KINDS = ("image", "input_image", "image_url", "output_image")


def _find_data(part: Record) -> tuple[str, str | None]:
    """(media type, base64 text): Anthropic's source, Gemini's inlineData, MCP's data, and the data URLs of OpenAI,
    Codex and Inspect."""
    source = read_object(part.get("source"))
    inline = read_object(part.get("inlineData") or part.get("inline_data"))
    for holder in (source, inline, part):
        if isinstance(data := holder.get("data"), str):
            named = (holder.get(key) for key in ("media_type", "mimeType", "mime_type"))
            return next((kind.lower() for kind in named if isinstance(kind, str)), ""), data
    address = part.get("image_url") or part.get("image")
    url = address.get("url") if isinstance(address, Mapping) else address
    for text in (url, source.get("url")):
        if isinstance(text, str) and (match := _DATA_URL.match(text)):
            return (match[1] or "").lower(), text[match.end() :]
    return "", None


def _leave_out(claimed: str, size: int, why: str) -> Kept:
    return {"type": "image", "media_type": claimed[:80], "bytes": size, "left_out": why}
