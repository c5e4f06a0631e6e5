"""benchapp.analysis.deciding: which step most likely decided a check, by which rule."""

from __future__ import annotations

import time

from benchapp.analysis.deciding.deciding_steps import (
    DecidingStep,
    Rule,
    StepIndex,
    choose_chief,
    find_deciding_steps,
)
from benchapp.analysis.deciding.named_values import Expectation, is_telling, read_named_values
from benchapp.analysis.deciding.step_glances import StepGlance, StepKind, list_written_files
from runner.base.types import Observation, Source, Step, ToolCall
from tests.cases import every

SOLVE = "cat > solve.py <<'EOF'\nwith open('waiting.csv', 'w') as out:\n    out.write('x')\nEOF"


def shell(number: int, command: str, printed: str = "", **more: object) -> Step:
    return Step(
        number,
        Source.AGENT,
        tool_calls=(ToolCall("c", "shell", {"command": command}),),
        observations=(Observation(printed, "c"),),
        **more,  # type: ignore[arg-type]
    )


def walk(*steps: tuple[str, str]) -> StepIndex:
    told = [Step(1, Source.USER, "Average the waits; 202.05 is not among them.")]
    return StepIndex([*told, *(shell(number, command, printed) for number, (command, printed) in enumerate(steps, 2))])


def decide(name: str, message: str, index: StepIndex, **more: bool) -> list[tuple[int, str]]:
    return [(one.step, one.words) for one in find_deciding_steps(read_named_values(name, message), index, **more)]


def test_the_first_print_of_a_found_value_and_the_write_it_came_from() -> None:
    index = walk(
        (SOLVE, ""), ("python3 solve.py", "Mill Lane 1202.05"), (SOLVE, ""), ("python3 solve.py", "Mill Lane,202.05"),
        ("cat waiting.csv", "202.05"), (SOLVE, ""),
    )  # fmt: skip
    found = decide("hospitals", "Mill Lane: expected average 42.66, found 202.05", index)
    assert found == [(5, "first prints 202.05"), (4, "wrote solve.py")]


def test_what_wrote_and_printed_in_one_step_stands_once() -> None:
    index = walk((f"{SOLVE}\npython3 solve.py", "202.05"))
    assert decide("a", "expected 1.25, found 202.05", index) == [(2, "first prints 202.05")]


@every(
    "rm -f solve.py && ls",
    "mv solve.py /tmp/old.py",
    "cd /app; rm -rf -- ./out *.py",
    "git rm -q solve.py",
    "find . -name '*.py' -delete",
    "python3 - <<'EOF'\nimport os\nos.remove('solve.py')\nEOF",
    "apply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: solve.py\n*** End Patch\nEOF",
)
def test_a_missing_file_leads_to_the_step_that_removed_it(removal: str) -> None:
    index = walk((SOLVE, ""), ("python3 solve.py", "done"), (removal, ""), ("ls", "waiting.csv"))
    assert decide("solve.py is there", "expected a file solve.py, found none", index) == [(4, "removed solve.py")]
    assert decide("test", "FileNotFoundError: [Errno 2] No such file or directory: '/app/solve.py'", index)[0][0] == 4


def test_a_folder_goes_with_its_files() -> None:
    index = walk(("mkdir out; echo 1 > out/a.csv", ""), ("rm -rf out/*", ""))
    assert decide("result", "out/a.csv does not exist", index) == [(3, "removed a.csv")]
    assert decide("result", "data/a.csv does not exist", index) == [(2, "last write of a.csv")]


@every(SOLVE, "rm old.py", "ls")
def test_what_was_written_again_or_is_not_missed_was_not_removed(after: str) -> None:
    again = walk((SOLVE, ""), ("rm solve.py", ""), (SOLVE, ""))
    assert decide("solve.py is there", "found none", again) == [(4, "last write of solve.py")]
    wrong = walk((SOLVE, ""), (after, ""), ("rm solve.py", ""))
    assert (
        decide("solve.py gives the right result", "expected 1.25, found 2.50", wrong)[0][1] == "last write of solve.py"
    )


def test_a_value_of_the_input_was_decided_by_the_program_that_took_it() -> None:
    steps = (("head -n 3 tickets.csv", "T-425,open"), (SOLVE, ""), ("python3 solve.py && cat out.csv", "T-425,open"))
    found = decide("tickets", "ticket T-425: expected status solved, found open", walk(*steps))
    assert found == [(4, "first prints open"), (3, "wrote solve.py")]
    looked = walk(("cat notes.txt", "it is open"), ("ls", ""))
    assert decide("tickets", "expected status solved, found open", looked) == [(2, "first prints open")]


def test_what_nothing_names_leads_to_the_only_program() -> None:
    index = walk((SOLVE, ""), ("python3 -u ./solve.py", "ok"), ("ls", ""))
    assert decide("it is right", "", index) == [(2, "last write of solve.py, the only program it ran")]
    two = walk((SOLVE, ""), ("echo 1 > b.sh", ""), ("bash b.sh && python3 solve.py", "ok"))
    assert decide("it is right", "", two) == [(4, "no step matches; handed in here")]


def test_another_value_that_the_check_names() -> None:
    index = walk(("cut -f1 data.csv", "12\n999\n"), (SOLVE, ""))
    assert decide("solve.py treats 999 as missing", "", index) == [(2, "first shows 999")]


@every(("solve.py runs on its own", "last write of solve.py"), ("waiting.csv is there", "last write of solve.py"))
def test_the_last_write_of_a_named_file_or_of_its_program(name: str, said: str) -> None:
    index = walk((SOLVE, ""), ("ls", "solve.py"), (SOLVE, ""), ("ls", ""))
    assert decide(name, "", index) == [(4, said)]


def test_else_the_work_was_handed_in() -> None:
    steps = [shell(1, "ls", "a"), Step(2, Source.AGENT, tool_calls=(ToolCall("c", "submit", {}),))]
    index = StepIndex([*steps, Step(3, Source.AGENT, "bye")])
    assert decide("it is right", "", index) == [(2, "no step matches; handed in here")]
    assert decide("it is right", "", index, failed=False) == []
    assert decide("it is right", "", StepIndex([])) == []
    assert choose_chief(find_deciding_steps(read_named_values("it is right", ""), index)) is None


def test_the_chief_is_what_was_written_not_what_it_printed() -> None:
    found = (DecidingStep(5, Rule.PRINTS, "202.05"), DecidingStep(4, Rule.WROTE, "solve.py"))
    assert choose_chief(found) == found[1]


@every("1202.05", "202.051", "3.202.05", "x202.05", "202.05.1")
def test_a_value_inside_another_is_not_that_value(text: str) -> None:
    assert walk(("ls", text)).find_first_result("202.05") is None


@every("202.05", "a,202.05,b", "is 202.05.", "(202.05)", "=202.05\n")
def test_a_value_by_itself_is_found(text: str) -> None:
    assert walk(("ls", text)).find_first_result("202.05") == 2


@every(
    ("expected 41.2, got 27.5", Expectation("", "41.2", "27.5")),
    ("clinic Mill Lane: expected visits 11, found 13; b", Expectation("clinic Mill Lane, visits", "11", "13")),
    ("E   AssertionError: assert 27.5 == 41.2", Expectation("", "41.2", "27.5")),
    ("house C: expected one line, found none", Expectation("house C", "one line", "none")),
    ("sheet 7: expected name Rosa Jensen, found Ann", Expectation("sheet 7, name", "Rosa Jensen", "Ann")),
    ("expected 'values used: 86' in notes.md, found 94", Expectation("values used", "86", "94")),
)
def test_it_reads_what_was_expected_and_found(message: str, expected: Expectation) -> None:
    assert read_named_values("a", message).expectations[0] == expected


def test_a_short_value_is_looked_for_with_the_words_quoted_around_it() -> None:
    assert read_named_values("a", "expected 'values used: 86' in notes.md, found 94").found == ("values used: 94",)
    assert read_named_values("a", "expected visits 11, found 13").found == ()


@every(("1", False), ("27.5", True), ("ok", False), ("none", False), ("Rosa", True))
def test_only_values_that_stand_nowhere_else_are_looked_for(value: str, tells: bool) -> None:
    assert is_telling(value) is tells


@every(
        ("shell", {"command": SOLVE}, ["solve.py"]),
        ("shell", {"command": "python3 - <<EOF\nopen('a.csv', 'w')\nEOF"}, ["a.csv"]),
        ("shell", {"command": "cp a.txt /tmp/b.txt && sed -i s/x/y/ c.py | tee d.log "
            "2>/dev/null"}, ["d.log", "b.txt", "c.py"]),
        ("Write", {"file_path": "/app/x.py", "content": "open('y', 'w')"}, ["x.py"]),
        ("str_replace_editor", {"command": "view", "path": "/x.py"}, []),
        ("shell", {"command": "ls 2>&1 && a -> b"}, []),
    )  # fmt: skip
def test_it_knows_which_files_a_call_writes(tool: str, arguments: dict[str, object], files: list[str]) -> None:
    assert list(list_written_files(ToolCall("c", tool, arguments))) == files  # type: ignore[arg-type]


@every(
    (shell(3, "bash -lc 'ls -1 && wc -l *'", "a"), StepKind.SHELL, "ls -1 && wc -l *"),
    (shell(3, SOLVE), StepKind.WRITE, "write solve.py"),
    (shell(3, 'python3 -c "\nimport csv\n"'), StepKind.SHELL, 'python3 -c " import csv'),
    (Step(1, Source.SYSTEM, "You are\nan agent."), StepKind.SYSTEM, "System prompt"),
    (Step(2, Source.USER, "# How long?\n\nRead it."), StepKind.TASK, "How long?"),
    (Step(4, Source.AGENT, "", reasoning="null"), StepKind.MESSAGE, ""),
    (Step(4, Source.AGENT, tool_calls=(ToolCall("c", "submit", {}),)), StepKind.SUBMIT, "submit"),
)
def test_a_step_is_named_by_what_it_does(step: Step, kind: StepKind, label: str) -> None:
    glance = StepGlance(step)
    assert (glance.kind, glance.label) == (kind, label)


@every("<&\"'>", "cp ", "> ", "<<a", "open('", "a/", "expected a, ", ", found 1", "'", " ", "1.2.")
def test_hostile_texts_take_no_time(text: str) -> None:
    started = time.process_time()
    index = StepIndex([shell(1, text * 30_000, text * 30_000)])
    find_deciding_steps(read_named_values(text * 100, text * 3_000), index)
    assert time.process_time() - started < 2
