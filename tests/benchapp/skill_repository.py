"""A repository of skills, made with git itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.benchapp.import_folders import write


class Repository:
    """Every call of git is a second after the one before, or at the moment that `now` names."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.commits, self.now = folder, 0, ""
        folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", "--template=")

    def git(self, *words: str) -> None:
        self.commits += 1
        at = self.now or f"2026-03-01T10:00:{self.commits:02d}Z"
        who = {"GIT_AUTHOR_NAME": "Ada", "GIT_COMMITTER_NAME": "Ada", "GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
        mail = {"GIT_AUTHOR_EMAIL": "ada@example.com", "GIT_COMMITTER_EMAIL": "ada@example.com"}
        subprocess.run(
            ["git", *words], cwd=self.folder, check=True, capture_output=True, env={**os.environ, **who, **mail}
        )

    def commit(self, message: str, **files: str) -> None:
        for path, content in files.items():
            write(self.folder / path.replace("__", "/").replace("_md", ".md"), content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def read(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=self.folder, check=True, capture_output=True, text=True).stdout


def make_skills(folder: Path) -> Repository:
    """Make one with the skill `sort`, of three commits and deleted by a fourth, and the skill `plot`, of one."""
    made = Repository(folder)
    sort, plot = folder / ".claude/skills/sort/SKILL.md", folder / ".claude/skills/plot/SKILL.md"
    write(plot, "---\nname: plot\ndescription: Plots.\n---\n# Plot\n")
    for day, text in ((2, "Read the header.\n"), (4, "Keep the header.\n"), (6, "Name the delimiter.\n")):
        write(sort, f"---\nname: sort\ndescription: Sorts.\n---\n# Sort\n{text}")
        made.now = f"2026-03-{day:02d}T10:00:00Z"
        made.commit(text)
    made.now = "2026-03-08T10:00:00Z"
    made.git("rm", "-q", str(sort))
    made.commit("Drop it")
    return made
