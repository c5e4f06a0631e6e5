"""The tasks of a draft: which exist, their names, and the suite that they make.

Tasks of a family are `<family>-1`, `<family>-2` and so on, from easy to hard; those of a corpus `<family>-<scenario>`.
So their keys in a suite are those in the draft, in either layout.
"""

from __future__ import annotations

import json
import re
from itertools import count

from runner.authoring.contract.contract import slug_problem
from runner.base.errors import SetupError
from runner.base.text import natural_key
from runner.base.types import CorpusKind, File, Files
from runner.drafting.draft import DraftBrief, Loop
from runner.suites import skillgenbench_suite, skilllearnbench_suite
from runner.suites.families import BESIDE, FORMAT

CORPUS, TASKS, SKILLS = "corpus/", "tasks/", "skills/"
_PROSE = (".md", ".txt", ".rst", ".html", ".csv", ".json")


def list_tasks_in(files: Files) -> list[str]:
    """Keys of the task folders, `a-2` before `a-10`."""
    found = {path.split("/")[1] for path in files if path.startswith(TASKS) and path.count("/") > 1}
    return sorted(found, key=natural_key)


def select_task(files: Files, key: str) -> Files:
    """The files of one task, by their paths in its folder."""
    return select_below(files, f"{TASKS}{key}/")


def select_below(files: Files, folder: str) -> Files:
    return {path.removeprefix(folder): file for path, file in files.items() if path.startswith(folder)}


def select_tasks(files: Files) -> Files:
    """All files of all tasks, by their paths in the draft."""
    return {path: file for path, file in files.items() if path.startswith(TASKS)}


def select_corpus(files: Files) -> Files:
    return {path: file for path, file in files.items() if path.startswith(CORPUS)}


def number_of(brief: DraftBrief, key: str) -> int | None:
    """The number of a task among its family's; None for a key of another form."""
    match = re.fullmatch(re.escape(brief.family) + r"-([1-9]\d{0,5})", key)
    return int(match[1]) if match else None


def seed_key(brief: DraftBrief) -> str:
    """The task that an expansion or further instances start from."""
    return f"{brief.family}-1"


def name_tasks(brief: DraftBrief, files: Files) -> Files:
    """Rename given tasks to the family's pattern: others get the lowest free numbers."""
    tasks = list_tasks_in(files)
    if len(tasks) == 1 and brief.loop in (Loop.EXPANSION, Loop.INSTANCES):
        names = {tasks[0]: seed_key(brief)}
    else:
        free = (key for number in count(1) if (key := f"{brief.family}-{number}") not in tasks)
        names = {key: key if _fits(brief, files, key) else next(free) for key in tasks}
    return {_renamed(path, names): file for path, file in files.items()}


def _renamed(path: str, names: dict[str, str]) -> str:
    parts = path.split("/")
    return "/".join(["tasks", names[parts[1]], *parts[2:]]) if path.startswith(TASKS) and len(parts) > 2 else path


def _fits(brief: DraftBrief, files: Files, key: str) -> bool:
    if select_corpus(files):
        return key.startswith(f"{brief.family}-") and slug_problem(key) is None
    return number_of(brief, key) is not None


def check_names(brief: DraftBrief, files: Files) -> None:
    """Raise SetupError with the name of a task that the family's suite could not hold."""
    for key in list_tasks_in(files):
        if not _fits(brief, files, key):
            form = "<name in lower case>" if select_corpus(files) else "<number>"
            raise SetupError(f"tasks/{key[:100]}: expected a folder named {brief.family}-{form}")


# --- a suite of them --------------------------------------------------------------------------------------------------


def suite_files(brief: DraftBrief, files: Files) -> Files:
    """A folder that `read_suite_folder` reads: a corpus with its tasks if the draft has one, else a family of numbered
    tasks. Both have the family's reference skill, so that a qualification can try it."""
    check_names(brief, files)
    return _corpus_suite(brief, files) if select_corpus(files) else _numbered_suite(brief, files)


def _numbered_suite(brief: DraftBrief, files: Files) -> Files:
    """Use the layout of SkillLearnBench."""
    human = f"{skilllearnbench_suite.HUMAN.as_posix()}/{brief.family}/"
    found = {f"tasks/{brief.family}/{path}": file for path, file in select_below(files, TASKS).items()}
    found |= {f"{human}{path}": file for path, file in select_below(files, SKILLS).items()}
    if brief.loop is Loop.EXPANSION:
        found[BESIDE] = _write_ranks(list_tasks_in(files))
    return found


def _write_ranks(keys: list[str]) -> File:
    """Tasks are numbered from easy to hard, so a task's place is its rank by difficulty."""
    tasks = {key: {"rank": str(rank)} for rank, key in enumerate(keys, start=1)}
    return File(f"{json.dumps({'format': FORMAT, 'tasks': tasks}, indent=1)}\n".encode())


def _corpus_suite(brief: DraftBrief, files: Files) -> Files:
    """Use the layout of corpora (`skillgenbench_suite`)."""
    material, root = select_below(files, CORPUS), f"corpora/{brief.family}/"
    is_prose = all(path.lower().endswith(_PROSE) for path in material)
    kind = CorpusKind.DOMAIN_DOCUMENT if is_prose else CorpusKind.REPOSITORY
    name = brief.family.replace("-", " ").capitalize()
    head = {"format": skillgenbench_suite.FORMAT, "name": name, "kind": kind.value}
    return {
        f"{root}{skillgenbench_suite.SOURCE}": File(f"{json.dumps(head, indent=1)}\n".encode()),
        **{f"{root}material/{path}": file for path, file in material.items()},
        **{f"{root}tasks/{path}": file for path, file in select_below(files, TASKS).items()},
        **{f"{root}reference/{path}": file for path, file in select_below(files, SKILLS).items()},
    }
