"""darwin-skill's log: `results.tsv`, a line for each change that it kept or took back, with scores before and after.

The texts are in the git history next to it (`git_skills`); here are the decisions with their scores. In a dry run
nothing was run: its scores are a model's estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from benchapp.imports.reading.documents import decode
from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    EpisodeSource,
    ExperimentSource,
    FoundExperiment,
    RunSource,
    TaskSource,
    Timing,
    TrialSource,
)
from benchapp.imports.reading.found_trials import FoundRow
from benchapp.imports.reading.walking import FolderEntry, Root, name_of, tail_of
from runner.base.text import clean
from runner.base.types import Phase, Verdict

NAME = "darwin-skill"
TITLE = "darwin-skill"
SUFFIXES = frozenset({".tsv"})
COLUMNS = frozenset({"status", "eval_mode"})  # the column of the version is named commit, version_id or change_id
SCORES = frozenset({"new_score", "score"})  # a log of one skill has `score` and no `skill`
JUDGES = {
    "dry_run": "judge:dry run",
    "paired": "judge:paired",
}  # by eval_mode; a pair is judged by votes ("2-1 better")
NONE = ("", "-")
MAX_BYTES = 16 * 1024 * 1024


def claims_file(root: Root, entry: FolderEntry) -> bool:
    with root.open(entry.path) as stream:
        head = stream.readline(4096).decode("utf-8", "replace").strip().split("\t")
    return set(head) >= COLUMNS and not SCORES.isdisjoint(head)


def find_files(root: Root, entries: Sequence[FolderEntry]) -> Iterator[FoundExperiment]:
    for entry in entries:
        content = root.read(entry.path, MAX_BYTES)
        if content is None:
            continue
        # The tool writes lines, not quoted cells: a quotation mark is a part of its cell, and no line reaches the next.
        head, *lines = (line.rstrip("\r").split("\t") for line in decode(root, entry.path, content).split("\n"))
        name, skill = tail_of(entry.path, 3), ""
        if "skill" not in head:
            skill = name_of(entry.path.parent)
            root.report(entry.path, "line 1", "a column for the skill", f"none: each line is taken for {skill}")
        trials = []
        for number, line in enumerate(lines, start=2):
            if line == [""]:
                continue
            cells = {"skill": skill} | {key.strip(): clean(value) for key, value in zip(head, line, strict=False)}
            if cells.get("skill"):
                trials.append(_build_trial(root, entry, name, number, cells))
            else:
                root.report(entry.path, f"line {number}", "a line with a skill", "none; left out")
        expected = "the text that each line scored, and so what its change was"
        root.report(entry.path, "commit", expected, "its commit only: import the git repository for the texts")
        source = ExperimentSource.of_folder(root, entry.path, format=NAME, title=TITLE, name=name)
        yield FoundExperiment(source, trials=tuple(trials))


def _build_trial(root: Root, entry: FolderEntry, name: str, number: int, cells: dict[str, str]) -> FoundRow:
    """Build the trial of a line: a judge's score, out of 100, of a skill at a commit."""
    column = "new_score" if "new_score" in cells else "score"
    mode, found = cells.get("eval_mode", ""), cells.get(column, "").strip()
    score = None if mode == "paired" else _read_score(root, entry, f"line {number}, {column}", found)
    skill, status = cells["skill"][:200], cells.get("status", "")

    def build() -> TrialSource:
        at = _read_time(cells.get("timestamp", ""))
        return TrialSource(
            run=RunSource(author_model=UNKNOWN, condition="old-skill" if status == "baseline" else "darwin-skill"),
            task=TaskSource(NAME, skill, skill, family=skill),
            timing=Timing(finished_at=at, finished_text="" if at else cells.get("timestamp", "")[:64]),
            verdict=Verdict(
                JUDGES.get(mode, "judge"),
                None,
                reward=None if score is None else score / 100,
                output=f"{status}: {cells.get('old_score', '-')} -> {found}. {cells.get('note', '')}",
            )
            if score is not None or mode == "paired" and found not in NONE
            else None,
            config=dict(cells),
            episode=EpisodeSource(skill, skill, family=skill),
            phase=Phase.ACQUISITION,
        )

    path = f"{root.label(entry.path)}, line {number}"
    return FoundRow(root, path, (f"{NAME}:{name}/{number}",), (f"{number:06}",), build, dict(cells))


def _read_score(root: Root, entry: FolderEntry, place: str, text: str) -> float | None:
    if text in NONE:
        return None
    try:
        score = float(text)
    except ValueError:
        score = -1.0
    if 0 <= score <= 100:
        return score
    root.report(entry.path, place, "a score from 0 to 100, or -", f"found {text[:40]!r}")
    return None


def _read_time(text: str) -> datetime | None:
    """Return a time with a zone; the tool writes local times, which stay as they are."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else None
