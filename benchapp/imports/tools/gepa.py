"""GEPA run folders (`run_dir` of gepa.optimize and optimize_anything).

A candidate is a text for each component: here a library with a skill for each. Candidates are a tree: an iteration starts
from any earlier one. GEPA accepts a proposal that beats its parent on a minibatch of the training set, then scores it on the
validation set. What gepa_state.bin alone has is lost: a pickle is a program, and is never opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import read_json
from benchapp.imports.reading.found_trials import FoundRow, dump_json, of_messages
from benchapp.imports.reading.skill_history import changed_texts
from benchapp.imports.reading.walking import Root, name_of, tail_of
from benchapp.imports.tools.gepa_log import CANDIDATES, LOG, PARENT, PROPOSAL, TEXT_LOG, GepaLog, Iteration, library_of
from runner.base.types import AuthorMode, DecisionStatus, JsonValue, Patch, Phase, Verdict

NAME = "gepa"
TITLE = "GEPA"
START = "old-skill"  # the condition of the seed
STATE = "gepa_state.bin"


def claims(root: Root, folder: Path) -> bool:
    return root.is_file(folder / CANDIDATES) and any(root.is_file(folder / name) for name in (LOG, TEXT_LOG, STATE))


def find(root: Root, folder: Path) -> Iterator[sources.FoundExperiment]:
    if root.is_file(folder / STATE):
        root.report(folder / STATE, "", "a file that can be read without running it", "a pickle; it was not opened")
    run = GepaRun(root, folder)
    if not run.candidates:
        return
    start, evolved = run.list_trials()
    library = sources.LibrarySource(run.source(START), run.episode, NAME, root.label(folder), run.candidates[0])
    idents = tuple(trial.ids[0] for trial in evolved)
    label = root.label(folder)
    yield sources.FoundExperiment(
        sources.ExperimentSource.of_folder(root, folder, format=NAME, title=TITLE),
        trials=(*start, *evolved),
        libraries=(library,) if start else (),
        libraries_total=bool(start),
        histories=(
            sources.HistorySource(run.source(NAME), run.episode, NAME, label, idents, run.list_moments, run.written_at),
        ),
    )


class GepaRun(GepaLog):
    def __init__(self, root: Root, folder: Path) -> None:
        super().__init__(root, folder)
        self.name = tail_of(folder, 2)
        self.skill = next(iter(self.candidates[0]), "all").partition("/")[0] if self.candidates else "all"
        self.episode = sources.EpisodeSource(self.skill, self.skill, family=self.skill)

    @property
    def written_at(self) -> datetime:
        """Return when the candidates were last written: GEPA writes no times."""
        return datetime.fromtimestamp((self.folder / CANDIDATES).stat(follow_symlinks=False).st_mtime, UTC)

    def source(self, condition: str) -> sources.RunSource:
        return sources.RunSource(
            harness=NAME, author_model=sources.UNKNOWN if condition == NAME else "", condition=condition
        )

    def _ident(self, *parts: object) -> str:
        return f"{NAME}:{self.name}/{'/'.join(map(str, parts))}"

    def list_trials(self) -> tuple[list[FoundRow], list[FoundRow]]:
        """Return the seed's trials on validation, and all others."""
        start = [self._trial((0, "val", item), 0, item, score, START) for item, score in self.seed_scores.items()]
        found = []
        for each in self.iterations:
            for side, name, candidate in (("parent", PARENT, each.parent), ("proposal", PROPOSAL, each.accepted)):
                for place, (item, score) in enumerate(each.scores(name)):
                    found.append(self._trial((each.number, side, place), candidate, item, score))
            for item, score in each.validation.items() if each.accepted is not None else ():
                found.append(self._trial((each.number, "val", item), each.accepted, item, score))
        return start, found

    def _trial(
        self, ident: tuple[int, str, int], candidate: int | None, item: int, score: float, condition: str = NAME
    ) -> FoundRow:
        number, side, _ = ident
        split = "val" if side == "val" else "train"
        is_result = split == "val" and (condition == START or candidate == self.best)
        phase = Phase.EVALUATION if is_result else Phase.ACQUISITION  # others' scores only served the search
        outputs = self.folder / "generated_best_outputs_valset" / f"task_{item}"
        kept = self.root.listing(outputs)[1] if split == "val" and self.root.is_dir(outputs) else []
        answer = next((entry.path for entry in kept if entry.name.endswith(f"_prog_{candidate}.json")), None)

        def build() -> sources.TrialSource:
            return sources.TrialSource(
                run=self.source(condition),
                task=sources.TaskSource(NAME, f"{split}-{item}", f"{split}-{item}", family=self.skill, ordinal=item),
                timing=sources.Timing(),
                verdict=Verdict(NAME, score >= 1.0 if self.is_binary else None, reward=score),
                config={"split": split, "candidate": candidate, "iteration": number},
                choices=() if answer is None else (_read_answer(self.root, answer),),
                episode=self.episode,
                phase=phase,
                is_phase_late=True,
            )

        row: list[JsonValue] = [*ident, candidate, item, score, self.is_binary, str(phase)]
        path = f"{self.root.label(self.folder)}, iteration {number}, {split} item {item}"
        files = () if answer is None else (answer,)
        return FoundRow(
            self.root, path, (self._ident(*ident),), (f"{number:06}", side, f"{item:06}"), build, row, files
        )

    def list_moments(self) -> Iterator[sources.Moment]:
        yield sources.SeedMoment(self.skill, self.candidates[0])
        tried = partial(sources.TrialMoment, of_candidate=True)
        for each in self.iterations:
            before = self.candidates[each.parent]
            after = {**before, **library_of(each.texts.items())}
            after = after if each.accepted is None else dict(self.candidates[each.accepted])
            shown = tuple(self._ident(each.number, "parent", place) for place in range(len(each.scores(PARENT))))
            scored = each.scores(PROPOSAL)
            yield from (tried(ident, before) for ident in shown)
            for place in range(len(scored)):
                yield tried(self._ident(each.number, "proposal", place), None if after == before else after)
            kept = DecisionStatus.APPLIED if each.accepted is not None else DecisionStatus.REJECTED
            changed = changed_texts(before, after)
            yield sources.DecisionMoment(
                family=self.skill,
                mode=AuthorMode.EVOLVE,
                status=kept if scored else DecisionStatus.NO_OP,
                after=after if each.accepted is not None else before,
                after_trial=shown[-1] if shown else None,
                operation_type="merge" if each.row.raw.get("invoked_merge") else "revise" if scored else "",
                summary=_summarise(each),
                patch=Patch(each.reason, "revise", changed) if changed else None,
                evidence=shown,
                before=before,
            )
            for item in each.validation if each.accepted is not None else ():
                yield tried(self._ident(each.number, "val", item), after)
        if self.best is not None:
            yield sources.FreezeMoment(kept=self.candidates[self.best])


def _summarise(each: Iteration) -> str:
    old, new = (sum(score for _, score in each.scores(name)) for name in (PARENT, PROPOSAL))
    count = len(each.scores(PROPOSAL))
    if not count:
        return f"From candidate {each.parent}. {each.reason or 'No proposal was scored.'}"
    gate = f"From candidate {each.parent}. Minibatch of {count}: {old:g} -> {new:g}"
    if each.accepted is None:
        return f"{gate}, not better: rejected."
    scores = each.validation.values()
    mean = f" Validation: {sum(scores) / len(scores):.3g} on {len(scores)} items." if scores else ""
    return f"{gate}, accepted as candidate {each.accepted}.{mean}"


def _read_answer(root: Root, path: Path) -> sources.SourceChoice:
    """Read what a candidate answered, as a conversation of one message."""
    value = read_json(root, path)
    text = value.get("full_assistant_response") if isinstance(value, dict) else value
    content = text if isinstance(text, str) else dump_json(value).decode()
    return sources.SourceChoice((of_messages(name_of(path), [{"role": "assistant", "content": content}]),))
