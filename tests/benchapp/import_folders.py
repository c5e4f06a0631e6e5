"""Small folders as Harbor, BenchFlow and the SkillLearnBench release leave them,
written into a test's own directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchapp.imports.batch import ImportReport, import_paths
from benchapp.imports.import_map import ImportMap

JOB_ID = "11111111-2222-4333-8444-555555555555"


def write(path: Path, content: Any) -> Path:
    """A file: bytes and texts as they are, anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return path


def atif(*messages: str, version: str = "ATIF-v1.6", command: str = "ls", **top: Any) -> dict[str, Any]:
    """A trajectory: the instruction, then one agent step with one tool call per message."""
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": "Sum the column."}]
    for number, message in enumerate(messages or ("Looking.",), start=2):
        call = {"tool_call_id": f"c{number}", "function_name": "shell", "arguments": {"command": command}}
        steps.append(
            {
                "step_id": number,
                "timestamp": f"2026-03-01T10:00:{number:02d}Z",
                "source": "agent",
                "message": message,
                "tool_calls": [call],
                "observation": {"results": [{"source_call_id": f"c{number}", "content": "data.csv"}]},
                "metrics": {"prompt_tokens": 100, "cached_tokens": 40, "completion_tokens": 10, "cost_usd": 0.01},
            }
        )
    return {
        "schema_version": version,
        "session_id": "s",
        "agent": {"name": "tester", "version": "1"},
        "steps": steps,
        **top,
    }


def result(number: int, **changes: Any) -> dict[str, Any]:
    """result.json of trial `number`; keyword arguments replace top-level keys."""
    name = f"sum-csv__{number:07d}"
    start = f"2026-03-01T10:{number % 60:02d}:00Z"
    found = {
        "id": f"00000000-0000-4000-8000-{number:012d}",
        "task_name": "acme/sum-csv",
        "trial_name": name,
        "task_checksum": "ab" * 32,
        "config": {
            "task": {"path": "/tasks/sum-csv"},
            "trial_name": name,
            "trials_dir": "/jobs/first",
            "agent": {"name": "tester", "model_name": "lab/model-1", "kwargs": {}},
            "job_id": JOB_ID,
        },
        "agent_info": {"name": "tester", "version": "1.0", "model_info": {"name": "model-1", "provider": "lab"}},
        "agent_result": {"n_input_tokens": 500, "n_cache_tokens": 80, "n_output_tokens": 20, "cost_usd": 0.5},
        "verifier_result": {"rewards": {"reward": 1.0}},
        "exception_info": None,
        "started_at": start,
        "finished_at": start.replace(":00Z", ":30Z"),
        "agent_execution": {"started_at": start, "finished_at": start.replace(":00Z", ":20Z")},
        "verifier": {"started_at": start.replace(":00Z", ":20Z"), "finished_at": start.replace(":00Z", ":25Z")},
        "step_results": None,
    }
    return {**found, **changes}


def trial(
    job: Path, number: int = 1, *, trajectory: Any = None, files: Mapping[str, Any] | None = None, **changes: Any
) -> Path:
    """A trial folder. `trajectory`: of agent/trajectory.json (False: none); `files`: more, by path;
    None removes one."""
    told = result(number, **changes)
    folder = job / f"sum-csv__{number:07d}"
    contents: dict[str, Any] = {
        "result.json": told,
        "config.json": told["config"],
        "agent/trajectory.json": atif() if trajectory is None else trajectory,
        "verifier/reward.txt": "1\n",
        "verifier/test-stdout.txt": "1 passed\n",
        **(files or {}),
    }
    if told["verifier_result"] != {"rewards": {"reward": 1.0}} and "verifier/reward.txt" not in (files or {}):
        del contents["verifier/reward.txt"]
    for path, content in contents.items():
        if content is not None and content is not False:
            write(folder / path, content)
    return folder


def job(folder: Path, trials: int = 3) -> Path:
    """A whole job: its own files, and trials that all pass."""
    write(folder / "config.json", {"job_name": folder.name, "jobs_dir": "/jobs", "agents": [{"name": "tester"}]})
    write(
        folder / "result.json",
        {"id": JOB_ID, "n_total_trials": trials, "stats": {}, "finished_at": "2026-03-01T11:00:00"},
    )
    for number in range(1, trials + 1):
        trial(folder, number)
    return folder


def benchflow(folder: Path) -> Path:
    config = {"task_path": "/tasks/scan", "agent": "opencode", "model": "lab/flash", "skills_dir": "/tasks/scan/skills"}
    told = {
        "task_name": "scan",
        "trial_name": "scan__720ed855",
        "rewards": {"reward": 1.0},
        "agent": "opencode",
        "model": "lab/flash",
        "error": None,
        "verifier_error": None,
        "started_at": "2026-05-02 15:34:48.814777",
        "finished_at": "2026-05-02 15:37:10.168509",
        "timing": {"agent_execution": 30.0, "verifier": 4.5},
    }
    lines = [
        {"type": "user_message", "content": "Scan it."},
        {
            "type": "tool_call",
            "tool_call_id": "1",
            "kind": "execute",
            "title": "ls",
            "status": "completed",
            "content": [],
        },
        {"type": "agent_message", "content": "Done."},
    ]
    write(folder / "config.json", config)
    write(folder / "result.json", told)
    write(folder / "trajectory" / "acp_trajectory.jsonl", "\n".join(map(json.dumps, lines)))
    return folder


SKILL = "---\nname: count-words\ndescription: Counts words.\n---\n\nUse wc -w.\n"


def release(folder: Path) -> Path:
    """Two configs with one task each, and one instance with key points and an oracle's log."""
    for config in ("human_authored", "b3-teacher-feedback-claude-sonnet-4-6"):
        write(folder / "skills" / config / "words" / "count-words" / "SKILL.md", SKILL)
    write(folder / "skills/human_authored/words/count-words/scripts/count.py", "print(1)\n")
    instance = folder / "eval_keypoints/words/words-2"
    point = {"reason": "why", "key_point": "Split at blanks.", "skill_reference": "Use wc -w."}
    write(instance / "skill-key-points.generated.json", [point])
    write(instance / "traj-key-points.generated.json", [])
    step = {"step_index": 1, "core_step": "Read the file", "why_essential": "it has the words", "evidence": "cat"}
    write(instance / "traj-extracted-oracle.json", [step])
    lines = [
        {
            "type": "system",
            "subtype": "init",
            "session_id": "s",
            "model": "claude-sonnet-4-6",
            "skills": ["count-words"],
        },
        {
            "type": "assistant",
            "session_id": "s",
            "message": {"id": "m1", "role": "assistant", "content": [{"type": "text", "text": "Done."}], "usage": {}},
        },
    ]
    write(instance / "claude-code.txt", "\n".join(map(json.dumps, lines)) + "\n")
    write(instance / "claude-code.dataclaw.jsonl", json.dumps({"session_id": "s", "messages": []}) + "\n")
    return folder


def bring_in(*paths: Path, mapping: ImportMap | None = None, format: str = "auto") -> ImportReport:
    return import_paths(paths, mapping=mapping, format=format)


def told(report: ImportReport, ending: str) -> list[str]:
    """ "place: expected" of every problem in files whose path ends so."""
    return [f"{problem.place}: {problem.expected}" for problem in report.problems if problem.path.endswith(ending)]
