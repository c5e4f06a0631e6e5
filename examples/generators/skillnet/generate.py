"""SkillNet's creator on a corpus: from trials where there are any, else from a prompt that holds the material."""

import json
import os
import sys
from pathlib import Path

from skillnet_ai.creator import SkillCreator

OUTPUT = "output/skills"
MAX_CHARS = 400_000


def main() -> None:
    request = json.loads(Path("input/request.json").read_text())
    creator = SkillCreator(
        api_key=os.environ["OPENAI_API_KEY"], base_url=os.environ["OPENAI_BASE_URL"], model=request["model"]["name"]
    )
    trials = sorted(Path("input/trajectories").glob("*.md"))
    if trials:
        made = creator.create_from_trajectory(read([*trials, *sources()]), OUTPUT)
    else:
        made = creator.create_from_prompt(f"{wish(request)}\n\n{read(sources())}", OUTPUT)
    print("made:", ", ".join(sorted(made)) or "nothing")
    for place in made:
        cite_files(Path(place))


def wish(request: dict) -> str:
    """What a user would type. The contract's rules are given, since SkillNet's own layout is freer."""
    known = "the task that is described first" if Path("input/task.md").exists() else "tasks that are not known yet"
    return (
        f"A skill for {known}, made from the source material below. Keep to these rules: {json.dumps(request['rules'])}"
    )


def sources() -> list[Path]:
    corpus = sorted(path for path in Path("input/corpus").rglob("*") if path.is_file())
    return [path for path in (Path("input/task.md"), *corpus) if path.exists()]


def read(paths: list[Path]) -> str:
    return "\n\n".join(f"# {path}\n\n{path.read_bytes().decode('utf-8', 'replace')}" for path in paths)[:MAX_CHARS]


def cite_files(place: Path) -> None:
    """A skill has to name each of its files: those that it does not are listed at its end."""
    main_file = place / "SKILL.md"
    if not main_file.is_file():
        sys.exit(f"{place} has no SKILL.md")
    text = main_file.read_text()
    files = sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
    missing = [name for name in files if name != "SKILL.md" and name not in text]
    if missing:
        main_file.write_text(text.rstrip() + "\n\n## Files\n\n" + "".join(f"- `{name}`\n" for name in missing))


main()
