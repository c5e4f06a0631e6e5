"""Extracting a paper's prompts from the user's copy into a pack, and importing a user's own pack.

A copy is a paper's text or PDF, or a release's folder. Passages are found in it despite the changes by pages,
converters and line ends: anchors are compared without white space and with one kind of quotes and dashes. A passage
is taken unchanged, minus what the print added: fences of a conversion into Markdown, hyphens at line ends, common
indentation."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

import yaml

from runner.base.errors import SetupError
from runner.prompts.pack_layout import LayoutMessage, LayoutPrompt, LayoutText, PackLayout, Piece, read_layouts
from runner.prompts.prompt_pack import MARK, PACK_FILE, PackMessage, PackPrompt, PromptPack, packs_folder, read_pack

MAX_PIECE_CHARS = 60_000
_ALIKE = str.maketrans("‘’`´“”„–—−‐‑", "''''\"\"\"-----")
_GONE = re.compile(r"[\s\u00ad\u200b\ufeff]+|\\n")  # in listings a line's end is sometimes written out
_FENCE = re.compile(r"^```\w*[ \t]*\n?", re.MULTILINE)
_FENCES_OF_A_CONVERSION = re.compile(r"^```[ \t]*\n(?:[ \t]*\n)*```[ \t]*$", re.MULTILINE)
_BROKEN_WORD = re.compile(r"(?<!\w)(\w+)-\n[ \t]*([a-z]\w*)")
_PAGE_NUMBER = re.compile(r"\s*\d{1,4}\s*")
_CLOSING = re.compile(r'\s*"""\s*$')
MOST_REPEATED = 3  # a line that begins or ends this many pages is not part of the text


class PrintedText:
    """A text with a view for finding anchors. `is_source`: strings of a program, read as Python reads them."""

    def __init__(self, text: str, *, is_source: bool = False) -> None:
        text = text.replace("\r\n", "\n")
        if not is_source:
            text = _without_furniture(text) if "\f" in text else text
            text = _FENCE.sub("", text) if _FENCES_OF_A_CONVERSION.search(text) else text
        self.text, self.is_source = text, is_source
        self._words = set(re.findall(r"\w+", text))
        self._squeezed, self._places = _squeeze(text)

    def find(self, piece: Piece) -> str | None:
        """Return the piece as it is sent, or None if an end is not found. Only papers have a heading before it."""
        at = self._seek(piece.after, 0)
        if at is None and piece.after.endswith("="):
            return None
        start = self._seek(piece.start, at or 0, past=False)
        end = None if start is None else self._end_of(piece, start)
        if start is None or end is None or not 0 < self._place(end) - self._place(start) <= MAX_PIECE_CHARS:
            return None
        return self._clean(self.text[self._place(start) : self._places[end - 1] + 1], piece)

    def _seek(self, anchor: str, start: int, *, past: bool = True) -> int | None:
        """Where the anchor begins or, `past` it, ends. The end includes repeats of its last character (rules)."""
        wanted, _ = _squeeze(anchor)
        found = self._squeezed.find(wanted, start)
        if found < 0:
            return None
        if not past:
            return found
        end = found + len(wanted)
        while wanted.endswith("=") and self._squeezed[end : end + 1] == "=" and not anchor.endswith(" ="):
            end += 1
        return end

    def _end_of(self, piece: Piece, start: int) -> int | None:
        if piece.before:
            return self._seek(piece.before, start, past=False)
        return next((end for anchor in piece.to if (end := self._seek(anchor, start)) is not None), None)

    def _place(self, index: int) -> int:
        return self._places[index] if index < len(self._places) else len(self.text)

    def _clean(self, text: str, piece: Piece) -> str:
        if piece.before:
            text = _CLOSING.sub("", text)
        if self.is_source:
            return text.strip("\n")
        first, newline, rest = text.partition("\n")
        text = first + newline + dedent(rest)
        if piece.listing:
            return re.sub(r"\\n\n?", "\n", text).strip("\n")
        return _BROKEN_WORD.sub(self._join_word, text)

    def _join_word(self, broken: re.Match[str]) -> str:
        """Remove the hyphen if the text has the word without it elsewhere."""
        whole = broken[1] + broken[2]
        return whole if whole in self._words else f"{broken[1]}-{broken[2]}"


def digest_words(text: str) -> str:
    """Digest letters and digits alone: line ends, quotes and hyphens differ between copies of one text."""
    return hashlib.sha256("".join(re.findall(r"[^\W_]+", text)).encode()).hexdigest()[:16]


def _squeeze(text: str) -> tuple[str, list[int]]:
    """Return the characters used to find anchors, and the place of each in `text`."""
    signs: list[str] = []
    places: list[int] = []
    at = 0
    for gone in [*_GONE.finditer(text), None]:
        end = len(text) if gone is None else gone.start()
        signs.append(text[at:end])
        places.extend(range(at, end))
        at = end if gone is None else gone.end()
    return "".join(signs).translate(_ALIKE), places


def _without_furniture(text: str) -> str:
    """Join pages without their numbers and the lines that begin or end many of them."""
    pages = [page.strip("\n").split("\n") for page in text.split("\f")]
    ends = Counter(_alike(line) for page in pages for line in {page[0], page[-1]})
    kept = [[line for place, line in enumerate(page) if not _is_furniture(line, place, page, ends)] for page in pages]
    return "\n".join("\n".join(page) for page in kept)


def _is_furniture(line: str, place: int, page: list[str], ends: Counter[str]) -> bool:
    if place not in (0, len(page) - 1) or not line.strip():
        return False
    return _PAGE_NUMBER.fullmatch(line) is not None or ends[_alike(line)] >= MOST_REPEATED


def _alike(line: str) -> str:
    return re.sub(r"\d+", "0", line.strip())


MAX_FILES = 5_000
MAX_BYTES = 8 * 1024 * 1024  # of a text
MAX_PDF_BYTES = 100 * 1024 * 1024
PDF_SECONDS = 120
TEXTS = (".txt", ".md", ".rst", ".tex", ".html", ".j2", ".jinja", ".yaml", ".yml", ".json", ".toml", "")
PDF, SOURCE = ".pdf", ".py"
NO_PDF = "pdftotext is not installed (of poppler-utils): convert it yourself and give the text"


@dataclass(frozen=True, slots=True)
class PrintedCopy:
    """One file's text, or the reason why there is none."""

    path: Path
    text: PrintedText | None
    problem: str = ""


def read_copies(path: Path) -> Iterator[PrintedCopy]:
    """Read the file, or every readable file below the folder, links excluded. SetupError if there is no such path."""
    if not path.exists():
        raise SetupError(f"{path}: expected a paper's text or PDF, or a folder; there is none")
    for each in _list_files(path) if path.is_dir() else [path]:
        try:
            text = _read_pdf(each) if each.suffix.lower() == PDF else _read_text(each)
            yield PrintedCopy(each, text)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError, SetupError) as error:
            yield PrintedCopy(each, None, str(error)[:300])


def _list_files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = (Path(parent) / name for name in sorted(names))
        found += [each for each in paths if each.suffix.lower() in (*TEXTS, PDF, SOURCE) and not each.is_symlink()]
        if len(found) > MAX_FILES:
            raise SetupError(f"{folder}: more than {MAX_FILES:,} files (expected the folder that holds the prompts)")
    return found


def _read_text(path: Path) -> PrintedText:
    if path.stat().st_size > MAX_BYTES:
        raise SetupError(f"{path.stat().st_size:,} bytes (expected at most {MAX_BYTES:,})")
    text = path.read_bytes().decode("utf-8-sig")
    if path.suffix == SOURCE:
        return PrintedText(_read_strings(text), is_source=True)
    return PrintedText(text.replace("\0", ""))


def _read_strings(source: str) -> str:
    """Every string of a program as it is at run time, after the name it is assigned to: `NAME = text`."""
    parts: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            name = next((each.id for each in targets if isinstance(each, ast.Name)), "")
            if strings := _strings_below(node.value):
                parts.append(f"{name} =\n{''.join(strings)}")
    return "\n\n".join(parts)


def _strings_below(node: ast.expr) -> list[str]:
    """Yield them in text order; `ast.walk` goes by levels."""
    constants = [each for each in ast.walk(node) if isinstance(each, ast.Constant)]
    constants.sort(key=lambda each: (each.lineno, each.col_offset))
    return [each.value for each in constants if isinstance(each.value, str)]


def _read_pdf(path: Path) -> PrintedText:
    program = shutil.which("pdftotext")
    if program is None:
        raise SetupError(NO_PDF)
    if path.stat().st_size > MAX_PDF_BYTES:
        raise SetupError(f"{path.stat().st_size:,} bytes (expected at most {MAX_PDF_BYTES:,})")
    command = [program, "-enc", "UTF-8", "-layout", str(path.absolute()), "-"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PDF_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"pdftotext took more than {PDF_SECONDS} seconds") from error
    if done.returncode:
        raise SetupError(f"pdftotext: {done.stderr.decode('utf-8', 'replace').strip()[:200]}")
    return PrintedText(done.stdout[:MAX_BYTES].decode("utf-8", "replace"))


AS_EXPECTED, DIFFERS = "as expected", "differs"


@dataclass(frozen=True, slots=True)
class FoundPiece:
    """A printed piece in one copy. `is_expected`: its words are those that the layout was made from."""

    text: str
    path: Path
    is_expected: bool
    is_source: bool


@dataclass(frozen=True, slots=True)
class TakenPrompt:
    """The result for one prompt of a layout. `prompt` is None if a piece or a placeholder is missing."""

    layout: LayoutPrompt
    prompt: PackPrompt | None
    problem: str = ""
    is_expected: bool = False

    @property
    def digest(self) -> str:
        return "" if self.prompt is None else AS_EXPECTED if self.is_expected else DIFFERS


@dataclass(frozen=True, slots=True)
class TakenPack:
    """What a copy has of one paper. `notes`: what is known of the copies behind the digests."""

    layout: PackLayout
    prompts: tuple[TakenPrompt, ...]
    paths: tuple[Path, ...]
    notes: tuple[str, ...] = ()

    @property
    def pack(self) -> PromptPack | None:
        """The pack, or None if nothing was found."""
        found = tuple(each.prompt for each in self.prompts if each.prompt is not None)
        names = ", ".join(path.name for path in self.paths)
        source = f"{self.layout.source}; taken from {names}"[:1_000]
        return PromptPack(name=self.layout.name, source=source, prompts=found) if found else None


@dataclass(frozen=True, slots=True)
class Taken:
    """Everything below a path. `unread`: unreadable files, with the reason."""

    packs: tuple[TakenPack, ...]
    unread: tuple[PrintedCopy, ...] = field(default=())


def take_prompts(path: Path) -> Taken:
    """Extract the known papers' prompts from the copy. SetupError if there is no such path."""
    found: dict[str, dict[str, FoundPiece]] = {layout.name: {} for layout in read_layouts()}
    unread: list[PrintedCopy] = []
    for copy in read_copies(path):  # one at a time: a release can be large
        if copy.text is None:
            unread.append(copy)
        else:
            for layout in read_layouts():
                _look_through(copy.path, copy.text, layout, found[layout.name])
    return Taken(tuple(_take_pack(layout, found[layout.name]) for layout in read_layouts()), tuple(unread))


def _look_through(path: Path, text: PrintedText, layout: PackLayout, found: dict[str, FoundPiece]) -> None:
    """The first copy of a piece counts, unless a later one matches the expected words."""
    for name, piece in layout.pieces.items():
        before = found.get(name)
        here = None if before and before.is_expected else text.find(piece)
        if here is not None and (before is None or digest_words(here) == piece.words):
            found[name] = FoundPiece(here, path, digest_words(here) == piece.words, text.is_source)


def _take_pack(layout: PackLayout, found: Mapping[str, FoundPiece]) -> TakenPack:
    prompts = tuple(_take_prompt(each, found) for each in layout.prompts)
    notes = tuple(f"{name}: {layout.pieces[name].note}" for name in found if layout.pieces[name].note)
    return TakenPack(layout, prompts, tuple(dict.fromkeys(each.path for each in found.values())), notes)


def _take_prompt(layout: LayoutPrompt, found: Mapping[str, FoundPiece]) -> TakenPrompt:
    if missing := [name for name in layout.pieces if name not in found]:
        return TakenPrompt(layout, None, f"not found: {', '.join(missing)}")
    messages = tuple(_compose(layout, each, found) for each in layout.messages)
    for message in messages:
        names = {mark[1] for mark in MARK.finditer(message.text)}
        if lost := sorted(message.values.keys() - names):
            return TakenPrompt(layout, None, f"the copy lacks the placeholder {{{lost[0]}}}")
    prompt = PackPrompt(**layout.model_dump(include={"role", "occasion", "condition", "answer"}), messages=messages)
    return TakenPrompt(layout, prompt, is_expected=all(found[name].is_expected for name in layout.pieces))


def _compose(layout: LayoutPrompt, message: LayoutMessage, found: Mapping[str, FoundPiece]) -> PackMessage:
    texts = [_compose_part(part, message, found) for part in message.parts]
    printed = [found[part.piece].text for part in message.parts if part.piece]
    literal = {mark[1] for text in printed for mark in MARK.finditer(text)} - message.values.keys()
    return PackMessage(
        role=message.role,
        file=f"{layout.stem}.{message.role}.txt",
        answers_once=message.answers_once,
        values=message.values,
        literal=tuple(sorted(literal)),
        text="\n\n".join(texts),
    )


def _compose_part(part: LayoutText, message: LayoutMessage, found: Mapping[str, FoundPiece]) -> str:
    if part.own:
        return part.own
    piece = found[part.piece]
    text = piece.text
    for name, other in part.put.items():
        text = text.replace(f"{{{name}}}", found[other].text)
    for name in message.values:
        text = text.replace(f"{{{name}}}", f"\0{name}\1")
    if piece.is_source and message.values:  # Python's str.format turns doubled braces into single ones
        text = text.replace("{{", "{").replace("}}", "}")
    return text.replace("\0", "{{").replace("\1", "}}")


# --- into the installation ----------------------------------------------------------------------------------------


def take_in(folder: Path, *, replace: bool = False) -> PromptPack:
    """Check and copy a pack of the user. SuiteError names file and place."""
    pack = read_pack(folder)
    if pack.name in {layout.name for layout in read_layouts()}:
        raise SetupError(f"{folder / PACK_FILE}: name: {pack.name!r} is kept for the paper's own prompts")
    keep_pack(pack, replace=replace)
    return pack


def keep_pack(pack: PromptPack, *, replace: bool = False) -> Path:
    """Write the pack below the installation's data. SetupError if another one has its name: runs may need that."""
    folder = packs_folder() / pack.name
    if folder.exists() and not replace and _digest_at(folder) != pack.digest:
        raise SetupError(
            f"{folder} holds another pack {pack.name!r}: --replace takes this one, and runs that began with"
            " the other then stop and say so"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{pack.name}-", dir=folder.parent))
    try:
        values = pack.model_dump(mode="json", exclude_defaults=True)
        text = yaml.safe_dump({"format": pack.format, **values}, sort_keys=False, allow_unicode=True, width=100)
        (fresh / PACK_FILE).write_text(text, "utf-8")
        for message in pack.messages:
            (fresh / message.file).write_text(message.text, "utf-8", newline="")
        fresh.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        fresh.replace(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _digest_at(folder: Path) -> str:
    try:
        return read_pack(folder).digest
    except SetupError:
        return ""
