"""The skills in a git repository: every commit on the checked-out branch that changes a skill is a decision.

A skill is a folder with a SKILL.md, at any depth; a later folder of the same name, or with the same SKILL.md,
continues it. Evaluations next to a skill are not a part of it. Results that the repository holds are read by their
own formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TypeVar

from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    DecisionMoment,
    EpisodeSource,
    ExperimentSource,
    FoundExperiment,
    HistorySource,
    LibrarySource,
    RunSource,
)
from benchapp.imports.reading.git_history import MODES, Commit, GitProblem, History, open_history
from benchapp.imports.reading.skill_history import changed_texts, read_entries
from benchapp.imports.reading.walking import NOT_ENTERED, Root
from runner.base.text import clean
from runner.base.types import AuthorMode, DecisionStatus, File, Files, Patch

NAME = "git-skills"
TITLE = "Git skills"
SHARES = True
SKILL = "SKILL.md"
ROOT_PARTS = (SKILL, "references", "scripts", "assets")  # of a skill at the root of a repository
MAX_SKILLS = 200
_LOOKED_DEEP = 6
# Folders and files of a skill that hold evaluations of it.
_BESIDE = re.compile(
    r"(evals?|tests?|benchmarks?|iteration-.*|.*-workspace|workspace|results\.tsv|test-prompts\.json)(/|$)"
)


T = TypeVar("T")
State = dict[str, tuple[str, str]]  # path inside a skill -> object and mode


def claims(root: Root, folder: Path) -> bool:
    return root.is_dir(folder / ".git") and _has_skill(root, folder, _LOOKED_DEEP)


def _has_skill(root: Root, folder: Path, depth: int) -> bool:
    folders, files = root.listing(folder)
    if any(file.name == SKILL for file in files):
        return True
    return depth > 0 and any(_has_skill(root, sub, depth - 1) for sub in folders if sub.name not in NOT_ENTERED)


def find(root: Root, folder: Path) -> Iterator[FoundExperiment]:
    try:
        with open_history(root, folder) as history:
            skills, total = read_skills(history)
    except GitProblem as problem:
        root.report(folder / ".git", "", problem.expected, str(problem))
        yield from find_without_history(root, folder)
        return
    run, label = _run("git"), root.label(folder)
    histories = []
    for skill in skills:
        episode = EpisodeSource(skill.key, skill.key, family=skill.key)
        at = skill.moments[0].at or datetime.fromtimestamp(0, UTC)
        histories.append(HistorySource(run, episode, NAME, label, (), lambda skill=skill: skill.moments, at))  # type: ignore[misc]
    _report_many(root, folder, total)
    if histories:
        source = ExperimentSource.of_folder(root, folder, format=NAME, title=TITLE)
        yield FoundExperiment(source, histories=tuple(histories))


def find_without_history(root: Root, folder: Path) -> Iterator[FoundExperiment]:
    """Yield the skills in a folder as they are now: a part of a repository, a worktree, ~/.claude/skills."""
    tree = {entry.name: entry for entry in root.tree(folder, skip=NOT_ENTERED)}
    folders = {str(PurePosixPath(path).parent) for path in tree if PurePosixPath(path).name == SKILL}
    if not folders:
        return
    root.report(folder, ".git", "a history of the skills", "none that can be read: they are shown as they are now")
    _report_many(root, folder, len(folders))
    libraries, names = [], set[str]()
    for skill in sorted(folders)[:MAX_SKILLS]:
        name = _name_skill(skill, folder.name, names)
        names.add(name)
        entries = _state_of(skill, folders, tree)
        files = {f"{name}/{clean(path)[:900]}": file for path, file in read_entries(root, folder, entries.items())}
        episode, path = EpisodeSource(name, name, family=name), root.label(folder / skill)
        libraries.append(LibrarySource(_run(UNKNOWN), episode, NAME, path, files))
    source = ExperimentSource.of_folder(root, folder, format=NAME, title="Skills")
    yield FoundExperiment(source, libraries=libraries, libraries_total=len(libraries))


def _run(condition: str) -> RunSource:
    return RunSource(harness=UNKNOWN, author_model=UNKNOWN, condition=condition, setup={"source": NAME})


def _report_many(root: Root, folder: Path, total: int) -> None:
    if total > MAX_SKILLS:
        root.report(
            folder, "", f"at most {MAX_SKILLS} skills in one repository", f"found {total}; the rest is left out"
        )


@dataclass(slots=True)
class SkillHistory:
    """`folder`: where it is now, or was when it went. If it comes back there, it continues."""

    key: str
    folder: str
    is_gone: bool = True
    state: State = field(default_factory=dict)
    moments: list[DecisionMoment] = field(default_factory=list)


def read_skills(history: History) -> tuple[list[SkillHistory], int]:
    """Return the skills that the branch ever had, the first one first, at most MAX_SKILLS; and the number of all."""
    paths = [path for folder in history.folders_with(SKILL) for path in (ROOT_PARTS if folder == "." else [folder])]
    if not paths:
        return [], 0
    commits, changes = history.commits(paths), history.changes(paths)
    tree: State = {}
    skills: list[SkillHistory] = []
    changed: list[tuple[SkillHistory, Commit, State, State]] = []
    folders, left_out = set[str](), set[str]()
    for commit in commits:
        touched = {path for path, _, _ in changes.get(commit.ident, ())}
        before = {skill.folder: skill for skill in skills if not skill.is_gone}
        for path, ident, mode in changes.get(commit.ident, ()):
            if mode in MODES:
                tree[path] = (ident, mode)
            else:  # it went, or became a link or a nested repository
                tree.pop(path, None)
            if path == SKILL or path.endswith(f"/{SKILL}"):
                (folders.add if path in tree else folders.discard)(str(PurePosixPath(path).parent))
        gone = [skill for folder, skill in before.items() if folder not in folders]
        for folder in sorted(folders - before.keys() - left_out):
            back = next((skill for skill in skills if skill.is_gone and skill.folder == folder), None)
            found = back or _find_moved(gone, folder, tree)
            if found is None and len(skills) == MAX_SKILLS:  # each commit costs time for each skill
                left_out.add(folder)
                continue
            name = _name_skill(folder, history.folder.name, {skill.key for skill in skills})
            found = found or SkillHistory(name, folder)
            if found in gone:
                gone.remove(found)
            elif found is not back:
                skills.append(found)
            found.folder, found.is_gone = folder, False
        for skill in (skill for skill in skills if not skill.is_gone):
            is_moved, prefix = before.get(skill.folder) is not skill, _prefix(skill.folder)
            if skill in gone or is_moved or any(path.startswith(prefix) for path in touched):
                state = {} if skill in gone else _state_of(skill.folder, folders, tree)
                if state != skill.state:
                    changed.append((skill, commit, skill.state, state))
                    skill.state = state
        for skill in gone:
            skill.is_gone = True
    # All at once: each question starts a process.
    contents = history.contents(ident for *_, old, new in changed for ident, _ in (*old.values(), *new.values()))
    for skill, commit, old, new in changed:
        skill.moments.append(_decide(skill.key, commit, old, new, contents))
    return [skill for skill in skills if skill.moments], len(skills) + len(left_out)


def _state_of(folder: str, folders: set[str], tree: Mapping[str, T]) -> dict[str, T]:
    """Return the files of a skill, without its evaluations and without skills inside it."""
    inner = tuple(f"{other}/" for other in folders if other.startswith(f"{folder}/") or folder == "." != other)
    prefix = _prefix(folder)
    found = {}
    for path, entry in tree.items():
        inside = path.removeprefix(prefix)
        if not path.startswith(prefix) or _BESIDE.match(inside) or (inner and path.startswith(inner)):
            continue
        if folder != "." or inside.partition("/")[0] in ROOT_PARTS:
            found[inside] = entry
    return found


def _prefix(folder: str) -> str:
    return "" if folder == "." else f"{folder}/"


def _find_moved(gone: list[SkillHistory], folder: str, tree: State) -> SkillHistory | None:
    """Return the skill that went in this commit and continues in `folder`: by its name, else by an equal SKILL.md."""
    name, text = PurePosixPath(folder).name, tree[_prefix(folder) + SKILL][0]
    named = (skill for skill in gone if PurePosixPath(skill.folder).name == name)
    return next(named, next((skill for skill in gone if skill.state.get(SKILL, ("",))[0] == text), None))


def _name_skill(folder: str, repository: str, taken: set[str]) -> str:
    """Return the name of a skill's folder; where another skill has it, its path."""
    name = clean(PurePosixPath(folder).name or repository)[:100] or "skill"
    return name if name not in taken else clean(folder)[:190]


def _decide(key: str, commit: Commit, before: State, after: State, contents: Mapping[str, bytes]) -> DecisionMoment:
    """Make a decision of a commit that changed a skill."""

    def files(of: State) -> Files:
        return {
            f"{key}/{clean(path)[:900]}": File(contents[ident], MODES[mode])
            for path, (ident, mode) in of.items()
            if ident in contents
        }

    old, new = files(before), files(after)
    texts = changed_texts(old, new)
    kind = (
        "create"
        if not before
        else "delete"
        if not after
        else "revert"
        if commit.subject.startswith("Revert ")
        else "revise"
    )
    words = f"{commit.subject}\n\n{commit.body}".strip()
    return DecisionMoment(
        family=key,
        mode=AuthorMode.OUTSIDE,
        status=DecisionStatus.APPLIED,
        after=new,
        operation_type=kind,
        summary=f"{words}\n\nCommit {commit.ident[:10]} by {commit.author or UNKNOWN}.",
        patch=Patch(commit.subject, kind, texts, tuple(sorted(old.keys() - new.keys()))),
        at=commit.at,
    )
