"""One enormous trial as files, to import: a Harbor job folder with a single trial.

The default is the largest sample that a published reader gives figures for: 337,351 events, 963 MB of JSON.
"""

from __future__ import annotations

import random
from pathlib import Path

import orjson

from benchapp.models.base import derived_id
from lab.synthesis.texts import draw_steps
from runner.trajectories.atif_values import ATIF_VERSION, step_to_json

EVENTS = 337_351
BYTES = 963_000_000


def write_monster(folder: Path, *, events: int = EVENTS, size: int = BYTES, seed: int = 1) -> Path:
    """Write the job folder and return it. Memory: one step. OSError when the disk is full."""
    trial = folder / "monster" / "monster__0000001"
    (trial / "agent").mkdir(parents=True)
    (trial / "verifier").mkdir()
    config = _build_config(seed)
    _write(trial.parent / "config.json", {"job_name": "monster", "jobs_dir": "jobs"})
    _write(trial / "config.json", config)
    _write(trial / "result.json", _build_result(config, seed))
    (trial / "verifier" / "reward.txt").write_text("0.0\n")
    _write_trajectory(trial / "agent" / "trajectory.json", events, size, seed)
    return trial.parent


def _write(path: Path, value: object) -> None:
    path.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2))


def _build_config(seed: int) -> dict[str, object]:
    return {
        "task": {"path": "tasks/monster", "source": "synthetic"},
        "trial_name": "monster__0000001",
        "trials_dir": "jobs/monster",
        "agent": {"name": "terminus-2", "model_name": "synthetic/monster"},
        "job_id": str(derived_id("monster-job", str(seed))),
    }


def _build_result(config: dict[str, object], seed: int) -> dict[str, object]:
    return {
        "id": str(derived_id("monster-trial", str(seed))),
        "task_name": "synthetic/monster",
        "trial_name": "monster__0000001",
        "source": "synthetic",
        "config": config,
        "agent_info": {"name": "terminus-2", "version": "2.0.0", "model_info": {"name": "monster", "provider": "none"}},
        "verifier_result": {"rewards": {"reward": 0.0}},
        "started_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-02T00:00:00Z",
    }


def _write_trajectory(path: Path, events: int, size: int, seed: int) -> None:
    dice = random.Random(seed)
    head = {
        "schema_version": ATIF_VERSION,
        "session_id": "monster",
        "agent": {"name": "terminus-2", "version": "2.0.0"},
    }
    overhead = 300  # bytes of a step besides its observation
    with path.open("wb") as file:
        file.write(orjson.dumps(head)[:-1] + b',"steps":[\n')
        for step in draw_steps(dice, events, characters=max(40, size // events - overhead)):
            file.write((b",\n" if step.number > 1 else b"") + orjson.dumps(step_to_json(step)))
        file.write(b"\n]}\n")
