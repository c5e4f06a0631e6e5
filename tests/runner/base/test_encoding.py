"""Values to JSON and back without loss."""

from __future__ import annotations

import dataclasses
import json
import typing
from datetime import UTC, datetime
from typing import cast

import pytest

from runner.base.encoding import Undecodable, _name_type, decode, encode
from runner.base.types import (
    AttemptResult,
    Check,
    CheckGroup,
    CheckStatus,
    Failure,
    File,
    ModelReply,
    Observation,
    Phase,
    Role,
    SkillUse,
    Source,
    Step,
    ToolCall,
    Trajectory,
    TrajectoryHead,
    TrialSlot,
    Usage,
    UseKind,
    Verdict,
)
from runner.engine.recorders import AttemptFinished, AttemptStarted, CallFinished, LibrarySeeded, Noted, Transaction
from runner.protocols.recorder import Refused, Seeded, TrialDone
from tests.cases import every

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
SLOT = TrialSlot(Phase.ACQUISITION, "E1-LS1-T1")
KIND = cast("type[Transaction]", Transaction)


def _result() -> AttemptResult:
    call = ToolCall("c1", "shell", {"command": "printf '\\x00'", "nested": [1, None, {"a": 2.5}]})
    step = Step(1, Source.AGENT, "text with \ud800 and \u2028", "why", (call,), (Observation("out", "c1", True),))
    verdict = Verdict(
        "suite", False, 0.25, checks=(Check(CheckGroup.HIDDEN, "rows", CheckStatus.FAILED, "expected 3, found 2"),)
    )
    return AttemptResult(
        trajectories=(Trajectory(TrajectoryHead(skills_listed=("a",)), (step,), Usage(1, None, 2, 0.5)),),
        verdict=verdict,
        compactions=(),
        skill_uses=(SkillUse("a", UseKind.READ, 1, "SKILL.md"),),
        usage=Usage(),
        turns=None,
        started_at=NOW,
        finished_at=NOW,
        failure=Failure("AgentTimeout", "after 120 s"),
        library_writes=("a/SKILL.md",),
    )


@every(
    AttemptStarted("a1", SLOT, "digest", (SLOT,), NOW),
    AttemptFinished(
        "a1",
        _result(),
        (TrialDone(SLOT, "E1-LS1", Role.CANONICAL, None, "digest"), Refused(SLOT, ("a/SKILL.md",), "why")),
    ),
    LibrarySeeded(Seeded("f", "d"), {"a/SKILL.md": File(b"text\n"), "a/scripts/x": File(b"\xff\x00", 0o755)}),
    CallFinished("k", ModelReply("{}", usage=Usage(3, 0, 4)), None, NOW),
    CallFinished("k", None, "ModelUnavailable: 529", NOW),
    Noted(Refused(None, (), "frozen")),
)
def test_it_reads_back_what_it_wrote(value: Transaction) -> None:
    line = json.dumps(encode(value)).encode()
    assert decode(KIND, json.loads(line)) == value


@every(
    ({"type": "Nothing"}, r"^\$: expected one of AttemptStarted"),
    ({"type": "SandboxOpened", "attempt": 3, "handle": {}}, r"^\$\.attempt: expected str, found 3"),
    ({"type": "SandboxOpened", "attempt": "a"}, r"^\$: .*handle"),
    ({"type": "Noted", "event": {"type": "Seeded"}}, r"^\$\.event: expected one of Frozen, Refused, Skipped"),
    (
        {"type": "CallFinished", "key": "k", "reply": None, "error": None, "at": "yesterday"},
        r"^\$\.at: expected datetime, found 'yesterday'",
    ),
)
def test_it_says_where_a_value_is_not_what_it_should_be(value: object, message: str) -> None:
    with pytest.raises(Undecodable, match=message):
        decode(KIND, value)


def test_files_call_their_types_what_they_always_called_them() -> None:
    """A class may be renamed; a recorded episode must still be read, and written the same."""
    assert encode(TrialSlot(Phase.REPLAY, "E1"))["type"] == "Slot"
    assert {_name_type(kind) for kind in list_types(Transaction)} == {
        *(
            "AttemptAbandoned",
            "AttemptFinished",
            "AttemptResult",
            "AttemptStarted",
            "CallFinished",
            "CallStarted",
            "Check",
            "Compaction",
            "Decided",
            "Decision",
            "DecisionMade",
            "Dimension",
            "Evidence",
            "FailedTry",
            "Failure",
            "File",
            "Finding",
            "Frozen",
            "LibrarySeeded",
            "ModelReply",
            "ModelRequest",
            "Noted",
            "Observation",
            "Patch",
            "Refused",
            "SandboxOpened",
            "Seeded",
            "SkillUse",
            "Skipped",
            "Slot",
            "Span",
            "Step",
            "ToolCall",
            "Trajectory",
            "TrajectoryHead",
            "TrialDone",
            "Usage",
            "Verdict",
        )
    }


def list_types(kind: object) -> set[type]:
    """The dataclasses that a value of this type may hold."""
    found: set[type] = set()
    waiting = [kind]
    while waiting:
        each = waiting.pop()
        waiting += typing.get_args(each)
        if isinstance(each, type) and dataclasses.is_dataclass(each) and each not in found:
            found.add(each)
            waiting += [typing.get_type_hints(each)[field.name] for field in dataclasses.fields(each)]
    return found
