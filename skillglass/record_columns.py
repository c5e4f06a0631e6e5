"""The columns of each table, name -> type. `/compare/dictionary/` explains the columns of trials."""

from __future__ import annotations

from collections.abc import Mapping

EXPERIMENTS: Mapping[str, str] = {
    **{"experiment": "id", "experiment_name": "text", "suite": "text", "status": "text"},
    **{"conditions": "texts", "agent_models": "texts", "scripted": "boolean", "is_probe": "boolean"},
    **{"runs": "integer", "trials": "integer", "trials_scored": "integer", "trials_passed": "integer"},
    **{"started_at": "time", "finished_at": "time"},
}
DECISIONS: Mapping[str, str] = {
    **{"decision": "id", "experiment": "id", "run": "id", "condition": "text", "agent_model": "text"},
    **{"author_model": "text", "replicate": "integer", "episode": "id", "episode_key": "text", "number": "integer"},
    **{"round": "integer", "status": "text", "mode": "text", "operation_type": "text", "family": "text"},
    **{"after_trial": "id", "after_task": "text", "after_success": "boolean", "summary": "text", "error": "text"},
    **{"before_digest": "text", "after_digest": "text", "lines_added": "integer", "lines_removed": "integer"},
    **{"files_changed": "integer"},
}
TRIALS: Mapping[str, tuple[str, str]] = {  # name -> type, and its path from the trial's row
    "trial": ("id", "public_id"),
    "experiment": ("id", "episode__run__experiment__public_id"),
    "experiment_name": ("text", "episode__run__experiment__name"),
    "suite": ("text", "task__suite__key"),
    "condition": ("text", "episode__run__condition"),
    "agent_model": ("text", "episode__run__agent_model"),
    "author_model": ("text", "episode__run__author_model"),
    "author_agent": ("text", "episode__run__author_agent"),
    "harness": ("text", "episode__run__harness"),
    "scripted": ("boolean", "episode__run__scripted"),
    "run": ("id", "episode__run__public_id"),
    "harness_version": ("text", "episode__run__harness_version"),
    "replicate": ("integer", "episode__run__replicate"),
    "setup_digest": ("text", "episode__run__setup_digest"),
    "episode": ("id", "episode__public_id"),
    "episode_key": ("text", "episode__key"),
    "ordered": ("boolean", "episode__is_ordered"),
    "tainted": ("boolean", "episode__is_tainted"),
    "environment": ("text", "task__family__environment__key"),
    "family": ("text", "task__family__key"),
    "task": ("text", "task__key"),
    "task_digest": ("text", "task_revision__digest"),
    "role": ("text", "task__role"),
    "ordinal": ("integer", "task__ordinal"),
    "phase": ("text", "phase"),
    "sample": ("integer", "sample"),
    "status": ("text", "status"),
    "success": ("boolean", "success"),
    **{name: ("number", name) for name in ("reward", "outcome", "process", "overall")},
    **{name: ("integer", name) for name in ("checks_passed", "checks_total", "steps", "turns")},
    **{name: ("integer", name) for name in ("input_tokens", "cached_tokens", "output_tokens")},
    **{name: ("integer", name) for name in ("input_at_least", "output_at_least")},
    **{name: ("number", name) for name in ("cost_usd", "estimated_usd", "duration_seconds")},
    **{name: ("integer", name) for name in ("skills_mounted", "skills_read")},
    "attempts": ("integer", "attempts_total"),
    **{name: ("time", name) for name in ("finished_at", "settled_at")},
}
