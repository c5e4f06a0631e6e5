"""The libraries and the oracles' logs of a SkillLearnBench release on disk, through the importer's reader.

Names in the paper's tables are in our words. Source: arXiv 2604.20087v1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchapp.analysis.diagnoses.library_shelf import read_text
from benchapp.imports.problems import ProblemList
from benchapp.imports.reading.walking import Root
from benchapp.imports.releases import skilllearnbench_release
from benchapp.imports.releases.skilllearnbench_release import TaskInstance
from benchapp.record.textual_change import has_nul
from runner.authoring.contract.skill_file import SKILL_FILE
from runner.base.types import Files

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
