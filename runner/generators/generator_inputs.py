"""The files of a generator's sandbox: the corpus, the task if it is revealed, trials if the condition collects them, a
request. Nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence

from runner.authoring.contract.contract_rules import (
    MAX_BODY_LINES,
    MAX_DESCRIPTION_CHARS,
    MAX_FILE_BYTES,
    MAX_LIBRARY_BYTES,
    MAX_SLUG_CHARS,
)
from runner.authoring.occasion import Occasion
from runner.base.types import File, Files
from runner.suites.tasks.task_files import read_workspace_files

REQUEST_FORMAT = "generator-request/1"


def input_files(
    occasion: Occasion, *, seed: int, model: dict[str, object] | None = None, documents: Sequence[bytes] = ()
) -> Files:
    """Path below the working folder -> file. Never includes tests, solutions, other tasks or skills.

    `documents`: the trials of the evidence as ATIF, in its order; empty for one that does not fit.
    """
    files = {f"input/corpus/{path}": file for path, file in occasion.corpus.items()}
    if occasion.task is not None:
        files["input/task.md"] = File(occasion.task.instruction.encode())
        files |= {f"input/files/{path}": file for path, file in read_workspace_files(occasion.task).items()}
    files |= {path: File(text.encode()) for path, text in trajectory_texts(occasion).items()}
    files |= {f"input/trajectories/{number}.json": File(each) for number, each in enumerate(documents, 1) if each}
    told = request_value(occasion, seed=seed) | ({} if model is None else {"model": model})
    request = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
    return {**files, "input/request.json": File(request.encode())}


def trajectory_texts(occasion: Occasion) -> dict[str, str]:
    """Path below the working folder -> what an author sees of a trial, in the order of the trials."""
    shown = (compaction.text for _, compaction, _ in occasion.evidence)
    return {f"input/trajectories/{number}.md": text for number, text in enumerate(shown, 1)}


def request_value(occasion: Occasion, *, seed: int) -> dict[str, object]:
    """`input/request.json` without the model. `slug`: a name for the skill, if the generator has none of its own."""
    return {
        "format": REQUEST_FORMAT,
        "setting": "task-agnostic" if occasion.task is None else "task-conditioned",
        "seed": seed,
        "budget_tokens": occasion.budget_tokens,
        "slug": occasion.family.slug,
        "rules": {
            "paths": "<skill>/SKILL.md, and files in <skill>/scripts, <skill>/references, <skill>/assets",
            "skill_name": f"lower-case letters, digits, single inner hyphens, at most {MAX_SLUG_CHARS}",
            "frontmatter": "YAML between two lines ---: name (that of the folder) and description",
            "description_characters": MAX_DESCRIPTION_CHARS,
            "body_lines": MAX_BODY_LINES,
            "file_bytes": MAX_FILE_BYTES,
            "library_bytes": MAX_LIBRARY_BYTES,
            "cited": "every file beside SKILL.md is named by its path in SKILL.md",
            "budget": "a token is four characters; all files together stay within budget_tokens",
        },
    }
