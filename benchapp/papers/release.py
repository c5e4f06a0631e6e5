"""The libraries and the oracles' logs of a SkillLearnBench release on disk, through the importer's reader.

Names in the paper's tables are in our words. Source: arXiv 2604.20087v1.

Findings in the libraries of one method are counted, how much of them is in human skills, and the paper's numbers next
to them. The release's own contamination: generated skills that copy the reference, and paths such as
/root/.claude/skills/<human skill>/... that an author can only have seen inside the container
(github.com/cxcscmu/SkillLearnBench). Compared are Table 5 (patterns) and Figure 3 (skills per task), over six models
and twenty tasks; a difference is explained where a reason can be computed.

The oracles' logs have the skills used, and tool calls, counted in two ways. Claude Code's stream-json has one content
block a line. Upstream's evaluator keeps only the last line of each message, and so loses its thinking, text and
earlier calls. Here every block counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from benchapp.analysis.diagnoses.diagnosis import Diagnosis
from benchapp.analysis.diagnoses.library_rules import CONTRACT
from benchapp.analysis.diagnoses.library_shelf import LocatedHit, Sources, Spoken, read_text
from benchapp.imports.problems import ProblemList
from benchapp.imports.reading.walking import FolderEntry, Root
from benchapp.imports.releases import skilllearnbench_release
from benchapp.imports.releases.skilllearnbench_release import TaskInstance
from benchapp.papers.published_rows import Cells, PrintedNumber, count_decimals, counts_make, find_count, rounds_to
from benchapp.record.textual_change import has_nul
from runner.authoring.contract.skill_file import PATTERNS, SKILL_FILE, has_code
from runner.authoring.copied import leaks, overlap
from runner.base.types import Files, Source, UseKind
from runner.trajectories.problems import Problems
from runner.trajectories.readers.line_streams import json_lines
from runner.trajectories.readers.reading import read_trajectory
from runner.trajectories.readers.skill_use import step_uses

PAPER = "skilllearnbench"
CLAUDE = ("Claude Haiku 4.5", "Claude Sonnet 4.6", "Claude Opus 4.6")  # smallest first
GEMINI = ("Gemini 3.1 Flash Lite", "Gemini 3 Flash", "Gemini 3.1 Pro")
MODELS = (*CLAUDE, *GEMINI)
METHODS = ("one-shot", "self-feedback", "teacher-feedback", "skill-creator")
REFERENCES = ("no-skill", "human-authored")
TASKS = 20


HUMAN = "human-authored"
MAX_INSTRUCTION_BYTES = 1024 * 1024


class NoRelease(ValueError):
    """The folder holds no release; the message says what was expected where."""


@dataclass(frozen=True, slots=True)
class ReleasedLibrary:
    """skills/<config>/<task>. `method` in this project's words, `model` who wrote the skills, "" for human ones.

    `omitted`: files that a manifest of the release lists as left out. `instruction`: of the seed instance; None where
    the folder has no tasks.
    """

    config: str
    method: str
    model: str
    task: str
    files: Files
    omitted: frozenset[str]
    instruction: str | None

    @property
    def name(self) -> str:
        """Return its path in any copy of the release."""
        return f"skills/{self.config}/{self.task}"

    @property
    def is_human(self) -> bool:
        return self.method == HUMAN

    @property
    def skills(self) -> tuple[str, ...]:
        return tuple(sorted({path.partition("/")[0] for path in self.files if path.endswith(f"/{SKILL_FILE}")}))

    def texts(self) -> dict[str, str]:
        """Return its text files by path."""
        return {path: read_text(file.content) for path, file in self.files.items() if not has_nul(file.content)}


@dataclass(frozen=True, slots=True)
class Release:
    """A release's folder as read: libraries, task instances with a log, and what could not be read."""

    libraries: tuple[ReleasedLibrary, ...]
    instances: tuple[TaskInstance, ...]
    problems: ProblemList

    def human(self, task: str) -> ReleasedLibrary | None:
        return next((each for each in self.libraries if each.is_human and each.task == task), None)


def read_release(folder: Path) -> Release:
    """Read everything below skills/ and the logs below eval_keypoints/. NoRelease where neither exists.

    What cannot be read is in `problems`, with its file and place.
    """
    problems = ProblemList()
    root = Root(folder, problems)
    if not folder.is_dir() or not skilllearnbench_release.claims(root, folder):
        raise NoRelease(f"{folder}: expected a folder with skills/<config>/<task>/<skill>/{SKILL_FILE} in it")
    (found,) = skilllearnbench_release.find(root, folder)
    omitted = skilllearnbench_release.read_omitted(root.mute(), folder)
    libraries = []
    for source in found.libraries:
        config, task = source.run.skills, source.episode.key
        prefix = f"skills/{config}/{task}/"
        libraries.append(
            ReleasedLibrary(
                config,
                source.run.condition,
                source.run.author_model,
                task,
                source.files,
                frozenset(path.removeprefix(prefix) for path in omitted if path.startswith(prefix)),
                _read_instruction(root, folder, task),
            )
        )
    trials: tuple[object, ...] = found.trials
    instances = tuple(trial for trial in trials if isinstance(trial, TaskInstance))
    return Release(tuple(libraries), instances, problems)


def _read_instruction(root: Root, folder: Path, task: str) -> str | None:
    path = folder / "tasks" / task / f"{task}-1" / "instruction.md"
    content = root.read(path, MAX_INSTRUCTION_BYTES) if path.is_file() and not path.is_symlink() else None
    return None if content is None else content.decode("utf-8", "replace")


def group_libraries(
    libraries: tuple[ReleasedLibrary, ...], *, by_model: bool
) -> Iterator[tuple[str, list[ReleasedLibrary]]]:
    """Yield (method or config, its libraries): the paper's methods in its order, human skills last, others between."""
    order = {name: place for place, name in enumerate(METHODS)}
    named: dict[tuple[int, str, str], list[ReleasedLibrary]] = {}
    for library in libraries:
        place = len(order) + 1 if library.is_human else order.get(library.method, len(order))
        key = (place, library.method, library.model if by_model else "")
        named.setdefault(key, []).append(library)
    for (_, method, model), found in sorted(named.items()):
        yield (f"{method}, {model}" if model else method), found


LINT = frozenset(rule.id for rule in CONTRACT)


COPIED = 0.5  # more than this share of its runs of eight words


@dataclass(frozen=True, slots=True)
class Meter:
    """One SKILL.md. `share`: the part of its runs of eight words that is in a human skill of the task; None without.

    shares: more than chance gives (runner.authoring.copied). cites: absolute paths into a human skill's folder.
    """

    path: str
    share: float | None
    longest: int
    shares: bool
    cites: tuple[str, ...]

    @property
    def is_copied(self) -> bool:
        return self.share is not None and self.share > COPIED


def measure_leaks(library: ReleasedLibrary, human: ReleasedLibrary) -> Iterator[Meter]:
    """Measure each skill, without words of the task's instruction where that is known."""
    texts, sources = library.texts(), list(human.texts().values())
    known = [library.instruction] if library.instruction else []
    names = {path.partition("/")[0] for path in human.files}
    for skill in library.skills:
        text = texts.get(f"{skill}/{SKILL_FILE}", "")
        found = overlap(text, sources, ignoring=known)
        cites = tuple(dict.fromkeys(match.group() for match in _compile_places(names).finditer(text)))
        yield Meter(f"{library.name}/{skill}", found.share, found.longest, leaks(found), cites)


def _compile_places(names: set[str]) -> re.Pattern[str]:
    """Match an absolute path with a folder of skills and, in it, one of these."""
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.compile(rf"(?<![\w.~/-])~?/(?:[\w.-]{{1,80}}/){{0,8}}skills?/(?:{either})(?![\w-])")


@dataclass(frozen=True, slots=True)
class Examined:
    """A library, the rules' findings, and meters that compare its skills with human ones (none without those)."""

    library: ReleasedLibrary
    diagnosis: Diagnosis
    meters: tuple[Meter, ...]


def examine(library: ReleasedLibrary, release: Release) -> Examined:
    """Examine a library. Rules that need a trial (constants, verifiers, hidden checks) find nothing: there is none."""
    human = None if library.is_human else release.human(library.task)
    references = [Spoken(text, f"the human skill's {path}") for path, text in human.texts().items()] if human else []
    public = (library.instruction,) if library.instruction else ()
    sources = Sources(omitted=library.omitted, public_texts=public, references=tuple(references))
    return Examined(library, Diagnosis(library.files, sources), tuple(measure_leaks(library, human)) if human else ())


@dataclass
class Tally:
    """The libraries of one method, or of one model's part of it, with what was found in them added up."""

    name: str
    examined: list[Examined]

    @property
    def libraries(self) -> int:
        return len(self.examined)

    @cached_property
    def models(self) -> frozenset[str]:
        return frozenset(each.library.model for each in self.examined) - {""}

    @cached_property
    def tasks(self) -> frozenset[str]:
        return frozenset(each.library.task for each in self.examined)

    @cached_property
    def skills(self) -> int:
        return sum(len(each.diagnosis.skills) for each in self.examined)

    @cached_property
    def patterns(self) -> dict[str, int]:
        found = Counter(facts["pattern"] for each in self.examined for facts in each.diagnosis.skills)
        return {pattern: found[pattern] for pattern in PATTERNS}

    @cached_property
    def found(self) -> list[tuple[str, LocatedHit]]:
        """Return (library's name, finding)."""
        return [(each.library.name, found) for each in self.examined for found in each.diagnosis.found]

    @cached_property
    def left_out(self) -> int:
        """Return the number of findings beyond those that are kept of one rule in one library."""
        return sum(sum(each.diagnosis.left_out.values()) for each in self.examined)

    @cached_property
    def meters(self) -> list[Meter]:
        return [meter for each in self.examined for meter in each.meters]

    def places(self, found: Iterable[tuple[str, LocatedHit]]) -> int:
        """Count the skills that have these findings."""
        return len({(name, each.hit.path.partition("/")[0]) for name, each in found})

    @cached_property
    def scripted(self) -> list[tuple[ReleasedLibrary, str]]:
        """Return (library, skill) of each skill of pattern B."""
        return [
            (each.library, facts["skill"])
            for each in self.examined
            for facts in each.diagnosis.skills
            if facts["pattern"] == "B"
        ]

    def count_code_elsewhere(self) -> int:
        """Count skills of pattern B with their code outside scripts/."""
        code = (_list_code(library, skill) for library, skill in self.scripted)
        return sum(not any(path.startswith("scripts/") for path in paths) for paths in code)

    def count_copied_with_code(self) -> int:
        """Count skills of pattern B that are copies of a human skill."""
        copied = {meter.path for meter in self.meters if meter.is_copied}
        return sum(f"{library.name}/{skill}" in copied for library, skill in self.scripted)


def _list_code(library: ReleasedLibrary, skill: str) -> list[str]:
    prefix = f"{skill}/"
    paths = (
        path.removeprefix(prefix).lower() for path in (*library.files, *library.omitted) if path.startswith(prefix)
    )
    return [path for path in paths if has_code(path)]


class Beside(NamedTuple):
    """`printed` as in the paper, `here` and `difference` with one digit more; `why` empty where they agree."""

    method: str
    what: str
    printed: str
    here: str
    difference: str
    why: str


def count_paper_libraries(method: str) -> int:
    """Return the number of libraries behind the paper's numbers."""
    return TASKS * (len(MODELS) if method in METHODS else 1)


def compare_with_paper(tallies: Sequence[Tally], cells: Cells) -> Iterator[Beside]:
    """Compare every method that the paper has. A method of another name has no lines."""
    for tally in tallies:
        if tally.name in (*METHODS, *REFERENCES) and tally.skills:
            yield _compare_skills_per_task(tally, cells.one("Figure 3", "skills", condition=tally.name))
            yield from _compare_patterns(tally, cells)


def _compare_skills_per_task(tally: Tally, cell: PrintedNumber) -> Beside:
    here = Fraction(tally.skills, tally.libraries)
    wanted = count_paper_libraries(tally.name)
    why = ""
    if tally.libraries != wanted:
        why = _describe_coverage(tally)
    elif not rounds_to(here, cell):
        why = f"printed {cell.printed} x {wanted} is {round(cell.number * wanted)} skills, {tally.skills} are here"
    return _compare(tally, "skills per task", cell, here, why)


def _compare_patterns(tally: Tally, cells: Cells) -> Iterator[Beside]:
    shares = {letter: cells.one("Table 5", f"pattern_{letter.lower()}", condition=tally.name) for letter in "ABC"}
    for letter, cell in shares.items():
        here = Fraction(100 * tally.patterns[letter], tally.skills)
        why = "" if rounds_to(here, cell) else _explain(tally, letter, cell, list(shares.values()))
        yield _compare(tally, f"pattern {letter}, %", cell, here, why)


def _explain(tally: Tally, letter: str, cell: PrintedNumber, shares: Sequence[PrintedNumber]) -> str:
    reasons = []
    printed = find_count(cell, tally.skills)
    wanted = count_paper_libraries(tally.name)
    if tally.libraries != wanted:
        reasons.append(f"{_describe_coverage(tally)}, one skill is {100 / tally.skills:.1f} points")
    elif printed is None or not counts_make(shares, tally.skills):
        fitting = [n for n in range(1, 2 * tally.skills + 10) if counts_make(shares, n)]
        nearest = min(fitting, key=lambda n: abs(n - tally.skills), default=None)
        nearby = f"; {nearest} skills would ({_list_counts(shares, nearest)})" if nearest else ""
        reasons.append(f"no counts of the {tally.skills} skills here give the row{nearby}")
    else:
        reasons.append(f"printed is {printed} of {tally.skills}, here {tally.patterns[letter]}")
    if letter == "B" and tally.count_copied_with_code():
        reasons.append(f"{tally.count_copied_with_code()} of {tally.patterns['B']} are copies of a human skill")
    if letter == "B" and tally.count_code_elsewhere():
        reasons.append(f"{tally.count_code_elsewhere()} of {tally.patterns['B']} have code but no scripts/ folder")
    return "; ".join(reasons)


def _describe_coverage(tally: Tally) -> str:
    models = f", by {len(tally.models)} of {len(MODELS)} models" if tally.name in METHODS else ""
    return f"{tally.libraries} of {count_paper_libraries(tally.name)} libraries are here{models}"


def _list_counts(shares: Sequence[PrintedNumber], n: int) -> str:
    return "/".join(str(find_count(share, n)) for share in shares)


def _compare(tally: Tally, what: str, cell: PrintedNumber, here: Fraction, why: str) -> Beside:
    places = count_decimals(cell.printed) + 1
    difference = f"{float(here - cell.number):+.{places}f}"
    return Beside(tally.name, what, cell.printed, f"{float(here):.{places}f}", difference, why)


MAX_MESSAGES = 1_000_000  # of one log


class OracleLog:
    """One log with its sub-agents. `used`: skill -> kinds of use. `mounted`: the task's human skills, None where the
    folder has none. calls: one per block. calls_of_last_lines: as upstream counts, None in other formats. Tokens
    are unknown in a log without totals; input includes cached ones."""

    def __init__(self, instance: TaskInstance, log: FolderEntry, mounted: tuple[str, ...] | None) -> None:
        self.task, self.instance, self.mounted = instance.family, instance.name, mounted
        read = read_trajectory(lambda: instance.root.open(log.path))
        self.messages = self.calls = 0
        used: dict[str, dict[str, None]] = {}
        others = (step for sub in read.subagents for step in sub.steps)  # known only after the steps of the main thread
        for step in chain(read.steps, others):
            if step.source is not Source.AGENT or step.is_copied_context:
                continue
            self.messages += 1
            self.calls += len(step.tool_calls)
            for use in step_uses(step, mounted=mounted):
                if use.kind is not UseKind.MOUNTED:
                    used.setdefault(use.skill, {}).setdefault(use.kind.value)
        for problem in read.problems:
            instance.root.report(log.path, problem.place, problem.expected, problem.message)
        self.calls_of_last_lines = None
        if read.head.source_format == "claude-stream-json":
            with instance.root.open(log.path) as stream:
                self.calls_of_last_lines = calls_of_last_lines(stream)
        self.used = {skill: tuple(kinds) for skill, kinds in sorted(used.items())}
        self.input_tokens = read.usage.input_tokens
        self.output_tokens = read.usage.output_tokens
        self.cost_usd = read.usage.cost_usd

    @property
    def use(self) -> float | None:
        """Return the share of the mounted skills that were used (section 3.2), 0 to 1."""
        if not self.mounted:
            return None
        return sum(skill in self.used for skill in self.mounted) / len(self.mounted)


def read_logs(release: Release) -> Iterator[OracleLog]:
    """Read one log for each instance that has one. Unreadable parts of a log go to the release's problems."""
    for instance in release.instances:
        if instance.log:
            human = release.human(instance.family)
            yield OracleLog(instance, instance.log, human.skills if human else None)


def calls_of_last_lines(stream: BinaryIO) -> int:
    """Count tool calls when each message id keeps only its last line."""
    last: dict[str, int] = {}
    for number, event in json_lines(stream, Problems()):
        message = event.get("message")
        if event.get("type") != "assistant" or not isinstance(message, Mapping) or len(last) >= MAX_MESSAGES:
            continue
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        calls = sum(isinstance(block, Mapping) and block.get("type") == "tool_use" for block in blocks)
        last[str(message.get("id") or f"line {number}")] = calls
    return sum(last.values())
