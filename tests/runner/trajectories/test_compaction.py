import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.base.types import (
    Check,
    CheckGroup,
    CheckStatus,
    Compaction,
    CompactionKind,
    Failure,
    Observation,
    Source,
    Step,
    ToolCall,
    Verdict,
)
from runner.trajectories.compaction import MAX_OBSERVATIONS, SETTINGS, ShownVerdict, StepTexts, compact, render, tokens
from runner.trajectories.fields import field_text, fields
from tests.cases import every

RICH, ROUGH = CompactionKind.RICH, CompactionKind.ROUGH
FAILED = Verdict(
    source="suite",
    success=False,
    reward=0.75,
    checks=(
        Check(CheckGroup.HIDDEN, "test_sum", CheckStatus.FAILED, "expected 7, found 6"),
        Check(CheckGroup.PUBLIC, "test_file", CheckStatus.PASSED),
    ),
)


def steps(count: int, text: str = "nothing special") -> list[Step]:
    return [Step(number, Source.AGENT, f"{text} {number}") for number in range(1, count + 1)]


def of(trajectory: list[Step], kind: CompactionKind = RICH) -> Compaction:
    return compact(trajectory, kind, title="E1-LS1-T1")


def kept(compaction: Compaction) -> list[int]:
    return sorted({span.step for span in compaction.spans})


def test_it_has_the_parameters_of_table_8() -> None:
    rich, rough = SETTINGS[RICH], SETTINGS[ROUGH]
    assert (rich.head, rich.tail, rough.head, rough.tail) == (8, 12, 4, 8)
    assert (rich.reasoning_chars, rough.reasoning_chars) == (None, 0)
    assert (rich.tool_args_chars, rough.tool_args_chars) == (200, 100)
    for each in (rich, rough):
        assert (each.event_chars, each.total_tokens, each.observation_chars, each.message_chars) == (
            8000,
            8000,
            3000,
            None,
        )


@pytest.mark.parametrize(("kind", "head", "tail"), [(RICH, 8, 12), (ROUGH, 4, 8)])
def test_it_keeps_head_and_tail_and_marks_the_middle(kind: CompactionKind, head: int, tail: int) -> None:
    compaction = of(steps(50), kind)
    assert kept(compaction) == [*range(1, head + 1), *range(51 - tail, 51)]
    assert f"[... {50 - head - tail} steps left out ...]" in compaction.text
    assert (compaction.steps_total, compaction.steps_kept) == (50, head + tail)


def test_it_keeps_a_short_trajectory_whole() -> None:
    compaction = of(steps(20))
    assert kept(compaction) == list(range(1, 21))
    assert "left out" not in compaction.text


@every(
    "Traceback (most recent call last):",
    "ValueError: bad",
    "error: unknown option",
    "2 FAILED, 1 passed",
    "cat ../skills/csv-sums/SKILL.md",
    "wrote reward.txt",
    "the verifier says no",
    "Failed: the file is empty",
    "build failure: no such target",
    "=== 1 failed, 2 passed in 0.1 s ===",
    "12 errors found",
    "--- FAIL: TestSum",
    'Exception in thread "main" java.lang.Illegal',
    "...\nAssertionError\n",
    "E   AssertionError",
    "java.lang.NullPointerException\n\tat Main.main",
    "npm ERR! code ELIFECYCLE",
    "npm error missing script",
)
def test_it_keeps_a_middle_step_with_a_signal(text: str) -> None:
    trajectory = steps(50)
    trajectory[24] = replace(trajectory[24], observations=(Observation(text),))
    compaction = of(trajectory)
    assert 25 in kept(compaction)
    assert {span.reason for span in compaction.spans if span.step == 25} == {"signal"}


def test_a_failed_tool_call_is_a_signal_without_words() -> None:
    assert StepTexts(Step(1, Source.AGENT, observations=(Observation("no", is_error=True),))).has_signal
    assert not StepTexts(
        Step(1, Source.AGENT, "no terrors, no skills", observations=(Observation("unfailed"),))
    ).has_signal


@every("0 failed, 3 passed", "0 errors", "it failed silently", "Errors are rare", "see KeyError below", "10 erroring")
def test_prose_and_counts_of_none_are_no_signal(text: str) -> None:
    assert not StepTexts(Step(1, Source.AGENT, text)).has_signal


@every("a", "a.", "E ", "9", "1 ", "Error", "npm ", "\nE   a", "fail", "Exception in ")
def test_the_search_for_signals_is_linear(unit: str) -> None:
    text = "rror " + unit * (400_000 // len(unit))
    started = time.perf_counter()
    assert StepTexts(Step(1, Source.AGENT, text)).has_signal in (True, False)
    assert time.perf_counter() - started < 20  # a search that backtracks takes hours


def test_over_budget_the_oldest_signals_go_first() -> None:
    trajectory = steps(100)
    for number in range(20, 60):
        trajectory[number] = Step(number + 1, Source.AGENT, "Error: " + "x" * 2_000)
    compaction = of(trajectory)
    signals = [number for number in kept(compaction) if 8 < number < 89]
    assert signals == list(range(signals[0], 61))
    assert signals[0] > 21
    assert {1, 8, 89, 100} <= set(kept(compaction))
    assert compaction.tokens > 7_400


def test_over_budget_the_head_goes_before_the_tail_and_its_beginning_last() -> None:
    compaction = of([Step(number, Source.AGENT, "y" * 2_400) for number in range(1, 51)])
    assert kept(compaction) == [1, *range(39, 51)]


def test_the_last_step_always_stays() -> None:
    compaction = of([Step(number, Source.AGENT, "z" * 7_900) for number in range(1, 51)])
    assert kept(compaction) == [47, 48, 49, 50]
    assert kept(of([Step(number, Source.AGENT, "z" * 100_000) for number in range(1, 9)])) == [1, 2, 3, 8]


def test_a_cut_field_keeps_beginning_and_end_around_its_size() -> None:
    output = "BEGIN" + "." * 10_000 + "END"
    compaction = of([Step(1, Source.AGENT, "look", observations=(Observation(output),))])
    assert "Result 1: BEGIN" in compaction.text
    assert compaction.text.endswith("END")
    assert "[... 7,008 characters left out ...]" in compaction.text
    assert [(span.start, span.end) for span in compaction.spans[1:]] == [(0, 1500), (8508, 10008)]


def test_a_field_is_not_cut_where_the_mark_would_be_longer_than_the_cut() -> None:
    assert "left out" not in of([Step(1, Source.AGENT, "look", observations=(Observation("x" * 3_020),))]).text
    assert "left out" in of([Step(1, Source.AGENT, "look", observations=(Observation("x" * 3_100),))]).text


@pytest.mark.parametrize(("kind", "limit"), [(RICH, 200), (ROUGH, 100)])
def test_tool_arguments_have_their_own_limit(kind: CompactionKind, limit: int) -> None:
    call = ToolCall("c", "Bash", {"command": "echo " + "w" * 500})
    compaction = of([Step(1, Source.AGENT, tool_calls=(call,))], kind)
    assert sum(span.end - span.start for span in compaction.spans) == len("Bash\n") + limit


def test_only_the_first_three_tool_calls_of_a_step_stay() -> None:
    calls = tuple(ToolCall(str(index), f"tool{index}", {}) for index in range(5))
    text = of([Step(1, Source.AGENT, tool_calls=calls)]).text
    assert "tool2" in text
    assert "tool3" not in text
    assert "[... 2 tool calls left out, 10 characters ...]" in text


def test_of_many_results_the_first_and_last_stay() -> None:
    results = tuple(Observation(f"result-{index:02}") for index in range(20))
    text = of([Step(1, Source.AGENT, observations=results)]).text
    assert "result-03" in text
    assert "result-16" in text
    assert "result-04" not in text
    assert f"[... {20 - MAX_OBSERVATIONS} results left out, 108 characters ...]" in text


def test_rough_drops_reasoning_and_says_so() -> None:
    step = Step(1, Source.AGENT, "said", reasoning="thought")
    assert "Reasoning: thought" in of([step]).text
    rough = of([step], ROUGH).text
    assert "thought" not in rough
    assert "Reasoning: [... 7 characters left out ...]" in rough


def test_what_a_condition_added_behind_the_instruction_is_left_out() -> None:
    told = Step(1, Source.USER, "Add up column b.\n\nSkills lie in ../skills.")
    trajectory = [told, Step(2, Source.AGENT, told.message)]
    made = compact(trajectory, RICH, title="t", instruction="Add up column b.")
    first, second = made.text.split("## Step ")[1:]
    assert first == "1, user\nAdd up column b.\n[... 26 characters left out ...]\n\n\n"
    assert second.endswith("Skills lie in ../skills.")
    assert render(made.spans, trajectory, title="t") == made.text


def test_the_header_tells_verdict_and_reward() -> None:
    def header(verdict: Verdict | None, with_checks: bool = False) -> str:
        return compact(steps(1), RICH, title="T1", shown=ShownVerdict(verdict, with_checks=with_checks)).text.partition(
            "\n\n## "
        )[0]

    assert header(None) == "# Trajectory of T1: no verdict"
    assert header(FAILED) == "# Trajectory of T1: FAILED, reward 0.75"
    assert header(Verdict("suite", success=True)) == "# Trajectory of T1: PASSED"
    assert header(Verdict("suite", success=None, reward=0.5)) == "# Trajectory of T1: verdict unknown, reward 0.5"
    hidden = compact(steps(1), RICH, title="T1", shown=ShownVerdict(FAILED, with_checks=True, is_hidden=True)).text
    assert hidden.partition("\n\n## ")[0] == "# Trajectory of T1: verdict not shown"
    assert header(FAILED, True).endswith("Failed checks:\n- hidden test_sum: expected 7, found 6")


def test_without_checks_no_message_of_a_check_is_shown() -> None:
    text = compact(steps(3), ROUGH, title="T1", shown=ShownVerdict(FAILED)).text
    assert "expected 7" not in text
    assert "test_sum" not in text


def test_many_failed_checks_are_cut_with_their_number() -> None:
    checks = tuple(Check(CheckGroup.HIDDEN, f"check-{index}", CheckStatus.FAILED, "m" * 900) for index in range(100))
    compaction = compact(
        steps(50), RICH, title="t", shown=ShownVerdict(Verdict("suite", False, checks=checks), with_checks=True)
    )
    assert "failed checks left out ...]" in compaction.text
    assert compaction.steps_kept == 20


def test_no_steps_give_a_text_that_says_so() -> None:
    compaction = of([])
    assert compaction.text.endswith("[no steps recorded]")
    assert (compaction.spans, compaction.steps_total) == ((), 0)


def test_tokens_are_a_quarter_of_the_characters_rounded_up() -> None:
    assert [tokens("x" * length) for length in (0, 1, 4, 5)] == [0, 1, 1, 2]


TEXTS = st.one_of(
    st.text(max_size=30),
    st.builds(lambda text, times: text * times, st.text(min_size=1, max_size=8), st.integers(1, 3_000)),
    st.just("Error: it broke"),
)
CALLS = st.lists(
    st.builds(
        ToolCall,
        st.text(max_size=3),
        st.text(min_size=1, max_size=9),
        st.dictionaries(st.text(max_size=5), TEXTS, max_size=3),
    ),
    max_size=5,
)
STEPS = st.builds(
    Step,
    number=st.just(0),
    source=st.sampled_from(Source),
    message=TEXTS,
    reasoning=st.none() | TEXTS,
    tool_calls=CALLS.map(tuple),
    observations=st.lists(st.builds(Observation, TEXTS), max_size=12).map(tuple),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=40), st.sampled_from(CompactionKind), st.booleans(), st.text(max_size=400))
def test_any_compaction_fits_keeps_the_end_and_can_be_rebuilt(
    raw: list[Step], kind: CompactionKind, with_checks: bool, title: str
) -> None:
    trajectory = [replace(step, number=number) for number, step in enumerate(raw, start=1)]
    compaction = compact(iter(trajectory), kind, title=title, shown=ShownVerdict(FAILED, with_checks=with_checks))
    assert compaction.tokens == tokens(compaction.text) <= 8_000
    assert compaction.steps_kept == len(kept(compaction))
    is_prompt = all(step.source is Source.SYSTEM for step in trajectory)
    assert is_prompt or trajectory[-1].number in kept(compaction)
    rebuilt = render(
        compaction.spans, iter(trajectory), title=title, shown=ShownVerdict(FAILED, with_checks=with_checks)
    )
    assert rebuilt == compaction.text
    assert compaction == compact(trajectory, kind, title=title, shown=ShownVerdict(FAILED, with_checks=with_checks))


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from(CompactionKind))
def test_any_step_is_accounted_for_to_the_character(raw: Step, kind: CompactionKind) -> None:
    step = replace(raw, number=1)
    compaction = of([step], kind)
    names = {name for name, _ in fields(step)}
    by_field: dict[str, int] = {}
    for span in compaction.spans:
        if span.field in names:
            assert span.length == len(field_text(step, span.field))
            assert compaction.text.count(field_text(step, span.field)[span.start : span.end]) >= 1
            assert span.start >= by_field.get(span.field, 0)
            by_field[span.field] = span.end
        else:
            assert (span.field, span.start, span.end, span.length) == ("message", 0, 0, 0)
    assert len(compaction.text.partition("\n\n")[2]) <= SETTINGS[kind].event_chars


def test_the_harness_s_prompt_is_no_part_of_a_trace() -> None:
    """Neither kept nor marked nor counted among the first steps. A later system step is something that happened."""
    trajectory = [
        Step(1, Source.SYSTEM, "You solve tasks in a shell."),
        Step(2, Source.SYSTEM, "Skills of the library: SECRET OF ANOTHER FAMILY"),
        Step(3, Source.USER, "Sum it up."),
        Step(4, Source.SYSTEM, "[context compressed]"),
        Step(5, Source.AGENT, "Done."),
    ]
    for kind in (RICH, ROUGH):
        made = compact(trajectory, kind, title="T1")
        assert made.text == (
            "# Trajectory of T1: no verdict\n\n## Step 3, user\nSum it up.\n\n"
            "## Step 4, system\n[context compressed]\n\n## Step 5, agent\nDone."
        )
        assert (made.steps_total, made.steps_kept) == (5, 3)
        assert render(made.spans, trajectory, title="T1") == made.text
    alone = compact(trajectory[:1], RICH, title="T1")
    assert alone.text == "# Trajectory of T1: no verdict\n\n[no steps recorded]"


def test_the_header_says_how_the_agent_ended_whether_or_not_a_verdict_is_shown() -> None:
    ending = Failure("TurnLimit", "Not submitted\n## after 40 turns.")
    for shown, told in ((True, "FAILED, reward 0.75"), (False, "verdict not shown")):
        text = compact(steps(2), RICH, title="T1", shown=ShownVerdict(FAILED, is_hidden=not shown), ending=ending).text
        assert text.startswith(
            f"# Trajectory of T1: {told}\nThe agent did not finish: TurnLimit. Not submitted ## after 40 turns.\n\n"
        )
