"""What a reader of another tool's files is made from: see docs/how-to/formats.md, which has an example.

A format is a module with NAME, TITLE, `claims(root, folder)` and `find(root, folder)`. A package names it in its
entry points:

    [project.entry-points."skillglass.formats"]
    mytool = "mytool_skillglass"
"""

from __future__ import annotations

import sys

try:
    import benchapp  # noqa: F401
except ImportError:  # in a wheel, the project is below this package
    from skillglass.command import APP

    sys.path.insert(0, str(APP))

from benchapp.imports.reading.documents import Document, find_object, read_json, read_lines, read_object, read_optional
from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    DecisionMoment,
    EpisodeSource,
    ExceptionSource,
    ExperimentSource,
    FoundExperiment,
    FreezeMoment,
    HistorySource,
    LibrarySource,
    Moment,
    RunSource,
    SeedMoment,
    SourceChoice,
    TaskSource,
    Timing,
    TrajectorySource,
    TrialMoment,
    TrialSource,
)
from benchapp.imports.reading.found_trials import FoundRow, graded, of_bytes, of_messages, of_steps, read_share
from benchapp.imports.reading.skill_history import SkillHistory
from benchapp.imports.reading.walking import FolderEntry, Root, name_of
from runner.base.types import (
    AuthorMode,
    Check,
    CheckGroup,
    CheckStatus,
    DecisionStatus,
    Dimension,
    File,
    Files,
    Finding,
    JsonValue,
    Observation,
    Patch,
    Phase,
    Source,
    Step,
    ToolCall,
    Usage,
    Verdict,
)

__all__ = [
    "UNKNOWN",
    "AuthorMode",
    "Check",
    "CheckGroup",
    "CheckStatus",
    "DecisionMoment",
    "DecisionStatus",
    "Dimension",
    "Document",
    "EpisodeSource",
    "ExceptionSource",
    "ExperimentSource",
    "File",
    "Files",
    "Finding",
    "FolderEntry",
    "FoundExperiment",
    "FoundRow",
    "FreezeMoment",
    "HistorySource",
    "JsonValue",
    "LibrarySource",
    "Moment",
    "Observation",
    "Patch",
    "Phase",
    "Root",
    "RunSource",
    "SeedMoment",
    "SkillHistory",
    "Source",
    "SourceChoice",
    "Step",
    "TaskSource",
    "Timing",
    "ToolCall",
    "TrajectorySource",
    "TrialMoment",
    "TrialSource",
    "Usage",
    "Verdict",
    "find_object",
    "graded",
    "name_of",
    "of_bytes",
    "of_messages",
    "of_steps",
    "read_json",
    "read_lines",
    "read_object",
    "read_optional",
    "read_share",
]
