"""Corpora in the sense of SkillGenBench: source material, and tasks that depend on its content.

    corpora/<key>/corpus.yaml               format, name, kind (repository or {code,domain}-document), optional domain
    corpora/<key>/material/                 what an author may read: a repository snapshot or documents
    corpora/<key>/reference/<slug>/         handmade skills, if there are any; SKILL.md and what it cites
    corpora/<key>/tasks/<task>/             task folders as everywhere (`task_folder.py`): those that count
    corpora/<key>/practice/<task>/          optional task folders to gather experience on before a library is sealed

The layout is ours: SkillGenBench has published none. The parts are separate folders without links that lead out of a
build context, so the material gives no access to tests, solutions and held-out tasks (paper section 3.4).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from runner.base.digests import digest_json
from runner.base.errors import SuiteError
from runner.base.file_digests import is_plain, look_at, walk
from runner.base.trees import slugs
from runner.base.types import Corpus, CorpusKind, Environment, Family, Files, Task, TaskGroups
from runner.suites.documents import FieldTable, read_yaml, shorten_suite_value
from runner.suites.harbor import holds_tasks, is_task
from runner.suites.tasks.task_files import MAX_FILE_BYTES, read_tree
from runner.suites.tasks.task_folder import TaskFolder, TaskShelf, check_name, folders_in, mostly

FORMAT = "skillgenbench-corpora/1"
MATERIAL_FORMAT = "corpus-material/1"
SOURCE = "corpus.yaml"
PARTS = ("material", "reference", "tasks", "practice")
MAX_MATERIAL_FILES = 5_000
MAX_MATERIAL_BYTES = 64 * 1024 * 1024
HISTORY = {".git", ".hg", ".svn"}  # earlier states of a repository may hold what is held out


def looks_like(path: Path) -> bool:
    return mostly([each for each in folders_in(_base(path)) if _holds_something(each)], _is_corpus)


def _is_corpus(path: Path) -> bool:
    return (path / SOURCE).is_file()


def _holds_something(path: Path) -> bool:
    return _is_corpus(path) or is_task(path) or holds_tasks(path)


def roots(path: Path) -> tuple[Path, ...]:
    return (_base(path),)


def read(path: Path, key: str, shelf: TaskShelf) -> tuple[Environment, ...]:
    base = _base(path)
    if base.is_symlink():
        shelf.findings.problem(base, "folder", "a folder", "it is a link")
        return ()
    found = []
    for folder in folders_in(base):
        if not (folder / SOURCE).exists() and not (folder / SOURCE).is_symlink():
            shelf.findings.note(f"Left out, no {SOURCE}", folder.name)
        else:
            environment = shelf.findings.apart(
                f"corpus {folder.name}", partial(_environment, folder, shelf), family=folder
            )
            found += [environment] if environment else []
    if not found and not shelf.findings.all_problems():
        shelf.findings.problem(path, "folder", f"corpora/<key>/{SOURCE}", "there is none")
    return tuple(found)


def _base(path: Path) -> Path:
    return path / "corpora" if (path / "corpora").is_dir() else path


def _environment(folder: Path, shelf: TaskShelf) -> Environment:
    check_name(folder)
    name, kind, domain = _head(folder / SOURCE, shelf)
    # Check that each part is a separate folder: a link could make two of them one
    for each in sorted(folder.iterdir()):
        if each.name in PARTS and (each.is_symlink() or not each.is_dir()):
            found = "it is a link" if each.is_symlink() else "it is a file"
            raise SuiteError(str(each), "folder", "a folder of the corpus", found)
        if each.name not in (*PARTS, SOURCE):
            shelf.findings.note("Left out, not part of a corpus", f"{folder.name}/{each.name}")
    material = _material(folder / "material", shelf)
    key = folder.name
    tasks = _tasks(folder, shelf, {"source": (kind.value,), **({"domain": (domain,)} if domain else {})})
    _note_copies(folder, material, shelf)
    corpus = Corpus(kind, folder / "material", digest_json([MATERIAL_FORMAT, material]))
    description = f"{name} ({kind.replace('-', ' ')})"
    family = Family(key, key.lower(), name, description, key, tasks, _reference(folder / "reference", shelf))
    return Environment(key, name, (family,), corpus)


def _head(source: Path, shelf: TaskShelf) -> tuple[str, CorpusKind, str]:
    """Name, kind and domain. SuiteError for another format, since nothing else can then be understood."""
    head = FieldTable(read_yaml(source), source, shelf.findings)
    if head.raw("format") != FORMAT:
        raise SuiteError(str(source), "format", repr(FORMAT), f"found {shorten_suite_value(head.raw('format'))}")
    name, kind, domain = head.text("name"), head.raw("kind"), head.text("domain", "")
    known = next((each for each in CorpusKind if each == kind), None)
    if known is None:
        head.problem("kind", f"one of {', '.join(CorpusKind)}")
    for field in head.list_unasked():
        shelf.findings.problem(source, field[:100], "format, name, kind and domain", "nobody knows this field")
    return name, known or CorpusKind.REPOSITORY, domain


def _material(folder: Path, shelf: TaskShelf) -> dict[str, list[object]]:
    """path -> [digest, executable]. Limited, since all of it is held in memory for the author."""
    if not folder.is_dir():
        raise SuiteError(str(folder), "folder", "the corpus' files", "there is none")
    found: dict[str, list[object]] = {}
    total = 0
    for name, status, entry in walk(folder):
        if history := HISTORY & set(name.split("/")):
            raise SuiteError(
                str(folder), history.pop(), "a snapshot without its history", f"found {shorten_suite_value(name)}"
            )
        if not name.isprintable():
            raise SuiteError(str(folder), shorten_suite_value(name), "a printable name in UTF-8", "it is not printable")
        if entry.is_symlink() or not is_plain(status):
            message = "it is a link" if entry.is_symlink() else "it is a special file"
            shelf.findings.problem(folder / name, "file", "a plain file", message)
            continue
        total += status.st_size
        if status.st_size > MAX_FILE_BYTES:
            size = f"{status.st_size:,} bytes"
            shelf.findings.problem(folder / name, "size", f"at most {MAX_FILE_BYTES:,} bytes", size)
            continue
        if len(found) >= MAX_MATERIAL_FILES or total > MAX_MATERIAL_BYTES:
            limits = f"at most {MAX_MATERIAL_FILES:,} files of {MAX_MATERIAL_BYTES:,} bytes together"
            raise SuiteError(str(folder), "size", limits, "there is more")
        found[name] = [shelf.digests.digest(entry.path, look_at(status)), bool(status.st_mode & 0o100)]
    if not found:
        shelf.findings.problem(folder, "folder", "at least one file", "there is none")
    return found


def _reference(folder: Path, shelf: TaskShelf) -> Files:
    if not folder.is_dir():
        shelf.findings.note("No reference skill, so reference-skill cannot run", folder.parent.name)
        return {}
    found: Files = {}
    with shelf.findings.keep_errors():
        found = {path: file for path, file in read_tree(folder).items() if "/" in path}
    for slug in slugs(found):
        if f"{slug}/SKILL.md" not in found:
            shelf.findings.problem(folder / slug, "SKILL.md", "the skill's file", "there is none")
    return found


def _tasks(folder: Path, shelf: TaskShelf, groups: TaskGroups) -> tuple[Task, ...]:
    """Those that count, then those to practise on, each sorted by name."""
    count, practice = _task_folders(folder / "tasks", shelf), _task_folders(folder / "practice", shelf)
    if not (folder / "tasks").is_dir() or not folders_in(folder / "tasks"):
        shelf.findings.problem(folder / "tasks", "folder", "at least one task", "there is none")
    if not practice:
        shelf.findings.note("No practice task, so nothing is learned from trajectories before a seal", folder.name)
    key, tasks = folder.name, []
    for ordinal, each in enumerate((*count, *practice), start=1):
        title = each.toml.task.label("name")
        task = each.task(environment=key, family=key, ordinal=ordinal, title=title, groups=groups)
        tasks.append(replace(task, practice=ordinal > len(count)))
    return tuple(tasks)


def _task_folders(folder: Path, shelf: TaskShelf) -> list[TaskFolder]:
    found = [shelf.read(each) for each in folders_in(folder)] if folder.is_dir() else []
    return [each for each in found if each is not None]


def _note_copies(folder: Path, material: dict[str, list[object]], shelf: TaskShelf) -> None:
    """Note tests and solutions that the material contains word for word. An empty file gives nothing away."""
    known = {digest: name for name, (digest, _) in material.items()}
    for part in ("tasks", "practice"):
        for each in folders_in(folder / part) if (folder / part).is_dir() else []:
            for name, status, entry in walk(each):
                if status.st_size and is_plain(status) and name.startswith(("tests/", "solution/")):
                    copy = known.get(shelf.digests.digest(entry.path, look_at(status)))
                    if copy is not None:
                        shelf.findings.note("Also a file of tests or of a solution", f"{folder.name}/material/{copy}")
