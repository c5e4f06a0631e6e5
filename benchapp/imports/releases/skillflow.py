"""SkillFlow run roots: jobs/<job name>/ with one Harbor job `<job name>__<family>` per family.

A run root is a run of the experiment named after its folder. In an evolving run a family is an episode. Only the last
state of its library was kept, so the states are replayed from the patches in the trials' folders, in the order the
trials began. If the replay does not end with the contents of shared_skills/, the difference is reported: an agent wrote
through the mount, or a write failed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

from benchapp.imports.harbor.harbor_trial import HarborTrial, TrialHeader
from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import Document, find_object, read_lines, read_optional
from benchapp.imports.reading.unread import report_folders
from benchapp.imports.reading.walking import Root, name_of
from runner.base.text import storable
from runner.base.types import AuthorMode, DecisionStatus, File, Files, Finding, Patch, Phase

NAME = "skillflow"
TITLE = "SkillFlow"
EVOLVING, BASELINE = "skill-evolution", "no-skill"


def claims(root: Root, folder: Path) -> bool:
    """Is it a run root with at least one job `<name>__<family>` of SkillFlow's runners, or one such job alone?"""
    if any(root.exists(folder / name) for name in ("config.json", "result.json")):
        return _evolves(root, folder)
    return any(_is_family_job(root, job) for job in root.listing(folder)[0])


def find(root: Root, folder: Path) -> Iterator[sources.FoundExperiment]:
    run_root = folder.parent if _evolves(root, folder) else folder
    jobs = [folder] if _evolves(root, folder) else [job for job in root.listing(folder)[0] if _is_family_job(root, job)]
    families = [FamilyJob(root, run_root, job) for job in jobs]
    run = _run(run_root, families)
    yield sources.FoundExperiment(
        sources.ExperimentSource.of_folder(root, run_root.parent, format=NAME, title=TITLE),
        trials=tuple(trial for family in families for trial in family.trials(run)),
        histories=tuple(family.history(run) for family in families if family.evolves),
    )


def others(root: Root, folder: Path) -> list[Path]:
    """Return folders in a run root that are not jobs of SkillFlow's runners: Harbor's own jobs can be next to them."""
    return [] if _evolves(root, folder) else [sub for sub in root.listing(folder)[0] if not _is_family_job(root, sub)]


def _evolves(root: Root, job: Path) -> bool:
    return root.is_file(job / HISTORY) or (root.is_dir(job / SHARED) and root.is_file(job / "config.json"))


def _is_family_job(root: Root, job: Path) -> bool:
    """Recognise a job by what the runners leave; a baseline's by the settings in every family's config."""
    if _evolves(root, job):
        return True
    config = find_object(root, job / "config.json") if "__" in job.name else None
    if config is None or config.text("job_name", 500) != job.name:
        return False
    tasks, datasets = list(config.objects("tasks")), list(config.objects("datasets"))
    family = job.name.rpartition("__")[2]
    listed = bool(tasks) and all(task.text("source", 300) == family for task in tasks)
    return listed and any(dataset.raw.get("n_tasks") == 0 for dataset in datasets)


def _run(folder: Path, jobs: list[FamilyJob]) -> sources.RunSource:
    """Build the run with the agent from the jobs' configs. One root is one run, even if a family has no trial yet."""
    agents = [agent for job in jobs for agent in list(job.config.objects("agents"))[:1]]
    models = {agent.text("model_name", 200) for agent in agents} - {None, ""}
    classes = {_harness(agent) for agent in agents} - {""}
    evolves = any(job.evolves for job in jobs)
    model = models.pop() if len(models) == 1 else sources.UNKNOWN
    rows = [row for job in jobs if evolves for row in job.replay.rows.values()]
    authors = {name for row in rows if (name := row.text("patch_model_name", 200))}
    # The first trial's folder ends with random letters of Harbor's, so it separates the run from one of the same name
    # in another checkout. The first trial stays the first when the run continues.
    trials = [trial for job in jobs for trial in job.harbor_trials]
    first = min(trials, key=lambda trial: (not trial.header.started, trial.order), default=None)
    begun = name_of(first.folder) if first is not None else ""
    return sources.RunSource(
        harness=classes.pop() if len(classes) == 1 else sources.UNKNOWN,
        agent_model=model or sources.UNKNOWN,
        author_model="" if not evolves else authors.pop() if len(authors) == 1 else sources.UNKNOWN,
        condition=EVOLVING if evolves else BASELINE,
        skills=f"{name_of(folder)}@{begun}",
        setup={"source": NAME, "run_root": name_of(folder)},
    )


def _harness(agent: Document) -> str:
    """Name the harness: `libs...:NoInstallClaudeCode` is Harbor's claude-code without its installation."""
    named = agent.text("name", 100) or (agent.text("import_path", 300) or "").rpartition(":")[2]
    plain = named.removeprefix("NoInstall")
    known = {"ClaudeCode": "claude-code", "Codex": "codex", "QwenCode": "qwen-code", "KimiCli": "kimi-cli"}
    return known.get(plain, plain)


@dataclass
class FamilyJob:
    """One family's job folder."""

    root: Root
    run_root: Path
    folder: Path

    def __post_init__(self) -> None:
        name = name_of(self.folder)
        self.key = name.removeprefix(f"{name_of(self.run_root)}__").rpartition("__")[2] or name
        self.config = read_optional(self.root, self.folder / "config.json")
        self.replay = LibraryReplay(self.root, self.folder, self.key)
        self.evolves = self.root.is_file(self.folder / HISTORY) or self.root.is_dir(self.folder / SHARED)
        self.episode = sources.EpisodeSource(self.key, self.key, family=self.key)

    @cached_property
    def harbor_trials(self) -> list[HarborTrial]:
        """Return the trials in the order they began, which is the order the library grew."""
        quiet = self.root.mute()
        found, left = [], []
        for folder in self.root.listing(self.folder)[0]:
            has_result = any(self.root.is_file(folder / name) for name in ("result.json", "config.json"))
            if has_result and folder.name != SHARED:
                found.append(HarborTrial(self.root, folder, TrialHeader(quiet, folder), f"{NAME}:{self.folder.name}"))
            elif self.root.is_dir(folder / "agent"):
                left.append(folder)
        report_folders(self.root, self.folder, left, "trials with a result or a config")
        found.sort(key=lambda trial: trial.order)
        self.replay.ordered = [trial.folder for trial in found]
        return found

    def trials(self, run: sources.RunSource) -> list[Evolved]:
        """Build the trials. `places` ranks tasks by the order of folders in the job's config: easy to hard."""
        ranked = (PurePosixPath(task.text("path", 1_000) or "").name for task in self.config.objects("tasks"))
        places = {name: number for number, name in enumerate(ranked, start=1)}
        return [Evolved(self, trial, run, places) for trial in self.harbor_trials]

    def history(self, run: sources.RunSource) -> sources.HistorySource:
        idents = {trial.harbor.folder: trial.ids[0] for trial in self.trials(run)}
        return sources.HistorySource(
            run=run,
            episode=self.episode,
            suite=NAME,
            path=self.root.label(self.folder),
            trials=tuple(idents.values()),
            read=lambda: self.replay.moments(idents),
            at=self.root.modified_at(self.folder / HISTORY),  # the history has no times: this is before the first trial
        )


@dataclass
class Evolved:
    """A trial of a family (found_sources.FoundTrial): Harbor's, with its place in the evolution."""

    family: FamilyJob
    harbor: HarborTrial
    run: sources.RunSource
    places: dict[str, int]

    def __post_init__(self) -> None:
        name = f"{self.family.run_root.name}/{self.family.folder.name}/{self.harbor.header.name}"
        own = self.harbor.header.ident
        self.ids = (f"{NAME}:{own}" if own else f"{NAME}:{name}", f"{NAME}:{name}")
        self.path, self.order = self.harbor.path, self.harbor.order

    def digest(self) -> str:
        mounted = self.family.replay.slugs_before(self.harbor.folder)
        return hashlib.sha256(f"{self.harbor.digest()}\0{mounted}".encode()).hexdigest()

    def read(self) -> sources.TrialSource:
        source = self.harbor.read()
        task = source.config.get("task")
        path = task.get("path") if isinstance(task, dict) else None  # SkillFlow's own files use the trial's name for it
        key = (PurePosixPath(path).name if isinstance(path, str) else "") or self.harbor.header.task
        return replace(
            source,
            run=replace(self.run, setup={**source.run.setup, **self.run.setup}),
            task=sources.TaskSource(
                NAME,
                key,
                key,
                revision=source.task.revision,
                family=self.family.key,
                ordinal=self.places.get(key, 0),
            ),
            episode=self.family.episode,
            phase=Phase.EVALUATION,
            skills_mounted=self.family.replay.slugs_before(self.harbor.folder) if self.family.evolves else None,
            agent=self.run.harness,
        )


HISTORY, SHARED, EVOLUTION = "skill_patch_history.jsonl", "shared_skills", "skill_evolution"
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_LIBRARY_BYTES = 256 * 1024 * 1024
MAX_PATHS = 1_000
CONFINED, WRITE_FAILED = "path-confinement", "write-failed"
DIFFERS = "the library at the end is not what the patches made: an agent wrote through the mount, or a write failed"


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """One trial's answer of the author and the library after it. None patch: it was never asked."""

    status: DecisionStatus | None
    after: dict[str, File]
    summary: str = ""
    error: str = ""
    patch: Patch | None = None
    findings: tuple[Finding, ...] = ()


@dataclass
class LibraryReplay:
    """The library of one family's job folder."""

    root: Root
    folder: Path
    family: str
    ordered: list[Path] = field(default_factory=list)

    @cached_property
    def rows(self) -> dict[str, Document]:
        """Return history rows by the trial's name; the last if one is named twice."""
        path = self.folder / HISTORY
        if not self.root.is_file(path):
            return {}
        return {row.text("trial_name", 300) or "": row for row in read_lines(self.root, path)}

    @cached_property
    def answers(self) -> list[ReplayAnswer]:
        """Return one answer for each trial, in order."""
        current: dict[str, File] = {}
        found = []
        for trial in self.ordered:
            answer = self._answer(trial, current)
            current = answer.after
            found.append(answer)
        return found

    def slugs_before(self, trial: Path) -> tuple[str, ...]:
        place = self.ordered.index(trial)
        return sources.list_slugs(self.answers[place - 1].after if place else {})

    def moments(self, idents: Mapping[Path, str]) -> Iterator[sources.Moment]:
        current: Files = {}
        for trial, answer in zip(self.ordered, self.answers, strict=True):
            ident = idents[trial]
            yield sources.TrialMoment(ident, current)
            current = answer.after
            if answer.status is not None:
                yield sources.DecisionMoment(
                    family=self.family,
                    mode=AuthorMode.EVOLVE,
                    status=answer.status,
                    after=answer.after,
                    after_trial=ident,
                    summary=answer.summary,
                    error=answer.error,
                    patch=answer.patch,
                    findings=answer.findings,
                    evidence=(ident,),
                )
        if paths := self._differing(current):
            self.root.report(self.folder / SHARED, "", "the library that the patches made", f"differs: {paths[:20]}")
            yield sources.RefusalMoment(tuple(paths), DIFFERS)

    # --- one answer ----------------------------------------------------------------------------------------------

    def _answer(self, trial: Path, before: dict[str, File]) -> ReplayAnswer:
        row = self.rows.get(name_of(trial))
        folder = trial / EVOLUTION
        patch, applied = (find_object(self.root, folder / name) for name in ("patch.json", "applied.json"))
        answer = patch if patch is not None else row
        if answer is None:
            return ReplayAnswer(None, before)  # skipped: no trajectory to learn from
        summary = answer.text("summary", 10_000) or ""
        if answer.raw.get("successful_attempt") is None:
            return ReplayAnswer(DecisionStatus.FAILED, before, error=summary or "no answer could be read")
        if applied is None:
            applied = row.object("applied") if row is not None else None
        if patch is None or applied is None:
            message = "one of the two is missing: what it did is unknown"
            self.root.report(folder, "", "patch.json and applied.json", message)
            return ReplayAnswer(DecisionStatus.FAILED, before, summary=summary, error="the patch was not kept")
        return self._read_answer(patch, applied, before, summary)

    def _read_answer(self, patch: Document, applied: Document, before: dict[str, File], summary: str) -> ReplayAnswer:
        files = list(patch.object("upsert_files").raw.items())[:MAX_PATHS]
        contents = {path[:1_000]: text for path, text in files if isinstance(text, str)}
        findings = [Finding(WRITE_FAILED, "", text, "warning") for text in applied.texts("errors")[:MAX_PATHS]]
        after = dict(before)
        for path in applied.texts("deleted")[:MAX_PATHS]:
            if (inside := _inside(path)) is None:
                findings.append(_outside(path, "deletes"))
                continue
            for gone in [name for name in after if name == inside or name.startswith(f"{inside}/")]:
                del after[gone]
        for path in applied.texts("upserted")[:MAX_PATHS]:
            inside = _inside(path)
            if inside is None:
                findings.append(_outside(path, "writes"))
            elif path in contents and len(contents[path]) <= MAX_FILE_BYTES:
                after[inside] = File(contents[path].encode("utf-8", "replace"))
            else:
                patch.report("upsert_files", f"the text of {path!r}, at most {MAX_FILE_BYTES:,} long", "left out")
        if sum(len(file.content) for file in after.values()) > MAX_LIBRARY_BYTES:
            patch.report("upsert_files", f"a library of at most {MAX_LIBRARY_BYTES:,} bytes", "larger; left as before")
            after = before
        status = DecisionStatus.NO_OP if after == before else DecisionStatus.APPLIED
        deletes = tuple(patch.texts("delete_paths")[:MAX_PATHS])
        value = Patch(summary[:1_000], "", {storable(path): text for path, text in contents.items()}, deletes)
        return ReplayAnswer(status, after, summary, patch=value, findings=tuple(findings))

    def _differing(self, end: Files) -> list[str]:
        """Return the paths where the replay differs from the folder that the run left."""
        shared = self.folder / SHARED
        if not self.root.is_dir(shared):
            return []
        inside = shared / self.family if self.root.is_dir(shared / self.family) else shared
        left: dict[str, bytes] = {}
        for entry in self.root.tree(inside):
            content = self.root.read(entry.path, MAX_FILE_BYTES)
            if content is not None:
                left[entry.name] = content
        made = {path: file.content for path, file in end.items()}
        return sorted(path for path in left.keys() | made.keys() if left.get(path) != made.get(path))[:MAX_PATHS]


def _inside(path: str) -> str | None:
    """Return the path in the library; None if it leads outside or names the library itself."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or not parts:
        return None
    return "/".join(parts)


def _outside(path: str, does: str) -> Finding:
    return Finding(CONFINED, path[:1_000], f"{does} outside the library, or all of it: not followed here", "warning")
