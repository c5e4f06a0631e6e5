"""The alignment: monotone, complete, symmetric, and never more work than its bound."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchapp.analysis.alignment.alignment import (
    LEAST,
    MAX_CELLS,
    WHOLE,
    AlignedRow,
    Alignment,
    DifferingPart,
    RowKind,
    StepSign,
    align,
    build_sign,
    measure_likeness,
)
from runner.base.types import Observation, Source, Step, ToolCall

COMMANDS = ("ls", "cat data.csv", "cat data.csv notes.md", "python sum.py", "python sum.py --all", "")


def did(command: str, result: str = "", *, tool: str = "shell", number: int = 1) -> StepSign:
    call = ToolCall("c", tool, {"command": command})
    return build_sign(Step(number, Source.AGENT, tool_calls=(call,), observations=(Observation(result, "c"),)))


def told(text: str) -> StepSign:
    return build_sign(Step(1, Source.USER, text))


def said(text: str) -> StepSign:
    return build_sign(Step(1, Source.AGENT, text))


signs = st.sampled_from(
    [
        *(did(command, result) for command in COMMANDS for result in ("", "1", "1 2")),
        *(said(command) for command in COMMANDS),
        *(told(command) for command in COMMANDS),
    ]
)
walks = st.lists(signs, max_size=16)
rooms = st.sampled_from((0, 7, 40, MAX_CELLS))

patient = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def mirrored(alignment: Alignment) -> set[tuple[int | None, int | None]]:
    return {(row.right, row.left) for row in alignment.rows}


@patient
@given(walks, walks, rooms)
def test_it_has_every_step_once_and_keeps_the_order_of_both(
    left: list[StepSign], right: list[StepSign], room: int
) -> None:
    rows = align(left, right, max_cells=room).rows
    assert [row.left for row in rows if row.left is not None] == list(range(len(left)))
    assert [row.right for row in rows if row.right is not None] == list(range(len(right)))


@patient
@given(walks, walks, rooms)
def test_exchanging_the_sides_exchanges_the_result(left: list[StepSign], right: list[StepSign], room: int) -> None:
    one, other = align(left, right, max_cells=room), align(right, left, max_cells=room)
    assert mirrored(one) == {(row.left, row.right) for row in other.rows}
    assert (one.cells, one.is_banded) == (other.cells, other.is_banded)


@patient
@given(walks, rooms)
def test_identical_trajectories_belong_together_step_by_step(walk: list[StepSign], room: int) -> None:
    found = align(walk, list(walk), max_cells=room)
    assert found.rows == tuple(AlignedRow(place, place, RowKind.SAME) for place in range(len(walk)))
    assert found.parting().first is None
    assert found.cells == 0


@patient
@given(walks, walks, rooms)
def test_only_what_is_alike_is_paired_and_same_means_equal(
    left: list[StepSign], right: list[StepSign], room: int
) -> None:
    for row in align(left, right, max_cells=room).rows:
        if row.left is None or row.right is None:
            continue
        one, other = left[row.left], right[row.right]
        assert measure_likeness(one, other) >= LEAST
        assert (row.kind is RowKind.SAME) == (one == other)


@patient
@given(walks, walks, st.integers(0, 600))
def test_it_weighs_no_more_pairs_than_its_bound(left: list[StepSign], right: list[StepSign], room: int) -> None:
    asked = 0

    def counted(one: StepSign, other: StepSign) -> int:
        nonlocal asked
        asked += 1
        return measure_likeness(one, other)

    found = align(left, right, max_cells=room, like=counted)
    assert asked == found.cells <= room + 3 * (len(left) + len(right))


@patient
@given(walks, walks)
def test_without_a_band_no_other_pairing_between_anchors_is_more_alike(
    left: list[StepSign], right: list[StepSign]
) -> None:
    """Against a slow second implementation, where nothing is equal and so nothing is anchored."""
    right = [sign for sign in right if all(sign.action != other.action for other in left)]
    found = align(left, right)
    assert not found.is_banded
    gained = sum(
        measure_likeness(left[row.left], right[row.right]) - 350
        for row in found.rows
        if row.left is not None and row.right is not None
    )
    assert gained == slowly(left, right)


def slowly(left: list[StepSign], right: list[StepSign]) -> int:
    best = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, one in enumerate(left, start=1):
        for j, other in enumerate(right, start=1):
            alike = measure_likeness(one, other)
            pair = best[i - 1][j - 1] + alike - 350 if alike >= LEAST else 0
            best[i][j] = max(best[i - 1][j], best[i][j - 1], pair)
    return best[-1][-1]


@patient
@given(signs, signs)
def test_likeness_is_symmetric_and_whole_only_for_equal_steps(one: StepSign, other: StepSign) -> None:
    assert measure_likeness(one, other) == measure_likeness(other, one)
    assert 0 <= measure_likeness(one, other) <= WHOLE
    assert (measure_likeness(one, other) == WHOLE) == (one == other)


def test_ten_thousand_steps_with_nothing_in_common_stay_within_the_bound() -> None:
    left = [did(f"left {place} of all", f"{place}") for place in range(5_000)]
    right = [did(f"right {place} of all", f"{place}") for place in range(5_000)]
    found = align(left, right, max_cells=20_000)
    assert found.is_banded
    assert found.cells <= 20_000 + 3 * 10_000


def test_a_band_finds_what_lies_near_the_diagonal() -> None:
    left = [did(f"look at part {place} now", "a") for place in range(400)]
    right = [did(f"look at part {place} again", "a") for place in range(400)]
    assert align(left, right, max_cells=4_000).count(RowKind.CHANGED) > 390


# --- where they part --------------------------------------------------------------------------------------------


def test_it_tells_a_prompt_a_result_and_an_action_apart() -> None:
    left = [told("sum"), did("ls", "a b"), did("cat a", "1"), did("python sum.py", "3")]
    right = [told("sum, with skills"), did("ls", "a b skills"), did("cat a", "1"), did("cat skills", "x")]
    parting = align(left, right).parting()
    assert (parting.given, parting.result, parting.action) == (0, 1, 3)
    assert parting.first == 3


def test_they_part_at_another_result_where_they_never_act_differently() -> None:
    found = align([did("ls", "a"), did("cat a", "1")], [did("ls", "a"), did("cat a", "2")])
    assert [row.differs for row in found.rows] == [(), (DifferingPart.RESULT,)]
    assert found.parting().first == 1


def test_what_an_agent_says_without_acting_is_no_other_action() -> None:
    parting = align([said("I will look."), did("ls", "a")], [said("First, a plan."), did("ls", "b")]).parting()
    assert (parting.words, parting.action, parting.result) == (0, None, 2)
    assert parting.first == 0


def test_an_extra_step_is_on_its_side_alone() -> None:
    found = align([did("ls"), did("cat a")], [did("ls"), did("pwd"), did("cat a")])
    assert [row.kind for row in found.rows] == [RowKind.SAME, RowKind.RIGHT, RowKind.SAME]
    assert [(each.kind, each.length) for each in found.stretches()] == [(RowKind.SAME, 1), (None, 1), (RowKind.SAME, 1)]


def test_the_wording_of_a_step_that_calls_a_tool_is_no_difference() -> None:
    call = (ToolCall("c", "shell", {"command": "ls"}),)
    one, other = (
        build_sign(Step(1, Source.AGENT, text, tool_calls=call)) for text in ("Let me look.", "First, a look.")
    )
    assert align([one], [other]).rows[0].kind is RowKind.SAME


def test_another_tool_with_the_same_words_is_another_action() -> None:
    found = align([did("a b c", "1")], [did("a b c", "1", tool="bash")])
    assert found.rows[0].differs == (DifferingPart.ACTION,)


def test_long_texts_with_one_beginning_are_equal_only_by_their_pieces() -> None:
    step = Step(1, Source.AGENT, tool_calls=(ToolCall("c", "write", {"text": "a" * 2_000}),))
    one, other = (build_sign(step, {"tool_calls": [digest]}) for digest in ("1", "2"))
    assert align([one], [other]).rows[0].differs == (DifferingPart.ACTION,)
    assert align([one], [one]).rows[0].kind is RowKind.SAME
