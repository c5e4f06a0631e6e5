"""What skill-creator's description tests write: queries that should, or should not, start a skill.

`run_loop.py` rewrites the description after each iteration, without a gate, and keeps the one that did best: a file is
an experiment, whose library is the description. `run_eval.py` tests one description.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, partial

from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import Document, read_object
from benchapp.imports.reading.found_trials import FoundRow, graded
from benchapp.imports.reading.skill_history import SkillHistory
from benchapp.imports.reading.walking import FolderEntry, Root, tail_of
from runner.base.text import clean
from runner.base.types import DecisionStatus, Phase

NAME, TITLE, OLD = "skill-descriptions", "Skill descriptions", "old-skill"
SUFFIXES = frozenset({".json"})
_HEAD_BYTES = 16 * 1024
_LOOP, _TEST = (b'"original_description"', b'"best_description"'), (b'"trigger_rate"', b'"should_trigger"', b'"pass"')


def claims_file(root: Root, entry: FolderEntry) -> bool:
    with root.open(entry.path) as stream:
        head = stream.read(_HEAD_BYTES)
    is_one_of = (all(mark in head for mark in marks) for marks in (_LOOP, (*_TEST, b'"description"')))
    return head.lstrip().startswith(b"{") and any(is_one_of)


def find_files(root: Root, entries: Iterable[FolderEntry]) -> Iterator[sources.FoundExperiment]:
    for entry in entries:
        if (document := read_object(root, entry.path)) is None:
            continue
        skills = document.raw.get("skills")  # of somebody who tested several: what run_eval.py wrote for each
        parts = list(document.objects("skills")) if isinstance(skills, list) else [document]
        loops = [DescriptionLoop(root, part) for part in parts]
        trials = tuple(trial for loop in loops for found in loop.trials.values() for trial, _ in found)
        if trials:
            source = sources.ExperimentSource.of_folder(root, entry.path, format=NAME, title=TITLE)
            histories = tuple(loop.read_history() for loop in loops)
            yield sources.FoundExperiment(source, trials=trials, histories=histories)
        else:
            document.report("results", "queries with a result", "none; left out")


class DescriptionLoop:
    """One file, or what it has of one skill. The test's queries are results for the given description and for the best
    one; others served the search."""

    def __init__(self, root: Root, document: Document) -> None:
        self.root, self.document = root, document
        self.best = document.text("best_description", 10_000)
        named = document.text("skill_name", 100) or document.text("skill", 100) or ""
        self.skill = clean(named).replace("/", "-").strip(". ") or "skill"
        self.name = "/".join(filter(None, [tail_of(document.path, 3), document.place and self.skill]))
        self.rounds = list(document.objects("history")) or [document]
        self.condition = NAME if document.raw.get("history") else "with-skills"
        texts = [each.text("description", 10_000) for each in self.rounds]
        self.best_round = texts.index(self.best) if self.best in texts else None
        self.episode = sources.EpisodeSource(self.skill, self.skill, family=self.skill)

    @cached_property
    def trials(self) -> dict[int, list[tuple[FoundRow, str]]]:
        return {index: list(self.list_trials(index, each)) for index, each in enumerate(self.rounds)}

    def read_history(self) -> sources.HistorySource:
        own = [trial.ids[0] for found in self.trials.values() for trial, condition in found if condition != OLD]
        path, at = self.root.label(self.document.path), self.root.modified_at(self.document.path)
        run = self.run(self.condition)
        return sources.HistorySource(run, self.episode, NAME, path, tuple(own), self.list_moments, at)

    def run(self, condition: str) -> sources.RunSource:
        author = sources.UNKNOWN if condition == NAME else ""
        return sources.RunSource("skill-creator", author_model=author, condition=condition)

    def list_trials(self, index: int, round: Document) -> Iterator[tuple[FoundRow, str]]:
        """Yield the queries of a round, each with the condition of its run."""
        train = "train_results" if round.raw.get("train_results") else "results"
        for split, key in (("train", train), ("test", "test_results")):
            is_given = split == "test" and index == 0
            is_result = is_given or split == "test" and index == self.best_round or len(self.rounds) == 1
            phase = Phase.EVALUATION if is_result else Phase.ACQUISITION
            condition = OLD if is_given else self.condition
            for place, row in enumerate(round.objects(key) if round.raw.get(key) else ()):
                build = partial(self.build, row, condition, phase)
                ident, order = f"{NAME}:{self.name}/{index + 1}/{split}/{place}", (f"{index:06}", split, f"{place:06}")
                path = f"{self.root.label(row.path)}, {row.place}"
                yield FoundRow(self.root, path, (ident,), order, build, [dict(row.raw), str(phase)]), condition

    def build(self, row: Document, condition: str, phase: Phase) -> sources.TrialSource:
        query, passed = row.text("query", 2_000) or row.place, row.raw.get("pass")
        rate = row.number("trigger_rate")
        wanted = "should start the skill" if row.raw.get("should_trigger") else "should not start the skill"
        output = f"{wanted}; did in {row.raw.get('triggers')} of {row.raw.get('runs')} runs"
        scores = {} if rate is None else {"trigger_rate": rate}
        is_judged = isinstance(passed, bool)
        return sources.TrialSource(
            run=self.run(condition),
            task=sources.TaskSource(NAME, query[:300], query.partition("\n")[0][:200], family=self.skill),
            timing=sources.Timing(),
            verdict=graded(scores, success=bool(passed), reward=float(bool(passed)), output=output)
            if is_judged
            else None,
            config=dict(row.raw),
            episode=self.episode,
            phase=phase,
            is_phase_late=True,
        )

    def list_moments(self) -> Iterator[sources.Moment]:
        history = SkillHistory(self.skill, f"{self.skill}/SKILL.md")
        evidence, passed = list[str](), ""
        for index, round in enumerate(self.rounds):
            text = round.text("description", 10_000)
            if index == 0:
                yield from history.seed(text)
            else:
                said = f"A new description after iteration {index}, where {passed} queries of the training set passed."
                yield history.decide(DecisionStatus.APPLIED, text, "revise", said, evidence=evidence)
            own = [trial for trial, condition in self.trials[index] if condition != OLD]
            yield from history.tried(own, text)
            evidence = [trial.ids[0] for trial in own if "/train/" in trial.ids[0]]
            passed = f"{round.raw.get('train_passed')} of {round.raw.get('train_total')}"
        if self.best_round is not None:
            yield sources.FreezeMoment(kept=history.files(self.best))
