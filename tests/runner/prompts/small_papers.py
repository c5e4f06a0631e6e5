"""Papers in the layout of the real ones, in our words: the anchors are theirs, the text between them is ours."""

from __future__ import annotations

import textwrap
from pathlib import Path

from runner.prompts.pack_layout import PackLayout, Piece, read_layouts

OURS = "Our own words about {name}: read what happened, keep what will come up again, and cut the rest well."


def layout_named(name: str) -> PackLayout:
    return next(layout for layout in read_layouts() if layout.name == name)


def small_piece(layout: PackLayout, name: str, words: str = OURS) -> str:
    """A piece as printed: its first words, ours, every placeholder it has, its last words."""
    piece: Piece = layout.pieces[name]
    end = piece.to[0] if piece.to else "And so on."
    slots = dict.fromkeys(
        slot
        for prompt in layout.prompts
        for message in prompt.messages
        for part in message.parts
        if part.piece == name
        for slot in (*part.put, *message.values)
    )
    missing = [slot for slot in slots if f"{{{slot}}}" not in f"{piece.start} {end}"]
    return "\n".join([piece.start, words.replace("{name}", name), *(f"{slot}: {{{slot}}}" for slot in missing), end])


def small_paper(layout: PackLayout, **words: str) -> str:
    """Its whole appendix, each piece behind what stands before it in the real one. `words`: of single pieces."""
    parts = ["Appendix\n"]
    for name, piece in layout.pieces.items():
        own = words.get(name.replace("-", "_"), OURS)
        parts.append(f"{piece.after}\n{small_piece(layout, name, own)}\n{piece.before}\n\nBetween two prompts.\n")
    return "\n".join(parts)


def as_pages(text: str, *, lines: int = 30, indent: str = "") -> str:
    """As `pdftotext` gives it: form feeds, a running head, page numbers; with -layout an indentation too."""
    rows = text.split("\n")
    pages = [rows[start : start + lines] for start in range(0, len(rows), lines)]
    pages += [["The end."]] * max(0, 4 - len(pages))
    return "\f".join(
        "\n".join(["A paper on skills", *(indent + row if row else row for row in page), f"    {number}"])
        for number, page in enumerate(pages, start=1)
    )


def as_wrapped(text: str, width: int = 60) -> str:
    """As a print breaks lines, words at their hyphens and inside."""
    return "\n".join(textwrap.fill(row, width) if len(row) > width else row for row in text.split("\n"))


def write_papers(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.txt").write_text(small_paper(layout_named(name)), "utf-8")
    return folder
