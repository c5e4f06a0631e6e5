"""BenchFlow's trial folders: Harbor's shape with flat results, no ids, and times without a zone."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from benchapp.imports.harbor.harbor_run import suggest_condition
from benchapp.imports.harbor.harbor_verdict import read_rewards, read_verdict
from benchapp.imports.reading.documents import Document, read_lines
from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    ExceptionSource,
    RunSource,
    SourceChoice,
    TaskSource,
    Timing,
    TrialHeader,
    TrialSource,
)
from benchapp.imports.reading.times import aware, read_time, seconds_between, zoneless_text
from benchapp.imports.reading.walking import Root, name_of

_NAMED_ERROR = re.compile(r"([A-Za-z_][A-Za-z0-9_.]{2,100}(?:Error|Exception|Timeout)):\s*(.*)", re.S)


def is_benchflow(result: Document, config: Document) -> bool:
    flat_result = "rewards" in result.raw and "config" not in result.raw
    flat_config = "task_path" in config.raw and not isinstance(config.raw.get("agent"), dict)
    return flat_result or (flat_config and not result)


def read_trial(
    root: Root, folder: Path, result: Document, config: Document, header: TrialHeader, choice: SourceChoice
) -> TrialSource:
    started = read_time(result, "started_at") or read_time(config, "started_at")
    finished = read_time(result, "finished_at")
    timing = result.object("timing")
    verifier_seconds = timing.amount("verifier")
    return TrialSource(
        run=_run(result, config, folder),
        task=TaskSource(header.suite, header.task, header.task.rpartition("/")[2]),
        timing=Timing(
            started_at=aware(started),
            finished_at=aware(finished),
            started_text=zoneless_text(result if result else config, "started_at", started),
            finished_text=zoneless_text(result, "finished_at", finished),
            duration_seconds=seconds_between(result, started, finished),
            agent_seconds=timing.amount("agent_execution"),
            verifier_seconds=verifier_seconds,
        ),
        verdict=read_verdict(
            root,
            folder / "verifier",
            _rewards(root, folder, result),
            place=result,
            source="benchflow",
            seconds=verifier_seconds,
        ),
        config=dict(config.raw),
        choices=(choice,),
        exception=_exception(result),
        is_finished=bool(result),
    )


def _run(result: Document, config: Document, folder: Path) -> RunSource:
    skills = config.text("skills_dir", 1_000)
    setup = {"source": "benchflow", **({"skills_dir": PurePosixPath(skills).name} if skills else {})}
    return RunSource(
        harness=result.text("agent", 100) or config.text("agent", 100) or UNKNOWN,
        agent_model=result.text("model", 200) or config.text("model", 200) or UNKNOWN,
        setup=setup | suggest_condition("with-skills" if skills else "", name_of(folder.parent)),
    )


def _rewards(root: Root, folder: Path, result: Document) -> dict[str, float | None] | None:
    """Return the rewards from the result, else the last final reward in the log of rewards."""
    told = read_rewards(result)
    path = folder / "rewards.jsonl"
    if told is not None or not root.is_file(path):
        return told
    rewards: dict[str, float | None] = {}
    for entry in read_lines(root, path, 8 * 1024 * 1024):
        if "value" in entry.raw and entry.text("type", 40) == "terminal":
            rewards[entry.text("tag", 200) or "reward"] = entry.number("value")
    return rewards or None


def _exception(result: Document) -> ExceptionSource | None:
    for key in ("error", "verifier_error"):
        if text := result.text(key, 8 * 1024 * 1024):
            named = _NAMED_ERROR.match(text)
            return ExceptionSource(named[1], named[2]) if named else ExceptionSource(key, text)
    return None
