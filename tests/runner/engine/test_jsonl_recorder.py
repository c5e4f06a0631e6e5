"""An episode in a file: equal to one in memory, and safe to cut off anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.base.errors import LeaseLost, SetupError
from runner.base.types import CompactionKind, Phase, TrialSlot
from runner.engine.engine import advance, run_episode
from runner.engine.recorders import JsonLinesRecorder, ListRecorder
from runner.protocols.plan import EpisodePlan
from tests.runner.small_episode import small_environment, small_plan, small_toolbox, ticking_clock


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> EpisodePlan:
    return small_plan("selfgen-always-tier3", small_environment(tmp_path_factory.mktemp("tasks")))


@pytest.fixture(scope="module")
def whole(plan: EpisodePlan) -> ListRecorder:
    recorder = ListRecorder(plan, ticking_clock())
    run_episode(plan, recorder, small_toolbox())
    return recorder


def _record(path: Path, plan: EpisodePlan) -> bytes:
    recorder = JsonLinesRecorder(path, plan, ticking_clock())
    run_episode(plan, recorder, small_toolbox())
    recorder.close()
    return path.read_bytes()


def test_a_file_read_back_equals_the_record_in_memory(tmp_path: Path, plan: EpisodePlan, whole: ListRecorder) -> None:
    _record(tmp_path / "e.jsonl", plan)
    reopened = JsonLinesRecorder(tmp_path / "e.jsonl", plan)
    assert reopened.history() == whole.history()
    assert reopened.decisions == whole.decisions
    slot = TrialSlot(Phase.REPLAY, "E1-LS2-T3")
    assert reopened.verdict(slot) == whole.verdict(slot)
    assert reopened.compaction(slot, CompactionKind.RICH) == whole.compaction(slot, CompactionKind.RICH)
    for decision in whole.decisions:
        assert reopened.library(decision.after) == whole.library(decision.after)
    reopened.close()


def test_a_file_cut_off_at_any_byte_is_gone_on_from(tmp_path: Path, plan: EpisodePlan, whole: ListRecorder) -> None:
    content = _record(tmp_path / "whole.jsonl", plan)
    for number, length in enumerate(range(0, len(content), len(content) // 5)):
        path = tmp_path / f"cut-{number}.jsonl"
        path.write_bytes(content[:length])
        _record(path, plan)
        reopened = JsonLinesRecorder(path, plan)
        assert reopened.history() == whole.history()
        reopened.close()


def test_an_attempt_cut_off_stays_visible_as_interrupted(tmp_path: Path, plan: EpisodePlan) -> None:
    path = tmp_path / "e.jsonl"
    recorder = JsonLinesRecorder(path, plan)
    recorder.start_attempt(TrialSlot(Phase.ACQUISITION, "E1-LS1-T1"), snapshot="x", retrieved=())
    recorder.note_sandbox("acquisition-E1-LS1-T1-0-attempt-1", {"kind": "memory"})
    recorder.close()
    reopened = JsonLinesRecorder(path, plan)
    advance(plan, reopened, small_toolbox())
    assert reopened.list_interrupted() == ("acquisition-E1-LS1-T1-0-attempt-1",)
    assert reopened.handles["acquisition-E1-LS1-T1-0-attempt-1"] == {"kind": "memory"}
    assert "acquisition-E1-LS1-T1-0-attempt-2" in reopened.started
    reopened.close()


def test_two_processes_cannot_write_one_episode(tmp_path: Path, plan: EpisodePlan) -> None:
    first = JsonLinesRecorder(tmp_path / "e.jsonl", plan)
    with pytest.raises(LeaseLost, match="another process"):
        JsonLinesRecorder(tmp_path / "e.jsonl", plan)
    first.close()
    JsonLinesRecorder(tmp_path / "e.jsonl", plan).close()


def test_another_plan_cannot_go_on_with_the_file(tmp_path: Path, plan: EpisodePlan) -> None:
    JsonLinesRecorder(tmp_path / "e.jsonl", plan).close()
    other = small_plan("no-skill", plan.environment)
    with pytest.raises(SetupError, match=r"e\.jsonl: line 1: this episode was started with another plan"):
        JsonLinesRecorder(tmp_path / "e.jsonl", other)


def test_a_file_of_something_else_is_left_alone(tmp_path: Path, plan: EpisodePlan) -> None:
    (tmp_path / "notes").write_bytes(b"no line break here")
    with pytest.raises(SetupError, match=r"notes: line 1: not the record of an episode"):
        JsonLinesRecorder(tmp_path / "notes", plan)
    assert (tmp_path / "notes").read_bytes() == b"no line break here"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (b"{not json}", r"line 3: not JSON"),
        (b'{"type": "Strange"}', r"line 3: \$: expected one of AttemptStarted"),
        (b"\xff\xfe", r"line 3: not JSON"),
        (
            b'{"type":"AttemptAbandoned","attempt":"a","error_type":"E","message":7}',
            r"line 3: \$\.message: expected str",
        ),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_dropped(
    tmp_path: Path, plan: EpisodePlan, damage: bytes, message: str
) -> None:
    path = tmp_path / "e.jsonl"
    lines = _record(path, plan).splitlines()
    lines[2] = damage
    path.write_bytes(b"\n".join(lines) + b"\n")
    before = path.read_bytes()
    with pytest.raises(SetupError, match=message):
        JsonLinesRecorder(path, plan)
    assert path.read_bytes() == before


def test_every_line_is_one_json_object(tmp_path: Path, plan: EpisodePlan) -> None:
    lines = _record(tmp_path / "e.jsonl", plan).splitlines()
    assert {"format", "episode"} <= json.loads(lines[0]).keys()
    assert all("type" in json.loads(line) for line in lines[1:])
