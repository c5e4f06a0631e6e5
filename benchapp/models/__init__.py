"""The record. Rows for what is filtered, blobs for what is read; evidence is appended, never overwritten."""

from benchapp.models.activity import Activity
from benchapp.models.alerts import Alert
from benchapp.models.blobs import Blob
from benchapp.models.calls import ModelCall
from benchapp.models.codebooks import Code, Codebook, CodebookVersion, CodeExample, CodeOrigin
from benchapp.models.comments import Comment, Mention
from benchapp.models.comparisons import Comparison
from benchapp.models.diagnoses import LibraryDiagnosis, LibraryFinding
from benchapp.models.episodes import Entry, Episode, Refusal, Seal, Seeding, Skip
from benchapp.models.experiments import Experiment, Run
from benchapp.models.imports import ImportBatch, ImportedExperiment, ImportProblem
from benchapp.models.judgements import JudgedUnit, Judgement, Judging, JudgingOrder, JudgingTry
from benchapp.models.libraries import Decision, DecisionEvidence, Snapshot, SnapshotFile
from benchapp.models.people import ApiToken, Invitation, User
from benchapp.models.probes import Probe
from benchapp.models.publications import Publication
from benchapp.models.queues import Queue, QueueItem, Slot
from benchapp.models.reviews import (
    AgreementReport,
    Attribution,
    JudgeCall,
    Label,
    Mark,
    Resolution,
    Review,
    Suggestion,
)
from benchapp.models.searching import SearchDocument, SearchSource
from benchapp.models.squares import Square
from benchapp.models.suites import Environment, Family, KeyPoint, Suite, Task, TaskGroup, TaskRevision
from benchapp.models.task_drafts import Draft, DraftStep
from benchapp.models.trajectories import Chunk, Compaction, SkillUse, Trajectory
from benchapp.models.trials import Attempt, Trial
from benchapp.models.uploads import Upload, UploadFile
from benchapp.models.verdicts import Check, Dimension, Verdict
from benchapp.models.workflows import TaskWorkflow

__all__ = [
    "Activity",
    "AgreementReport",
    "Attempt",
    "Attribution",
    "Blob",
    "Check",
    "Chunk",
    "Code",
    "CodeExample",
    "CodeOrigin",
    "Codebook",
    "CodebookVersion",
    "Comment",
    "Compaction",
    "Comparison",
    "Decision",
    "DecisionEvidence",
    "Dimension",
    "Draft",
    "DraftStep",
    "Entry",
    "Environment",
    "Episode",
    "Experiment",
    "Family",
    "ImportBatch",
    "ImportProblem",
    "ImportedExperiment",
    "JudgeCall",
    "JudgedUnit",
    "Judgement",
    "Judging",
    "JudgingOrder",
    "JudgingTry",
    "KeyPoint",
    "Label",
    "LibraryDiagnosis",
    "LibraryFinding",
    "Mark",
    "Mention",
    "ModelCall",
    "Alert",
    "Probe",
    "Publication",
    "Queue",
    "QueueItem",
    "Refusal",
    "Resolution",
    "Review",
    "Run",
    "Seal",
    "SearchDocument",
    "SearchSource",
    "Seeding",
    "SkillUse",
    "Skip",
    "Slot",
    "Snapshot",
    "SnapshotFile",
    "Square",
    "Suggestion",
    "Suite",
    "Task",
    "TaskGroup",
    "TaskRevision",
    "TaskWorkflow",
    "Trajectory",
    "Trial",
    "Upload",
    "UploadFile",
    "User",
    "ApiToken",
    "Invitation",
    "Verdict",
]
