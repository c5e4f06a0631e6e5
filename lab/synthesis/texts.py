"""Plausible texts at the speed of a lookup. Everything derives from the given random source."""

from __future__ import annotations

import random
from collections.abc import Iterator

from runner.base.types import File, Files, Observation, Source, Step, ToolCall, Usage

WORDS = (
    "table column missing value group total ledger region join key order date window parse header footer delimiter "
    "quote escape record duplicate merge event zone offset clock retry queue batch schema field index range sum mean "
    "median ratio rounding unit price invoice account customer shipment batch report audit check file path folder"
).split()
COMMANDS = (
    "head -n 20 data/{word}.csv",
    "python3 build_{word}.py --out report.json",
    "grep -n {word} notes.txt | head",
    "cat ../skills/{word}-handling/SKILL.md",
    "ls -la data",
    "diff expected_{word}.txt report.txt",
)


def draw_sentence(dice: random.Random, words: int = 12) -> str:
    return " ".join(dice.choices(WORDS, k=words)).capitalize() + "."


def draw_paragraph(dice: random.Random, characters: int) -> str:
    """Return a text of about this many characters, one line per sentence."""
    lines: list[str] = []
    length = 0
    while length < characters:
        lines.append(draw_sentence(dice, dice.randint(6, 18)))
        length += len(lines[-1]) + 1
    return "\n".join(lines)


def draw_steps(dice: random.Random, total: int, *, characters: int = 300) -> Iterator[Step]:
    """Yield `total` steps of a working agent, about `characters` characters each."""
    pool = [draw_paragraph(dice, characters) for _ in range(8)]
    yield Step(1, Source.USER, draw_sentence(dice, 30))
    for number in range(2, total + 1):
        yield _draw_step(dice, number, dice.choice(pool))


def _draw_step(dice: random.Random, number: int, output: str) -> Step:
    failed = dice.random() < 0.06
    command = dice.choice(COMMANDS).format(word=dice.choice(WORDS))
    text = f"Traceback (most recent call last):\nKeyError: {dice.choice(WORDS)!r}" if failed else output
    call = ToolCall(f"call-{number}", "shell", {"command": command})
    usage = Usage(900 + 45 * number, 800 + 40 * number, dice.randint(30, 240), None)
    return Step(
        number,
        Source.AGENT,
        f"{number}: {dice.choice(WORDS)} {dice.choice(WORDS)} next.",
        tool_calls=(call,),
        observations=(Observation(f"{number} {text}", call.id, is_error=failed),),
        usage=usage,
    )


def draw_skill(dice: random.Random, slug: str, lines: int) -> str:
    body = "\n".join(f"{place}. {draw_sentence(dice)}" for place in range(1, lines + 1))
    return f"---\nname: {slug}\ndescription: {draw_sentence(dice, 20)}\n---\n\n# {slug}\n\n## Workflow\n\n{body}\n"


def revise_library(dice: random.Random, library: Files, slug: str) -> dict[str, File]:
    """Return the library with a few lines of one skill changed, or the skill added, sometimes with a reference file."""
    path = f"{slug}/SKILL.md"
    if path not in library:
        return {**library, path: File(draw_skill(dice, slug, dice.randint(15, 50)).encode())}
    lines = library[path].content.decode().splitlines()
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(8, len(lines))
        lines[at : at + dice.randint(0, 1)] = [f"- {draw_sentence(dice)}"]
    changed = {**library, path: File(("\n".join(lines) + "\n").encode())}
    if dice.random() < 0.2:
        changed[f"{slug}/references/{dice.choice(WORDS)}_cases.md"] = File(draw_paragraph(dice, 1_500).encode())
    return changed
