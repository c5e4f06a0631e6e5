"""Small run folders as SkillEvolBench (library in git) and SkillFlow (patches) leave them,
in a test's own directory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.benchapp.import_folders import atif, result, write

RUN = "selfgen_experience_always__chain__seedA__20260301_1000"
FIRST = "---\nname: totals\ndescription: Sums columns.\n---\n\nUse awk.\n"
SECOND = FIRST + "Skip the header.\n"


def git(folder: Path, *arguments: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_DATE": "2026-03-01T10:00:00Z",
        "GIT_COMMITTER_DATE": "2026-03-01T10:00:00Z",
    }
    who = ["-c", "user.name=author", "-c", "user.email=author@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        [str(shutil.which("git")), *who, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class LibraryFolder:
    """library/<Ei>/ in the making: every `commit` is one state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        git(folder, "init", "-q")
        self.commit({"manifest.yaml": "schema_version: 1\nskills: {}\n"}, "create the store")

    def commit(self, files: dict[str, str | None], subject: str) -> str:
        """Writes (None: deletes) and commits; the commit's hash."""
        for path, content in files.items():
            if content is None:
                (self.folder / path).unlink()
            else:
                write(self.folder / path, content)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", subject)
        return git(self.folder, "rev-parse", "HEAD")

    @property
    def tree(self) -> str:
        return git(self.folder, "rev-parse", "HEAD^{tree}")


def record(folder: Path, task: str, minute: int, *, passed: bool, given: str, **changes: Any) -> None:
    """stores/replay/records/<task>.json and the Harbor trial folder it names."""
    bare = task.partition("__")[0]
    role = {"1": "canonical", "2": "enriched", "4": "context-shift"}[bare[-1]]
    trial = f"{task[:25]}__{minute:07d}"
    told = {
        "task_id": task,
        "family_id": bare.rpartition("-")[0],
        "env_id": bare[:2],
        "task_role": role,
        "timestamp": f"2026-03-01T10:{minute:02d}:00+00:00",
        "library_hash_pre": given,
        "library_hash_post": given,
        "outcome": {
            "task_id": task,
            "verifier_passed": passed,
            "reward": 1.0 if passed else 0.75,
            "max_score": 100.0,
            "normalized_score": 1.0 if passed else 0.75,
            "outcome_passed": passed,
            "process_passed": True,
            "failed_tests": []
            if passed
            else [{"name": "sum", "message": "off by one", "trace": "", "group": "hidden"}],
            "trial_dir": f"/elsewhere/harbor-job/{RUN}/{trial}",
            "n_input_tokens": 500,
            "n_output_tokens": 20,
            "n_cache_tokens": 80,
            "cost_usd": 0.5,
        },
        "skills_actually_used": [],
        "replay_mode": "within_env_replay" if task.endswith("__replay") else "primary",
        **changes,
    }
    write(folder / "stores/replay/records" / f"{task}.json", told)
    place = folder / "harbor-job" / RUN / trial
    harbor = result(minute, task_name=task, trial_name=trial)
    write(place / "result.json", harbor)
    write(place / "config.json", harbor["config"])
    write(place / "agent/trajectory.json", atif("Working.", command="cat /skills/totals/SKILL.md"))
    write(place / "verifier/reward.txt", "1.000000" if passed else "0.750000")
    if not passed:
        public = {"section": "public", "results": [{"name": "runs", "passed": True, "detail": "", "error": None}]}
        hidden = {
            "section": "hidden",
            "results": [{"name": "sum", "passed": False, "detail": "", "error": "off by one"}],
        }
        write(place / "verifier/outcome_report.json", {"task_id": task, "public": public, "hidden": hidden})


def patch(task: str, commit: str, upserts: list[str], summary: str, operation: str = "revise") -> dict[str, Any]:
    return {
        "ts": "2026-03-01T10:30:00+00:00",
        "event_type": "patch_applied",
        "patch_id": f"p-{task}",
        "strategy": "chain",
        "summary": summary,
        "target_skill_ids": ["E1-LS1.totals"],
        "operation_type": operation,
        "triggered_by_task": task,
        "upsert_paths": upserts,
        "delete_paths": [],
        "apply_result": {"commit_hash": commit, "upserted": upserts, "deleted": []},
    }


def evolution_run(folder: Path) -> Path:
    """Two learning trials with an answer after each, the freeze, one deployment trial, one replay."""
    config = {
        "run_id": RUN,
        "baseline": {
            "name": "selfgen_experience_always",
            "harbor_agent_name": "claude-code",
            "model_name": "lab/model-1",
            "library_scope": "environment",
            "feedback_level": "process",
        },
        "strategy": {"name": "chain", "author_model": "lab/author-1"},
        "order_seed": "A",
    }
    write(folder / "config.json", config)
    write(folder / "benchmark_hash.txt", "ab" * 32 + "\n")
    library = LibraryFolder(folder / "library" / "E1")
    empty = library.tree
    record(folder, "E1-LS1-T1", 1, passed=False, given=empty)
    first = library.commit({"active/totals/SKILL.md": FIRST}, "[chain] Sum with awk (task=E1-LS1-T1)")
    after_first = library.tree
    library.commit({"manifest.yaml": "schema_version: 1\nskills: {a: 1}\n"}, "manifest: backfill commit hash")
    record(folder, "E1-LS1-T2", 2, passed=True, given=library.tree)
    second = library.commit({"active/totals/SKILL.md": SECOND}, "[chain] Headers (task=E1-LS1-T2)")
    frozen = library.tree
    record(folder, "E1-LS1-T4", 3, passed=True, given=frozen)
    record(folder, "E1-LS1-T1__replay", 4, passed=True, given=frozen)
    lifecycle = [
        {
            "ts": "2026-03-01T10:00:00+00:00",
            "event_type": "trial_started",
            "task_id": "E1-LS1-T1",
            "library_hash": empty,
        },
        {"ts": "2026-03-01T10:02:30+00:00", "event_type": "library_frozen", "env_id": "E1", "hash": frozen},
    ]
    patches = [
        patch("E1-LS1-T1", first, ["totals/SKILL.md"], "Sum with awk", "create"),
        patch("E1-LS1-T2", second, ["totals/SKILL.md"], "Headers"),
        {
            "ts": "2026-03-01T10:03:00+00:00",
            "event_type": "noop_decision",
            "task_id": "E1-LS1-T4",
            "reason": "frozen_evaluation_block",
        },
    ]
    assert after_first != frozen
    for name, events in (("lifecycle", lifecycle), ("patches", patches)):
        write(folder / f"stores/events/{name}.jsonl", "".join(json.dumps(event) + "\n" for event in events))
    return folder


# --- SkillFlow ----------------------------------------------------------------------------------------------------

PATCHES: tuple[dict[str, Any], ...] = (
    {"summary": "Sum with awk", "upsert_files": {"totals/SKILL.md": FIRST}, "delete_paths": []},
    {"summary": "Nothing new", "upsert_files": {}, "delete_paths": []},
    {"summary": "Headers", "upsert_files": {"totals/SKILL.md": SECOND}, "delete_paths": ["totals/notes.md"]},
)


def flow_trial(job: Path, number: int, patch: dict[str, Any] | None, **applied: Any) -> dict[str, Any] | None:
    """A trial's folder and its row of the history. patch None: the author could not be read."""
    name = f"task-{number}__{number:07d}"
    told = result(number, task_name=f"task-{number}", trial_name=name)
    told["config"] = {
        **told["config"],
        "task": {"path": f"/tables/task-{number}", "source": "tables"},
        "trial_name": name,
    }
    folder = job / name
    write(folder / "result.json", told)
    write(folder / "config.json", told["config"])
    write(folder / "agent/trajectory.json", atif("Working."))
    write(folder / "verifier/reward.txt", "1")
    given = patch or {"summary": "LLM call failed: timeout", "upsert_files": {}, "delete_paths": []}
    done = {"deleted": given["delete_paths"], "upserted": sorted(given["upsert_files"]), "errors": [], **applied}
    tried = {"attempt_count": 1, "attempt_modes": ["full"], "successful_attempt": 1 if patch else None}
    write(folder / "skill_evolution/patch.json", {**given, **tried})
    write(folder / "skill_evolution/applied.json", done)
    return {
        "trial_name": name,
        "task_name": name,
        "reward": 1.0,
        "verifier_passed": True,
        "patch_model_name": "lab/model-1",
        "summary": given["summary"],
        "upsert_paths": sorted(given["upsert_files"]),
        "delete_paths": given["delete_paths"],
        "applied": done,
        **tried,
    }


def flow_root(folder: Path, patches: tuple[dict[str, Any] | None, ...] = PATCHES, end: str = SECOND) -> Path:
    """jobs/<name>/ with one evolving family of as many trials as patches."""
    job = folder / f"{folder.name}__tables"
    agent = {"import_path": "libs.agents:NoInstallClaudeCode", "model_name": "lab/model-1"}
    paths = [{"path": f"/tables/task-{number}", "source": "tables"} for number in range(1, len(patches) + 1)]
    datasets = [{"path": "/tables", "n_tasks": 0}]
    write(job / "config.json", {"job_name": job.name, "agents": [agent], "tasks": paths, "datasets": datasets})
    rows = [flow_trial(job, number, patch) for number, patch in enumerate(patches, start=1)]
    write(job / "skill_patch_history.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write(job / "shared_skills/tables/totals/SKILL.md", end)
    return folder
