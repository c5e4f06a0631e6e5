"""The record. Rows for what is filtered, blobs for what is read; evidence is appended, never overwritten."""

from benchapp.models.blobs import Blob
from benchapp.models.episodes import Entry, Episode, Probe, Refusal, Seal, Seeding, Skip
from benchapp.models.experiments import Alert, Comparison, Experiment, Publication, Run
from benchapp.models.imports import ImportBatch, ImportedExperiment, ImportProblem, Upload, UploadFile
from benchapp.models.judgements import JudgedUnit, Judgement, Judging, JudgingOrder, JudgingTry
from benchapp.models.libraries import (
    Decision,
    DecisionEvidence,
    LibraryDiagnosis,
    LibraryFinding,
    Snapshot,
    SnapshotFile,
)
from benchapp.models.people import Activity, ApiToken, Invitation, User
from benchapp.models.reviews import (
    AgreementReport,
    Attribution,
    Code,
    Codebook,
    CodebookVersion,
    CodeExample,
    CodeOrigin,
    Comment,
    JudgeCall,
    Label,
    Mark,
    Mention,
    Queue,
    QueueItem,
    Resolution,
    Review,
    Slot,
    Suggestion,
)
from benchapp.models.searching import SearchDocument, SearchSource
from benchapp.models.suites import (
    Draft,
    DraftStep,
    Environment,
    Family,
    KeyPoint,
    Suite,
    SuiteFile,
    Task,
    TaskGroup,
    TaskRevision,
    TaskWorkflow,
)
from benchapp.models.trajectories import Chunk, Compaction, ModelCall, SkillUse, Trajectory
from benchapp.models.trials import Attempt, Check, Dimension, Square, Trial, Verdict
