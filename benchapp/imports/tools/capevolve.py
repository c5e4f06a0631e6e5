"""cap-evolve runs: `.capevolve/run_<time>/` with events, accepted and rejected steps, and candidates.

A candidate is a folder of files: here one skill, without the notes that the optimizer left in it. Steps are decisions
with the gate's reason, from the parent that they name. A cost of 0 means that none was measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from benchapp.imports.reading.documents import Document, find_object, read_lines, read_optional
from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    DecisionMoment,
    EpisodeSource,
    ExceptionSource,
    ExperimentSource,
    FoundExperiment,
    FreezeMoment,
    HistorySource,
    LibrarySource,
    Moment,
    RunSource,
    SeedMoment,
    SourceChoice,
    TaskSource,
    Timing,
    TrialMoment,
    TrialSource,
)
from benchapp.imports.reading.found_trials import FoundRow, of_messages
from benchapp.imports.reading.skill_history import changed_texts
from benchapp.imports.reading.walking import Root, name_of, tail_of
from runner.base.types import AuthorMode, DecisionStatus, File, Files, Patch, Phase, Usage, Verdict, is_success

NAME = "cap-evolve"
TITLE = "cap-evolve"
EVENTS, ACCEPTED, REJECTED = "events.jsonl", "history.jsonl", "rejected.jsonl"
START, SEED = "old-skill", "seed"
SKILL = "capability"
NOTES = frozenset({"INSTRUCTIONS.md", "PROCESS.md", "JOURNAL.md", "LEDGER.md", "RUNMAP.md"})
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_HELD_BYTES = 64 * 1024 * 1024  # of all candidates: they are held while the run is read


def claims(root: Root, folder: Path) -> bool:
    return root.is_file(folder / EVENTS) and root.is_dir(folder / "candidates" / SEED)


def find(root: Root, folder: Path) -> Iterator[FoundExperiment]:
    run = CapEvolveRun(root, folder)
    evolved = [trial for trial in run.trials if not trial.ids[0].endswith("/old")]
    idents, label = tuple(trial.ids[0] for trial in evolved), root.label(folder)
    history = HistorySource(run.source(NAME), run.episode, NAME, label, idents, run.list_moments, run.began_at)
    start = LibrarySource(run.source(START), run.episode, NAME, label, run.files(SEED))
    source = ExperimentSource.of_folder(root, folder, format=NAME, title=TITLE)
    yield FoundExperiment(source, tuple(run.trials), (start,), 1, histories=(history,))


class CapEvolveRun:
    def __init__(self, root: Root, folder: Path) -> None:
        self.root, self.folder, self.name = root, folder, tail_of(folder, 2)
        self._left = MAX_HELD_BYTES
        self.episode = EpisodeSource(SKILL, SKILL, family=SKILL)
        self.events = list(read_lines(root, folder / EVENTS))
        self.steps = [event for event in self.events if event.text("kind") == "step"]
        if not self.steps:
            root.report(folder / EVENTS, "kind", "steps, one for each candidate", "none: no decision is known")
        self.notes = {
            row.text("candidate_id") or "": row
            for name in (ACCEPTED, REJECTED)
            if root.is_file(folder / name)
            for row in read_lines(root, folder / name)
        }
        self.final = read_optional(root, folder / "final.json")
        if root.is_file(folder / "final.json") and "best_id" not in self.final.raw:
            self.final.report("best_id", "the best candidate, and its test", "nothing: no result is known")
        named = self.final.text("best_id", 200) or read_optional(root, folder / "state.json").text("best_id", 200)
        self.best = named if named and self.files(named) else None
        self.began_at = next((at for event in self.events if (at := _time(event))), datetime.fromtimestamp(0, UTC))

    def source(self, condition: str) -> RunSource:
        return RunSource(harness=NAME, author_model=UNKNOWN if condition == NAME else "", condition=condition)

    def files(self, candidate: str) -> Files:
        if candidate not in self._libraries:
            folder = self.folder / "candidates" / candidate
            inside = self.root.is_dir(folder) and "/" not in candidate and candidate not in ("", ".", "..")
            entries = [e for e in self.root.tree(folder) if e.name not in NOTES] if inside else []
            self._left -= (size := sum(min(entry.size, MAX_FILE_BYTES) for entry in entries))
            if self._left < 0:
                found = f"{size:,} more; left out"
                self.root.report(folder, "", f"at most {MAX_HELD_BYTES:,} bytes of candidates in all", found)
                self._left, entries = self._left + size, []
            read = {entry.name: self.root.read(entry.path, MAX_FILE_BYTES) for entry in entries}
            self._libraries[candidate] = {f"{SKILL}/{n}": File(text) for n, text in read.items() if text is not None}
        return self._libraries[candidate]

    @cached_property
    def _libraries(self) -> dict[str, Files]:
        return {}

    # --- trials --------------------------------------------------------------------------------------------------

    @cached_property
    def trials(self) -> list[FoundRow]:
        """Return a trial for each rollout; without rollouts, one for each task that a summary scores."""
        found = []
        rollouts = self.folder / "rollouts"
        for folder in self.root.listing(rollouts)[0] if self.root.is_dir(rollouts) else ():
            for entry in self.root.listing(folder)[1]:
                task, candidate, attempt = [*entry.name.removesuffix(".json").rsplit("__", 2), "", ""][:3]
                if (row := find_object(self.root, entry.path)) is not None:
                    found.append(self._trial(name_of(folder), task, candidate, attempt, row, entry.path))
        if found:
            return found
        baseline = read_optional(self.root, self.folder / "baseline.json")
        for document, key, candidate in (
            *((baseline, "val", SEED), (self.final, "test_baseline", SEED)),
            (self.final, "test", self.best or UNKNOWN),
        ):
            for row in document.object(key).objects("per_task"):
                split = document.object(key).text("split", 50) or key
                found.append(self._trial(split, row.text("task_id", 300) or UNKNOWN, candidate, "t0", row, None))
        if self.steps:
            expected = "rollouts/, the trials of each candidate"
            self.root.report(self.folder, "rollouts", expected, "none: only the tasks in baseline.json and final.json")
        return found

    def _trial(self, split: str, task: str, candidate: str, attempt: str, row: Document, path: Path | None) -> FoundRow:
        rollout, score = row.object("rollout"), row.object("score") if "score" in row.raw else row
        condition = START if candidate == SEED else NAME
        phase = Phase.DEPLOYMENT if split == "test" else Phase.ACQUISITION  # validation only serves the gate

        def build() -> TrialSource:
            reward, error, cost = score.number("reward"), rollout.text("error"), rollout.amount("cost_usd")
            said = [rollout.text("output", 1_000_000)] if rollout else []
            messages = [{"role": "assistant", "content": text} for text in said if text]
            verdict = None
            if reward is not None:
                verdict = Verdict(NAME, is_success(reward), reward=reward, output=score.text("feedback", 100_000) or "")
            return TrialSource(
                run=self.source(condition),
                task=TaskSource(NAME, task, task, family=SKILL),
                timing=Timing(),
                verdict=verdict,
                config={"split": split, "candidate": candidate, "tokens": rollout.raw.get("tokens")},
                choices=(SourceChoice((of_messages("output", messages),)),) if messages else (),
                episode=self.episode,
                phase=phase,
                exception=ExceptionSource("error", error) if error else None,
                usage=Usage(cost_usd=cost or None),
            )

        side = "old" if condition == START else "new"
        ident = f"{NAME}:{self.name}/{split}/{task}/{candidate}/{attempt}/{side}"
        label = self.root.label(path) if path else f"{self.root.label(self.folder)}, {split} {task} {candidate}"
        order = (split, candidate, task, attempt)
        return FoundRow(self.root, label, (ident,), order, build, [dict(row.raw), split, candidate])

    # --- history -------------------------------------------------------------------------------------------------

    def list_moments(self) -> Iterator[Moment]:
        yield SeedMoment(SKILL, self.files(SEED), at=self.began_at)
        tried: dict[tuple[str, bool], list[str]] = {}
        for trial in self.trials:
            split, candidate, *_ = trial.order
            tried.setdefault((candidate, split == "test"), []).append(trial.ids[0])
        for step in self.steps:
            candidate, parent = step.text("candidate", 200) or "", step.text("parent", 200) or SEED
            before, proposed = self.files(parent), self.files(candidate)
            if not proposed:
                step.report("candidate", "a folder of candidates/", f"found {candidate!r} without files")
            mine = tried.pop((candidate, False), [])  # a step may name a candidate again
            yield from (TrialMoment(ident, proposed or None, of_candidate=True) for ident in mine)
            accepted = step.raw.get("accept") is True
            changed = changed_texts(before, proposed)
            yield DecisionMoment(
                family=SKILL,
                mode=AuthorMode.EVOLVE,
                status=DecisionStatus.APPLIED if accepted and proposed else DecisionStatus.REJECTED,
                after=proposed if accepted and proposed else before,
                after_trial=mine[-1] if mine else None,
                operation_type="revise",
                summary=self._summarise(step, candidate, parent)
                + (" It changed no file." if proposed == before else ""),
                patch=Patch(step.text("reason") or "", "revise", changed) if changed else None,
                at=_time(step),
                before=before,
            )
        rest = [  # also of candidates without a step, and tests of others than the best
            (
                is_test,
                TrialMoment(ident, self.files(candidate) or None, of_candidate=not is_test or candidate != self.best),
            )
            for (candidate, is_test), idents in tried.items()
            for ident in idents
        ]
        yield from (moment for is_test, moment in rest if not is_test)
        if self.best is not None:
            yield FreezeMoment(kept=self.files(self.best))
        yield from (moment for is_test, moment in rest if is_test)

    def _summarise(self, step: Document, candidate: str, parent: str) -> str:
        note = self.notes.get(candidate)
        lists = [(key, note.texts(key)) for key in ("fixed", "broke")] if note is not None else []
        told = "".join(f" {key}: {', '.join(tasks)}." for key, tasks in lists if tasks)
        gate = f"val {step.raw.get('parent_val')} -> {step.raw.get('val')}"
        return f"{candidate} from {parent}, {gate}: {step.text('reason', 2_000) or 'no reason'}.{told}"


def _time(event: Document) -> datetime | None:
    seconds = event.number("t")
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None
