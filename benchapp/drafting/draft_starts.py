"""What a draft can start from in the available suites: an environment's corpus, a task, or all tasks of a family."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from benchapp.models import Environment
from benchapp.record.sets.suite_files import find_suite
from runner.base.errors import SetupError
from runner.base.file_digests import IGNORED
from runner.base.trees import TreeCaps, read_tree
from runner.base.types import Files, Task
from runner.suites import SUITES
from runner.suites.tasks.task_files import read_test_files

# A model is shown what a draft starts from, so the limits are far below those of a suite.
CAPS = TreeCaps(file_bytes=1024 * 1024, total_bytes=16 * 1024 * 1024, count=500)


def list_corpora() -> list[tuple[str, str, str]]:
    """List (key of the suite, key of the environment, name) of the corpora of the bundled suites, then of those loaded
    from a folder, without reading any of these."""
    bundled = ((key, part.key, part.name) for key in SUITES for part in find_suite(key).environments if part.corpus)
    rows = Environment.objects.exclude(kind="").exclude(suite__path="").exclude(suite__key__in=SUITES)
    found = rows.order_by("suite__key", "ordinal", "key").values_list("suite__key", "key", "name")
    return [*bundled, *found]


def read_corpus(suite_key: str, environment_key: str) -> Files:
    """Return files below `corpus/`. Raise SetupError if there is no such corpus, or it is larger than CAPS."""
    parts = (part for part in find_suite(suite_key).environments if part.key == environment_key)
    corpus = next((part.corpus for part in parts), None)
    if corpus is None:
        raise SetupError(f"{suite_key}: expected the key of an environment with a corpus; found {environment_key!r}")
    return _read_below(corpus.folder, "corpus")


def read_start_task(suite_key: str, task_key: str, family: str) -> Files:
    """Return files below `tasks/`, in a folder whose name begins with `family`, the slug of the draft's family."""
    return _read_tasks(suite_key, (task for task in find_suite(suite_key).tasks if task.key == task_key), family)


def read_start_family(suite_key: str, family_key: str, family: str) -> Files:
    """Return all its tasks, each as from `read_start_task`."""
    found = (task for task in find_suite(suite_key).tasks if task.family == family_key)
    return _read_tasks(suite_key, found, family)


def _read_tasks(suite_key: str, tasks: Iterable[Task], family: str) -> Files:
    files: Files = {}
    for task in tasks:
        place = f"tasks/{family}-{re.sub('[^a-z0-9]+', '-', task.key.lower()).strip('-') or 'task'}"
        shared = {f"{place}/tests/{path}": file for path, file in read_test_files(task).items()}
        files = {**files, **shared, **_read_below(task.folder, place)}
    if not files:
        raise SetupError(f"{suite_key}: expected one of its tasks or families to begin with")
    return files


def _read_below(folder: Path, place: str) -> Files:
    tree = read_tree(folder, CAPS)
    if tree.left_out:
        raise SetupError(f"{place}: a draft cannot begin with it: {tree.left_out[0]}")
    return {
        f"{place}/{path}": file for path, file in tree.files.items() if IGNORED.isdisjoint(PurePosixPath(path).parts)
    }
