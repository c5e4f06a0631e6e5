"""One skill from one call to a model, with Python's standard library alone: corpus and task in, SKILL.md out."""

import json
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

MAX_CHARS = 200_000  # of the material, some 50,000 tokens
SYSTEM = """\
You turn source material into one skill: a SKILL.md that an agent without the material reads before it works.
Write down exact names, limits, defaults, orders of steps and exceptions that tasks could depend on, and how to check a result.
Answer with the file alone. It starts with YAML between two lines ---: `name` (lower-case letters, digits and hyphens) and
`description` (what the skill is for and when to use it), and goes on in Markdown.
"""


def main() -> None:
    request = json.loads(Path("input/request.json").read_text())
    answer = ask(request["model"], material())
    text = re.sub(r"\A```\w*\n(.*)\n```\s*\Z", r"\1", answer.strip(), flags=re.DOTALL)
    named = re.search(r"^name:\s*[\"']?([a-z0-9]+(?:-[a-z0-9]+)*)[\"']?\s*$", text, re.MULTILINE)
    slug = named[1] if named else request["slug"]
    place = Path("output/skills", slug, "SKILL.md")
    place.parent.mkdir(parents=True)
    place.write_text(text + "\n")


def material() -> str:
    """The task and the trials first, where there are any: what is cut off comes from the end of the corpus."""
    parts = ["# Source material for a skill"]
    found = [Path("input/task.md"), *sorted(Path("input/trajectories").glob("*.md"))]
    found += sorted(path for path in Path("input/corpus").rglob("*") if path.is_file())
    for path in found:
        if path.is_file():
            parts.append(f"## {path}\n\n{path.read_bytes().decode('utf-8', 'replace')}")
    return "\n\n".join(parts)[:MAX_CHARS]


def ask(model: dict, text: str) -> str:
    body = {
        "model": model["name"],
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}],
        **model["sampling"],
    }
    call = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
    )
    try:
        with urllib.request.urlopen(call, timeout=800) as answer:
            return json.load(answer)["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as error:
        sys.exit(f"the model gave no answer: {error.read().decode('utf-8', 'replace')[:2_000]}")


main()
