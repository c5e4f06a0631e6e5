"""Images by their pixels. What a submission made is opened with care: small files can unpack to gigabytes."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from typing import Any

from runner.evaluating.comparisons.comparison import SAME, OutputComparison, PrecheckFailed, differs

MAX_PIXELS = 10_000_000
# What is opened at all. Formats that call other programs (EPS) or fetch anything are not among them.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")
_DEEP = ("I", "F")  # modes of more than eight bits a channel begin with these


@dataclass(frozen=True, slots=True)
class Pixels:
    """A pixel is alike if none of its channels (red, green, blue, each times alpha, and alpha) is off by more than
    `tolerance` of 255. The score is the share of such pixels, and `similarity` the least share that passes.

    The colour of an invisible pixel does not count. A blank image shares its background with the expected one, so a
    plot with much background needs a high `similarity`.
    """

    tolerance: int = 0
    similarity: float = 1.0

    kind = "pixels"

    def compare(self, found: bytes, expected: bytes) -> OutputComparison:
        import numpy as np

        ours, theirs = read_image(found), read_image(expected)
        if ours.shape != theirs.shape:
            (height, width), (rows, columns) = ours.shape[:2], theirs.shape[:2]
            raise PrecheckFailed("resolution", f"{width} x {height} pixels, expected {columns} x {rows}")
        wrong = (np.abs(ours.astype(np.int16) - theirs.astype(np.int16)) > self.tolerance).any(axis=2)
        count = int(np.count_nonzero(wrong))
        if not count:
            return SAME
        share = 1 - count / wrong.size
        row, column = (int(each) for each in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
        message = (
            f"{count:,} of {wrong.size:,} pixels differ; the first at column {column}, row {row}: "
            f"found {_colour(ours[row, column])}, expected {_colour(theirs[row, column])} (red, green, blue, alpha)"
        )
        return OutputComparison(True, share, message) if share >= self.similarity else differs(share, [message], 1)


def image_size(content: bytes) -> tuple[int, int, str]:
    """(width, height, format) from the file's head, without unpacking it. PrecheckFailed if it is not an image."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                return *image.size, str(image.format)
    except UnidentifiedImageError as error:
        raise PrecheckFailed("format", f"no image of a known format ({', '.join(FORMATS)})") from error
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise PrecheckFailed("format", f"an image that cannot be opened: {error}"[:300]) from error


def read_image(content: bytes) -> Any:
    """Height x width x 4 array of bytes, colours times alpha. One still image of at most MAX_PIXELS."""
    import numpy as np
    from PIL import Image

    width, height, _ = image_size(content)
    if width * height > MAX_PIXELS:
        raise PrecheckFailed("size", f"{width} x {height} pixels, at most {MAX_PIXELS:,} are compared")
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            if getattr(image, "is_animated", False):
                raise PrecheckFailed("format", "an animated image, expected one that stands still")
            if image.mode.startswith(_DEEP):
                raise PrecheckFailed("format", f"an image of mode {image.mode}, expected eight bits a channel")
            channels = np.asarray(image.convert("RGBA"), dtype=np.uint16)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        if isinstance(error, PrecheckFailed):
            raise
        raise PrecheckFailed("format", f"an image that cannot be unpacked: {error}"[:300]) from error
    alpha = channels[:, :, 3:]
    return np.concatenate([(channels[:, :, :3] * alpha + 127) // 255, alpha], axis=2).astype(np.uint8)


def _colour(pixel: Any) -> str:
    return "(" + ", ".join(str(int(value)) for value in pixel) + ")"
