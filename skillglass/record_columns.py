"""The columns of each table. Those of trials are declared here for the exports and `/compare/dictionary/` as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

EXPERIMENTS: Mapping[str, str] = {
    "experiment": "id",
    "experiment_name": "text",
    "suite": "text",
    "status": "text",
    "conditions": "texts",
    "agent_models": "texts",
    "scripted": "boolean",
    "is_probe": "boolean",
    "runs": "integer",
    "trials": "integer",
    "trials_scored": "integer",
    "trials_passed": "integer",
    "started_at": "time",
    "finished_at": "time",
}
DECISIONS: Mapping[str, str] = {
    "decision": "id",
    "experiment": "id",
    "run": "id",
    "condition": "text",
    "agent_model": "text",
    "author_model": "text",
    "replicate": "integer",
    "episode": "id",
    "episode_key": "text",
    "number": "integer",
    "round": "integer",
    "status": "text",
    "mode": "text",
    "operation_type": "text",
    "family": "text",
    "after_trial": "id",
    "after_task": "text",
    "after_success": "boolean",
    "summary": "text",
    "error": "text",
    "before_digest": "text",
    "after_digest": "text",
    "lines_added": "integer",
    "lines_removed": "integer",
    "files_changed": "integer",
}


class Column(NamedTuple):
    """A column of trials. `missing`: the meaning of an empty cell; without it the column has a value in every row."""

    name: str
    kind: str
    meaning: str
    missing: str = ""
    unit: str = ""
    path: str = ""  # from the trial's row to a value elsewhere, or under another name; the name follows a last "__"

    @property
    def lookup(self) -> str:
        return self.path + self.name if self.path.endswith("__") else self.path or self.name


RUN = "episode__run__"
UNREPORTED = "the source does not report it"
UNSCORED = "no verdict decides it, or it was settled after the pin"
UNMEASURED = "not known, or settled after the pin"
WHOLE = "all are known, or none, or settled after the pin"
TRIALS = (
    Column("trial", "id", "the trial: one planned slot of a run", path="public_id"),
    Column("experiment", "id", "experiment the runs belong to", path="episode__run__experiment__public_id"),
    Column("experiment_name", "text", "its name, as a person gave it", path="episode__run__experiment__name"),
    Column("suite", "text", "key of the suite the tasks are from", UNREPORTED, path="task__suite__key"),
    Column(
        "condition", "text", 'memory mechanism, such as no-skill; "unknown" if the source does not report it', path=RUN
    ),
    Column("agent_model", "text", 'model that solves the tasks; "unknown" if the source does not report it', path=RUN),
    Column("author_model", "text", "model that writes the library", "the condition has no author", path=RUN),
    Column("author_agent", "text", "agent that works for that model", "its model is asked once, or none", path=RUN),
    Column("harness", "text", 'what runs the agent; "unknown" if the source does not report it', path=RUN),
    Column(
        "scripted",
        "boolean",
        "a scripted or recorded model took part, or judged: the numbers say nothing about any LLM",
        path=RUN,
    ),
    Column(
        "run",
        "id",
        "the run: one agent model, author model, harness, condition and replicate",
        path="episode__run__public_id",
    ),
    Column("harness_version", "text", "version of the harness", UNREPORTED, path=RUN),
    Column("replicate", "integer", "which rerun of the whole learning process, from 1", UNREPORTED, path=RUN),
    Column("setup_digest", "text", "SHA-256 of the setup; runs with equal ones are comparable", "unknown", path=RUN),
    Column("episode", "id", "the sequential unit that owns one library", path="episode__public_id"),
    Column("episode_key", "text", "its key, the same in every run of a suite", path="episode__key"),
    Column(
        "ordered",
        "boolean",
        "whether the episode's trials share a library in order; false for plain imports",
        path="episode__is_ordered",
    ),
    Column(
        "tainted",
        "boolean",
        "a trial that later ones were to learn from was skipped: every metric leaves the episode out",
        path="episode__is_tainted",
    ),
    Column(
        "environment",
        "text",
        "key of the task's environment",
        "the suite has none",
        path="task__family__environment__key",
    ),
    Column("family", "text", "key of the task's family", "the suite has none", path="task__family__key"),
    Column("task", "text", "key of the task in its suite", path="task__key"),
    Column(
        "task_digest", "text", "SHA-256 of the task's content that was run", UNREPORTED, path="task_revision__digest"
    ),
    Column(
        "role",
        "text",
        "place in the family's design: canonical, enriched, variant, context-shift, adversarial, composition",
        UNREPORTED,
        path="task__",
    ),
    Column(
        "ordinal", "integer", "place of the task in its family, from 1; 0 where the suite gives none", path="task__"
    ),
    Column("phase", "text", "acquisition, deployment, replay or evaluation"),
    Column("sample", "integer", "planned repetition of the same slot, from 0"),
    Column("status", "text", "waiting, running, passed, failed, unscored or skipped", "settled after the pin"),
    Column("success", "boolean", "whether the primary verdict says it passed", UNSCORED),
    Column("reward", "number", "the verifier's reward, on its own scale", UNSCORED),
    Column("outcome", "number", "share of outcome checks passed", UNSCORED, "share"),
    Column("process", "number", "share of process checks passed", UNSCORED, "share"),
    Column("overall", "number", "outcome and process together, as the suite weighs them", UNSCORED, "share"),
    Column("checks_passed", "integer", "checks of the primary verdict that passed", UNSCORED, "checks"),
    Column("checks_total", "integer", "checks of the primary verdict that were not skipped", UNSCORED, "checks"),
    Column("steps", "integer", "steps of the main trajectory; without one, of all stages", UNMEASURED, "steps"),
    Column("turns", "integer", "turns of the agent; never compared across harnesses", UNMEASURED, "turns"),
    Column("input_tokens", "integer", "prompt tokens, cached ones among them", UNMEASURED, "tokens"),
    Column("cached_tokens", "integer", "of these, read from the provider's cache", UNMEASURED, "tokens"),
    Column("output_tokens", "integer", "tokens the agent model wrote", UNMEASURED, "tokens"),
    Column("input_at_least", "integer", "prompt tokens that are known where others are not", WHOLE, "tokens"),
    Column("output_at_least", "integer", "written tokens that are known where others are not", WHOLE, "tokens"),
    Column("cost_usd", "number", "cost of the counting attempt alone, as reported", UNMEASURED, "USD"),
    Column(
        "estimated_usd",
        "number",
        "where no cost is reported: its tokens at the prices of a list; no part of cost_usd",
        "a cost is reported, the tokens are unknown, or the list lacks the model",
        "USD",
    ),
    Column("duration_seconds", "number", "from start to end of the counting attempt", UNMEASURED, "seconds"),
    Column("skills_mounted", "integer", "skills within the agent's reach", UNMEASURED, "skills"),
    Column("skills_read", "integer", "of these, read, invoked or executed", UNMEASURED, "skills"),
    Column(
        "attempts",
        "integer",
        "executions of the slot, uncounted ones among them",
        UNMEASURED,
        "attempts",
        path="attempts_total",
    ),
    Column("finished_at", "time", "when the counting attempt ended", "unknown, or after the pin"),
    Column("settled_at", "time", "when this record took the numbers in", "not settled, or after the pin"),
)
