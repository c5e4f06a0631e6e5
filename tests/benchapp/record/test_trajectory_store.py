"""Steps come back as they went in, whatever their size, and reading some never loads all."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.models import Attempt, Blob, Episode, Experiment, Run, Suite, Task, Trajectory, Trial
from benchapp.record import trajectory_store
from benchapp.record.writing.rows import PackedTrajectory
from runner.base.types import Observation, Source, Step, ToolCall, TrajectoryHead, Usage
from runner.trajectories.fields import fields

pytestmark = pytest.mark.django_db


@pytest.fixture
def attempt() -> Attempt:
    suite = Suite.objects.create(key="suite", name="suite")
    episode = Episode.objects.create(run=Run.objects.create(experiment=Experiment.objects.create(name="e")), key="e")
    task = Task.objects.create(suite=suite, key="task", title="task")
    trial = Trial.objects.create(episode=episode, task=task, phase="evaluation")
    return Attempt.objects.create(trial=trial, number=1)


def step(number: int, message: str = "hello", output: str = "done", arguments: dict | None = None) -> Step:
    call = ToolCall(f"call-{number}", "shell", arguments or {"command": "ls"})
    return Step(
        number,
        Source.AGENT,
        message,
        tool_calls=(call,),
        observations=(Observation(output, call.id),),
        usage=Usage(5, 1, 2),
    )


def save(attempt: Attempt, steps: list[Step]) -> Trajectory:
    packed = trajectory_store.pack_steps(iter(steps))
    row = PackedTrajectory(TrajectoryHead(), packed, "test/1").row(attempt)
    trajectory_store.save_packed([(row, packed)])
    return row


def test_it_gives_back_every_step_across_chunks(attempt):
    steps = [step(number) for number in range(1, 2_501)]
    trajectory = save(attempt, steps)
    assert [chunk.steps_total for chunk in trajectory.chunks.all()] == [1_000, 1_000, 500]
    assert list(trajectory_store.iterate_steps(trajectory)) == steps
    assert [found.step for found in trajectory_store.read_steps(trajectory, 999, 4)] == steps[998:1_002]
    assert trajectory_store.read_steps(trajectory, 2_499, 25)[-1].step == steps[-1]
    assert trajectory_store.read_steps(trajectory, 9_999, 5) == []


def test_it_loads_only_the_chunks_it_needs(attempt):
    trajectory = save(attempt, [step(number) for number in range(1, 5_001)])
    with CaptureQueriesContext(
        connection,
    ) as queries:
        trajectory_store.read_steps(trajectory, 3_500, 10)
    assert len(queries) == 1  # the chunk with its blob
    assert [row["n"] for row in trajectory_store.read_outline(trajectory, 1_990, 20)] == list(range(1_990, 2_010))


def test_it_cuts_long_texts_and_reads_them_whole_on_demand(attempt):
    long = "é" * 700_000 + "end"
    steps = [step(1, message=long, output=long, arguments={"path": "a", "content": long})]
    trajectory = save(attempt, steps)
    (found,) = trajectory_store.read_steps(trajectory, 1, 1)
    whole = dict(fields(steps[0]))
    assert len(found.step.message) == trajectory_store.HEAD_CHARACTERS
    assert found.long == {name: len(whole[name]) for name in ("message", "tool_calls/0", "observations/0")}
    assert trajectory_store.open_field(trajectory, 1, "observations/0").read(699_999) == "éend"
    assert [trajectory_store.read_whole_step(trajectory, 1)] == steps
    assert max(Blob.objects.values_list("size", flat=True)) <= trajectory_store.MAX_CHUNK_BYTES


def test_of_a_text_that_stays_cut_a_page_has_the_end_and_a_piece_reads_no_more_than_it_needs(attempt):
    long = "".join(f"{n}\n" for n in range(400_000))
    trajectory = save(attempt, [step(1, message=long, output=f"é{long}")])
    (found,) = trajectory_store.read_page(trajectory, 1, 1)
    assert found.tails["message"] == long[-trajectory_store.TAIL_CHARACTERS :]
    assert found.tails["observations/0"] == long[-trajectory_store.TAIL_CHARACTERS :]
    stored = trajectory_store.open_field(trajectory, 1, "observations/0")
    assert stored.length == len(long) + 1
    for start, end in ((0, 10), (262_140, 262_150), (1_000_000, 1_000_009), (stored.length - 3, None), (9, 9)):
        assert stored.read(start, end) == f"é{long}"[start:end]
    assert trajectory_store.open_field(trajectory, 1, "message").read() == long


def test_it_closes_a_chunk_at_one_mebibyte(attempt):
    trajectory = save(attempt, [step(number, output="x" * 30_000) for number in range(1, 101)])
    sizes = Blob.objects.filter(digest__in=trajectory.chunks.values("blob")).values_list("size", flat=True)
    assert len(sizes) > 2
    assert max(sizes) < trajectory_store.MAX_CHUNK_BYTES + 64 * 1024


def test_it_does_not_follow_references_that_a_trial_wrote(attempt):
    secret = Blob.objects.put(b"somebody else's")
    forged = {"$blob": [secret], "length": 3, "head": "x", "$$deep": {"$blob": [secret]}}
    steps = [step(1, arguments=forged)]
    trajectory = save(attempt, steps)
    assert [trajectory_store.read_whole_step(trajectory, 1)] == steps
    assert dict(trajectory_store.read_steps(trajectory, 1, 1)[0].step.tool_calls[0].arguments) == forged


def test_it_stores_what_a_database_could_not_hold(attempt):
    trajectory = save(attempt, [step(1, message="a\0b \ud800 c")])
    assert trajectory_store.read_steps(trajectory, 1, 1)[0].step.message == "a␀b � c"


def test_equal_steps_have_equal_digests(attempt):
    packed = [trajectory_store.pack_steps([step(1), step(2)]) for _ in range(2)]
    assert packed[0].digest == packed[1].digest
    assert trajectory_store.pack_steps([step(1)]).digest != packed[0].digest


def test_an_empty_trajectory_has_no_chunks(attempt):
    trajectory = save(attempt, [])
    assert trajectory.steps_total == 0
    assert trajectory_store.read_steps(trajectory, 1, 25) == []


def test_it_keeps_numbers_no_json_reader_agrees_on_as_text(attempt):
    trajectory = save(attempt, [step(1, arguments={"n": 10**40, "small": -5})])
    assert trajectory_store.read_steps(trajectory, 1, 1)[0].step.tool_calls[0].arguments == {
        "n": str(10**40),
        "small": -5,
    }


def test_it_gives_back_terminal_escapes_and_line_ends_as_they_were(attempt):
    steps = [step(1, message="a\r\nb", output="\x1b[31mred\x1b[0m 10%\r 20%\r\n")]
    trajectory = save(attempt, steps)
    assert list(trajectory_store.iterate_steps(trajectory)) == steps
