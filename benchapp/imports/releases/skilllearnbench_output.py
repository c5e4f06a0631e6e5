"""The output of SkillLearnBench's own runner: output/{skill_generation_log, skill_generation_results, evaluation_log}/.

A config that one solver tried is a run. A task is its episode, with the library that was generated for it. Generation
is the acquisition: the author's agent works on the seed instance, and where its skills were kept, each round is a
decision (`skilllearnbench_rounds.py`). Evaluation gives the solver's trials, one sample for each repetition. If several
solvers tried one config, the generation belongs to the run of the first, and each has the library. Judged metrics
(evaluation_reports/) are another judge's numbers over the same trials and are not read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path

from benchapp.imports.harbor.harbor_verdict import FILES, read_verdict
from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import Document, read_json, read_optional
from benchapp.imports.reading.trajectory_files import choose, is_candidate
from benchapp.imports.reading.walking import FolderEntry, Root, name_of, tail_of
from benchapp.imports.releases.skilllearnbench_release import read_library, split_config
from runner.base.text import clean
from runner.base.types import AuthorMode, DecisionStatus, File, Files, Phase, Usage, Verdict
from runner.protocols.skilllearnbench import CONDITIONS

NAME = "skilllearnbench-output"
TITLE = "SkillLearnBench"
SUITE = "skilllearnbench"
GENERATION, RESULTS, EVALUATION = "skill_generation_log", "skill_generation_results", "evaluation_log"
Solver = tuple[str, str]  # harness, model
UNKNOWN_SOLVER: Solver = (sources.UNKNOWN, sources.UNKNOWN)
NO_SKILL = frozenset({"no_skill", "none", "no-skill"})
_STAMP = re.compile(r"(?:^|-)(\d{14})_[0-9a-f]{4,}$")
_ROUND_LOG = re.compile(r"_r(\d{1,3})\.\w+$")
_INSTANCE = re.compile(r"-(\d{1,8})$")


def claims(root: Root, folder: Path) -> bool:
    return any(root.is_dir(folder / name) for name in (GENERATION, EVALUATION))


def find(root: Root, folder: Path) -> Iterator[sources.FoundExperiment]:
    output = Output(root, folder)
    yield sources.FoundExperiment(
        sources.ExperimentSource.of_folder(root, folder, format=NAME, title=TITLE, suite=SUITE),
        trials=tuple(output.trials),
        libraries=output.libraries(),
        libraries_total=sum(1 for _ in output.iterate_given()),
        histories=output.histories(),
    )


@dataclass
class Output:
    """One output folder."""

    root: Root
    folder: Path
    _skills: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def _places(self) -> list[tuple[str, str, str, Path, Phase]]:
        """Return (config, task, instance, folder, phase) of every trial."""
        generated = [
            (config, task, f"{task}-1", trial, Phase.ACQUISITION)
            for config, task, folder in self.level(GENERATION)
            for trial in self.root.listing(folder)[0]
        ]
        return generated + [
            (config, task, name_of(instance), trial, Phase.EVALUATION)
            for config, task, folder in self.level(EVALUATION)
            for instance in self.root.listing(folder)[0]
            for trial in self.root.listing(instance)[0]
        ]

    def libraries(self) -> Iterator[sources.LibrarySource]:
        for config, task, folder, solver in self.iterate_given():
            run, files = self.run(config, solver), self.library(config, task)
            yield sources.LibrarySource(run, build_episode(task), SUITE, self.root.label(folder), files)

    def iterate_given(self) -> Iterator[tuple[str, str, Path, Solver]]:
        """Yield every library for each solver that was given it, except those with a history."""
        for config, task, folder in self.level(RESULTS):
            for solver in self.solvers(config)[(config, task) in self.learned :]:
                yield config, task, folder, solver

    def histories(self) -> tuple[sources.HistorySource, ...]:
        return tuple(map(self._history, self.learned.values()))

    def _history(self, learned: OutputTrial) -> sources.HistorySource:
        first = self.solvers(learned.config)[0]
        mine = (learned.config, learned.family, first)
        made = [trial for trial in self.trials if (trial.config, trial.family, trial.solver) == mine]
        return sources.HistorySource(
            self.run(learned.config, first),
            build_episode(learned.family),
            SUITE,
            learned.path,
            tuple(trial.ids[0] for trial in made),
            partial(self._moments, learned, made),
            datetime.now(UTC),
        )

    def _moments(self, learned: OutputTrial, made: list[OutputTrial]) -> Iterator[sources.Moment]:
        """Yield the moments from the empty library to the seal and what followed. Other generations of the task left
        nothing."""
        rounds, method = read_rounds(self.root, learned.folder), self.run(learned.config, learned.solver).condition
        for trial in made:
            if trial.phase is Phase.ACQUISITION and trial is not learned:
                yield sources.TrialMoment(trial.ids[0])
        for each in rounds:
            yield sources.DecisionMoment(
                family=learned.family,
                mode=_mode(method, first=each is rounds[0]),
                status=DecisionStatus.APPLIED,
                after=each.files,
                summary=each.summary,
            )
        yield sources.TrialMoment(learned.ids[0])
        yield sources.FreezeMoment()
        for trial in made:
            if trial.phase is Phase.EVALUATION:
                yield sources.TrialMoment(trial.ids[0], given=rounds[-1].files)

    @cached_property
    def learned(self) -> dict[tuple[str, str], OutputTrial]:
        """Return the generation that produced each library: the newest, if it kept its rounds and the last of them is
        what was evaluated. Other libraries have no history."""
        newest = {(trial.config, trial.family): trial for trial in self.trials if trial.phase is Phase.ACQUISITION}
        return {key: trial for key, trial in newest.items() if self._is_complete(trial)}

    def _is_complete(self, trial: OutputTrial) -> bool:
        rounds = read_libraries(self.root, trial.folder)
        if not rounds:
            return False
        result = self.folder / RESULTS / trial.config / trial.family
        if not self.root.is_dir(result) or self.library(trial.config, trial.family) == rounds[-1][1]:
            return True
        expected = f"the skills of {RESULTS} in the last round"
        self.root.report(trial.folder / "artifacts" / "skills", "", expected, "others; its rounds were left out")
        return False

    @cached_property
    def trials(self) -> list[OutputTrial]:
        return sorted((OutputTrial(self, *place) for place in self._places), key=lambda trial: trial.order)

    def level(self, name: str) -> Iterator[tuple[str, str, Path]]:
        """Yield (config, task, folder) of every task below one of the three folders."""
        base = self.folder / name
        if self.root.is_dir(base):
            for config in self.root.listing(base)[0]:
                for task in self.root.listing(config)[0]:
                    yield name_of(config), name_of(task), task

    def library(self, config: str, task: str) -> dict[str, File]:
        """Read a library from disk each time; only its skills' names are cached, to save memory."""
        folder = self.folder / RESULTS / config / task
        files = read_library(self.root, folder) if self.root.is_dir(folder) else {}
        self._skills[config, task] = sources.list_slugs(files)
        return files

    def skills(self, config: str, task: str) -> tuple[str, ...]:
        if (config, task) not in self._skills:
            self.library(config, task)
        return self._skills[config, task]

    def run(self, config: str, solver: Solver) -> sources.RunSource:
        """Build the run of a config: harness and model are the solver's, as its evaluations name them."""
        method, author = ("no-skill", "") if config in NO_SKILL else split_config(config)
        return sources.RunSource(
            harness=solver[0],
            agent_model=solver[1],
            author_model=author,
            condition=method,
            skills=f"{config}@{self.own_name}",
            setup={"source": NAME, "config": config},
        )

    @cached_property
    def own_name(self) -> str:
        """Return the first trial's folder name, a time and random letters: it separates the runs from those of another
        checkout. The first trial stays the first when the run continues."""
        names = (name_of(folder) for *_, folder, _ in self._places)
        return min(names, key=lambda name: (not read_stamp(name), read_stamp(name), name), default="")

    def solvers(self, config: str) -> list[Solver]:
        """Return who tried the config, in the order they began; UNKNOWN_SOLVER if no result names one."""
        return self._solvers.get(config, [UNKNOWN_SOLVER])

    @cached_property
    def _solvers(self) -> dict[str, list[Solver]]:
        found: dict[str, list[Solver]] = {}
        evaluated = (trial for trial in self.trials if trial.phase is Phase.EVALUATION)
        for trial in sorted(evaluated, key=lambda trial: (trial.stamp, trial.name)):
            if (solver := trial.named_solver) != UNKNOWN_SOLVER and solver not in found.setdefault(trial.config, []):
                found[trial.config].append(solver)
        return found


def read_stamp(name: str) -> str:
    """Return when a trial began, YYYYMMDDhhmmss, from its folder's name."""
    stamp = _STAMP.search(name)
    return stamp[1] if stamp else ""


def build_episode(task: str) -> sources.EpisodeSource:
    return sources.EpisodeSource(task, task, family=task)


@dataclass
class OutputTrial:
    """One execution (found_sources.FoundTrial)."""

    output: Output
    config: str
    family: str
    instance: str
    folder: Path
    phase: Phase

    def __post_init__(self) -> None:
        self.path = self.output.root.label(self.folder)
        self.name = name_of(self.folder)
        whole = f"{tail_of(self.output.folder, 2)}@{self.output.own_name}"
        self.ids = (f"{NAME}:{whole}/{self.phase}/{self.config}/{self.instance}/{self.name}"[:900],)
        self.stamp = read_stamp(self.name)
        self.order = (self.config, self.instance, self.stamp, self.name)

    @cached_property
    def result(self) -> Document:
        return read_optional(self.output.root, self.folder / "result.json")

    @property
    def named_solver(self) -> Solver:
        return self.result.text("agent", 100) or sources.UNKNOWN, self.result.text("model", 200) or sources.UNKNOWN

    @property
    def solver(self) -> Solver:
        """Return the solver. Generations, and trials whose result names none, belong to the first that is known."""
        is_named = self.phase is Phase.EVALUATION and self.named_solver != UNKNOWN_SOLVER
        return self.named_solver if is_named else self.output.solvers(self.config)[0]

    @cached_property
    def _entries(self) -> list[FolderEntry]:
        """Return the files that are read, by path in the trial's folder."""
        tree = self.output.root.tree(self.folder, skip=frozenset({"artifacts", "teacher", "skills"}))
        return [entry for entry in tree if _is_read(entry.name)]

    def digest(self) -> str:
        digest = hashlib.sha256(repr(self._list_mounted()).encode())
        for entry in self._entries:
            digest.update(f"{entry.name}\0{self.output.root.sha256(entry.path)}\n".encode())
        return digest.hexdigest()

    def read(self) -> sources.TrialSource:
        root, result = self.output.root, self.result
        accounts = [entry for entry in self._entries if entry.name.startswith("agent/") and is_candidate(entry.name)]
        failure = result.text("error", 100_000)
        if not result:
            expected = "the result of a finished trial"
            root.report(self.folder / "result.json", "", expected, "none that can be read: kept as interrupted")
        number = _INSTANCE.search(self.instance)
        try:
            began = datetime.strptime(self.stamp, "%Y%m%d%H%M%S").isoformat(" ")  # noqa: DTZ007 - it has no zone
        except ValueError:
            began = ""
        exception = sources.ExceptionSource(failure.partition(":")[0][:200], failure) if failure else None
        if not failure and result.raw.get("agent_timed_out") is True:
            exception = sources.ExceptionSource("agent_timed_out", "the agent was ended at its limit of time")
        return sources.TrialSource(
            run=self.output.run(self.config, self.solver),
            task=sources.TaskSource(
                SUITE, self.instance, self.instance, family=self.family, ordinal=int(number[1]) if number else 0
            ),
            timing=sources.Timing(started_text=began),
            verdict=None if failure else self._verdict(),
            config={key: value for key, value in result.raw.items() if key not in ("agent_stdout", "agent_stderr")},
            choices=self._choices(accounts),
            episode=build_episode(self.family),
            phase=self.phase,
            exception=exception,
            usage=_usage(result.object("token_usage")),
            skills_mounted=self._list_mounted(),
            is_finished=bool(result) and not failure,  # an error means that the machine failed: no container, no agent
        )

    def _choices(self, accounts: list[FolderEntry]) -> tuple[sources.SourceChoice, ...]:
        """Return one log for each round if the agent was restarted every round, else the one log."""
        rounds: dict[int, list[FolderEntry]] = {}
        for entry in accounts:
            match = _ROUND_LOG.search(entry.name)
            rounds.setdefault(int(match[1]) if match else 0, []).append(entry)
        whole = choose(self.output.root, self.folder, rounds.pop(0, []))
        stages = (choose(self.output.root, self.folder, rounds[n], stage=f"round {n}") for n in sorted(rounds))
        return (whole, *stages)

    def _verdict(self) -> Verdict | None:
        reward = self.result.number("reward")
        rewards = {"reward": reward} if reward is not None else None
        return read_verdict(self.output.root, self.folder / "verifier", rewards, place=self.result, source=SUITE)

    def _list_mounted(self) -> tuple[str, ...] | None:
        """List the skills mounted: a solver gets the whole library of its config; for authors they are unknown."""
        if self.phase is Phase.ACQUISITION:
            return None
        if self.config in NO_SKILL:
            return ()
        return self.output.skills(self.config, self.family) or None


def _is_read(name: str) -> bool:
    parts = name.split("/")
    if parts[0] == "verifier":
        return len(parts) == 2 and parts[1] in FILES
    return name == "result.json" or parts[0] == "agent"


def _usage(usage: Document) -> Usage:
    """Return usage with input as everywhere in the record: including what was read from and written to a cache."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    parts = [count for name in names if (count := usage.count(name)) is not None]
    return Usage(sum(parts) if parts else None, usage.count("cache_read_input_tokens"), usage.count("output_tokens"))


MAX_ROUNDS = 100
MAX_FEEDBACK_BYTES = 64 * 1024
_ROUND = re.compile(r"run(\d{1,3})_.")


@dataclass(frozen=True, slots=True)
class Round:
    files: Files
    summary: str  # how the previous round ended, and what the teacher answered


def read_rounds(root: Root, trial: Path) -> list[Round]:
    """Return the rounds of one generation, the earliest first, with what led to each; empty if no skills were kept."""
    outcomes = _outcomes(root, trial / "teacher" / "b3_history.json")
    rounds = []
    for number, files in read_libraries(root, trial):
        outcome, feedback = outcomes.get(number - 1), _feedback(root, trial, number - 1)
        failed = f"Round {number - 1} ended with {outcome}. " if outcome else ""
        feedback_text = f"The teacher said after it:\n{feedback}" if feedback else ""
        rounds.append(Round(files, f"{failed}{feedback_text}".strip() or f"Round {number} of the source."))
    return rounds


def read_libraries(root: Root, trial: Path) -> list[tuple[int, Files]]:
    """Return (round, the library it left), the earliest first."""
    skills = trial / "artifacts" / "skills"
    if not root.is_dir(skills) or skills.parent.is_symlink():
        return []
    groups: dict[int, dict[str, File]] = {}
    for path, file in read_library(root, skills).items():
        match = _ROUND.match(path)
        groups.setdefault(int(match[1]) if match else 0, {})[path] = file
    always = groups.pop(0, {})
    if not groups:
        return [(1, always)] if always else []
    return [(number, {**always, **groups[number]}) for number in sorted(groups)[:MAX_ROUNDS]]


def _mode(method: str, *, first: bool) -> AuthorMode:
    condition = CONDITIONS.get(method)
    start = condition.mode_at_start if condition else None
    if first:
        return start or AuthorMode.WRITE
    return AuthorMode.CORRECT if method == "teacher-feedback" else AuthorMode.REFLECT


def _feedback(root: Root, trial: Path, number: int) -> str:
    path = trial / "teacher" / f"round{number}_feedback.txt"
    if not root.is_file(path) or path.parent.is_symlink():
        return ""
    content = root.read(path, MAX_FEEDBACK_BYTES)
    return "" if content is None else clean(content.decode("utf-8", "replace")).strip()


def _outcomes(root: Root, path: Path) -> dict[int, str]:
    """Return round -> PASS or FAIL."""
    value = read_json(root, path) if root.is_file(path) else None
    if value is not None and not isinstance(value, list):
        root.report(path, "whole file", "a list of rounds", "something else; it was left out")
        return {}
    rows = [(row.get("round"), row.get("outcome")) for row in value or () if isinstance(row, dict)][:MAX_ROUNDS]
    return {number: str(end) for number, end in rows if isinstance(number, int) and end in ("PASS", "FAIL")}
