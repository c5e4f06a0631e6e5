"""Writes skills from the headings of a corpus: one skill per document, its sections as they stand. Standard library only.

Documents are Markdown, reStructuredText and plain text; of source code the leading comments and doc strings count. With
a task, sections that share words with it come first; without one, sections come in their order. Everything is held within
the budget of input/request.json, at four characters a token.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INPUT, OUTPUT = Path("input"), Path("output/skills")
DOCUMENTS = {".md", ".markdown", ".rst", ".txt", ".adoc", ""}
CODE = {".c", ".cc", ".cpp", ".go", ".h", ".java", ".js", ".rb", ".rs", ".sh", ".ts"}
FOREIGN = {"vendor", "node_modules", "third_party", "dist", "build", ".git"}
MAX_FILE_BYTES = 1_000_000
MOST_SKILLS, MOST_LINES, MOST_DESCRIBED = 5, 400, 700
SPARE_CHARACTERS = 200  # of the budget, for each skill's heading
HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*$")
UNDERLINE = re.compile(r"(=|-|~|\^)\1{2,}$")
WORD = re.compile(r"[a-z][a-z0-9_]{2,}")


@dataclass
class OutlineSection:
    document: str
    title: str
    lines: list[str]
    place: int
    score: int = 0

    @property
    def text(self) -> str:
        return "\n".join(["", f"## {self.title}", "", *self.lines, ""])


def main() -> None:
    request = json.loads((INPUT / "request.json").read_text("utf-8"))
    task = INPUT / "task.md"
    wanted = words(task.read_text("utf-8")) if task.exists() else set()
    sections = [section for path in corpus() for section in read(path)]
    for place, section in enumerate(sections):
        section.place, section.score = place, len(wanted & words(f"{section.title} {' '.join(section.lines)}"))
    budget = request.get("budget_tokens")
    characters = 4 * budget if budget else 200_000
    for number, (document, kept) in enumerate(chosen(sections, characters).items(), start=1):
        write(slug_of(document, number), document, kept)
    print(f"{len(sections)} sections read, {len(wanted)} words of a task")


def corpus() -> Iterator[Path]:
    root = INPUT / "corpus"
    for path in sorted(root.rglob("*"), key=lambda path: (len(path.parts), str(path))):
        if path.is_file() and not FOREIGN & set(path.parts) and path.stat().st_size <= MAX_FILE_BYTES:
            yield path


def read(path: Path) -> Iterator[OutlineSection]:
    name = path.relative_to(INPUT / "corpus").as_posix()
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        return
    if "\0" in text:
        return
    if path.suffix in DOCUMENTS:
        yield from outline_documents(name, text)
    elif path.suffix == ".py":
        yield from doc_strings(name, text)
    elif path.suffix in CODE and (lines := leading_comment(text)):
        yield OutlineSection(name, name, lines, 0)


def outline_documents(name: str, text: str) -> Iterator[OutlineSection]:
    section = OutlineSection(name, name, [], 0)
    fenced = False
    lines = text.splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        marked = HEADING.match(line)
        title = marked[2] if marked else line.strip() if line.strip() and UNDERLINE.match(after) else ""
        if title and not fenced and not UNDERLINE.match(line):
            if any(map(str.strip, section.lines)):
                yield section
            section = OutlineSection(name, title, [], 0)
        elif fenced or not UNDERLINE.match(line):
            section.lines.append(line)
    if any(map(str.strip, section.lines)):
        yield section


def doc_strings(name: str, text: str) -> Iterator[OutlineSection]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            said = ast.get_docstring(node)
            if said:
                title = name if isinstance(node, ast.Module) else f"{node.name} ({name})"
                yield OutlineSection(name, title, said.splitlines(), 0)


def leading_comment(text: str) -> list[str]:
    found = []
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("#!"):
            continue
        if bare and not bare.startswith(("//", "#", "/*", "*")):
            break
        found.append(bare.lstrip("/#* ").removesuffix("*/").rstrip())
    return found if any(found) else []


def words(text: str) -> set[str]:
    return set(WORD.findall(text.lower()))


def chosen(sections: list[OutlineSection], characters: int) -> dict[str, list[OutlineSection]]:
    """Document -> the sections kept of it, in their own order. The best sections first, as far as the budget goes."""
    kept: dict[str, list[OutlineSection]] = {}
    lines: dict[str, int] = {}
    for section in sorted(sections, key=lambda section: (-section.score, section.place)):
        new = section.document not in kept
        cost = len(section.text) + (SPARE_CHARACTERS + MOST_DESCRIBED + len(section.document) if new else 0)
        size = len(section.lines) + 4
        if (
            (new and len(kept) == MOST_SKILLS)
            or cost > characters
            or lines.get(section.document, 0) + size > MOST_LINES
        ):
            continue
        kept.setdefault(section.document, []).append(section)
        lines[section.document] = lines.get(section.document, 0) + size
        characters -= cost
    return {name: sorted(found, key=lambda section: section.place) for name, found in kept.items()}


def slug_of(document: str, number: int) -> str:
    plain = (
        re.sub(r"[^a-z0-9]+", "-", document.rpartition(".")[0].lower() or document.lower()).strip("-")[:50].strip("-")
    )
    return f"{plain or 'document'}-{number}"


def write(slug: str, document: str, sections: list[OutlineSection]) -> None:
    titles = ", ".join(section.title for section in sections)
    told = f"What {document} says on {titles}. Use it when a task turns on any of these."[:MOST_DESCRIBED]
    described = json.dumps(told, ensure_ascii=False)  # a YAML scalar in double quotes
    head = ["---", f"name: {slug}", f"description: {described}", "---", "", f"# From {document}"]
    folder = OUTPUT / slug
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(head) + "\n" + "".join(section.text for section in sections)
    (folder / "SKILL.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
