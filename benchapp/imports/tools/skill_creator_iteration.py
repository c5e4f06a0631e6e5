"""One iteration of a skill-creator workspace: its trials, from run folders or from the rows of benchmark.json.

Run folders are nested in many orders (<eval>/<condition>/run-K, <condition>/<eval>-grading.json, <condition>/outputs/),
so every file is placed by the names on its path. Gradings count; where benchmark.json differs, that is reported.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.benchmark_rows import (
    CONDITIONS,
    TOLERANCE,
    BenchmarkRow,
    Grading,
    find_list,
    is_condition,
    iterate_rows,
    list_conflicts,
    list_rows,
    name_condition,
    plain,
    read_grading,
    read_ident,
)
from benchapp.imports.reading.documents import Document, aware, read_json, read_optional, read_time
from benchapp.imports.reading.found_trials import FoundRow, of_messages
from benchapp.imports.reading.trajectory_files import PREFERENCE
from benchapp.imports.reading.walking import FolderEntry, Root, list_names, name_of
from runner.base.digests import digest_json
from runner.base.text import clean
from runner.base.types import JsonValue, Usage
from runner.trajectories.readers import PLAIN_TEXT
from runner.trajectories.readers.reading import sniff

NAME = "skill-creator"
FOLDER = re.compile(r"iteration[-_ ](.+)", re.IGNORECASE | re.DOTALL)
KINDS = {
    "grading.json": "grading",
    "timing.json": "timing",
    "eval_metadata.json": "metadata",
    "prompts.json": "prompts",
    "tool_calls.json": "calls",
    "metrics.json": "metrics",
}
LATEST = 4_000_000_000.0  # seconds since 1970: a folder's time can be anything
MAX_REPLY = 16 * 1024 * 1024
_OWN = frozenset(
    "benchmark.json benchmark.md evals.json feedback.json improvement.json meta.json SKILL.md.before .DS_Store".split()
)
_RUN = re.compile(r"run[-_]?(\d{1,9})", re.IGNORECASE)
_EVAL = re.compile(r"eval[-_]?(\d{1,9})(?:[-_].*)?", re.IGNORECASE)
_PREFIXED = re.compile(r"(.+)[-_](grading|timing|config|metadata|output)\.(?:json|md|txt)", re.IGNORECASE)
_SUFFIXED = re.compile(r"(grading|timing)[-_](.+)\.json", re.IGNORECASE)
_LOG = re.compile(r"transcript|trajectory|conversation|session|^response\.txt$|\.jsonl$|\.log$", re.IGNORECASE)
_GIVEN = frozenset({"fixture", "fixtures", "ground-truth", "ground_truth"})  # folders of what an eval brings
_NO_MODEL = re.compile(r"\W*|<.*>|model[-_ ]name|unknown|none|n/a|tbd", re.IGNORECASE | re.DOTALL)  # placeholders
BASELINE = "baseline"
_KEPT = ("execution_metrics", "claims", "user_notes_summary", "eval_feedback")  # of a grading, in the trial's config


class Place(NamedTuple):
    """The folders of a trial's eval, its condition's and its run's; empty where there is none."""

    evals: tuple[str, ...]
    condition: str
    run: str


def locate(folders: list[str]) -> tuple[Place, bool]:
    """Return the place, and whether it is a copy inside its own folder (without_skill/without_skill)."""
    run = next((part for part in reversed(folders) if _RUN.fullmatch(part)), "")
    parts = [part for part in folders if part != run]
    known = [part for part in parts if plain(part) in CONDITIONS] or [part for part in parts if is_condition(part)]
    if known:
        return Place(tuple(part for part in parts if part not in known), known[-1], run), len(known) > len({*known})
    if len(parts) > 1:
        return Place(tuple(parts[:-1]), parts[-1], run), False
    return Place(tuple(parts), "", run), False


@dataclass
class Result:
    """One trial: the files of its run folder, or a row of benchmark.json."""

    iteration: Iteration
    place: Place
    folders: tuple[str, ...] = ()  # below the iteration; empty for a row
    files: dict[str, Path] = field(default_factory=dict)  # by kind
    logs: list[FolderEntry] = field(default_factory=list)
    row: BenchmarkRow | None = None
    key: str = ""  # of the eval
    _documents: dict[str, Document] = field(default_factory=dict)

    def document(self, kind: str) -> Document:
        root, path = self.iteration.root, self.files.get(kind, self.iteration.folder)
        if kind not in self._documents:
            self._documents[kind] = read_optional(root, path) if kind in self.files else Document(root, path, {})
        return self._documents[kind]

    @cached_property
    def grading(self) -> Document:
        return self.document("grading") or (self.row.document if self.row else self.document(""))

    @cached_property
    def graded(self) -> Grading:
        judge = self.iteration.meta(self.folders).text("judge", 80)
        return read_grading(self.grading, f"grader:{judge}" if judge else "grader")

    @cached_property
    def timing(self) -> Document:
        return self.document("timing") or self.grading.object("timing")

    def find_key(self) -> str:
        """Return the eval's id: from its files, or the number of its folder; else the folder's name."""
        ident = read_ident(self.document("metadata"), "eval_id", "id") or read_ident(self.grading, "eval_id")
        folder = clean(self.place.evals[-1]) if self.place.evals else "all"
        numbered = _EVAL.fullmatch(folder)
        return ident or (str(int(numbered[1])) if numbered else folder)

    def names(self) -> list[tuple[str, int, str]]:
        """Return what a row of benchmark.json may call it: condition, number of the run, and the eval's id or name."""
        names = {plain(self.find_key()), *map(plain, self.place.evals[-1:])}
        return [(name_condition(self.place.condition), self.number, name) for name in names]

    @property
    def number(self) -> int:
        found = _RUN.fullmatch(self.place.run)
        return int(found[1]) if found else 1

    def found(self) -> FoundRow:
        root, folder = self.iteration.root, self.iteration.folder
        evals, condition = "/".join(map(clean, self.place.evals)), clean(self.place.condition)
        ident = f"{NAME}:{self.iteration.experiment}/{self.iteration.name}/{condition}/{evals}/{self.place.run}"
        path = (
            root.label(folder.joinpath(*self.folders)) if self.folders else f"{root.label(self.grading.path)}, {ident}"
        )
        return FoundRow(
            root,
            path,
            (ident,),
            (evals, f"{self.number:09d}", ident),
            self.build,
            row=[
                self.key,
                self.iteration.model(self.folders),
                self.reviews(),
                dict(self.row.document.raw) if self.row else None,
            ],
            files=(*self.files.values(), *(log.path for log in self.logs)),
        )

    def build(self) -> sources.TrialSource:
        run, skill = self.iteration.run(self.place.condition, self.folders), self.iteration.skill
        has_skill = run.condition.partition("@")[0] in ("with-skills", "old-skill")
        return sources.TrialSource(
            run=run,
            task=self.task(),
            timing=self.read_timing(),
            verdict=self.graded.verdict,
            config=self.config(),
            choices=(sources.SourceChoice(tuple(self.trajectories())),),
            usage=self.read_usage(),
            skills_mounted=(skill,) if has_skill else () if run.condition.startswith("no-skill") else None,
        )

    def task(self) -> sources.TaskSource:
        known = [each for each in (self.document("metadata"), self.iteration.evals.get(self.key)) if each is not None]
        named = (each.text(name, 200) for each in known for name in ("eval_name", "name"))
        prompts = (each.text("prompt", 2_000) for each in known)
        prompt = (next(filter(None, prompts), None) or "").strip().partition("\n")[0]
        title = next(filter(None, named), None) or (self.row.name if self.row else "") or prompt
        key = "/".join([self.iteration.experiment, *map(clean, self.place.evals[:-1]), self.key])
        return sources.TaskSource(NAME, key, title or (f"Eval {self.key}" if self.key.isdecimal() else self.key))

    def read_timing(self) -> sources.Timing:
        seconds, milliseconds = self.timing.amount("total_duration_seconds"), self.timing.amount("duration_ms")
        if seconds is None and milliseconds is not None:
            seconds = milliseconds / 1000
        elif seconds is None and self.row is not None:
            amount = self.row.result.amount  # the official script writes 0 where no time is known
            seconds = (
                amount("time_seconds") or amount("duration_seconds") or (amount("duration_ms") or 0) / 1000 or None
            )
        return sources.Timing(
            started_at=aware(
                read_time(self.timing, "executor_start") or read_time(self.document("metadata"), "start_time")
            ),
            finished_at=aware(read_time(self.timing, "executor_end")),
            duration_seconds=seconds,
            agent_seconds=self.timing.amount("executor_duration_seconds"),
            verifier_seconds=self.timing.amount("grader_duration_seconds"),
        )

    def read_usage(self) -> Usage:
        told = self.row.result if self.row else self.timing
        names = ("input_tokens", "output_tokens")
        given, made = (told.count(name) if name in told.raw else None for name in names)
        cost = told.amount("cost_usd") if "cost_usd" in told.raw else None
        return Usage(input_tokens=given, output_tokens=made, cost_usd=cost)

    def config(self) -> dict[str, object]:
        """Return what has no column, such as a total of tokens without its parts."""
        benchmark = self.row.result.raw if self.row else {}
        found: dict[str, object] = {
            "eval": dict(self.document("metadata").raw),
            "total_tokens": self.timing.count("total_tokens"),
            "grading": {key: self.grading.raw[key] for key in _KEPT if key in self.grading.raw},
            "metrics": dict(self.document("metrics").raw),
            "benchmark": {key: value for key, value in benchmark.items() if isinstance(value, int | float)},
            "feedback": self.reviews(),
        }
        return {key: value for key, value in found.items() if value not in (None, {}, [])}

    def reviews(self) -> list[JsonValue]:
        found = self.iteration.reviews.get("-".join(self.folders), []) if self.folders else []
        return [{"feedback": each.text("feedback"), "timestamp": each.text("timestamp", 64)} for each in found]

    def trajectories(self) -> Iterator[sources.TrajectorySource]:
        """Yield the best log. With the prompts that were sent, a reply is a whole conversation."""
        root, formats = self.iteration.root, dict[str, FolderEntry]()
        for entry in self.logs:
            try:
                with root.open(entry.path) as stream:
                    formats.setdefault(sniff(stream), entry)
            except OSError as error:
                root.report_unreadable(entry.path, error)
        best = next((name for name in (*PREFERENCE, PLAIN_TEXT) if name in formats), "")
        if not best:
            return
        entry, prompts = formats[best], self.document("prompts")
        reply = root.read(entry.path, MAX_REPLY) if prompts and entry.path.name == "response.txt" else None
        if reply is None:
            yield replace(sources.TrajectorySource.of_file(root, entry), format=best)
            return
        calls = read_json(root, self.files["calls"]) if "calls" in self.files else None
        texts = {role: prompts.text(role, MAX_REPLY) for role in ("system", "user")}
        answer = {"role": "assistant", "content": reply.decode("utf-8", "replace"), "tool_calls": calls}
        asked = [{"role": role, "content": text} for role, text in texts.items() if text]
        yield of_messages(entry.name, [*asked, answer])


@dataclass
class Iteration:
    """`experiment`: the workspace's name. `evals`: the skill's evals by id, for titles. `seen`: the iteration that
    has a row of a benchmark, by the row's digest."""

    root: Root
    folder: Path
    experiment: str
    evals: Mapping[str, Document]
    seen: dict[str, str]
    skill: str = ""
    results: dict[Place, Result] = field(default_factory=dict)
    _metadata: dict[tuple[str, ...], Path] = field(default_factory=dict)  # by its folders
    _metas: dict[Path, Document] = field(default_factory=dict)
    _left: list[str] = field(default_factory=list)
    _made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = name_of(self.folder)
        match = FOLDER.fullmatch(self.name)
        self.label = clean(match[1])[:40] if match else ""
        copies = dict[Place, Result]()
        for entry in self.root.tree(self.folder):
            self._sort_in(entry, copies)
        self._take_copies(copies)
        self._divide_gradings()
        self._take_stray_gradings()
        for result in self.results.values():
            above = (result.folders[:depth] for depth in range(len(result.folders), -1, -1))
            if path := next((self._metadata[each] for each in above if each in self._metadata), None):
                result.files.setdefault("metadata", path)
        self._take_benchmark()
        self._name_evals()
        for names, expected in ((self._made, "gradings, times and logs"), (self._left, "files of skill-creator")):
            if names:
                told = f"{list_names(names)}: {'files that agents made' if names is self._made else 'others'}; not read"
                self.root.report(self.folder, "", expected, told)

    # --- run folders ----------------------------------------------------------------------------------------------

    def _sort_in(self, entry: FolderEntry, copies: dict[Place, Result]) -> None:
        *folders, name = entry.name.split("/")
        if not (folders or name == "eval_metadata.json") or name in _OWN or not _GIVEN.isdisjoint(folders):
            self._left += [] if name in _OWN or entry.path == self.benchmark.path else [entry.name]
            return
        inside = folders[folders.index("outputs") :] if "outputs" in folders else []
        folders = folders[: len(folders) - len(inside)]
        kind = KINDS.get(name, "") if len(inside) < 2 else ""
        if not kind and not inside and any(map(is_condition, folders)) and (named := _PREFIXED.fullmatch(name)):
            kind, folders = named[2].lower().replace("config", "metadata"), [*folders, named[1]]
        elif not kind and not inside and (named := _SUFFIXED.fullmatch(name)) and is_condition(named[2]):
            kind, folders = named[1].lower(), [*folders, named[2]]
        if kind == "metadata":
            self._metadata[tuple(folders)] = entry.path
            return
        # In a folder of another name there may be anything: a log is one of a condition, or has a grading next to it.
        is_run = self.label or inside or any(map(is_condition, folders))
        is_log = _LOG.search(name) is not None and bool(
            is_run or self.root.is_file(entry.path.with_name("grading.json"))
        )
        if not inside and not kind and not is_log:
            self._left.append(entry.name)
            return
        place, is_copy = locate(folders)
        result = (copies if is_copy else self.results).setdefault(place, Result(self, place, tuple(folders)))
        if kind in KINDS.values() and kind not in result.files:
            result.files[kind] = entry.path
        elif is_log:
            result.logs.append(entry)
        else:
            self._made.append(entry.name)

    def _take_copies(self, copies: dict[Place, Result]) -> None:
        kinds = Counter[str]()
        for place, copy in copies.items():
            if (first := self.results.setdefault(place, copy)) is not copy:
                both = {self.root.sha256(each.files["grading"]) for each in (first, copy) if "grading" in each.files}
                kinds["the same grading" if len(both) == 1 else "another grading"] += 1
        for kind, count in kinds.items():
            told = f"{count} inside a folder of the same name, with {kind}: the outer ones count"
            self.root.report(self.folder, "", "every run folder once", told)

    def _divide_gradings(self) -> None:
        """Take the rows of a grading.json that has one for each run, or for each condition."""
        for place, each in [*self.results.items()]:
            if "grading" not in each.files or find_list(document := each.document("grading")):
                continue
            rows = list(iterate_rows(document, place.condition, each.find_key(), depth=1))
            if all(row.condition and row.document is not document for row in rows) and rows:
                files = {kind: path for kind, path in each.files.items() if kind != "grading"}
                del self.results[place]
                if files or each.logs:
                    self.results[place] = Result(self, place, each.folders, files, each.logs)
                for row in rows:
                    self._add_row(row, place.evals)

    def _take_stray_gradings(self) -> None:
        """Give the grading in an eval's folder to its only condition without one, or to the only one that the
        benchmark has a result of."""
        for place in [place for place, each in self.results.items() if not place.condition and "grading" in each.files]:
            others = [
                each for each in self.results.values() if each.place.evals == place.evals and each.place.condition
            ]
            waiting = [each for each in others if "grading" not in each.files]
            told, why = "it is in the eval's; its condition is unknown", "the only one without"
            if len(waiting) > 1:
                waiting = [each for each in waiting if not self._rated.isdisjoint(each.names())]
                why = "the only one with a result in benchmark.json"
            if len(waiting) == 1:
                stray = self.results.pop(place)
                taken = waiting[0]
                files, logs = stray.files | taken.files, [*taken.logs, *stray.logs]
                self.results[taken.place] = Result(self, taken.place, taken.folders, files, logs)
                told = f"it is in the eval's; taken for {clean(taken.place.condition)}, {why}"
            self.root.report(self.folder.joinpath(*place.evals), "grading.json", "a grading in the run's folder", told)

    def _name_evals(self) -> None:
        """Give each result its eval's key. Where several evals of a condition have one id, their folders name them."""
        evals: defaultdict[tuple[str, str, tuple[str, ...]], set[str]] = defaultdict(set)
        for result in self.results.values():
            result.key = result.find_key()
            evals[result.place.condition, result.key, result.place.evals[:-1]].update(result.place.evals[-1:])
        clashing = {key for key, names in evals.items() if len(names) > 1}
        if clashing:
            told = f"several have {list_names(sorted({key for _, key, _ in clashing}))}: their folders name them"
            self.root.report(self.folder, "eval_id", "another id for each eval", told)
        for result in self.results.values():
            if (result.place.condition, result.key, result.place.evals[:-1]) in clashing:
                result.key = clean(result.place.evals[-1])

    # --- benchmark.json -------------------------------------------------------------------------------------------

    @cached_property
    def benchmark(self) -> Document:
        """Return benchmark.json; without one the first other file of the iteration that has results of evals."""
        path = self.folder / "benchmark.json"
        if self.root.exists(path):
            return read_optional(self.root, path)
        for entry in self.root.listing(self.folder)[1]:
            if entry.path.suffix.lower() == ".json" and entry.name not in _OWN:
                document = read_optional(self.root.mute(), entry.path)
                if any(read_grading(row.document, "").verdict for row in list_rows(document)):
                    self.root.report(self.folder, "", "benchmark.json", f"none; {name_of(entry.path)} is taken for it")
                    return Document(self.root, entry.path, document.raw)
        return Document(self.root, path, {})

    @cached_property
    def _rated(self) -> set[tuple[str, int, str]]:
        """What benchmark.json has a verdict of, by condition, number and each of the eval's names."""
        return {
            (name_condition(row.condition), row.number or 1, plain(name))
            for row in list_rows(self.benchmark)
            for name in (row.ident, row.name)
            if read_grading(Document(self.root.mute(), row.document.path, row.document.raw), "").verdict
        }

    def _take_benchmark(self) -> None:
        """Take the rows of conditions without gradings. Compare the others with the gradings, which count."""
        told, rows = Counter[str](), list_rows(self.benchmark)
        pairs = self._pair(rows)
        matched = {id(result) for result in pairs.values()}
        graded = [each for each in self.results.values() if each.graded.verdict]
        of_folders = {name_condition(each.place.condition) for each in graded}
        # A row of these may be about a folder that it names in another way.
        unsure = {name_condition(each.place.condition) for each in graded if id(each) not in matched}
        alone: dict[bool, list[str]] = {True: [], False: []}  # by whether it is left out
        for index, row in enumerate(rows):
            if find_list(row.document):
                told["also in an earlier iteration"] += (
                    self.seen.setdefault(digest_json(row.document.raw), self.name) != self.name
                )
            condition, result = name_condition(row.condition), pairs.get(index)
            if result is None:
                if condition in of_folders:
                    alone[condition in unsure].append(f"{row.ident or row.name} {row.condition}")
                if condition not in unsure:
                    self._add_row(row)
            elif result.graded.verdict is None:
                result.row = row
                del result.grading, result.graded
            else:
                told.update(_compare(result, row))
        lines = [f"{words}: {count} of {len(rows)} rows" for words, count in told.items() if count]
        for is_left, names in alone.items():
            if names:
                lines.append(f"of no run folder, {'left out' if is_left else 'taken'}: {list_names(names)}")
        given = {row.condition for row in rows}
        empty = [key for key in self.benchmark.raw if is_condition(key) and key not in given]
        lines += [f"without an eval, so not run: {list_names(empty)}"] if empty and rows else []
        gradings = defaultdict[str, list[Grading]](list)
        for result in self.results.values():
            gradings[name_condition(result.place.condition)].append(result.graded)
        lines += list_conflicts(self.benchmark, gradings)
        if lines:
            self.root.report(
                self.benchmark.path, "", "what the results have, which count", "; ".join(map(clean, lines))
            )

    def _pair(self, rows: Sequence[BenchmarkRow]) -> dict[int, Result]:
        """Return the result that each row is about, by the row's index: of its condition, eval and number; else the
        only one of its condition and eval, if no other row is about it."""
        known = {place: result for result in self.results.values() for place in result.names()}
        named = defaultdict[tuple[str, str], list[Result]](list)
        for (condition, _, name), result in known.items():
            named[condition, name].append(result)
        pairs, left = dict[int, Result](), dict[int, list[Result]]()
        for index, row in enumerate(rows):
            condition, names = name_condition(row.condition), [plain(name) for name in (row.ident, row.name)]
            places = ((condition, row.number or 1, name) for name in names)
            if exact := next((known[place] for place in places if place in known), None):
                pairs[index] = exact
            else:
                left[index] = next((named[condition, name] for name in names if (condition, name) in named), [])
        taken = {id(result) for result in pairs.values()}
        for index, results in left.items():
            if len(results) == 1 and id(results[0]) not in taken:
                pairs[index] = results[0]
                taken.add(id(results[0]))
        return pairs

    def _add_row(self, row: BenchmarkRow, evals: tuple[str, ...] = ()) -> None:
        """Take a row for the trial that waits for it, or for one of its own. `evals`: the folders of its eval, if
        known."""
        number, evals = row.number or 1, evals or ((row.ident or row.name).replace("/", "_"),)
        for run in ("", f"run-{number}"):
            waiting = self.results.get(Place(evals, row.condition, run))
            if waiting is not None and waiting.row is None and "grading" not in waiting.files:
                waiting.row = row
                return
        while (place := Place(evals, row.condition, f"run-{number}")) in self.results:
            number += 1
        self.results[place] = Result(self, place, row=row)

    # --- what its trials share ------------------------------------------------------------------------------------

    def read_end(self) -> datetime:
        """Return when its benchmark was written; without one when its folder was changed: nothing has a time of its
        own."""
        metadata = self.benchmark.object("metadata")
        if told := aware(read_time(metadata, "timestamp") or read_time(self.benchmark, "timestamp")):
            return told
        changed = self.folder.stat(follow_symlinks=False).st_mtime
        return datetime.fromtimestamp(min(max(changed, 0.0), LATEST), UTC)

    def trials(self) -> list[FoundRow]:
        return sorted((result.found() for result in self.results.values()), key=lambda trial: trial.order)

    @cached_property
    def has_plain_baseline(self) -> bool:
        """Does `baseline` mean without a skill? The tool itself never writes that name, so no file says what it had."""
        names = {plain(place.condition) for place in self.results}
        found = BASELINE in names and names.isdisjoint(("without_skill", "no_skill", "old_skill"))
        if found:
            told = "baseline: taken as without a skill"
            self.root.report(self.folder, "", "with_skill, without_skill or old_skill", told)
        return found

    def meta(self, folders: tuple[str, ...] = ()) -> Document:
        """Return agent-skills-eval's meta.json: the iteration's, or that of one of its skills."""
        inner = self.folder.joinpath(*folders[:1]) / "meta.json"
        path = inner if inner in self._metas or self.root.is_file(inner) else self.folder / "meta.json"
        if path not in self._metas:
            self._metas[path] = read_optional(self.root, path)
        return self._metas[path]

    def model(self, folders: tuple[str, ...] = ()) -> str:
        named = (
            self.benchmark.object("metadata").text("executor_model", 200)
            or self.meta(folders).text("target", 200)
            or ""
        )
        return sources.UNKNOWN if _NO_MODEL.fullmatch(named.strip()) else named

    def run(self, written: str, folders: tuple[str, ...] = ()) -> sources.RunSource:
        condition = name_condition(written) if written or not folders else sources.UNKNOWN
        condition = "no-skill" if self.has_plain_baseline and plain(written) == BASELINE else condition
        number = re.match(r"\d{1,9}", self.label)
        metadata = self.benchmark.object("metadata")
        written_at = metadata.text("timestamp", 64) or self.benchmark.text("timestamp", 64)
        setup = {"source": NAME, "iteration": self.label, "benchmark_at": written_at}
        return sources.RunSource(
            agent_model=self.model(folders),
            author_model="" if condition == "no-skill" else sources.UNKNOWN,
            condition=f"{condition}@{self.label}" if self.label and condition != sources.UNKNOWN else condition,
            replicate=int(number[0]) if number else None,
            setup={key: value for key, value in setup.items() if value},
            variant="" if self.label.isdecimal() else self.label,  # 5b is not 5
        )

    @cached_property
    def reviews(self) -> dict[str, list[Document]]:
        """Return a person's reviews by the run folder's path, with "-" for "/"."""
        found: defaultdict[str, list[Document]] = defaultdict(list)
        document = read_optional(self.root, self.folder / "feedback.json")
        for review in document.objects("reviews"):
            if review.text("feedback"):
                found[(review.text("run_id", 500) or "").removeprefix(f"{self.name}-")].append(review)
        if lost := sorted(found.keys() - {"-".join(each.folders) for each in self.results.values()}):
            document.report("reviews", "reviews of run folders", f"{list_names(lost)}: left out")
        return dict(found)


def _compare(result: Result, row: BenchmarkRow) -> Iterator[str]:
    """Yield what the row says otherwise than the grading and the timing of its run folder."""
    theirs = read_grading(Document(result.iteration.root.mute(), row.document.path, row.document.raw), "").verdict
    mine = result.graded.verdict
    if theirs and mine and abs((theirs.reward or 0.0) - (mine.reward or 0.0)) > TOLERANCE:
        yield "another share passed"
    tokens, total = row.result.raw.get("tokens"), result.timing.raw.get("total_tokens")
    if tokens and tokens != total:
        is_length = tokens == result.grading.object("execution_metrics").raw.get("output_chars")
        if is_length or total is not None:
            yield "characters (output_chars) as tokens" if is_length else "other tokens"
