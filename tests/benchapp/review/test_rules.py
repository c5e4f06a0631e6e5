"""Each rule: where it speaks, and the nearest thing where it must not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchapp.analysis.failures.classification import CheckMessage, keep_answers
from benchapp.analysis.trial_rules import PATCH_RULES, RULES, TRIAL_RULES, examine
from benchapp.analysis.trial_rules.patch_rules import PatchFacts
from benchapp.analysis.trial_rules.rules import KINDS_OF_ERROR, TrialFacts, TrialFinding, read_course
from runner.base.types import Observation, Source, Step, ToolCall
from tests.cases import every


def shell(number: int, command: str, result: str = "", *, error: bool = False, message: str = "") -> Step:
    call = ToolCall(f"c{number}", "Bash", {"command": command})
    return Step(
        number, Source.AGENT, message, tool_calls=(call,), observations=(Observation(result, f"c{number}", error),)
    )


def says(number: int, message: str) -> Step:
    return Step(number, Source.AGENT, message)


def facts(
    steps: Sequence[Step] | None = None, *, messages: Sequence[str] = (), success: bool | None = False, **fields: Any
) -> TrialFacts:
    checks = tuple(CheckMessage(f"check {place}", text, "failed") for place, text in enumerate(messages))
    course = None if steps is None else read_course(steps)
    return TrialFacts(success=success, checks=checks, course=course, **fields)


def found(given: TrialFacts) -> dict[str, TrialFinding]:
    return {rule.key: finding for rule, finding in examine(given, TRIAL_RULES)}


LOOK = [shell(1, "ls"), says(2, "I could not finish.")]


# --- skills -----------------------------------------------------------------------------------------------------


def test_it_calls_a_failure_with_unread_skills_a_silent_bypass() -> None:
    finding = found(facts(LOOK, mounted=frozenset({"tidy-tables"})))["silent-bypass"]
    assert finding.attribution == "agent"
    assert "tidy-tables" in finding.reason


@every(
    {"mounted": frozenset({"tidy-tables"}), "read": (("tidy-tables", 1),)},  # it was read
    {"mounted": frozenset()},  # nothing to read
    {"mounted": None},  # nobody knows
    {"mounted": frozenset({"tidy-tables"}), "success": True},
    {"mounted": frozenset({"tidy-tables"}), "success": None},
)
def test_it_sees_no_bypass_where_it_cannot_know_one(other: dict[str, Any]) -> None:
    assert "silent-bypass" not in found(facts(LOOK, **other))


def test_it_sees_no_bypass_without_a_trajectory() -> None:
    assert "silent-bypass" not in found(facts(None, mounted=frozenset({"tidy-tables"})))


def test_it_names_the_step_at_which_a_failed_trial_read_a_skill() -> None:
    finding = found(facts(LOOK, read=(("tidy-tables", 4), ("other", 6))))["read-and-failed"]
    assert (finding.place[0], finding.attribution) == (4, "")


def test_it_sees_that_a_skill_asked_for_was_not_there() -> None:
    steps = [
        Step(
            1,
            Source.AGENT,
            "",
            tool_calls=(ToolCall("a", "load_skill", {"name": "x"}),),
            observations=(Observation("Skill not found: x", "a", True),),
        )
    ]
    assert found(facts(steps))["skill-missing"].quote == "Skill not found: x"


# --- endings ----------------------------------------------------------------------------------------------------


def test_it_tells_the_agents_time_limit_from_the_verifiers() -> None:
    agent = found(facts(LOOK, success=None, exception_type="AgentTimeoutError", exception_message="after 600 s"))
    verifier = found(facts(LOOK, success=None, exception_type="VerifierTimeoutError"))
    assert "agent-timeout" in agent
    assert "verifier-toolchain" not in agent
    assert "agent-timeout" not in verifier
    assert verifier["verifier-toolchain"].attribution == "verifier"


def test_a_time_limit_means_nothing_where_the_trial_passed() -> None:
    assert found(facts(LOOK, success=True, exception_type="AgentTimeoutError")) == {}
    assert "agent-timeout" in found(facts(LOOK, success=None, exception_type="limit:time"))
    assert set(found(facts(LOOK, success=None, exception_type="AgentSetupTimeoutError"))) == {"harness-failure"}


def test_it_blames_the_harness_and_keeps_its_paths_out_of_the_reason() -> None:
    message = "No reward file found at /home/someone/jobs/without-codex/task/reward.txt"
    finding = found(facts(LOOK, success=None, exception_type="RewardFileNotFoundError", exception_message=message))[
        "harness-failure"
    ]
    assert finding.attribution == "harness"
    assert "codex" not in finding.reason
    assert "(a path)" in finding.reason


def test_it_sees_a_full_context_at_the_end_and_not_one_that_was_overcome() -> None:
    full = "Error: prompt is too long: 210000 tokens > 200000 maximum"
    at_the_end = [shell(1, "ls"), shell(2, "cat big", full, error=True)]
    long_ago = [shell(1, "cat big", full, error=True), *(shell(number, "ls") for number in range(2, 9))]
    assert found(facts(at_the_end))["context-exhausted"].place[0] == 2
    assert "context-exhausted" not in found(facts(long_ago))


def test_it_sees_that_the_verifiers_own_tool_failed() -> None:
    text = "subprocess.CalledProcessError: Command ['convert', '--again'] returned 1. stderr: Unknown option --again"
    assert found(facts(LOOK, messages=[text]))["verifier-toolchain"].attribution == "verifier"
    assert "verifier-toolchain" not in found(facts(LOOK, messages=["expected 3, got 4"]))


# --- checks -----------------------------------------------------------------------------------------------------


@every(
    ("expected 41.2, got 27.5", "Expected 41.2, got 27.5."),
    ("Mass mismatch. Expected ~34648.0, got 34.648", "off by a factor of 10^3"),
    ("expected -3.5, got 3.5", "the sign is wrong"),
    ("AssertionError: assert 12 == 14", "Expected 14, got 12."),
    ("Expected: 1,200 but was: 1,300", "Expected 1200, got 1300."),
    ("clinic Mill Lane: expected visits 11, found 13; and 5 more", "Expected 11, got 13."),
    ("expected 'values used: 86' in notes.md, found 94", "Expected 86, got 94."),
)
def test_it_reads_the_two_numbers_of_a_check(message: str, reason: str) -> None:
    assert reason in found(facts(LOOK, messages=[message]))["numeric-mismatch"].reason


@every(
    "expected 'a', got 'b'",
    "expected 3 rows",
    "expected 4, got 4",
    "expected 4, got None",
    "line 11: expected +44 20 9864 1453, found +442048815781",
    "expected 2026-01-20T17:08:21Z, found 2026-01-20T17:09:56Z",
    "expected one line, found 3",
    "expected v1.2.3, found 4",
)
def test_it_sees_no_numeric_mismatch_without_two_different_numbers(message: str) -> None:
    assert "numeric-mismatch" not in found(facts(LOOK, messages=[message]))


def test_it_sees_cells_without_values_and_leaves_other_nones_alone() -> None:
    cell = found(facts(LOOK, messages=["H12: expected 612.5, got None"]))
    assert cell["missing-recalculation"].quote == "H12: expected 612.5, got None"
    assert "missing-recalculation" not in found(facts(LOOK, messages=["total: expected 612.5, got None"]))


@every(
    ("missing-artifact", "FileNotFoundError: [Errno 2] No such file or directory: '/root/out.csv'"),
    ("missing-artifact", "Output file report.json was not created"),
    ("interface-schema", "KeyError: 'total'"),
    ("interface-schema", "json.decoder.JSONDecodeError: Expecting value: line 1"),
    ("interface-schema", "missing column: region"),
    ("runtime-dependency", "ModuleNotFoundError: No module named 'openpyxl'"),
)
def test_it_reads_the_kind_of_failure_off_a_check(rule: str, message: str) -> None:
    assert found(facts(LOOK, messages=[message]))[rule].quote in message
    assert rule not in found(facts(LOOK, messages=[message], success=True))


def test_it_does_not_take_a_tests_own_code_for_an_answer() -> None:
    text = (
        "    def test_values():\n"
        '>       assert found, "Results file not found"\n'
        "E       AssertionError: udp: expected 26092, got 25846\n"
        "\n/tests/test_outputs.py:223: AssertionError"
    )
    rules = found(facts(LOOK, messages=[keep_answers(text)], output=""))
    assert keep_answers(text).startswith("AssertionError: udp")
    assert set(rules) & {"missing-artifact", "numeric-mismatch"} == {"numeric-mismatch"}


def test_it_takes_a_missing_module_seriously_only_where_it_stayed_missing() -> None:
    error = "ModuleNotFoundError: No module named 'numpy'"
    overcome = [shell(1, "python a.py", error, error=True), *(shell(number, "ls") for number in range(2, 9))]
    stayed = [
        shell(1, "python a.py", error, error=True),
        shell(2, "pip install numpy"),
        shell(3, "python a.py", error, error=True),
    ]
    assert "runtime-dependency" not in found(facts(overcome))
    assert found(facts(stayed))["runtime-dependency"].place[0] == 3


def test_it_does_not_take_documentation_for_an_error() -> None:
    page = "# Troubleshooting\n" + "text\n" * 1000 + "ModuleNotFoundError: No module named 'numpy'\n"
    steps = [shell(number, "cat guide.md", page) for number in (1, 2, 3)]
    assert "runtime-dependency" not in found(facts(steps))


# --- conduct ----------------------------------------------------------------------------------------------------


def test_it_counts_the_same_error_whatever_its_numbers() -> None:
    steps = [
        shell(number, "python a.py", f"Traceback (most recent call last)\nValueError: row {number}", error=True)
        for number in (1, 2, 3)
    ]
    finding = found(facts(steps))["repeated-error"]
    assert (finding.place[0], finding.quote) == (1, "ValueError: row 1")
    assert "3 times, from step 1 to step 3" in finding.reason
    assert "repeated-error" not in found(facts(steps[:2]))


WRITE = "cat <<'PY' > solve.py\nprint(1)\nPY"


@every(
    ([WRITE], True),
    ([WRITE, "python solve.py"], True),  # running is no looking
    ([WRITE, "python solve.py", "cat out.json"], False),
    (["ls", WRITE], True),
    ([WRITE, "python solve.py && head -3 out.csv"], False),
    ([WRITE, "pytest -q"], False),
    ([WRITE, "bash -lc 'cat out.json'"], False),
    (["cat notes.txt"], False),  # nothing was changed
    (["cat in.csv && sed -i s/a/b/ in.csv"], True),
    ([WRITE, "python - <<'PY'\nimport json\nprint(json.load(open('out.json')))\nPY"], False),
    (["python - <<'PY'\nopen('out.json', 'w').write('1')\nPY"], True),
)
def test_it_sees_whether_anything_was_looked_at_after_the_last_change(commands: list[str], speaks: bool) -> None:
    steps = [shell(number, command) for number, command in enumerate(commands, start=1)]
    assert ("incomplete-verification" in found(facts(steps))) is speaks


@every(
    ("cat out.json", "The task is complete.", True),
    ("pytest -q", "The task is complete.", False),
    ("python check_output.py", "All done.", False),
    ("cat out.json", "All done.", True),
    ("cat out.json", "Done! The table is in out.json.", True),
    ("cat out.json", "Completed: every row is there.", True),
    ("cat out.json", "That has to be done by hand.", False),
    ("cat out.json", "I could not complete the task.", False),
    ("cat out.json", "Here is what I found.", False),
    ("cat out.json", "Successfully written, but only partially verified.", False),
)
def test_it_sees_a_claim_of_success_without_a_test(last: str, words: str, speaks: bool) -> None:
    steps = [shell(1, WRITE), shell(2, last), says(3, words)]
    assert ("premature-success" in found(facts(steps))) is speaks


def test_a_claim_without_any_change_is_not_said_to_follow_one() -> None:
    finding = found(facts([shell(1, "ls"), says(2, "The task is complete.")]))["premature-success"]
    assert finding.reason == "Claimed to be done; ran no test."


def test_handing_in_claims_nothing_by_itself() -> None:
    def ending(tool: str) -> list[Step]:
        return [shell(1, WRITE), Step(2, Source.AGENT, "out.csv is written.", tool_calls=(ToolCall("c", tool, {}),))]

    assert "premature-success" not in found(facts(ending("submit")))
    assert "premature-success" in found(facts(ending("mark_task_complete")))


def test_it_does_not_call_a_tested_success_premature_nor_a_passed_one() -> None:
    steps = [shell(1, WRITE), says(2, "The task is complete.")]
    assert "premature-success" in found(facts(steps))
    assert found(facts(steps, success=True)) == {}
    assert "premature-success" not in found(facts(steps, success=None))


# --- patches ----------------------------------------------------------------------------------------------------


def patch(**fields: Any) -> dict[str, TrialFinding]:
    return {rule.key: finding for rule, finding in examine(PatchFacts(**fields), PATCH_RULES)}


def test_it_finds_a_constant_of_one_shown_task_in_a_patch() -> None:
    added = {"tidy/SKILL.md": "# Tidy\n\nRead sales_q3_2019.csv first.\n"}
    shown = ("Clean sales_q3_2019.csv and write out.json.",)
    finding = patch(added=added, shown=shown, others=("Clean other.csv.",))["over-specific"]
    assert finding.quote == "Read sales_q3_2019.csv first."
    assert finding.attribution == "author"


@every(
    ("Read sales_q3_2019.csv first.", "Clean sales_q3_2019.csv too."),  # the family's, not one episode's
    ("Read the sales file first.", "Clean other.csv."),
    ("Write result.json.", "Clean other.csv."),  # everybody's name
)
def test_it_leaves_what_the_whole_family_shares(added: str, others: str) -> None:
    shown = ("Clean sales_q3_2019.csv and write result.json.",)
    assert "over-specific" not in patch(added={"tidy/SKILL.md": added}, shown=shown, others=(others,))


def test_it_finds_a_new_skill_that_is_named_like_an_old_one() -> None:
    skills = {
        "clean-tables": "clean tables: remove empty rows before summing columns",
        "tidy-tables": "tidy tables: remove empty rows before summing columns",
        "parse-logs": "parse logs: find failing requests",
    }
    assert "skill-inflation" in patch(added={}, skills=skills, new=frozenset({"tidy-tables"}))
    assert "skill-inflation" not in patch(added={}, skills=skills, new=frozenset({"parse-logs"}))
    assert "skill-inflation" not in patch(added={}, skills=skills, new=frozenset())


def test_it_counts_the_lines_of_a_skill() -> None:
    assert "clutter" in patch(added={"a/SKILL.md": "- a rule\n" * 501})
    assert "clutter" not in patch(added={"a/SKILL.md": "- a rule\n" * 500})
    assert "clutter" not in patch(added={"a/references/table.md": "- a rule\n" * 5000})


# --- all of them ------------------------------------------------------------------------------------------------


@every(*RULES)
def test_each_rule_says_what_it_sees_and_what_it_cannot(key: str) -> None:
    rule = RULES[key]
    assert len(rule.sees) > 30
    assert len(rule.cannot_see) > 20


@every(*RULES)
def test_each_rule_stands_in_the_documentation_with_its_codes(key: str) -> None:
    document = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "suggestions.md").read_text("utf-8")
    assert f"| `{key}` | {', '.join(RULES[key].codes)} |" in document


def test_no_rule_speaks_of_a_trial_that_passed() -> None:
    steps = [shell(n, "python a.py", "ModuleNotFoundError: No module named 'x'", error=True) for n in range(1, 5)]
    messages = ["expected 4, got 5", "KeyError: 'a'", "H12: expected 4, got None", "Unknown option --x"]
    given = facts(
        [*steps, says(5, "All done.")],
        success=True,
        messages=messages,
        exception_type="AgentTimeoutError",
        mounted=frozenset({"a"}),
        read=(("a", 1),),
    )
    assert found(given) == {}


def test_the_course_of_a_long_trajectory_stays_small() -> None:
    def steps() -> Any:
        for number in range(1, 3_001):
            word = "".join(chr(97 + int(digit)) for digit in str(number))
            yield shell(
                number, f"python {word}.py", f"Traceback (most recent call last)\nValueError: {word}", error=True
            )

    course = read_course(steps())
    assert course.steps_total == 3_000
    assert len(course.errors) == len(course.error_places) == KINDS_OF_ERROR


@every("a" * 200_000, "assert " * 50_000, "Expected " + "9" * 100_000, "E " * 60_000, "/" * 100_000)
def test_hostile_texts_cost_little(text: str) -> None:
    from time import perf_counter

    started = perf_counter()
    found(
        facts([shell(1, text[:50_000], text, error=True), says(2, text)], messages=[text[:4_000]], output=text[:20_000])
    )
    assert perf_counter() - started < 30
