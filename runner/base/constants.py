"""Constants: paths, ids and numbers so particular that a text with one of them holds a piece of a task."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Constant(NamedTuple):
    """A particular text, normalised for comparison."""

    kind: str  # path, id, number
    text: str


class ConstantPlace(NamedTuple):
    """A constant and its place, in characters."""

    constant: Constant
    start: int
    end: int


MAX_CHARS = 200
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_MAIL = r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,4}"
_DATE = r"(?:19|20)\d\d-[01]\d-[0-3]\d"
_PATH = r"(?:~|\.{1,2})?/(?:[A-Za-z0-9_.@+-]{1,80}/){0,12}[A-Za-z0-9_.@+-]{1,80}|(?:[A-Za-z0-9_-]{1,60}/){0,6}[A-Za-z0-9_-]{2,60}\.[a-z][a-z0-9]{1,5}"  # noqa: E501
_ID = r"[A-Za-z]{1,12}[-_]?\d[A-Za-z0-9]*(?:[-_][A-Za-z0-9]+){0,5}|[0-9a-f]{10,64}"
_NUMBER = r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|-?\d+\.\d+|-?\d{4,}"
_WHERE = re.compile(
    rf"(?<![A-Za-z0-9_./@-])(?:(?P<mail>{_MAIL})|(?P<uuid>{_UUID})|(?P<date>{_DATE})(?![0-9-])"
    rf"|(?P<path>{_PATH})(?![A-Za-z0-9_/])|(?P<number>{_NUMBER})(?![A-Za-z0-9_-]|\.\d)|(?P<id>{_ID})(?![A-Za-z0-9_]))"
)

# Places that every machine or project of a kind has: naming one reveals no task.
_SYSTEM = re.compile(
    r"^(?:~|\.{1,2})?/(?:usr|bin|sbin|lib|lib64|etc|dev|proc|sys|opt|var/lib|var/cache|var/log)(?:/|$)"
)
_ROOTS = re.compile(r"^(?:~|\.{1,2})?/[^/.]*/?$")  # /root, /app, /tmp, ./x: one part without an ending
_COMMON = frozenset(
    "skill.md readme.md changelog.md license.md contributing.md claude.md agents.md requirements.txt setup.py"
    " pyproject.toml package.json package-lock.json tsconfig.json pom.xml dockerfile makefile config.json config.yaml"
    " config.yml settings.json index.html main.py app.py index.js __init__.py manage.py input.txt output.txt input.csv"
    " output.csv input.json output.json data.csv data.json report.json report.csv result.json results.json results.csv"
    " node.js vue.js next.js document.xml test.py example.py file.txt".split()
)
_GENERIC = frozenset(
    "input output template data result results report config test tests answer file sample example solution script main"
    " metrics temp tmp out document image table schema".split()
)
_LIBRARY = re.compile(r"^[A-Z][A-Za-z0-9]*\.js$")  # Express.js, Vue.js
_HOST_ENDINGS = frozenset("com org net io edu gov dev ai co uk de".split())
_FILE_ENDINGS = frozenset(
    "csv tsv json jsonl xml yaml yml toml ini cfg txt md pdf doc docx xls xlsx ppt pptx py js ts sh sql db sqlite "
    "parquet html htm css java jar log nml nc h5 npy npz pkl png jpg jpeg gif svg tif stl obj ply zip gz tar tgz pcap "
    "r rb go rs c cpp h hpp env lock patch diff out dat geojson shp".split()
)
_VERSION_WORD = re.compile(
    r"^(?:v|utf|sha|md|python|py|java|jdk|base|x|h|u|p|t|q|f|l|r|int|uint|float|rfc|iso|cvss|http|ipv|top|step|part)[-_]?\d",
    re.I,
)
_ROUND = re.compile(r"^[1-9]\d{0,1}0+$")
_KNOWN_NUMBERS = frozenset(
    "3.14 3.141 3.1415 3.14159 2.718 2.71828 9.81 9.80665 273.15 6371 6371.0 6378 6378.137 111.32 111.139 86400 3600"
    " 1024 2048 4096 8192 16384 32768 65535 65536 1048576 8080 8000 8443 3000 5000 5432 6379 3306 27017 4326 3857 1e-06"
    " 0.001 0.0001 0.00001 0.000001 0.005 0.025 0.125 0.375 0.625 0.875 0.999 1.645 1.96 2.576 1234 12345 123456 9999"
    " 99999 4.184 8.314".split()
)


def find_constants(text: str) -> Iterator[ConstantPlace]:
    """Find every constant in the text with its place. Texts common to all tasks do not count."""
    for match in _WHERE.finditer(text):
        kind, found = match.lastgroup or "", match.group().rstrip(".")
        place = (match.start(), match.start() + len(found))
        if len(found) > MAX_CHARS or not _is_particular(kind, found, text, match.end()):
            continue
        yield ConstantPlace(Constant(_KINDS.get(kind, "id"), _normalise(kind, found)), *place)


_KINDS = {"path": "path", "number": "number"}


def _normalise(kind: str, found: str) -> str:
    """Normalise for comparison: thousands without commas, so that 12,345 and 12345 are one number."""
    return found.replace(",", "").lstrip("-") if kind == "number" else found


def _is_particular(kind: str, found: str, text: str, end: int) -> bool:
    if kind == "path":
        return _particular_path(found)
    if kind == "number":
        return text[end : end + 1] != "%" and _particular_number(_normalise(kind, found))
    if kind == "id":
        digits = sum(char.isdigit() for char in found)
        return len(found) >= 6 and digits >= 3 and not _VERSION_WORD.match(found) and "example" not in found.lower()
    if kind == "mail":
        return "example" not in found.lower()
    return True


def _particular_path(found: str) -> bool:
    name = found.rpartition("/")[2].lower()
    if _SYSTEM.match(found) or _ROOTS.match(found) or name in _COMMON or "example" in found.lower():
        return False
    ending = name.rpartition(".")[2] if "." in name else ""
    stem = name.partition(".")[0]
    if "/" not in found and (stem in _GENERIC or _LIBRARY.match(found)):
        return False
    if "/" not in found:  # a bare name is a file only if it has a file extension and is neither an attribute nor a host
        return ending in _FILE_ENDINGS and ending not in {"c", "h", "r", "go", "out", "log", "env"}
    if not found.startswith(("/", "~", ".")):
        if ending in _HOST_ENDINGS or found.startswith(("scripts/", "references/", "assets/")):
            return False
        return ending in _FILE_ENDINGS
    return len(found) >= 6


def _particular_number(found: str) -> bool:
    if found in _KNOWN_NUMBERS or _ROUND.match(found):
        return False
    whole, _, part = found.partition(".")
    digits = (whole + part).lstrip("0").rstrip("0") if part else whole.rstrip("0")
    if not part:
        is_year = len(whole) == 4 and whole[:2] in ("19", "20")
        value = int(whole) if len(whole) < 40 else 1
        return len(digits) >= 4 and not is_year and value & (value - 1) != 0
    return len(digits) >= 4
