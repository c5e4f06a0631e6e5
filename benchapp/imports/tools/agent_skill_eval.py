"""Result files of agent-skill-eval (the AWS sample): one JSON file for each version of a skill, with both conditions.

The files of a folder are an experiment. A functional file gives two runs, with and without the skill. A trigger file
gives another: each of its trials is a query that should, or should not, start the skill.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path, PurePosixPath

from benchapp.imports.reading.benchmark_rows import (
    BenchmarkRow,
    Grading,
    iterate_rows,
    list_conflicts,
    name_condition,
    read_grading,
    read_ident,
)
from benchapp.imports.reading.documents import Document, read_json, read_object
from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    EpisodeSource,
    ExceptionSource,
    ExperimentSource,
    FoundExperiment,
    LibrarySource,
    RunSource,
    SourceChoice,
    TaskSource,
    Timing,
    TrialSource,
)
from benchapp.imports.reading.found_trials import FoundRow, of_bytes
from benchapp.imports.reading.skill_history import read_skill
from benchapp.imports.reading.walking import FolderEntry, Root, name_of, tail_of
from runner.base.text import clean
from runner.base.types import Check, CheckGroup, CheckStatus, Files, Usage, Verdict
from runner.trajectories.readers import PLAIN_TEXT

NAME, TITLE = "agent-skill-eval", "agent-skill-eval"
SUFFIXES = frozenset({".json"})
TRIGGER = "trigger"
MAX_OUTPUT = 4 * 1024 * 1024
_HEAD_BYTES = 4_096
_VERSION = re.compile(r"v?\d{1,6}(?:\.\d{1,6}){0,3}")


def claims_file(root: Root, entry: FolderEntry) -> bool:
    with root.open(entry.path) as stream:
        head = stream.read(_HEAD_BYTES)
    return b'"skill_name"' in head and any(mark in head for mark in (b'"query_results"', b'"runs_per_eval"'))


def is_companion(entries: list[FolderEntry]) -> Callable[[FolderEntry], bool]:
    """The evals and queries of a skill: read for titles, or in the results already."""
    return lambda entry: entry.path.name in ("evals.json", "eval_queries.json")


def find_files(root: Root, entries: Iterable[FolderEntry]) -> Iterator[FoundExperiment]:
    folders: defaultdict[Path, list[ResultFile]] = defaultdict(list)
    for entry in entries:
        if (document := read_object(root, entry.path)) is not None:
            folders[entry.path.parent].append(ResultFile(root, document))
    for folder, files in folders.items():
        libraries = [library for file in files for library in file.libraries()]
        yield FoundExperiment(
            ExperimentSource.of_folder(root, folder, format=NAME, title=TITLE),
            trials=tuple(trial for file in files for trial in file.trials()),
            libraries=libraries,
            libraries_total=len(libraries),
        )


@dataclass
class ResultFile:
    """What one file has: the results of one version of a skill."""

    root: Root
    document: Document

    def __post_init__(self) -> None:
        path = self.document.path
        self.experiment = tail_of(path.parent, 2) or name_of(self.root.base)
        self.skill = (self.document.text("skill_name", 100) or "skill").replace("/", "-").strip(". ") or "skill"
        self.path = PurePosixPath(self.document.text("skill_path", 1_000) or "")
        # A folder named as a version names the version; else the file does: the folder may have been changed in place.
        self.label = clean(self.path.name if _VERSION.fullmatch(self.path.name) else name_of(path.with_suffix("")))[:60]

    def trials(self) -> Iterator[FoundRow]:
        rows = list(iterate_rows(self.document))
        for place, row in enumerate(rows):
            yield self._found(
                f"{row.condition}/{row.ident or row.name}/{row.number or 0}",
                row.document,
                place,
                partial(self._read_eval, row),
            )
        for place, query in enumerate(self.document.objects("query_results")):
            yield self._found(f"{TRIGGER}/{query.text('query', 300)}", query, place, partial(self._read_query, query))
        gradings = defaultdict[str, list[Grading]](list)
        for row in rows:
            quiet = Document(self.root.mute(), row.document.path, row.document.raw)
            gradings[name_condition(row.condition)].append(read_grading(quiet, ""))
        if conflicts := list_conflicts(self.document, gradings):
            self.document.report("run_summary", "the means of the results, which count", "; ".join(conflicts))
        if not rows and "query_results" not in self.document.raw:
            self.document.report("runs", "runs with results", "none")

    def _found(self, place: str, document: Document, number: int, build: partial[TrialSource]) -> FoundRow:
        ident = f"{NAME}:{self.experiment}/{name_of(document.path)}/{place}"
        count = self._seen[ident] = self._seen.get(ident, 0) + 1
        ident += f"#{count}" if count > 1 else ""
        path = f"{self.root.label(document.path)}, {document.place}"
        order = (name_of(document.path), f"{number:09d}")
        return FoundRow(self.root, path, (ident,), order, build, row=dict(document.raw))

    @cached_property
    def _seen(self) -> dict[str, int]:
        return {}

    def run(self, written: str) -> RunSource:
        condition, number = name_condition(written), re.search(r"\d{1,9}", self.label)
        kept = ("scores", "passed", "metadata", "runs_per_eval")
        setup = {
            "source": NAME,
            "skill_path": str(self.path),
            **{key: self.document.raw[key] for key in kept if key in self.document.raw},
        }
        return RunSource(
            author_model="" if condition == "no-skill" else UNKNOWN,
            condition=f"{condition}@{self.label}",
            replicate=int(number[0]) if number else None,
            variant=self.label,
            setup=setup,
        )

    def _task(self, ident: str) -> TaskSource:
        """Versions in folders next to each other have the same evals, even if the skill was renamed."""
        scope = self.path.parent.name if self.label == self.path.name else self.skill
        title = self._prompts.get(ident, "").strip().partition("\n")[0] or ident.replace(f"{TRIGGER}/", "Trigger: ", 1)
        return TaskSource(NAME, "/".join(part for part in (self.experiment, scope, ident) if part), title[:200])

    def _read_eval(self, row: BenchmarkRow) -> TrialSource:
        document, ident = row.document, row.ident or row.name
        methods = {method for each in document.objects("assertion_results") if (method := each.text("method", 60))}
        metrics = document.object("execution_metrics")
        tokens = metrics.object("token_counts")
        output = (document.text("raw_output", MAX_OUTPUT) or "").encode()
        run = self.run(row.condition)
        return TrialSource(
            run=run,
            task=self._task(ident),
            timing=Timing(duration_seconds=document.object("timing").amount("elapsed_seconds")),
            verdict=read_grading(document, f"grader:{methods.pop()}" if len(methods) == 1 else "grader").verdict,
            config={"execution_metrics": dict(metrics.raw), "summary": document.text("summary")},
            choices=(SourceChoice((of_bytes("raw_output", output, format=PLAIN_TEXT),) if output else ()),),
            # The tool adds what came from a cache to the input, and then writes 0 for it.
            usage=Usage(
                tokens.count("input_tokens"),
                tokens.count("cache_read_input_tokens") or None,
                tokens.count("output_tokens"),
            ),
            exception=ExceptionSource("error", error) if (error := document.text("error")) else None,
            skills_mounted=() if run.condition.startswith("no-skill") else (self.skill,),
        )

    def _read_query(self, query: Document) -> TrialSource:
        """Read one query of a trigger file. Of several runs the file has only the means."""
        started, runs = query.count("trigger_count"), query.count("run_count")
        is_right = query.raw.get("passed")
        name = "starts the skill" if query.raw.get("should_trigger") is True else "does not start the skill"
        verdict = None
        if isinstance(is_right, bool) and runs:
            status = CheckStatus.PASSED if is_right else CheckStatus.FAILED
            check = Check(
                CheckGroup.TEST, name, status, f"started it in {started if started is not None else '?'} of {runs} runs"
            )
            verdict = Verdict("trigger", is_right, float(is_right), checks=(check,))
        else:
            query.report("passed", "true or false, and a number of runs", "no verdict")
        means = [query.number(f"mean_{kind}_tokens") for kind in ("input", "output")] if runs == 1 else [None, None]
        told = [None if value is None or value != int(value) else int(value) for value in means]
        text = query.text("query", 2_000) or UNKNOWN
        return TrialSource(
            run=self.run(TRIGGER),
            task=self._task(f"{TRIGGER}/{text[:200]}"),
            timing=Timing(),
            verdict=verdict,
            config=dict(query.raw),
            usage=Usage(told[0], None, told[1]),
            skills_mounted=(self.skill,),
        )

    # --- the skill's folder -----------------------------------------------------------------------------------------

    @cached_property
    def folder(self) -> Path | None:
        """Find the folder that skill_path names, from the file upwards: the whole path or its end, with a skill of
        the name."""
        parts = [part for part in self.path.parts if part not in ("", ".", "..", "/")]
        above = [each for each in self.document.path.parents if each.is_relative_to(self.root.base)]
        for length in range(len(parts), 0, -1):
            for each in above:
                folder = each.joinpath(*parts[-length:])
                text = (
                    self.root.read(folder / "SKILL.md", MAX_OUTPUT) if self.root.is_file(folder / "SKILL.md") else None
                )
                if text is not None and re.search(
                    rb"^name:\s*[\"']?" + re.escape(self.skill.encode()) + rb"\b", text, re.M
                ):
                    return folder
        return None

    def libraries(self) -> Iterator[LibrarySource]:
        files: Files = read_skill(self.root, self.folder, self.skill, skip=frozenset({"evals"})) if self.folder else {}
        if not files:
            self.document.report(
                "skill_path", "the skill's folder, in what was given", "not found: its text is unknown"
            )
            return
        for written in ("with_skill",) if "runs" in self.document.raw else (TRIGGER,):
            label = self.root.label(self.folder or self.document.path)
            yield LibrarySource(self.run(written), EpisodeSource(), NAME, label, files)

    @cached_property
    def _prompts(self) -> Mapping[str, str]:
        path = self.folder / "evals" / "evals.json" if self.folder else None
        value = read_json(self.root, path) if path and self.root.is_file(path) else None
        raw = value if isinstance(value, dict) else {"evals": value}
        document = Document(self.root, path or self.document.path, raw)
        return {read_ident(each, "id", "name"): each.text("prompt", 2_000) or "" for each in document.objects("evals")}
