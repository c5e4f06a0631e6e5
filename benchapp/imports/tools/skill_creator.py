"""Workspaces of skill-creator and its family: iteration-N/<eval>/<condition>/[run-K/] with grading.json.

A workspace is an experiment, a condition of an iteration is a run, an eval is a task. No file has the text that an
iteration ran; known are the old skill (skill-snapshot/), the text before a recorded change, and what history.json
made of versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.benchmark_rows import (
    CONDITIONS,
    is_condition,
    list_rows,
    name_condition,
    read_grading,
    read_ident,
)
from benchapp.imports.reading.documents import Document, read_json, read_optional
from benchapp.imports.reading.skill_history import MAX_FILE_BYTES, changed_texts, read_skill
from benchapp.imports.reading.walking import Root, list_names, name_of, tail_of
from benchapp.imports.tools.skill_creator_iteration import FOLDER, KINDS, NAME, Iteration
from runner.base.text import clean, natural_key
from runner.base.types import AuthorMode, DecisionStatus, File, Files, Patch

TITLE = "skill-creator"
SNAPSHOT, BEFORE = "skill-snapshot", "SKILL.md.before"
NO_TEXT = "the text it led to is not in the files, so the library here stays as it was"
_STATUS = {"won": DecisionStatus.APPLIED, "lost": DecisionStatus.REJECTED, "tie": DecisionStatus.NO_OP}
_GENERIC = frozenset("eval evals evaluation evaluations workspace workspaces results .history".split())
_KNOWN = frozenset("history.json evals.json SKILL.md README.md LICENSE .gitignore .DS_Store".split())


def claims(root: Root, folder: Path) -> bool:
    return bool(_list_iterations(root, folder)) or _is_iteration(root, folder)


def find(root: Root, folder: Path) -> Iterator[sources.FoundExperiment]:
    paths = _list_iterations(root, folder)
    is_alone = not paths and FOLDER.fullmatch(folder.name) is not None
    yield Workspace(root, folder.parent if is_alone else folder, paths or [folder]).find()


def others(root: Root, folder: Path) -> list[Path]:
    """Return the folders next to the iterations. Those in `.history` are copies of them."""
    paths = _list_iterations(root, folder)
    own = {SNAPSHOT, ".history", "evals", *(path.name for path in paths)}
    if not paths and FOLDER.fullmatch(folder.name):
        return []
    subs = [sub for sub in root.listing(folder)[0] if sub.name not in own and not is_condition(sub.name)]
    return [sub for sub in subs if not _is_eval(root, sub)]


def _is_eval(root: Root, folder: Path) -> bool:
    folders, files = root.listing(folder)
    return any(is_condition(sub.name) for sub in folders) or any(file.name in KINDS for file in files)


def _list_iterations(root: Root, folder: Path) -> list[Path]:
    found = [path for path in root.listing(folder)[0] if FOLDER.fullmatch(path.name) and _is_iteration(root, path)]
    return sorted(found, key=lambda path: natural_key(path.name))


def _is_iteration(root: Root, folder: Path) -> bool:
    """Has it a benchmark, or folders of conditions or evals? Under another name: gradings of a condition; a benchmark
    with results of a condition, or of the skill that it names; or agent-skills-eval's."""
    subs = root.listing(folder)[0]
    if not FOLDER.fullmatch(folder.name):
        return any(_is_graded(root, each / name) for each in (folder, *subs) for name in CONDITIONS) or _is_rated(
            root, folder
        )
    if any(root.is_file(folder / name) for name in ("benchmark.json", "feedback.json")):
        return True
    return any(
        is_condition(sub.name)
        or _is_eval(root, sub)
        or any(root.is_file(each / "grading.json") for each in root.listing(sub)[0])
        for sub in subs
    )


def _is_graded(root: Root, folder: Path) -> bool:
    return root.is_file(folder / "grading.json") or root.is_file(folder / "run-1" / "grading.json")


def _is_rated(root: Root, folder: Path) -> bool:
    if not root.is_file(folder / "benchmark.json"):
        return False
    benchmark, meta = (read_optional(root, folder / name) for name in ("benchmark.json", "meta.json"))
    if {"runs_per_eval", "query_results"} & benchmark.raw.keys():  # agent-skill-eval's, which reads its files alone
        return False
    if "run_summary" in benchmark.raw and isinstance(meta.raw.get("modes"), list):
        return True
    names_skill = bool(benchmark.raw.get("skill_name") or benchmark.object("metadata").raw.get("skill_name"))
    rows = (row for row in list_rows(benchmark) if names_skill or is_condition(row.condition))
    return any(read_grading(row.document, "").verdict for row in rows)


@dataclass
class Workspace:
    """All iterations of a workspace; or one that was given alone."""

    root: Root
    folder: Path
    paths: list[Path]

    def __post_init__(self) -> None:
        length, above = 2, self.folder.parents
        while length < 5 and length - 2 < len(above) and above[length - 2].name in _GENERIC:
            length += 1  # skills/<skill>/evals/workspace: the last two would be equal for all skills
        self.name = tail_of(self.folder, length) or name_of(self.root.base)
        seen = dict[str, str]()
        self.place = self.folder if self.folder.is_relative_to(self.root.base) else self.paths[0]
        self.iterations = [Iteration(self.root, path, self.name, self.evals, seen) for path in self.paths]
        for iteration in self.iterations:
            iteration.skill = self.skill

    def find(self) -> sources.FoundExperiment:
        histories = tuple(self.histories())
        libraries = list(self.libraries({history.path for history in histories}))
        self._report_left()
        return sources.FoundExperiment(
            sources.ExperimentSource.of_folder(
                self.root,
                self.place,
                format=NAME,
                title=TITLE,
                name=self.name,
            ),
            trials=tuple(trial for iteration in self.iterations for trial in iteration.trials()),
            libraries=libraries,
            libraries_total=len(libraries),
            histories=histories,
        )

    def _read(self, *paths: Path) -> Document:
        """Return the first of these files that exists inside what was given; else an empty document."""
        inside = (path for path in paths if path.is_relative_to(self.root.base) and self.root.is_file(path))
        return read_optional(self.root, next(inside, self.folder / "-"))

    @cached_property
    def history(self) -> Document:
        return self._read(self.folder / "history.json")

    @property
    def skill_folder(self) -> Path:
        """The skill's folder: <skill>-workspace/ is next to it, evals/ is in it."""
        if self.folder.name in _GENERIC:
            return self.folder.parent
        return self.folder.with_name(self.folder.name.removesuffix("-workspace"))

    @cached_property
    def skill(self) -> str:
        tops = [each.benchmark for each in self.iterations]
        named = (part.text("skill_name", 100) for top in tops for part in (top.object("metadata"), top))
        name = next((name for name in named if name), "") or name_of(self.skill_folder)
        return clean(name).replace("/", "-").strip(". ") or "skill"

    @cached_property
    def evals(self) -> dict[str, Document]:
        """The skill's evals by id; they are read for titles."""
        folders = (self.folder, self.folder / "evals", self.skill_folder / "evals")
        document = self._read(*(folder / "evals.json" for folder in folders))
        return {read_ident(each, "id", "eval_id", "name"): each for each in document.objects("evals")}

    def _report_left(self) -> None:
        if self.place == self.folder != self.paths[0]:
            left = [entry.name for entry in self.root.listing(self.folder)[1] if entry.name not in _KNOWN]
            if left and self.paths[0].parent == self.folder:
                told = f"{list_names(left)}: not read"
                self.root.report(self.folder, "", "iterations, history.json and evals.json", told)
            if self.root.exists(self.folder / ".history"):
                self.root.report(self.folder / ".history", "", "each iteration once", "copies of others; left out")
        if any(iteration.results for iteration in self.iterations):
            self.root.report(self.place, "", "the text of the skill that an iteration ran", "no file has it: unknown")

    # --- texts and decisions --------------------------------------------------------------------------------------

    @cached_property
    def snapshot(self) -> Files:
        """The old skill: skill-snapshot/, or the one folder in it."""
        folder = self.folder / SNAPSHOT
        if not folder.is_relative_to(self.root.base) or not self.root.is_dir(folder):
            return {}
        inner = [sub for sub in self.root.listing(folder)[0] if self.root.is_file(sub / "SKILL.md")]
        return read_skill(self.root, inner[0] if len(inner) == 1 else folder, self.skill)

    @cached_property
    def best(self) -> Files:
        """The skill's own folder, where the history says that its last version is the best: that is then in place."""
        versions = [each.text("version", 100) for each in self.history.objects("iterations")]
        is_last = bool(versions) and versions[-1] == self.history.text("current_best", 100)
        skip = (
            frozenset({"evals", self.folder.name}) if self.folder.parent == self.skill_folder else frozenset({"evals"})
        )
        return read_skill(self.root, self.skill_folder, self.skill, skip=skip) if is_last else {}

    def libraries(self, decided: set[str]) -> Iterator[sources.LibrarySource]:
        """Yield the texts that runs had, for runs without a history. `decided`: paths of iterations that have one."""
        for iteration in self.iterations:
            path = self.root.label(iteration.folder)
            best = self.best if iteration is self.iterations[-1] and path not in decided else {}
            for written, folders in sorted(
                {(each.place.condition, each.folders[:1]) for each in iteration.results.values()}
            ):
                files = {"old-skill": self.snapshot, "with-skills": best}.get(name_condition(written))
                if files:
                    yield sources.LibrarySource(
                        iteration.run(written, folders), sources.EpisodeSource(), NAME, path, files
                    )

    def histories(self) -> Iterator[sources.HistorySource]:
        versions = self._place_versions()
        for iteration in self.iterations:
            version, change = versions.get(iteration.label), iteration.folder / "improvement.json"
            trials = [
                each for each in iteration.results.values() if name_condition(each.place.condition) == "with-skills"
            ]
            if version is None and not self.root.is_file(change):
                continue
            if not trials:
                self.root.report(iteration.folder, "", "trials that its decision is about", "none: it is left out")
                continue
            idents = tuple(each.found().ids[0] for each in trials)
            moments = [*self._judge(version, iteration is self.iterations[-1], idents), *self._improve(change, idents)]
            yield sources.HistorySource(
                run=iteration.run(trials[0].place.condition, trials[0].folders),
                episode=sources.EpisodeSource(),
                suite=NAME,
                path=self.root.label(iteration.folder),
                trials=idents,
                read=moments.__iter__,
                at=iteration.read_end(),
            )

    def _place_versions(self) -> dict[str, Document]:
        """Return the versions that history.json decides on, by the label of their iteration: v2 is iteration-2's."""
        labels, lost = {each.label for each in self.iterations}, list[str]()
        found = dict[str, Document]()
        for version in self.history.objects("iterations"):
            name, result = version.text("version", 100) or "", version.text("grading_result", 100) or ""
            label = name.removeprefix("iteration-").removeprefix("v")
            if result in _STATUS and label in labels:
                found[label] = version
            elif result != "baseline":
                lost.append(f"{name} {result}")
        if lost:
            self.history.report(
                "iterations", "versions with an iteration and a result", f"{list_names(lost)}: left out"
            )
        return found

    def _judge(self, version: Document | None, is_last: bool, idents: tuple[str, ...]) -> Iterator[sources.Moment]:
        """Yield an iteration's trials, then the result that history.json has for the version they tried."""
        if version is None:
            yield from map(sources.TrialMoment, idents)
            return
        parent, result = version.text("parent", 100) or "no version", version.text("grading_result", 20) or ""
        before, text = self.snapshot if parent == "v0" else {}, self.best if is_last else {}
        if before:
            yield sources.SeedMoment(self.skill, before)
        yield from (sources.TrialMoment(ident, text or None, of_candidate=True) for ident in idents)
        rate, status = version.number("expectation_pass_rate"), _STATUS[result]
        summary = f"{version.text('version', 100)} {result} against {parent}"
        summary += "" if rate is None else f": {rate:.0%} of the expectations passed"
        error = NO_TEXT if status is DecisionStatus.APPLIED and text in ({}, before) else ""
        status = DecisionStatus.FAILED if error else status
        yield self._decision(status, text if status is DecisionStatus.APPLIED else before, summary, error, idents)

    def _improve(self, path: Path, idents: tuple[str, ...]) -> Iterator[sources.Moment]:
        """Yield the change in improvement.json: its reasons and the text before it are known, the text after it is
        not."""
        changes = read_json(self.root, path) if self.root.is_file(path) else None
        document = Document(self.root, path, {"changes": changes if isinstance(changes, list) else [changes]})
        parts = [] if changes is None else list(document.objects("changes"))
        told = [
            ": ".join(text for key in ("section", "what", "why") if (text := each.text(key, 3_000))) for each in parts
        ]
        before = path.with_name(BEFORE)
        content = self.root.read(before, MAX_FILE_BYTES) if self.root.is_file(before) else None
        files: Files = {f"{self.skill}/SKILL.md": File(content)} if content else {}
        if files:
            yield sources.SeedMoment(self.skill, files)
        if told:
            yield self._decision(DecisionStatus.FAILED, files, "\n\n".join(told), NO_TEXT, idents)

    def _decision(
        self, status: DecisionStatus, after: Files, summary: str, error: str, idents: tuple[str, ...]
    ) -> sources.DecisionMoment:
        return sources.DecisionMoment(
            family=self.skill,
            mode=AuthorMode.EVOLVE,
            status=status,
            after=after,
            after_trial=idents[-1],
            summary=summary,
            error=error,
            patch=Patch(summary[:1_000], "revise", changed_texts({}, after))
            if status is DecisionStatus.APPLIED
            else None,
            evidence=idents,
        )
