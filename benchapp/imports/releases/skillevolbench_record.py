"""One replay record of a SkillEvolBench run, with the Harbor trial folder that it came from, if present."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

from benchapp.imports.harbor.harbor_trial import HarborTrial, read_header, read_usage
from benchapp.imports.harbor.harbor_verdict import OUTPUT, read_side_reports
from benchapp.imports.reading.documents import Document, decode
from benchapp.imports.reading.found_sources import EpisodeSource, RunSource, TaskSource, Timing, TrialSource
from benchapp.imports.reading.times import aware, read_time
from benchapp.imports.reading.walking import Root
from runner.base.types import Phase, Role, Usage, Verdict
from runner.suites.skillevolbench_suite import TASK
from runner.verifying.reports import SIDE_REPORTS

NAME = "skillevolbench"
REPLAY, SHADOW = "within_env_replay", "shadow_oracle"
MAX_OUTPUT_BYTES = 8 * 1024 * 1024
_SUFFIX = re.compile(r"__(?:replay|oracle_shadow)$")
_LEARNING = {Role.CANONICAL, Role.ENRICHED, Role.VARIANT}


def name_in(document: Document) -> str:
    """Return the task's name with the suffix of its record."""
    return document.text("task_id", 200) or document.path.stem[:200]


def order_of(document: Document) -> tuple[str, str]:
    return document.text("timestamp", 64) or "~", name_in(document)


@dataclass
class Record:
    """A trial of a run (found_sources.FoundTrial). `skills`: the slugs of the library it was given, None where unknown."""

    document: Document
    run: RunSource
    episode: EpisodeSource
    harbor: HarborTrial | None
    skills: Callable[[], tuple[str, ...] | None] = field(repr=False)

    def __post_init__(self) -> None:
        self.record = name_in(self.document)
        self.task = _SUFFIX.sub("", self.record)
        self.path = self.document.root.label(self.document.path)
        self.ids = (f"{NAME}:{self.run.skills}/{self.record}",)
        self.order = order_of(self.document)

    @property
    def env(self) -> str:
        return self.document.text("env_id", 40) or self.task.partition("-")[0]

    @property
    def family(self) -> str:
        return self.document.text("family_id", 200) or self.task.rpartition("-T")[0] or self.task

    @cached_property
    def role(self) -> str:
        told = (self.document.text("task_role", 32) or "").lower().replace("_", "-")
        number = TASK.fullmatch(self.task)
        return told or (list(Role)[int(number[2]) - 1].value if number else "")

    @property
    def phase(self) -> Phase:
        """Return the phase. A shadow trial (T6 again, skills chosen by an oracle) is an extra evaluation."""
        mode = self.document.text("replay_mode", 40) or ""
        if mode == REPLAY or self.record.endswith("__replay"):
            return Phase.REPLAY
        if mode == SHADOW or self.record != self.task:
            return Phase.EVALUATION
        return Phase.ACQUISITION if self.role in _LEARNING else Phase.DEPLOYMENT

    def digest(self) -> str:
        digest = hashlib.sha256(b"" if self.harbor is None else self.harbor.digest().encode())
        for path in (self.document.path, *self._reports.values()):
            try:
                digest.update(bytes.fromhex(self.document.root.sha256(path)))
            except OSError:
                digest.update(b"unreadable")
        return digest.hexdigest()

    @cached_property
    def _reports(self) -> dict[str, Path]:
        if self.harbor is None:
            return {}
        folder = self.harbor.folder / "verifier"
        names = (*SIDE_REPORTS, OUTPUT)
        return {name: folder / name for name in names if self.document.root.is_file(folder / name)}

    def read(self) -> TrialSource:
        if self.harbor is not None:
            self.harbor.judges = False  # the record says how the run judged it
        source = self._read_record() if self.harbor is None else self.harbor.read()
        number = TASK.fullmatch(self.task)
        usage = read_usage(self.document.object("outcome"))
        return replace(
            source,
            run=self.run,
            task=TaskSource(
                NAME,
                self.task,
                self.task,
                revision=source.task.revision,
                family=self.family,
                role=self.role or None,
                ordinal=int(number[2]) if number else 0,
            ),
            verdict=self._verdict(),
            usage=usage if usage != Usage() else source.usage,
            episode=self.episode,
            phase=self.phase,
            skills_mounted=self.skills(),
            is_finished=True,  # a record is written only for a trial with a result
            agent=self.run.harness,
        )

    def _read_record(self) -> TrialSource:
        folder = self.document.object("outcome").text("trial_dir", 1_000)
        self.document.report(
            "outcome.trial_dir", "the trial's folder below harbor-job/", f"{_leaf(folder)} is not there: no trajectory"
        )
        ended = read_time(self.document, "timestamp")
        return TrialSource(
            run=self.run,
            task=TaskSource(NAME, self.task, self.task),
            timing=Timing(
                finished_at=aware(ended),
                finished_text="" if aware(ended) else self.document.text("timestamp", 64) or "",
            ),
            verdict=None,
            config={},
        )

    # --- how it was judged ---------------------------------------------------------------------------------------

    def _verdict(self) -> Verdict | None:
        """Success is reward >= 1, as the release counts it. Checks come from the verifier's reports: the record itself
        lists only those that failed, which stay in the output if there is no report."""
        outcome = self.document.object("outcome")
        reward = outcome.number("reward")
        passed = outcome.raw.get("verifier_passed")
        if not outcome or (reward is None and not isinstance(passed, bool)):
            return None
        is_odd = reward is None and outcome.raw.get("reward") is not None
        success = None if is_odd else passed if isinstance(passed, bool) else reward is not None and reward >= 1.0
        if reward is not None and success != (reward >= 1.0):
            outcome.report("verifier_passed", "success where the reward is 1 or more", f"{passed} with reward {reward}")
        side = read_side_reports(self.document.root, self._reports)
        score, most = outcome.number("normalized_score"), outcome.number("max_score")
        return Verdict(
            source=NAME,
            success=success,
            reward=reward,
            outcome=side.outcome,
            process=side.process,
            overall=side.overall if side.overall is not None else _unit(score),
            checks=tuple(side.checks),
            dimensions=tuple(side.dimensions),
            rewards={name: value for name, value in (("reward", reward), ("max_score", most)) if value is not None},
            output=self._output(outcome, with_failures=not side.checks),
            notes=tuple(map(str, side.problems)),
        )

    def _output(self, outcome: Document, *, with_failures: bool) -> str:
        parts = []
        if OUTPUT in self._reports:
            path = self._reports[OUTPUT]
            content = self.document.root.read(path, MAX_OUTPUT_BYTES)
            parts.append(decode(self.document.root, path, content) if content else "")
        if with_failures:
            parts += [_failure(test) for test in outcome.objects("failed_tests")][:1_000]
        return "\n".join(part for part in parts if part)


def _failure(test: Document) -> str:
    name, message = test.text("name", 500) or "unnamed test", test.text("message", 10_000) or ""
    return f"failed: [{test.text('group', 100) or 'unknown group'}] {name}: {message}"


def _unit(value: float | None) -> float | None:
    return value if value is not None and 0.0 <= value <= 1.0 else None


def _leaf(path: str | None) -> str:
    return PurePosixPath(path).name if path else "it"


def find_harbor_trial(root: Root, trials: dict[str, Path], record: Document) -> HarborTrial | None:
    """Find the folder by the last part of the record's path: the rest was valid only on the machine of the run."""
    folder = trials.get(_leaf(record.object("outcome").text("trial_dir", 1_000)))
    return None if folder is None else HarborTrial(root, folder, read_header(root, folder), "")
