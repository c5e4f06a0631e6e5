"""The data dictionary: what every exported column is, in what unit, and what a missing value in it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.metrics.splits import name_attribute
from skillglass import record_columns


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

    json_shape = JsonShape("name type=kind unit? meaning missing_means=missing?")


IN_UNIT = "the metric's, column unit"

TRIALS = tuple(
    Column(each.name, ValueKind(each.kind), each.meaning, each.unit, each.missing) for each in record_columns.TRIALS
)
CELL = TRIALS[1:10]  # experiment to scripted, which name a group: the replicates of one cell of one experiment

GROUP = (
    *CELL,
    Column("unfinished", BOOLEAN, "a run of the group has trials that did not end: its numbers will change"),
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
        "fewer than ten scored, several replicates, several trials of a task, a mean over fewer than six families, or "
        "no share",
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
