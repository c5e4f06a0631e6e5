"""Skill Seekers on a corpus: it converts the folder, its model improves SKILL.md, and the result is put into the contract's
layout."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

MADE = Path("made")


def main() -> None:
    request = json.loads(Path("input/request.json").read_text())
    environment = {**os.environ, "ANTHROPIC_MODEL": request["model"]["name"], "HOME": str(Path("home").absolute())}
    Path("home").mkdir()
    if Path("input/task.md").exists():  # beside the documents: the tool has no place for a task
        Path("input/corpus/the-task.md").write_bytes(Path("input/task.md").read_bytes())
    run("create", "input/corpus", "--name", request["slug"], "--output", str(MADE), "--enhance-level", "0",
        "--non-interactive", environment=environment)  # fmt: skip
    run("enhance", str(MADE), "--target", "claude", environment=environment)
    keep(request)


def run(*words: str, environment: dict) -> None:
    done = subprocess.run(["skill-seekers", *words], env=environment, check=False)
    if done.returncode:
        sys.exit(f"skill-seekers {words[0]} ended with exit code {done.returncode}")


def keep(request: dict) -> None:
    """SKILL.md whole, then documents of `references/`, the shortest first, as far as the budget reaches."""
    text = with_name((MADE / "SKILL.md").read_text(), request["slug"])
    place = Path("output/skills", request["slug"])
    place.mkdir(parents=True)
    room = request["budget_tokens"] * 4 - len(text) - 2_000
    cited = []
    for path in sorted((MADE / "references").rglob("*.md"), key=lambda each: (each.stat().st_size, each)):
        found = path.read_text()
        old, name = path.relative_to(MADE).as_posix(), plain_name(path)
        text = text.replace(old, name)
        if len(found) + len(name) + 5 > room:
            print("left out for want of room:", name)
            continue
        room -= len(found) + len(name) + 5
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(found)
        cited.append(name)
    files = "".join(f"- `{name}`\n" for name in sorted(cited) if name not in text)
    (place / "SKILL.md").write_text(text.rstrip() + (f"\n\n## Files\n\n{files}" if files else "\n"))


def plain_name(path: Path) -> str:
    """One level below `references/`, and never a bare "README" or "notes", which say nothing of what is in a file."""
    return "references/" + "-".join(path.relative_to(MADE / "references").parts).lower()


def with_name(text: str, slug: str) -> str:
    """Its frontmatter names the folder that it will lie in."""
    return re.sub(r"\A(---\n(?:.*\n)*?)name:.*\n", rf"\g<1>name: {slug}\n", text, count=1)


main()
