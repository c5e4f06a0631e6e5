"""Skillbooks of ACE (Agentic Context Engine): JSON files with rules, each a state of one list at some time.

The files of a folder are the states in the order of their names. A rule is a line of one skill here, with its
counters, so that a change of a rule is a change of its line. The files have no trials, no author and no reasons.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from benchapp.imports.reading.documents import Document, read_object
from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    EpisodeSource,
    ExperimentSource,
    FoundExperiment,
    HistorySource,
    Moment,
    RunSource,
)
from benchapp.imports.reading.skill_history import SkillHistory
from benchapp.imports.reading.walking import FolderEntry, Root, list_names, name_of
from runner.base.types import DecisionStatus

NAME, TITLE = "ace", "ACE"
SUFFIXES = frozenset({".json"})
SKILL = "skillbook"
COUNTERS = ("helpful", "harmful", "neutral")
_MARKS = (b'"sections"', b'"next_id"')
MAX_BYTES = 64 * 1024 * 1024  # of the states of one list, which are held together
_END_BYTES = 64 * 1024  # the list of sections is behind the rules


def claims_file(root: Root, entry: FolderEntry) -> bool:
    with root.open(entry.path) as stream:
        if b'"skills"' not in stream.read(200):
            return False
        stream.seek(max(0, entry.size - _END_BYTES))
        end = stream.read(_END_BYTES)
    return all(mark in end for mark in _MARKS)


def find_files(root: Root, entries: Sequence[FolderEntry]) -> Iterator[FoundExperiment]:
    folders = defaultdict[Path, list[FolderEntry]](list)
    for entry in sorted(entries, key=lambda entry: entry.path):
        folders[entry.path.parent].append(entry)
    for folder, states in folders.items():
        sizes = list(accumulate(entry.size for entry in states))
        if left := [entry.name for entry, size in zip(states, sizes, strict=True) if size > MAX_BYTES]:
            expected = f"at most {MAX_BYTES:,} bytes in the states of one list"
            root.report(folder, "", expected, f"more; {list_names(left)} left out")
        fitting = states[: len(states) - len(left)]
        read = [(entry, document) for entry in fitting if (document := read_object(root, entry.path))]
        if read:
            moments = list(_list_moments(read))
            run = RunSource(author_model=UNKNOWN, condition=NAME)
            episode = EpisodeSource(SKILL, SKILL, family=SKILL)
            at = root.modified_at(read[0][0].path)
            history = HistorySource(run, episode, NAME, root.label(folder), (), moments.copy, at)
            source = ExperimentSource.of_folder(root, folder, format=NAME, title=TITLE)
            yield FoundExperiment(source, histories=(history,))


def _list_moments(states: Sequence[tuple[FolderEntry, Document]]) -> Iterator[Moment]:
    history, before = SkillHistory(SKILL, f"{SKILL}/SKILL.md"), dict[str, str]()
    for number, (entry, document) in enumerate(states):
        rules = {rule.text("id", 200) or place: rule for place, rule in _read_rules(document)}
        text = _write_skill(rules)
        lines = {name: _write_rule(name, rule) for name, rule in rules.items()}
        if number == 0:
            yield from history.seed(text)
        else:
            status = DecisionStatus.NO_OP if text == history.current else DecisionStatus.APPLIED
            yield history.decide(status, text, "", f"{name_of(entry.path)}: {_count_changes(before, lines)}")
        before = lines


def _read_rules(document: Document) -> Iterator[tuple[str, Document]]:
    for name in document.object("skills").raw:
        rule = document.object("skills").object(name)
        if rule.text("content"):
            yield name, rule
        else:
            rule.report("content", "the text of a rule", "none; the rule is left out")


def _write_skill(rules: dict[str, Document]) -> str:
    sections = defaultdict[str, list[str]](list)
    for name, rule in rules.items():
        sections[rule.text("section", 200) or UNKNOWN].append(_write_rule(name, rule))
    return "".join(f"## {section}\n\n" + "\n".join(lines) + "\n\n" for section, lines in sections.items())


def _write_rule(name: str, rule: Document) -> str:
    counted = ", ".join(f"{counter} {count}" for counter in COUNTERS if (count := rule.count(counter)))
    status = rule.text("status", 40) or "active"
    told = ", ".join(filter(None, ("" if status == "active" else status, counted)))
    content = " ".join((rule.text("content") or "").split())
    return f"- [{name}] {content}{f' ({told})' if told else ''}"


def _count_changes(before: dict[str, str], after: dict[str, str]) -> str:
    added, removed = len(after.keys() - before.keys()), len(before.keys() - after.keys())
    changed = sum(after[name] != line for name, line in before.items() if name in after)
    counts = ((added, "added"), (changed, "changed"), (removed, "removed"))
    return ", ".join(f"{count} {word}" for count, word in counts if count) or "nothing changed"
