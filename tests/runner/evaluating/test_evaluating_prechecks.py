"""What sorts out outputs before they are compared, and comparing images."""

from __future__ import annotations

import io
import struct
import wave
import zlib
from typing import Any

import pytest
from PIL import Image

from runner.evaluating.comparisons.comparison import PrecheckFailed
from runner.evaluating.comparisons.pixels import Pixels, image_size
from runner.evaluating.declaration import FORMATS, Between, Precheck, require_schema, schema_problem
from tests.cases import every


def image(mode: str = "RGB", size: tuple[int, int] = (4, 3), colour: Any = (255, 0, 0), format: str = "PNG") -> bytes:
    return saved(Image.new(mode, size, colour), format)


def saved(made: Image.Image, format: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    made.save(buffer, format, **options)
    return buffer.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def sound(frames: int, rate: int = 8_000) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(rate)
        file.writeframes(b"\x80" * frames)
    return buffer.getvalue()


# --- images -----------------------------------------------------------------------------------------------------


def test_equal_pixels_pass_whatever_the_format() -> None:
    assert Pixels().compare(image(format="BMP"), image()).passed
    assert Pixels().compare(image("P", colour=1), image("P", colour=1)).passed


def test_the_first_different_pixel_is_told() -> None:
    other = Image.new("RGB", (4, 3), (255, 0, 0))
    other.putpixel((2, 1), (250, 0, 9))
    comparison = Pixels().compare(saved(other), image())
    assert comparison.score == pytest.approx(11 / 12)
    assert comparison.message == (
        "1 of 12 pixels differ; the first at column 2, row 1: found (250, 0, 9, 255), expected (255, 0, 0, 255)"
        " (red, green, blue, alpha)"
    )
    assert Pixels(tolerance=9).compare(saved(other), image()).passed
    assert not Pixels(tolerance=8).compare(saved(other), image()).passed
    assert Pixels(similarity=11 / 12).compare(saved(other), image()).passed


def test_what_nobody_sees_does_not_count_and_transparency_does() -> None:
    clear, other = image("RGBA", colour=(9, 9, 9, 0)), image("RGBA", colour=(200, 0, 0, 0))
    assert Pixels().compare(clear, other).passed
    assert not Pixels(tolerance=200).compare(image("RGBA", colour=(0, 0, 0, 0)), image(colour=(0, 0, 0))).passed


def test_another_resolution_is_no_comparison() -> None:
    with pytest.raises(PrecheckFailed, match="resolution: 3 x 4 pixels, expected 4 x 3"):
        Pixels().compare(image(size=(3, 4)), image())


def test_an_animated_image_is_refused() -> None:
    frames = [Image.new("RGB", (4, 3), colour) for colour in ("red", "blue")]
    moving = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    with pytest.raises(PrecheckFailed, match="format: an animated image"):
        Pixels().compare(moving, image())


def test_an_image_of_more_than_eight_bits_is_refused() -> None:
    with pytest.raises(PrecheckFailed, match="format: an image of mode I"):
        Pixels().compare(image("I;16", colour=7), image())


@every(b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"<svg/>")
def test_what_is_no_image_is_told(content: bytes) -> None:
    with pytest.raises(PrecheckFailed, match="^format: "):
        image_size(content)


def test_a_truncated_image_is_told() -> None:
    whole = saved(Image.effect_noise((64, 64), 90))
    with pytest.raises(PrecheckFailed, match="format: an image that cannot be unpacked"):
        Pixels().compare(whole[: len(whole) // 2], whole)


def test_a_small_file_that_unpacks_to_gigabytes_is_not_unpacked() -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    with pytest.raises(PrecheckFailed, match="^(size|format): "):
        Pixels().compare(bomb, image())


# --- pre-checks -------------------------------------------------------------------------------------------------


def test_nothing_is_asked_of_an_output_unless_it_is_declared() -> None:
    assert not Precheck().is_declared
    Precheck().require(b"\xff\0")


@every(
    (Precheck(max_bytes=2), b"abc", "size: more than 2 bytes"),
    (Precheck(format="json"), b"{", "format: no JSON"),
    (Precheck(format="png"), image(format="GIF", mode="P", colour=0), "format: a GIF image, expected PNG"),
    (Precheck(format="pdf"), b"PDF", "format: no pdf file"),
    (Precheck(format="csv"), b"a,a\n", "columns: the column 'a' is there twice"),
    (Precheck(format="wav"), b"RIFF", "format: no WAV file"),
    (Precheck(resolution=(4, 4)), image(), "resolution: 4 x 3 pixels, expected 4 x 4"),
    (Precheck(duration_seconds=Between(2, 3)), sound(8_000), "duration: 1.000 seconds, expected at least 2 and at"),
    (Precheck(columns=("b",)), b"a\n1\n", "columns: 'b' is missing"),
    (Precheck(rows=Between(2)), b"a\n1\n", "rows: 1 rows, expected at least 2"),
    (Precheck(rows=Between(0, 1)), b"a\n1\n2\n", "rows: 2 rows, expected at least 0 and at most 1"),
    (Precheck(format="tsv", columns=("b",)), b"a,b\n", "columns: 'b' is missing"),
    (Precheck(schema={"type": "object"}), b"[]", r"schema: \$: \[\]: type is not met"),
)
def test_what_is_not_as_asked_is_told(precheck: Precheck, content: bytes, told: str) -> None:
    assert precheck.is_declared
    with pytest.raises(PrecheckFailed, match=f"^{told}"):
        precheck.require(content)


@every(
    (Precheck(format="text", max_bytes=3), b"abc"),
    (Precheck(format="jpeg", resolution=(4, 3)), image(format="JPEG")),
    (Precheck(format="wav", duration_seconds=Between(1, 1)), sound(8_000)),
    (Precheck(format="jsonl", columns=("a",), rows=Between(2, 2)), b'{"a": 1}\n{"a": 2}\n'),
    (Precheck(format="zip"), b"PK\x03\x04..."),
    (Precheck(schema={"properties": {"a": {"minimum": 1}}}), b'{"a": 1}'),
)
def test_what_is_as_asked_goes_on(precheck: Precheck, content: bytes) -> None:
    precheck.require(content)


def test_a_wav_file_without_a_rate_is_none() -> None:
    with pytest.raises(PrecheckFailed, match="^format: no WAV file"):
        FORMATS["wav"](sound(8).replace(struct.pack("<I", 8_000), struct.pack("<I", 0)))


@pytest.mark.parametrize(
    ("kind", "bits", "extra", "told"),
    [
        (3, 32, b"", None),  # floats, as SciPy and soundfile write them
        (0xFFFE, 24, bytes(24), None),  # an extended header, as ffmpeg writes it for 24 bits or many channels
        (1, 16, b"", 0xFFFFFFFF),  # into a pipe
    ],
)
def test_a_wav_file_lasts_as_long_as_its_samples(kind: int, bits: int, extra: bytes, told: int | None) -> None:
    samples = bytes(8_000 * bits // 8)
    form = struct.pack("<HHIIHH", kind, 1, 8_000, 8_000 * bits // 8, bits // 8, bits) + extra
    chunks = b"WAVEfmt " + struct.pack("<I", len(form)) + form
    chunks += b"data" + struct.pack("<I", len(samples) if told is None else told) + samples
    Precheck(duration_seconds=Between(1, 1)).require(b"RIFF" + struct.pack("<I", len(chunks)) + chunks)


def test_a_wav_file_of_compressed_samples_is_told() -> None:
    form = struct.pack("<HHIIHH", 17, 1, 8_000, 4_055, 256, 4)
    with pytest.raises(PrecheckFailed, match=r"compressed samples \(format 17\)"):
        FORMATS["wav"](b"RIFF----WAVEfmt " + struct.pack("<I", len(form)) + form)


def test_a_wav_file_that_points_beyond_its_end_is_none() -> None:
    short, long = (12).to_bytes(4, "little"), (1_000).to_bytes(4, "little")
    with pytest.raises(PrecheckFailed, match="format: no WAV file: it ends too early"):
        Precheck(format="wav").require(b"RIFF" + short + b"WAVELIST" + long + bytes(1_000))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1" + "0" * 400])
def test_a_number_that_no_schema_can_measure_is_no_mistake_of_the_schema(number: str) -> None:
    with pytest.raises(PrecheckFailed, match="schema: a number that cannot be held against"):
        Precheck(schema={"multipleOf": 0.5}).require(number.encode())


def test_a_broken_schema_tells_its_place_and_no_whole_document() -> None:
    schema = {"type": "array", "items": {"type": "object", "required": ["a"]}}
    with pytest.raises(PrecheckFailed) as caught:
        require_schema([{"a": 1}, {"b": "x" * 100_000}], schema)
    assert str(caught.value).startswith("schema: $[1]: {'b': 'xxx")
    assert str(caught.value).endswith("required is not met (expected ['a'])")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"$ref": "http://127.0.0.1/x"}, "'$ref' is not carried out"),
        ({"properties": {"a": {"anyOf": [{"pattern": "(a+)+$"}]}}}, "'pattern' is not carried out"),
        ({"items": {"uniqueItems": True}}, "'uniqueItems' is not carried out"),
        ({"type": "thing"}, "'thing' is not valid"),
    ],
)
def test_a_schema_that_reaches_out_or_runs_expressions_is_not_taken(schema: dict[str, Any], told: str) -> None:
    assert told in (schema_problem(schema) or "")


def test_a_property_may_be_called_like_a_keyword() -> None:
    assert schema_problem({"properties": {"pattern": {"type": "string"}}, "required": ["pattern"]}) is None
