"""One task folder in Harbor's layout, which the benchmarks of this field share: read, checked and digested.

instruction.md, task.toml, environment/ (Dockerfile and what it copies), tests/test.sh, solution/solve.sh,
trap/solve.sh; instead of the script tests/evaluation.toml may declare what is compared (`runner.evaluating`)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from runner.base.digests import digest_json
from runner.base.errors import SuiteError
from runner.base.file_digests import FileDigests, is_lfs_pointer, is_plain, look_at, walk
from runner.base.types import File, Files, Machine, Role, Stage, Task, TaskGroups, VerifierPlace
from runner.evaluating.declaration import Evaluation
from runner.suites import compose
from runner.suites.documents import NOT_DOWNLOADED, Findings, read_text, shorten_suite_value
from runner.suites.features import FEATURES
from runner.suites.tasks.evaluation_toml import read_evaluation
from runner.suites.tasks.task_files import MAX_FILE_BYTES, read_tree, without_trap
from runner.suites.tasks.task_groups import read_stated
from runner.suites.tasks.task_toml import StepToml, TaskToml, read_task_toml

FORMAT = "task-folder/1"
MAX_NAME = 200
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}")
NAMED_FOLDER = "a folder named with letters, digits, '.', '_' and '-'"  # where NAME is expected
SCRIPT, DECLARED = "tests/test.sh", "tests/evaluation.toml"
_SKILL = re.compile(r"environment/((?:[^/]+/)*?[^/]*skills?)/(?:[^/]+/)*SKILL\.md$", re.IGNORECASE)
STEPS = "steps"
_OF_THE_TASK = (
    "environment/",
    "tests/",
    "solution/",
    f"{STEPS}/",
)  # instruction.md and task.toml are read, which shows it
# Files for a container, as plain files of bounded size.
_COPIED = re.compile(rf"(?:{STEPS}/[^/]+/)?(?:tests|solution|workdir)/")
PREBUILT = "harbor-prebuilt:"  # tags that SkillFlow's own script writes into task.toml; they only exist on its machine


@dataclass(frozen=True, slots=True)
class TaskFolder:
    """A task as its folder describes it, before it has a place in a suite."""

    path: Path
    toml: TaskToml
    instruction: str
    machine: Machine
    digest: str  # over every file
    evaluation: Evaluation | None = None
    verifier_place: VerifierPlace | None = None
    instructions: tuple[str, ...] = ()  # of its steps, if it has several
    skills: Files = field(default_factory=dict)  # the skills it ships, which are never in its image

    def task(
        self,
        *,
        environment: str,
        family: str,
        ordinal: int,
        key: str = "",
        title: str = "",
        role: Role | None = None,
        requires: tuple[str, ...] = (),
        groups: TaskGroups | None = None,
    ) -> Task:
        """Make the task at its place in the suite. Its key is the folder's name if the format has no other; `groups`
        are added to those in task.toml."""
        task = Task(
            key=key or self.path.name,
            title=title or key or self.path.name,
            environment=environment,
            family=family,
            role=role,
            ordinal=ordinal,
            instruction=self.instruction,
            digest=self.digest,
            folder=self.path,
            agent_timeout_seconds=self.toml.agent_timeout_seconds,
            verifier_timeout_seconds=self.toml.verifier_timeout_seconds,
            requires=requires,
            machine=self.machine,
            verifier_environment=self.toml.verifier_environment,
            solution_environment=self.toml.solution_environment,
            evaluation=self.evaluation,
            groups={**read_stated(self.toml.metadata), **(groups or {})},
            verifier_place=self.verifier_place,
        )
        return replace(
            task,
            stages=tuple(
                self._stage(task, step, text) for step, text in zip(self.toml.steps, self.instructions, strict=True)
            ),
            last_stage_decides=self.toml.last_step_decides,
        )

    def _stage(self, task: Task, step: StepToml, instruction: str) -> Stage:
        """Put the tests of the whole task in with those of the step, as under Harbor."""
        shared = self.path / "tests"
        own = replace(
            task,
            instruction=instruction,
            folder=self.path / STEPS / step.name,
            agent_timeout_seconds=step.agent_timeout_seconds,
            verifier_timeout_seconds=step.verifier_timeout_seconds,
            verifier_environment=step.verifier_environment,
            shared_tests=(shared,) if shared.is_dir() else (),
        )
        return Stage(step.name, own, step.min_reward)


@dataclass(frozen=True, slots=True)
class TaskShelf:
    """Tools for reading a suite: where findings go and what is known of its files."""

    findings: Findings
    digests: FileDigests

    def read(self, path: Path, blank_folders: tuple[str, ...] = ()) -> TaskFolder | None:
        """Read the task in the folder. None if it was set aside. blank_folders as in Machine."""
        return self.findings.apart(f"task {path.name}", lambda: self._read(path, blank_folders), task=path)

    def _read(self, path: Path, blank_folders: tuple[str, ...]) -> TaskFolder | None:
        check_name(path)
        before = len(self.findings.problems)
        files = self._files(path)
        toml, instruction = None, ""
        instructions: tuple[str, ...] = ()
        if "task.toml" in files:
            with self.findings.keep_errors():
                toml = self._with_compose(path, read_task_toml(path / "task.toml", path.name, self.findings), files)
        steps = () if toml is None else toml.steps
        self._expect(path, files, steps)
        if toml is not None:
            self._note_unlisted_steps(path, files, steps)
        with self.findings.keep_errors():
            if steps:
                instructions = tuple(_instruction(path / STEPS / step.name / "instruction.md") for step in steps)
                instruction = _join_instructions(steps, instructions)
            elif "instruction.md" in files:
                instruction = _instruction(path / "instruction.md")
        for script in files:
            if script == SCRIPT or (script.startswith(f"{STEPS}/") and script.endswith(f"/{SCRIPT}")):
                with self.findings.keep_errors():
                    _script(path / script)
        evaluation = read_declared_evaluation(path, files, self.findings)
        if toml is None or len(self.findings.problems) > before:
            return None
        machine = machine_of(path, toml, files, self.findings, blank_folders)
        if not machine.brings_files:
            self.findings.note("Neither Dockerfile nor docker_image, so it runs in the sandbox's own image", path.name)
        # Only tasks that used to run with their shipped skills are now different tasks.
        left_out = sorted(set(machine.blank_folders) - set(blank_folders))
        digest = digest_json([FORMAT, without_trap(files), *([{"left_out": left_out}] if left_out else [])])
        place = self._verifier_place(path, toml, machine, files)
        skills = read_shipped_skills(path, find_shipped_skills(files), files, self.findings)
        return TaskFolder(path, toml, instruction, machine, digest, evaluation, place, instructions, skills)

    def _verifier_place(
        self, path: Path, toml: TaskToml, machine: Machine, files: Collection[str]
    ) -> VerifierPlace | None:
        """Choose as Harbor does: an image that task.toml names, else tests/Dockerfile, both with the tests in them,
        else the agent's environment, where the tests are put in."""
        own = toml.verifier_place
        if own is None:
            return None
        if DECLARED in files:
            self.findings.problem(
                path / DECLARED, "file", "none with a verifier in a container of its own", "found one"
            )
        is_built = "tests/Dockerfile" in files and not (own is not toml and own.image)
        has_tests = is_built or (own.image is not None and own.image != toml.image)
        place = machine_of(path, own, (), Findings()) if has_tests else machine
        if is_built:
            place = replace(place, context=path / "tests", image=None)
        place = replace(
            place,
            cpus=own.cpus,
            memory_mb=own.memory_mb,
            storage_mb=own.storage_mb,
            network=own.network,
            environment=own.environment,
            services=None,
        )
        return VerifierPlace(place, has_tests, toml.artifacts)

    def _with_compose(self, path: Path, toml: TaskToml, files: Collection[str]) -> TaskToml:
        """Read the compose file. Of several the first counts, as in Compose itself."""
        found = [name for name in compose.FILES if f"environment/{name}" in files]
        if not found:
            return toml
        return compose.read_compose(path / "environment" / found[0], self.findings, path.name, toml).apply_to(toml)

    def _files(self, path: Path) -> dict[str, list[object]]:
        """path -> [digest, executable], for a link [None, target]."""
        found: dict[str, list[object]] = {}
        for name, status, entry in walk(path):
            if entry.is_symlink():
                found[name] = [None, self._link(path, name)]
            elif not is_plain(status):
                self.findings.problem(path / name, "file", "a plain file", "it is a special file")
            elif _COPIED.match(name) and status.st_size > MAX_FILE_BYTES:
                size = f"{status.st_size:,} bytes"
                self.findings.problem(path / name, "size", f"at most {MAX_FILE_BYTES:,} bytes", size)
            else:
                if name.startswith(_OF_THE_TASK) and is_lfs_pointer(entry.path, status):
                    self.findings.problem(path / name, "file", "the content itself", NOT_DOWNLOADED)
                with self.findings.keep_errors():
                    found[name] = [self.digests.digest(entry.path, look_at(status)), bool(status.st_mode & 0o100)]
        return found

    def _link(self, path: Path, name: str) -> str:
        """Return a link's target. Only links in a build context that stay inside it are accepted; those that nothing
        reads become notes."""
        target = os.readlink(path / name)  # noqa: PTH115 - the text as it is
        inside = os.path.normpath(str(PurePosixPath(name).parent / target))
        if _COPIED.match(name) or name.endswith("instruction.md") or name == "task.toml":
            self.findings.problem(path / name, "file", "a plain file", "it is a link")
        elif not name.startswith("environment/"):
            self.findings.note("A link, which is not followed", f"{path.name}/{name}")
        elif os.path.isabs(target) or not f"{inside}/".startswith("environment/"):  # noqa: PTH117
            self.findings.problem(
                path / name, "link", "a target inside environment/", f"it points to {shorten_suite_value(target)}"
            )
        return target

    def _expect(self, path: Path, files: Collection[str], steps: Sequence[StepToml]) -> None:
        folders = [f"{STEPS}/{step.name}/" for step in steps] or [""]
        for folder in folders:
            verifier = () if has_verifier(files) or f"{folder}{SCRIPT}" in files else (f"{folder}{SCRIPT}",)
            for needed in (f"{folder}instruction.md", *verifier):
                if needed not in files:
                    self.findings.problem(path, needed, "the file", "there is none")
        if "task.toml" not in files:
            self.findings.problem(path, "task.toml", "the file", "there is none")
        for name in files:
            if name == "trajectory.json" or (name.startswith(f"{STEPS}/") and name.endswith("/trajectory.json")):
                message = f"it {FEATURES['earlier-work']}"
                self.findings.problems.append(SuiteError(str(path / name), "file", "", message, feature="earlier-work"))
        if not all(f"{folder}solution/solve.sh" in files for folder in folders):
            self.findings.note("No solution/solve.sh, so the oracle cannot run it", path.name)

    def _note_unlisted_steps(self, path: Path, files: Collection[str], steps: Sequence[StepToml]) -> None:
        """Note steps missing in task.toml: the task would run without them, and nobody would notice."""
        parts = [name.split("/") for name in files]
        folders = {part[1] for part in parts if part[0] == STEPS and len(part) > 2}
        for name in sorted(folders - {step.name for step in steps}):
            where = f"{path.name}/{STEPS}/{name}"
            self.findings.note(
                "A folder of a step that [[steps]] of task.toml does not list, so it does not run", where
            )


def _join_instructions(steps: Sequence[StepToml], texts: Sequence[str]) -> str:
    """Join them for people who read the task as a whole: an agent gets one after the other."""
    count = len(steps)
    parts = zip(steps, texts, strict=True)
    return "\n".join(f"# Step {n} of {count}: {step.name}\n\n{text}" for n, (step, text) in enumerate(parts, start=1))


def check_name(path: Path) -> None:
    """Raise SuiteError if the folder's name is unfit for addresses, prompts and names of containers."""
    if path.is_symlink() or not NAME.fullmatch(path.name):
        message = "it is a link" if path.is_symlink() else f"found {shorten_suite_value(path.name)}"
        raise SuiteError(str(path), "folder", NAMED_FOLDER, message)


def has_verifier(files: Collection[str]) -> bool:
    """One of the two files decides what a solution is."""
    return SCRIPT in files or DECLARED in files


def read_declared_evaluation(path: Path, files: Collection[str], findings: Findings) -> Evaluation | None:
    """Read the evaluation of the task in the folder `path`. If it has a script too, the script is not run."""
    if DECLARED not in files:
        return None
    if SCRIPT in files:
        findings.note(f"Both {SCRIPT} and {DECLARED}; the script is not run", path.name)
    return read_evaluation(path / "tests", findings)


def machine_of(
    path: Path, toml: TaskToml, files: Collection[str], findings: Findings, blank_folders: tuple[str, ...] = ()
) -> Machine:
    """The needs of the task in the folder `path`. `files` are the paths in it; blank_folders as in Machine."""
    context = path / "environment" if "environment/Dockerfile" in files else None
    image = toml.image
    if image is not None and context is not None and image.startswith(PREBUILT):
        findings.note("Built from its Dockerfile, not taken from a tag made on another machine", path.name)
        image = None
    elif image is not None and context is not None:
        findings.note("Built from its Dockerfile if its image is not available", path.name)
    for folder in find_shipped_skills(files):
        findings.note(f"Ships skills, which are left out: environment/{folder}", path.name)
    if image is None and context is None:
        with findings.keep_errors():
            read_tree(path / "environment")
    return Machine(
        context=context,
        image=image,
        cpus=toml.cpus,
        memory_mb=toml.memory_mb,
        storage_mb=toml.storage_mb,
        network=toml.network,
        build_timeout_seconds=toml.build_timeout_seconds,
        environment=toml.environment,
        host_variables=toml.host_variables,
        blank_folders=tuple(dict.fromkeys((*blank_folders, *find_shipped_skills(files)))),
        skills_dir=toml.skills_dir,
        workdir=toml.workdir,
        services=toml.services,
        worker_labels=toml.worker_labels,
    )


def find_shipped_skills(files: Collection[str]) -> tuple[str, ...]:
    """Folders of skills below environment/, as in Machine.blank_folders. An agent must only know its library's
    skills, even if the Dockerfile copies others."""
    return tuple(sorted({match[1] for name in files if (match := _SKILL.match(name))}))


def read_shipped_skills(path: Path, folders: Collection[str], files: Collection[str], findings: Findings) -> Files:
    """The skills in these folders below environment/, as a library for a family's reference skills. Unreadable ones
    are left out with a note."""
    found: dict[str, File] = {}
    for folder in sorted(folders):
        below = f"environment/{folder}/"
        texts = sorted(name.removeprefix(below) for name in files if name.startswith(below) and _SKILL.match(name))
        skills = dict.fromkeys(str(PurePosixPath(text).parent) for text in texts)
        for skill in skills:
            if any(skill != other and PurePosixPath(skill).is_relative_to(other) for other in skills):
                continue  # part of another one
            slug = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePosixPath(skill).name or path.name).strip("-.")
            try:
                tree = read_tree(path / "environment" / folder / skill)
            except SuiteError as error:
                findings.note(
                    f"A skill that cannot be read is not taken as a reference skill ({error.message})",
                    f"{path.name}/{slug}",
                )
                continue
            named = {
                f"{slug}/{'SKILL.md' if name.upper() == 'SKILL.MD' else name}": file for name, file in tree.items()
            }
            add_skill(found, named, f"{path.name}/{slug}", findings)
    return found


def add_skill(library: dict[str, File], skill: Files, where: str, findings: Findings) -> None:
    """Add the skill unless another one has its name. A note reports a different content under the same name."""
    slug = next(iter(skill)).partition("/")[0]
    there = {name: file for name, file in library.items() if name.startswith(f"{slug}/")}
    if there and there != skill:
        findings.note("Another reference skill has the same name, so this one is left out", where)
    elif not there:
        library.update(skill)


def _instruction(source: Path) -> str:
    text = read_text(source)
    if not text.strip():
        raise SuiteError(str(source), "file", "an instruction", "it is empty")
    return text


def _script(source: Path) -> None:
    """Check for a first line that ends in a carriage return: it names an interpreter that does not exist."""
    with source.open("rb") as file:
        first = file.readline(1_000)
    if first.startswith(b"#!") and first.endswith(b"\r\n"):
        raise SuiteError(str(source), "line 1", "line ends of Unix", "it ends with a carriage return")


def mostly(folders: Sequence[Path], is_one: Callable[[Path], bool]) -> bool:
    """Do at least half of these folders have the shape? A single odd folder decides nothing."""
    return bool(folders) and 2 * sum(map(is_one, folders)) >= len(folders)


def folders_in(path: Path) -> list[Path]:
    """The folders right below `path`, hidden ones left out, in order of names."""
    try:
        found = [each for each in path.iterdir() if not each.name.startswith((".", "_")) and each.is_dir()]
    except OSError as error:
        raise SuiteError(str(path), "folder", "a readable folder", str(error.strerror)) from error
    return sorted(found, key=lambda each: each.name)
