"""Extracting a paper's prompts from the user's copy into a pack, and importing a user's own pack."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from runner.base.errors import SetupError
from runner.prompts.pack_layout import LayoutMessage, LayoutPrompt, LayoutText, PackLayout, read_layouts
from runner.prompts.printed_copies import PrintedCopy, read_copies
from runner.prompts.printed_text import PrintedText, digest_words
from runner.prompts.prompt_pack import MARK, PACK_FILE, PackMessage, PackPrompt, PromptPack, packs_folder, read_pack

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
        told = pack.model_dump(mode="json", exclude_defaults=True)
        text = yaml.safe_dump({"format": pack.format, **told}, sort_keys=False, allow_unicode=True, width=100)
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
