"""The data dictionary: what every exported column is, in what unit, and what a missing value in it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from benchapp.record.json_shape import JsonShape, Shaped
from runner.base.types import Role


class Kind(StrEnum):
    TEXT = "text"
    ID = "id"  # a UUID, the same in addresses and in every export
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"  # UTC
    NUMBERS = "numbers"  # a list


@dataclass(frozen=True, slots=True)
class Field(Shaped):
    """`missing`: what an empty cell says; without it the column has a value in every row."""

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    missing: str = ""

    json_shape = JsonShape("name", "type=kind", "unit?", "meaning", "missing_means=missing?")


NOT_TOLD = "the source does not tell"
NOT_SCORED = "no verdict tells it, or it was settled after the pin"
NOT_MEASURED = "not known, or settled after the pin"
IN_UNIT = "the metric's, column unit"

CELL = (  # what names a group: the replicates of one cell of one experiment
    Field("experiment", Kind.ID, "experiment the runs belong to"),
    Field("experiment_name", Kind.TEXT, "its name, as a person gave it"),
    Field("suite", Kind.TEXT, "key of the suite the tasks are from", missing=NOT_TOLD),
    Field("condition", Kind.TEXT, 'memory mechanism, such as no-skill; "unknown" where the source does not tell'),
    Field("agent_model", Kind.TEXT, 'model that solves the tasks; "unknown" where the source does not tell'),
    Field("author_model", Kind.TEXT, "model that writes the library", missing="the condition has no author"),
    Field("harness", Kind.TEXT, 'what runs the agent; "unknown" where the source does not tell'),
    Field("scripted", Kind.BOOLEAN, "a scripted or recorded model took part: the numbers say nothing about any LLM"),
)

GROUP = (
    *CELL,
    Field("unfinished", Kind.BOOLEAN, "a run of the group has trials that did not end: its numbers will change"),
)

TRIALS = (
    Field("trial", Kind.ID, "the trial: one planned slot of a run"),
    *CELL,
    Field("run", Kind.ID, "the run: one agent model, author model, harness, condition and replicate"),
    Field("harness_version", Kind.TEXT, "version of the harness", missing=NOT_TOLD),
    Field("replicate", Kind.INTEGER, "which rerun of the whole learning process, from 1", missing=NOT_TOLD),
    Field("setup_digest", Kind.TEXT, "SHA-256 of the setup; runs with equal ones are comparable", missing="unknown"),
    Field("episode", Kind.ID, "the sequential unit that owns one library"),
    Field("episode_key", Kind.TEXT, "its key, the same in every run of a suite"),
    Field("ordered", Kind.BOOLEAN, "whether the episode's trials share a library in order; false for plain imports"),
    Field(
        "tainted",
        Kind.BOOLEAN,
        "a trial that later ones were to learn from was skipped: every metric leaves the episode out",
    ),
    Field("environment", Kind.TEXT, "key of the task's environment", missing="the suite has none"),
    Field("family", Kind.TEXT, "key of the task's family", missing="the suite has none"),
    Field("task", Kind.TEXT, "key of the task in its suite"),
    Field("task_digest", Kind.TEXT, "SHA-256 of the task's content that was run", missing=NOT_TOLD),
    Field(
        "role", Kind.TEXT, f"place in the family's design: {', '.join(role.value for role in Role)}", missing=NOT_TOLD
    ),
    Field("ordinal", Kind.INTEGER, "place of the task in its family, from 1; 0 where the suite gives none"),
    Field("phase", Kind.TEXT, "acquisition, deployment, replay or evaluation"),
    Field("sample", Kind.INTEGER, "planned repetition of the same slot, from 0"),
    Field(
        "status",
        Kind.TEXT,
        "waiting, running, passed, failed, unscored or skipped",
        missing="settled after the pin",
    ),
    Field("success", Kind.BOOLEAN, "whether the primary verdict says it passed", missing=NOT_SCORED),
    Field("reward", Kind.NUMBER, "the verifier's reward, on its own scale", missing=NOT_SCORED),
    Field("outcome", Kind.NUMBER, "share of outcome checks passed", "share", NOT_SCORED),
    Field("process", Kind.NUMBER, "share of process checks passed", "share", NOT_SCORED),
    Field("overall", Kind.NUMBER, "outcome and process together, as the suite weighs them", "share", NOT_SCORED),
    Field("checks_passed", Kind.INTEGER, "checks of the primary verdict that passed", "checks", NOT_SCORED),
    Field("checks_total", Kind.INTEGER, "checks of the primary verdict that were not skipped", "checks", NOT_SCORED),
    Field("steps", Kind.INTEGER, "steps of the main trajectory; without one, of all stages", "steps", NOT_MEASURED),
    Field("turns", Kind.INTEGER, "turns of the agent; never compared across harnesses", "turns", NOT_MEASURED),
    Field("input_tokens", Kind.INTEGER, "prompt tokens, cached ones among them", "tokens", NOT_MEASURED),
    Field("cached_tokens", Kind.INTEGER, "of these, read from the provider's cache", "tokens", NOT_MEASURED),
    Field("output_tokens", Kind.INTEGER, "tokens the agent model wrote", "tokens", NOT_MEASURED),
    Field("cost_usd", Kind.NUMBER, "cost of the counting attempt alone", "USD", NOT_MEASURED),
    Field("duration_seconds", Kind.NUMBER, "from start to end of the counting attempt", "seconds", NOT_MEASURED),
    Field("skills_mounted", Kind.INTEGER, "skills within the agent's reach", "skills", NOT_MEASURED),
    Field("skills_read", Kind.INTEGER, "of these, read, invoked or executed", "skills", NOT_MEASURED),
    Field("attempts", Kind.INTEGER, "executions of the slot, uncounted ones among them", "attempts", NOT_MEASURED),
    Field("finished_at", Kind.TIME, "when the counting attempt ended", missing="unknown, or after the pin"),
    Field("settled_at", Kind.TIME, "when this record took the numbers in", missing="not settled, or after the pin"),
)

MEASURE = (
    Field("metric", Kind.TEXT, "key of the metric; the metrics are listed below the columns"),
    Field("unit", Kind.TEXT, "of value, own, other, delta and the intervals: share (0..1), tokens, USD, ..."),
)

NUMBER_OF_RUNS = "a number of whole runs, which is no mean over trials"

AGGREGATES = (
    *GROUP,
    Field("replicates", Kind.INTEGER, "runs of the group", "runs"),
    Field("baseline", Kind.BOOLEAN, "whether the others are held against this group"),
    *MEASURE,
    Field("value", Kind.NUMBER, "mean of the replicates' means", IN_UNIT, "nothing was scored"),
    Field(
        "passed",
        Kind.INTEGER,
        "trials counted as passed, replicates added up",
        "trials",
        "the metric counts no passes",
    ),
    Field("scored", Kind.INTEGER, "trials with a value, replicates added up", "trials", NUMBER_OF_RUNS),
    Field("planned", Kind.INTEGER, "trials the metric covers, scored or not", "trials", NUMBER_OF_RUNS),
    Field(
        "low",
        Kind.NUMBER,
        "low end of Wilson's 95 % interval of a single run's share",
        "share",
        "fewer than ten scored, several replicates, several trials of a task, a mean over families, or no share",
    ),
    Field("high", Kind.NUMBER, "its high end", "share", "as for low"),
    Field(
        "replicate_values",
        Kind.NUMBERS,
        "the mean of each replicate, in the order of the runs; in CSV joined by semicolons",
        IN_UNIT,
        "an empty place: nothing was scored in that replicate",
    ),
    Field("rests_on", Kind.INTEGER, "things a number of whole runs rests on", missing="a mean over trials: see scored"),
    Field(
        "rests_on_what", Kind.TEXT, "what these are: episodes, decisions, first failures, ...", missing="as rests_on"
    ),
    Field("note", Kind.TEXT, "why a number of whole runs is missing, or what it includes", missing="nothing to say"),
)

WHAT_IS_TESTED = "too few clusters or replicates to test"

DIFFERENCES = (
    *GROUP,
    *MEASURE,
    Field("baseline_experiment", Kind.ID, "experiment of the group this one is held against"),
    Field("baseline_condition", Kind.TEXT, "its condition"),
    Field("baseline_agent_model", Kind.TEXT, "its agent model"),
    Field("baseline_unfinished", Kind.BOOLEAN, "as unfinished, of the baseline"),
    Field("tasks", Kind.INTEGER, "tasks scored in every run of both sides: all other numbers are over these", "tasks"),
    Field("dropped", Kind.INTEGER, "tasks scored in some run and not in all; left out", "tasks"),
    Field("clusters", Kind.INTEGER, "groups of tasks that share a library (episodes)", "clusters"),
    Field("replicates_own", Kind.INTEGER, "learning runs of the group", "runs"),
    Field("replicates_other", Kind.INTEGER, "learning runs of the baseline", "runs"),
    Field("own", Kind.NUMBER, "mean of the group over these tasks", IN_UNIT),
    Field("other", Kind.NUMBER, "mean of the baseline over these tasks", IN_UNIT),
    Field("delta", Kind.NUMBER, "own minus other: what the interval and the test are about", IN_UNIT),
    Field("method", Kind.TEXT, "primary test: welch, sign-flip or none"),
    Field("low", Kind.NUMBER, "low end of the primary 95 % interval", IN_UNIT, WHAT_IS_TESTED),
    Field("high", Kind.NUMBER, "its high end", IN_UNIT, WHAT_IS_TESTED),
    Field("p", Kind.NUMBER, "two-sided p of the primary test, uncorrected", missing=WHAT_IS_TESTED),
    Field(
        "p_holm",
        Kind.NUMBER,
        "Holm's corrected p over the declared set of a saved comparison",
        missing="no set was declared: not a saved comparison, or a metric outside the set; or no p",
    ),
    Field("smallest_p", Kind.NUMBER, "smallest p the test can give here", missing="it has no such bound"),
    Field("excludes_zero", Kind.BOOLEAN, "whether the primary interval excludes 0"),
    Field("only_own", Kind.INTEGER, "tasks only the group passed; descriptive", "tasks", "not one result a task"),
    Field("only_other", Kind.INTEGER, "tasks only the baseline passed; descriptive", "tasks", "not one result a task"),
    Field("note", Kind.TEXT, "why something is missing", missing="nothing is"),
    Field("sentence", Kind.TEXT, "the difference in one sentence, from the primary test"),
)

EXPORTS: Mapping[str, tuple[Field, ...]] = {
    "trials": TRIALS,
    "aggregates": AGGREGATES,
    "differences": DIFFERENCES,
}
ROWS_ARE: Mapping[str, str] = {
    "trials": "One row per planned trial, scored or not.",
    "aggregates": "One row per group and metric: the replicates of one cell of one experiment.",
    "differences": "One row per group that has a baseline and metric, where tasks were scored on both sides.",
}
