"""The rows that make up an experiment's record, ordered so that every reference points back.

Columns are those of the models: one that is added later is included automatically. Columns left out are named here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from django.db.models import Field, ForeignKey, Model

from benchapp import models

Column: TypeAlias = "Field[Any, Any]"  # what it takes and gives differs by column: archive_values checks it


@dataclass(frozen=True)
class ArchiveTable:
    """`within`: the lookup from its rows to the run they belong to; empty for what runs share.

    `known_by`: the columns that identify the same thing anywhere; an existing row is not written again.
    """

    name: str
    model: type[Model]
    within: str = ""
    at_home: tuple[str, ...] = ()
    known_by: tuple[str, ...] = ()
    order: tuple[str, ...] = ("pk",)  # of its lines; keys of rows follow the order of recording
    among: tuple[
        tuple[str, str], ...
    ] = ()  # column -> table, if the rows it points at belong to another table of their model

    @cached_property
    def columns(self) -> dict[str, Column]:
        """Return every column that is exported, by name. Users are not."""
        return {
            field.name: field
            for field in self.model._meta.concrete_fields
            if not field.primary_key and field.name not in self.at_home and field.related_model is not models.User
        }

    @cached_property
    def references(self) -> dict[str, str]:
        """Return column -> table of the rows it points at. Contents have digests instead of rows."""
        return {
            name: dict(self.among).get(name) or NAMES[field.related_model]
            for name, field in self.columns.items()
            if isinstance(field, ForeignKey) and field.related_model is not models.Blob
        }

    @cached_property
    def contents(self) -> tuple[str, ...]:
        """Return the columns that hold the digest of a content."""
        return tuple(name for name, field in self.columns.items() if field.related_model is models.Blob)


TIMES = ("created_at", "deleted_at")
ATTEMPT_OF = "attempt__trial__episode__run"

SHARED_TABLES = (
    ArchiveTable("suite", models.Suite, at_home=("path", "account", "families_by"), known_by=("key",), order=("key",)),
    ArchiveTable("environment", models.Environment, known_by=("suite", "key"), order=("suite__key", "key")),
    ArchiveTable("family", models.Family, known_by=("suite", "key"), order=("suite__key", "key")),
    ArchiveTable("task", models.Task, at_home=("same_as",), known_by=("suite", "key"), order=("suite__key", "key")),
    ArchiveTable(
        "revision",
        models.TaskRevision,
        at_home=("foreign_digests",),
        known_by=("task", "digest"),
        order=("task__suite__key", "task__key", "digest"),
    ),
    ArchiveTable(
        "key point",
        models.KeyPoint,
        known_by=("task", "kind", "ordinal"),
        order=("task__suite__key", "task__key", "kind", "ordinal"),
    ),
    ArchiveTable(
        "task group",
        models.TaskGroup,
        known_by=("task", "attribute"),  # a task with values here gets none from elsewhere
        order=("task__suite__key", "task__key", "attribute", "value"),
    ),
    ArchiveTable("snapshot", models.Snapshot, known_by=("digest",), order=("digest",)),
    ArchiveTable("file", models.SnapshotFile, known_by=("snapshot", "path"), order=("snapshot__digest", "path")),
    ArchiveTable("experiment", models.Experiment, at_home=("source", *TIMES)),
)

RUN_TABLES = (
    ArchiveTable("run", models.Run, "pk", at_home=("forked_from", "joined_from", "revision", *TIMES)),
    ArchiveTable(
        "episode",
        models.Episode,
        "run",
        at_home=("lease_owner", "lease_until", "lease_epoch", "wish", "failures", "last_failure"),
    ),
    ArchiveTable("probe", models.Probe, "run", at_home=("origin", "decision", "reason", "actor_name", "created_at")),
    ArchiveTable("trial", models.Trial, "episode__run", at_home=("settled_at",)),
    ArchiveTable("retrieved", models.Trial.retrieved.through, "from_trial__episode__run"),
    ArchiveTable("attempt", models.Attempt, "trial__episode__run", at_home=("worker", "sandbox", "lease_epoch")),
    ArchiveTable("verdict", models.Verdict, ATTEMPT_OF),
    ArchiveTable("check", models.Check, f"verdict__{ATTEMPT_OF}"),
    ArchiveTable("dimension", models.Dimension, f"verdict__{ATTEMPT_OF}"),
    ArchiveTable("trajectory", models.Trajectory, ATTEMPT_OF, at_home=("call",)),
    ArchiveTable("chunk", models.Chunk, f"trajectory__{ATTEMPT_OF}"),
    ArchiveTable("piece", models.Chunk.pieces.through, f"chunk__trajectory__{ATTEMPT_OF}"),
    ArchiveTable("compaction", models.Compaction, f"trajectory__{ATTEMPT_OF}"),
    ArchiveTable("use", models.SkillUse, ATTEMPT_OF),
    ArchiveTable("call", models.ModelCall, "episode__run"),
    # Trajectories of authors have their own tables: older archives have calls after trajectories.
    ArchiveTable(
        "session", models.Trajectory, "call__episode__run", at_home=("attempt",), among=(("parent", "session"),)
    ),
    ArchiveTable("session chunk", models.Chunk, "trajectory__call__episode__run", among=(("trajectory", "session"),)),
    ArchiveTable(
        "session piece",
        models.Chunk.pieces.through,
        "chunk__trajectory__call__episode__run",
        among=(("chunk", "session chunk"),),
    ),
    ArchiveTable("decision", models.Decision, "episode__run"),
    ArchiveTable("evidence", models.DecisionEvidence, "decision__episode__run"),
    ArchiveTable("seeding", models.Seeding, "entry__episode__run"),
    ArchiveTable("seal", models.Seal, "entry__episode__run"),
    ArchiveTable("refusal", models.Refusal, "entry__episode__run"),
    ArchiveTable("skip", models.Skip, "entry__episode__run"),
    ArchiveTable("entry", models.Entry, "episode__run"),
    ArchiveTable("judging", models.Judging, "run"),
    ArchiveTable("judged unit", models.JudgedUnit, "judging__run", at_home=("source",)),  # may be another experiment's
    ArchiveTable("judging try", models.JudgingTry, "unit__judging__run"),
    ArchiveTable("judgement", models.Judgement, "unit__judging__run"),
)

TABLES = {table.name: table for table in (*SHARED_TABLES, *RUN_TABLES)}
NAMES: dict[object, str] = {table.model: table.name for table in reversed(TABLES.values())}  # the first of its model
PUBLIC = tuple(table for table in TABLES.values() if "public_id" in table.columns and not table.known_by)
