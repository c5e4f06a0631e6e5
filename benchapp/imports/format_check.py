"""Try a format on samples: what it finds must be the same twice,
and broken copies must neither stop it nor go unreported."""

from __future__ import annotations

import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from benchapp.imports.formats import find_wrong
from benchapp.imports.problems import ProblemList
from benchapp.imports.reading.found_sources import FoundExperiment, TrialMoment
from benchapp.imports.reading.walking import FolderEntry, Root
from benchapp.record.error_text import text_of_error

MAX_BROKEN = 40  # files of a sample that are broken, one at a time
CLAIMED_DEPTH = 6
# What a broken copy of a file holds, made from its content; None: it is not there.
MISSING, CUT = "is missing", "ends in the middle"
BREAKS: dict[str, Callable[[bytes], bytes | None]] = {
    MISSING: lambda content: None,
    "is empty": lambda content: b"",
    CUT: lambda content: content[: len(content) // 2],
    "holds an empty object": lambda content: b"{}",
    "holds a list of numbers": lambda content: b"[1, 2]",
    "holds another type in each value": lambda content: content.replace(b": ", b': [7], "x": '),
    "is not text": lambda content: b"\xff\xfe\x00\x80" * 50,
}


@dataclass(slots=True)
class FormatReport:
    """`found` counts what the samples hold, `runs` the outcomes of their trials by condition and model,
    `faults` are sentences about the format."""

    found: Counter[str] = field(default_factory=Counter)
    runs: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    problems: ProblemList = field(default_factory=ProblemList)
    faults: list[str] = field(default_factory=list)
    broken: int = 0  # copies that were tried

    def add(self, fault: str) -> None:
        if fault not in self.faults:
            self.faults.append(fault)


def check_format(module: ModuleType, samples: list[Path]) -> FormatReport:
    report = FormatReport()
    if wrong := find_wrong(module, {}):
        report.add(f"the module: {wrong}")
        return report
    with tempfile.TemporaryDirectory(prefix="skillglass-format-") as scratch:
        empty = Path(scratch, "empty")
        empty.mkdir()
        if _read(module, empty, ProblemList())[0]:
            report.add("claims: it claims an empty folder")
        for suffix in getattr(module, "SUFFIXES", ()):
            (empty / f"other{suffix}").write_text('{"of": "another tool"}\n')
        if _read(module, empty, ProblemList())[0]:
            report.add('claims_file: it claims a file that holds {"of": "another tool"}; look at what a file holds')
        for number, sample in enumerate(samples):
            _check_sample(module, sample, Path(scratch, str(number)), report)
    return report


def _check_sample(module: ModuleType, sample: Path, scratch: Path, report: FormatReport) -> None:
    try:
        first, second = (_read(module, sample, problems) for problems in (report.problems, ProblemList()))
    except Exception as error:
        report.add(f"{sample}: {_say(error)}")
        return
    if not first[0]:
        report.add(f"{sample}: it claims nothing in it")
    if not first[1]:
        report.add(f"{sample}: it finds neither a trial nor a library in it")
    if first != second:
        report.add(f"{sample}: a second reading finds other ids or digests, so each import would add them again")
    _, things = first
    _count_outcomes(module, sample, report)
    report.found.update(kind for kind, *_ in things)
    for ident, count in Counter(ident for kind, ident, _ in things if kind == "trials").items():
        if count > 1:
            report.add(f"{sample}: {count} trials have the id {ident}")
    _check_broken(module, sample, scratch, first, report)


def _check_broken(
    module: ModuleType, sample: Path, scratch: Path, whole: tuple[int, list[tuple[str, str, str]]], report: FormatReport
) -> None:
    """Break one file at a time in a copy. Reading it must not raise; if anything is lost, the report must say so."""
    copy = scratch / sample.parent.name / sample.name  # ids may come from the end of the path
    shutil.copytree(sample, copy) if sample.is_dir() else shutil.copy(sample, _made(copy))
    root = Root(copy if copy.is_dir() else copy.parent, ProblemList())
    entries = root.tree(copy) if copy.is_dir() else [FolderEntry(copy, copy.name, 0)]
    for entry in entries[:: max(1, len(entries) // MAX_BROKEN)]:
        content = entry.path.read_bytes()
        for how, change in BREAKS.items():
            if (how == MISSING and entry.path == copy) or (
                how == CUT and not content.lstrip().startswith((b"{", b"["))
            ):
                continue  # a sample that is gone, and lines that nobody can miss
            report.broken += 1
            broken, problems = change(content), ProblemList()
            entry.path.unlink() if broken is None else entry.path.write_bytes(broken)
            try:
                claimed, things = _read(module, copy, problems)
                is_mine = broken is not None and (not hasattr(module, "claims_file") or module.claims_file(root, entry))
            except Exception as error:
                report.add(f"{entry.name} {how}: {_say(error)}")
            else:
                lost = len(whole[1]) - len(things)
                if lost > 0 and is_mine and claimed == whole[0] and not len(problems):
                    report.add(f"{entry.name} {how}: {lost} trials or libraries are lost without a line in the report")
        entry.path.write_bytes(content)


def _count_outcomes(module: ModuleType, sample: Path, report: FormatReport) -> None:
    """Count the trials of each run by outcome, so that a person sees whether the mapping is the intended one."""
    root = Root(sample if sample.is_dir() else sample.parent, ProblemList())
    for found in _find(module, root, sample):
        for trial in (trial for experiment in found for trial in experiment.trials):
            source = trial.read()
            run, success = source.run, None if source.verdict is None else source.verdict.success
            if not isinstance(run.condition, str) or not run.condition:
                report.add(f"{trial.path}: its condition is {run.condition!r}, not a text")
            elif success not in (True, False, None) or not isinstance(success, bool | None):
                report.add(f"{trial.path}: its success is {success!r}, not True, False or None")
            else:
                outcome = {True: "passed", False: "failed", None: "no verdict"}[success]
                report.runs.setdefault((run.condition, run.agent_model), Counter())[outcome] += 1


def _say(error: Exception) -> str:
    """Return the error with the line that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{text_of_error(error)} ({Path(last.filename).name}, line {last.lineno}, in {last.name})"


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _read(module: ModuleType, path: Path, problems: ProblemList) -> tuple[int, list[tuple[str, str, str]]]:
    """Return how many folders or files were claimed, and (kind, id, digest) of all that is in them, read whole."""
    root = Root(path if path.is_dir() else path.parent, problems)
    claimed = 0
    things: list[tuple[str, str, str]] = []
    for found in _find(module, root, path):
        claimed += 1
        for experiment in found:
            things.append(("experiments", experiment.source.key, ""))
            things += _read_experiment(experiment)
    return claimed, things


def _find(module: ModuleType, root: Root, path: Path) -> Iterator[Iterator[FoundExperiment]]:
    if hasattr(module, "claims_file"):
        entries = (
            root.tree(root.base) if path.is_dir() else [FolderEntry(path.resolve(), path.name, path.stat().st_size)]
        )
        able = [entry for entry in entries if entry.path.suffix.lower() in module.SUFFIXES]
        mine = [entry for entry in able if module.claims_file(root, entry)]
        if mine:
            yield module.find_files(root, mine)
        return
    folders = [(root.base, 0)]
    for folder, depth in folders:
        if module.claims(root.mute(), folder):
            yield module.find(root, folder)
        elif depth < CLAIMED_DEPTH:
            folders += [(sub, depth + 1) for sub in root.listing(folder)[0]]


def _read_experiment(experiment: FoundExperiment) -> Iterator[tuple[str, str, str]]:
    idents = set()
    for trial in experiment.trials:
        trial.read()
        idents.add(trial.ids[0])
        yield "trials", trial.ids[0], trial.digest()
    for library in experiment.libraries:
        yield "libraries", library.path, repr(sorted(library.files))
    for history in experiment.histories:
        for number, moment in enumerate(history.read()):
            if isinstance(moment, TrialMoment) and moment.ident not in idents:
                raise LookupError(f"its history names the trial {moment.ident}, which it does not find")
            yield type(moment).__name__.removesuffix("Moment").lower() + "s of a history", history.path, str(number)
