"""The data dictionary: what every exported column is, in what unit, and what a missing value in it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.metrics.splits import name_attribute
from runner.base.types import Role


class ValueKind(StrEnum):
    TEXT = "text"
    ID = "id"  # a UUID, the same in addresses and in every export
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"  # UTC
    NUMBERS = "numbers"  # a list


TEXT, ID, INTEGER, NUMBER, BOOLEAN, TIME, NUMBERS = ValueKind


@dataclass(frozen=True, slots=True)
class Column(Shaped):
    """`missing`: the meaning of an empty cell; without it the column has a value in every row."""

    name: str
    kind: ValueKind
    meaning: str
    unit: str = ""
    missing: str = ""

    json_shape = JsonShape("name", "type=kind", "unit?", "meaning", "missing_means=missing?")


NOT_TOLD = "the source does not report it"
NOT_SCORED = "no verdict decides it, or it was settled after the pin"
NOT_MEASURED = "not known, or settled after the pin"
WHOLE = "all are known, or none, or settled after the pin"
IN_UNIT = "the metric's, column unit"

CELL = (  # what names a group: the replicates of one cell of one experiment
    Column("experiment", ID, "experiment the runs belong to"),
    Column("experiment_name", TEXT, "its name, as a person gave it"),
    Column("suite", TEXT, "key of the suite the tasks are from", missing=NOT_TOLD),
    Column("condition", TEXT, 'memory mechanism, such as no-skill; "unknown" if the source does not report it'),
    Column("agent_model", TEXT, 'model that solves the tasks; "unknown" if the source does not report it'),
    Column("author_model", TEXT, "model that writes the library", missing="the condition has no author"),
    Column("author_agent", TEXT, "agent that works for that model", missing="its model is asked once, or none"),
    Column("harness", TEXT, 'what runs the agent; "unknown" if the source does not report it'),
    Column(
        "scripted", BOOLEAN, "a scripted or recorded model took part, or judged: the numbers say nothing about any LLM"
    ),
)

GROUP = (
    *CELL,
    Column("unfinished", BOOLEAN, "a run of the group has trials that did not end: its numbers will change"),
)

TRIALS = (
    Column("trial", ID, "the trial: one planned slot of a run"),
    *CELL,
    Column("run", ID, "the run: one agent model, author model, harness, condition and replicate"),
    Column("harness_version", TEXT, "version of the harness", missing=NOT_TOLD),
    Column("replicate", INTEGER, "which rerun of the whole learning process, from 1", missing=NOT_TOLD),
    Column("setup_digest", TEXT, "SHA-256 of the setup; runs with equal ones are comparable", missing="unknown"),
    Column("episode", ID, "the sequential unit that owns one library"),
    Column("episode_key", TEXT, "its key, the same in every run of a suite"),
    Column("ordered", BOOLEAN, "whether the episode's trials share a library in order; false for plain imports"),
    Column(
        "tainted",
        BOOLEAN,
        "a trial that later ones were to learn from was skipped: every metric leaves the episode out",
    ),
    Column("environment", TEXT, "key of the task's environment", missing="the suite has none"),
    Column("family", TEXT, "key of the task's family", missing="the suite has none"),
    Column("task", TEXT, "key of the task in its suite"),
    Column("task_digest", TEXT, "SHA-256 of the task's content that was run", missing=NOT_TOLD),
    Column("role", TEXT, f"place in the family's design: {', '.join(role.value for role in Role)}", missing=NOT_TOLD),
    Column("ordinal", INTEGER, "place of the task in its family, from 1; 0 where the suite gives none"),
    Column("phase", TEXT, "acquisition, deployment, replay or evaluation"),
    Column("sample", INTEGER, "planned repetition of the same slot, from 0"),
    Column("status", TEXT, "waiting, running, passed, failed, unscored or skipped", missing="settled after the pin"),
    Column("success", BOOLEAN, "whether the primary verdict says it passed", missing=NOT_SCORED),
    Column("reward", NUMBER, "the verifier's reward, on its own scale", missing=NOT_SCORED),
    Column("outcome", NUMBER, "share of outcome checks passed", "share", NOT_SCORED),
    Column("process", NUMBER, "share of process checks passed", "share", NOT_SCORED),
    Column("overall", NUMBER, "outcome and process together, as the suite weighs them", "share", NOT_SCORED),
    Column("checks_passed", INTEGER, "checks of the primary verdict that passed", "checks", NOT_SCORED),
    Column("checks_total", INTEGER, "checks of the primary verdict that were not skipped", "checks", NOT_SCORED),
    Column("steps", INTEGER, "steps of the main trajectory; without one, of all stages", "steps", NOT_MEASURED),
    Column("turns", INTEGER, "turns of the agent; never compared across harnesses", "turns", NOT_MEASURED),
    Column("input_tokens", INTEGER, "prompt tokens, cached ones among them", "tokens", NOT_MEASURED),
    Column("cached_tokens", INTEGER, "of these, read from the provider's cache", "tokens", NOT_MEASURED),
    Column("output_tokens", INTEGER, "tokens the agent model wrote", "tokens", NOT_MEASURED),
    Column("input_at_least", INTEGER, "prompt tokens that are known where others are not", "tokens", WHOLE),
    Column("output_at_least", INTEGER, "written tokens that are known where others are not", "tokens", WHOLE),
    Column("cost_usd", NUMBER, "cost of the counting attempt alone, as reported", "USD", NOT_MEASURED),
    Column(
        "estimated_usd",
        NUMBER,
        "where no cost is reported: its tokens at the prices of a list; no part of cost_usd",
        "USD",
        "a cost is reported, the tokens are unknown, or the list lacks the model",
    ),
    Column("duration_seconds", NUMBER, "from start to end of the counting attempt", "seconds", NOT_MEASURED),
    Column("skills_mounted", INTEGER, "skills within the agent's reach", "skills", NOT_MEASURED),
    Column("skills_read", INTEGER, "of these, read, invoked or executed", "skills", NOT_MEASURED),
    Column("attempts", INTEGER, "executions of the slot, uncounted ones among them", "attempts", NOT_MEASURED),
    Column("finished_at", TIME, "when the counting attempt ended", missing="unknown, or after the pin"),
    Column("settled_at", TIME, "when this record took the numbers in", missing="not settled, or after the pin"),
)


def group_column(attribute: str) -> Column:
    """Describe a column for an attribute that suites, or a mapping file, give to tasks."""
    meaning = f"{name_attribute(attribute)} of the task; several are joined by semicolons"
    return Column(f"group_{attribute}", TEXT, meaning, missing="nobody states one")


MEASURE = (
    Column("metric", TEXT, "key of the metric; the metrics are listed below the columns"),
    Column("unit", TEXT, "of value, own, other, delta and the intervals: share (0..1), tokens, USD, ..."),
)

NUMBER_OF_RUNS = "a number about whole runs, not a mean over trials"

AGGREGATES = (
    *GROUP,
    Column("replicates", INTEGER, "runs of the group", "runs"),
    Column("baseline", BOOLEAN, "whether the others are compared with this group"),
    *MEASURE,
    Column("value", NUMBER, "mean of the replicates' means", IN_UNIT, "nothing was scored"),
    Column("passed", INTEGER, "trials counted as passed, replicates added up", "trials", "the metric counts no passes"),
    Column("scored", INTEGER, "trials with a value, replicates added up", "trials", NUMBER_OF_RUNS),
    Column("planned", INTEGER, "trials the metric covers, scored or not", "trials", NUMBER_OF_RUNS),
    Column(
        "low",
        NUMBER,
        "low end of the 95 % interval of a single run's share: Wilson's, or Student's over families",
        "share",
        "fewer than ten scored, several replicates, several trials of a task, a mean over fewer than six families, or no share",
    ),
    Column("high", NUMBER, "its high end", "share", "as for low"),
    Column(
        "replicate_values",
        NUMBERS,
        "the mean of each replicate, in the order of the runs; in CSV joined by semicolons",
        IN_UNIT,
        "an empty place: nothing was scored in that replicate",
    ),
    Column("rests_on", INTEGER, "things a number of whole runs rests on", missing="a mean over trials: see scored"),
    Column("rests_on_what", TEXT, "what these are: episodes, decisions, first failures, ...", missing="as rests_on"),
    Column(
        "note",
        TEXT,
        "why a number of whole runs is missing, or what it includes; of a judged metric, who judged",
        missing="nothing to say",
    ),
)

WHAT_IS_TESTED = "too few clusters or replicates to test"

DIFFERENCES = (
    *GROUP,
    *MEASURE,
    Column("baseline_experiment", ID, "experiment of the group this one is compared with"),
    Column("baseline_condition", TEXT, "its condition"),
    Column("baseline_agent_model", TEXT, "its agent model"),
    Column("baseline_unfinished", BOOLEAN, "as unfinished, of the baseline"),
    Column("tasks", INTEGER, "tasks scored in every run of both sides: all other numbers are over these", "tasks"),
    Column("dropped", INTEGER, "tasks scored in some run and not in all; left out", "tasks"),
    Column("clusters", INTEGER, "groups of tasks that share a library (episodes)", "clusters"),
    Column("replicates_own", INTEGER, "learning runs of the group", "runs"),
    Column("replicates_other", INTEGER, "learning runs of the baseline", "runs"),
    Column("own", NUMBER, "mean of the group over these tasks", IN_UNIT),
    Column("other", NUMBER, "mean of the baseline over these tasks", IN_UNIT),
    Column("delta", NUMBER, "own minus other: what the interval and the test are about", IN_UNIT),
    Column(
        "relative",
        NUMBER,
        "delta / other: -0.33 is a third less; it describes, and nothing tests it",
        "share of other",
        "other is not above 0, or is a share below 0.05; a judge's score, whose 0 does not mean none",
    ),
    Column("claim", TEXT, "what decides: one run, run (interleaved replicates) or rerun (others)"),
    Column("error", NUMBER, "standard error of the difference for that claim", IN_UNIT, WHAT_IS_TESTED),
    Column("freedom", NUMBER, "its degrees of freedom", missing=WHAT_IS_TESTED),
    Column("comparisons", INTEGER, "differences that are judged together"),
    Column("low", NUMBER, "low end of the 95 % interval, for these together", IN_UNIT, WHAT_IS_TESTED),
    Column("high", NUMBER, "its high end", IN_UNIT, WHAT_IS_TESTED),
    Column("rerun_low", NUMBER, "low end of the second claim's, if rerun", IN_UNIT, "there is no second claim"),
    Column("rerun_high", NUMBER, "its high end", IN_UNIT, "there is no second claim"),
    Column("p_holm", NUMBER, "two-sided p, corrected for these together (Holm's steps)", missing=WHAT_IS_TESTED),
    Column("only_own", INTEGER, "tasks only the group passed; descriptive", "tasks", "not one result a task"),
    Column("only_other", INTEGER, "tasks only the baseline passed; descriptive", "tasks", "not one result a task"),
    Column("note", TEXT, "why something is missing; of a judged metric, who judged", missing="nothing is"),
    Column("sentence", TEXT, "the difference in one sentence, from the primary test"),
)

EXPORTS: Mapping[str, tuple[Column, ...]] = {"trials": TRIALS, "aggregates": AGGREGATES, "differences": DIFFERENCES}
ROWS_ARE: Mapping[str, str] = {
    "trials": "One row per planned trial, scored or not.",
    "aggregates": "One row per group and metric: the replicates of one cell of one experiment.",
    "differences": "One row per group that has a baseline and metric, where tasks were scored on both sides.",
}
