"""Answers that nobody hoped for: what can be used of them is, the rest is named, and nothing leads out of the task."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.base.types import File, Files
from runner.drafting import loops
from runner.drafting.draft import Loop, UnusableAnswer
from runner.drafting.drafted_answers import MAX_FILE_CHARS, MAX_FILES, MAX_REPLY_CHARS
from tests.cases import every
from tests.runner.drafts import CORPUS, make_brief, play

KEY = "instance/fee-tables-2"
TASK = "tasks/fee-tables-2"
BRIEF = make_brief(Loop.INSTANCES)
BASE: Files = {
    f"tasks/fee-tables-1/{path}": File(text.encode())
    for path, text in {
        "instruction.md": "# Add\n",
        "task.toml": 'version = "1.0"\n',
        "environment/a.csv": "1\n",
        "tests/test.sh": "true\n",
        "solution/solve.sh": "true\n",
    }.items()
}
GOOD = {
    f"{TASK}/instruction.md": "# Add\n",
    f"{TASK}/environment/a.csv": "2\n",
    f"{TASK}/tests/test.sh": "true\n",
    f"{TASK}/solution/solve.sh": "true\n",
}


def take(files: object = GOOD, around: str = "%s", **more: object) -> tuple[Files, tuple[str, ...]]:
    taken = loops.take_answer(BRIEF, BASE, KEY, around % json.dumps({"files": files, **more}))
    return taken.files, taken.findings


def refuse(text: str) -> str:
    with pytest.raises(UnusableAnswer) as refused:
        loops.take_answer(BRIEF, BASE, KEY, text)
    return str(refused.value)


def refuse_files(files: object) -> str:
    return refuse(json.dumps({"files": files}))


def test_a_plain_answer_is_taken_whole_and_what_it_lacks_is_added_with_a_line() -> None:
    files, findings = take(summary="Other\n data.")
    assert set(files) == {*BASE, *GOOD, f"{TASK}/task.toml"}
    assert findings == ("tasks/fee-tables-2 has no task.toml; a plain one was added.",)
    assert files[f"{TASK}/tests/test.sh"].mode == 0o755
    assert files[f"{TASK}/instruction.md"].mode == 0o644


@pytest.mark.parametrize(
    "around", ["Here it is:\n\n%s\n\nDone {really}.", "```json\n%s\n```", "\n\n%s\n", "```\n%s\n```\nBye."]
)
def test_words_and_fences_around_the_object_are_passed_over(around: str) -> None:
    assert set(take(around=around)[0]) > set(GOOD)


@every(
    *("../evil.sh", f"{TASK}/../../evil.sh", "/etc/passwd", f"{TASK}//a", f"{TASK}/./a", f"{TASK}\\a", f"{TASK}/a\0b"),
    *("tasks/fee-tables-1/instruction.md", "tasks/other/instruction.md", "workflow.json", "corpus/rules.md"),
    *("tasks/fee-tables-2", "skills/fee-tables/SKILL.md", f"{TASK}/a\nb", f"{TASK}/caf\u00e9", f"{TASK}/{'a' * 300}"),
)
def test_a_path_that_is_not_the_tasks_is_left_out_and_named(path: str) -> None:
    files, findings = take({**GOOD, path: "evil"})
    assert set(files) == {*BASE, *GOOD, f"{TASK}/task.toml"}
    assert all(files[each] == BASE[each] for each in BASE)
    assert any("Left out" in each for each in findings)


def test_paths_below_the_one_task_may_be_short() -> None:
    short = {path.removeprefix(f"{TASK}/"): text for path, text in GOOD.items()}
    assert take(short)[0].keys() == take()[0].keys()


@pytest.mark.parametrize("part", ["instruction.md", "tests/test.sh", "solution/solve.sh"])
def test_a_task_without_a_part_is_unusable_and_the_message_names_it(part: str) -> None:
    text = refuse_files({path: text for path, text in GOOD.items() if not path.endswith(part)})
    assert text.startswith("tasks/fee-tables-2: it lacks ")
    assert part in text


@every(
    ("", "answer: empty"),
    ("   \n", "answer: empty"),
    ("I'm sorry, I can't do that.", "the model refuses"),
    ("no json here", "not JSON at line 1"),
    ("[1, 2]", "a JSON array, expected an object with files"),
    ('"text"', "a JSON string"),
    ("{}", "an object without files"),
    ('{"files": {}}', "files: none below tasks/fee-tables-2/"),
    ('{"files": []}', "files: a JSON array"),
    ('{"files": null}', "files: missing"),
    ('{"files": {"a": "1"', "not JSON"),
    ('{"files": NaN}', "not JSON"),
    ('{"files": {"a": "1", "a": "2"}}', "'a' occurs twice"),
    ('{"files": {}} and {"files": {}}', "2 JSON objects"),
    ('{"files": {"tests/a": 1}}', "files['tasks/fee-tables-2/tests/a']: a JSON number"),
    ('{"files": {"tests/a": {"b": "c"}}}', "a JSON object, expected the file's whole text"),
    ('{"files": {"tests/a": "\\ud800"}}', "half of a surrogate pair"),
    ('{"files": {"tests/a": "\\u0000"}}', "NUL"),
    ('{"files": {"tests/' + "a" * 50 + '": "' + "b" * (MAX_FILE_CHARS + 1) + '"}}', "characters, expected at most"),
    ('{"a": ' * 100_000, "nested too deeply"),
    ("[" * 100_000, "expected a JSON object"),
    ("x" * (MAX_REPLY_CHARS + 1), "characters, expected at most"),
    (json.dumps({"files": {f"f{n}": "" for n in range(MAX_FILES + 1)}}), "301, expected at most 300"),
)
def test_an_answer_that_nothing_can_be_made_of_says_where_and_what_was_expected(answer: str, says: str) -> None:
    assert says in refuse(answer)


def test_what_is_no_toml_is_unusable() -> None:
    assert "tasks/fee-tables-2/task.toml" in refuse_files({**GOOD, f"{TASK}/task.toml": "= 3"})


def test_the_same_data_as_the_base_task_are_no_instance() -> None:
    text = refuse_files({**GOOD, f"{TASK}/environment/a.csv": "1\n", f"{TASK}/environment/Dockerfile": "FROM x\n"})
    assert text == "tasks/fee-tables-2/environment: the same files as fee-tables-1, expected other data"


@pytest.mark.parametrize("path", [f"{TASK}/Instruction.md", f"{TASK}/environment/a.csv/b", f"{TASK}/tests"])
def test_paths_that_cannot_stand_side_by_side_are_unusable(path: str) -> None:
    assert refuse_files({**GOOD, path: "x"}).startswith("files: ")


def test_a_revision_deletes_files_of_its_tasks_and_no_others() -> None:
    before = {
        **BASE,
        **{path: File(text.encode()) for path, text in {**GOOD, f"{TASK}/environment/answer.csv": "3"}.items()},
    }
    brief, gone = make_brief(Loop.EXPANSION), [f"{TASK}/environment/answer.csv", "tasks/fee-tables-1/task.toml", "x", 3]
    taken = loops.take_answer(brief, before, "architect/1/2", json.dumps({"files": {}, "delete": gone}))
    assert before.keys() - taken.files.keys() == {f"{TASK}/environment/answer.csv"}
    assert [each.split(":")[0] for each in taken.findings if each.startswith("Deleted")] == [
        *('Deleted nothing at "tasks/fee-tables-1/task.toml"', 'Deleted nothing at "x"', "Deleted nothing at 3")
    ]
    answer = json.dumps({"files": {}, "delete": [f"{TASK}/instruction.md"]})
    with pytest.raises(UnusableAnswer, match=r"it lacks instruction\.md"):
        loops.take_answer(brief, before, "architect/1/2", answer)


def test_many_lines_about_what_was_left_out_are_cut() -> None:
    findings = take({**GOOD, **{f"tasks/x{number}/a": "" for number in range(100)}})[1]
    assert len(findings) < 40
    assert any("More was left out" in each for each in findings)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "source", "title", "text", "what", "units", "gap", "tasks", "label"]), inner
        )
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(
    st.sampled_from(
        ["files", "steps", "accepts", "reasons", "units", "scenarios", "skill_md", "covers", "gaps", "summary"]
    ),
    JSON | st.dictionaries(st.text(max_size=12) | st.just("instruction.md"), JSON, max_size=3),
)
ASKED = (
    *((Loop.EXPANSION, key) for key in ("workflow", "architect/1/1", "architect/2/3", "critic/1/1")),
    *((Loop.CORPUS, key) for key in ("units", "scenarios", "task/parcels-1")),
    *((Loop.INSTANCES, KEY), (Loop.REFERENCE, "reference")),
)
AFTER_UNITS = play(make_brief(Loop.CORPUS), CORPUS, most=1).files


@given(answer=OBJECTS | JSON, asked=st.sampled_from(ASKED), around=st.sampled_from(["%s", "So: %s.", "%s %s"]))
def test_any_answer_is_taken_or_unusable_and_never_writes_what_was_not_asked_for(
    answer: object, asked: tuple[Loop, str], around: str
) -> None:
    (loop, key), before = asked, {**BASE, **AFTER_UNITS}
    try:
        after = loops.take_answer(make_brief(loop), before, key, around.replace("%s", json.dumps(answer))).files
    except UnusableAnswer:
        return
    changed = {path for path in after if after[path] != before.get(path)}
    assert all(
        path.startswith(("tasks/fee-tables-", "notes/", "skills/fee-tables/")) or path == "workflow.json"
        for path in changed
    )


# --- the image --------------------------------------------------------------------------------------------------------


def test_a_task_without_a_dockerfile_gets_the_smallest_one_and_it_follows_the_inputs() -> None:
    brief = make_brief(Loop.INSTANCES, image="python:3.12-slim")
    files = loops.take_answer(brief, BASE, KEY, json.dumps({"files": GOOD})).files
    lines = files[f"{TASK}/environment/Dockerfile"].content.decode().splitlines()[1:]
    assert lines == ["FROM python:3.12-slim", "WORKDIR /app", 'COPY ["a.csv", "/app/a.csv"]']
    more = loops.take_answer(brief, files, KEY, json.dumps({"files": {f"{TASK}/environment/b c.csv": "3"}})).files
    assert 'COPY ["b c.csv", "/app/b c.csv"]' in more[f"{TASK}/environment/Dockerfile"].content.decode()


def test_a_dockerfile_that_a_task_brings_is_left_as_it_is() -> None:
    brief = make_brief(Loop.INSTANCES, image="python:3.12-slim")
    own = {**GOOD, f"{TASK}/environment/Dockerfile": "FROM scratch\n"}
    files = loops.take_answer(brief, BASE, KEY, json.dumps({"files": own})).files
    assert files[f"{TASK}/environment/Dockerfile"].content == b"FROM scratch\n"


# --- other forms ------------------------------------------------------------------------------------------------------


@every(
    ({"accepts": "yes"}, 'accepts: "yes", expected true or false'),
    ({"accepts": False}, "reasons: missing"),
    ({"accepts": False, "reasons": []}, "reasons: a JSON array"),
    ({"accepts": False, "reasons": [" "]}, "reasons: a JSON array"),
    ({"accepts": False, "reasons": {"a": 1}}, "reasons: a JSON object"),
    ({"reasons": "good"}, "an object without accepts"),
)
def test_a_critic_says_yes_or_no_and_why(answer: object, says: str) -> None:
    with pytest.raises(UnusableAnswer, match=says):
        loops.take_answer(make_brief(Loop.EXPANSION), BASE, "critic/1/1", json.dumps(answer))


def test_a_first_draft_lacks_none_of_the_tasks_that_were_asked_for() -> None:
    brief = make_brief(Loop.EXPANSION)
    with pytest.raises(UnusableAnswer, match=r"^files: none for fee-tables-3"):
        loops.take_answer(brief, BASE, "architect/1/1", json.dumps({"files": GOOD}))
    assert loops.take_answer(brief, BASE, "architect/1/2", json.dumps({"files": GOOD}))


def test_a_workflow_that_breaks_the_rules_is_unusable_with_the_rule() -> None:
    steps = [{"id": f"s{n}", "label": "read", "grounding": "a", "why": "b"} for n in range(1, 4)]
    with pytest.raises(UnusableAnswer, match="5 to 8 steps: 3 now"):
        loops.take_answer(make_brief(Loop.EXPANSION), BASE, "workflow", json.dumps({"steps": steps}))


def test_units_that_can_be_used_are_kept_and_the_others_named() -> None:
    good = {"id": "u1", "source": "corpus/rules.md", "title": "Weights", "text": "At most 5.\nNot 6."}
    bad = [
        {**good, "id": "U 2"},
        {**good, "id": "u3", "source": "notes/x"},
        "text",
        {**good},
        {**good, "id": "u4", "text": ""},
    ]
    taken = loops.take_answer(make_brief(Loop.CORPUS), CORPUS, "units", json.dumps({"units": [good, *bad]}))
    assert json.loads(taken.files["notes/units.json"].content) == {"units": [good]}
    assert [each.split(":")[0] for each in taken.findings] == [
        *("Left out units[2].id", "Left out units[3].source", "Left out units[4]", "Left out units[5]"),
        "Left out units[6].text",
    ]
    with pytest.raises(UnusableAnswer, match="none can be used"):
        loops.take_answer(make_brief(Loop.CORPUS), CORPUS, "units", json.dumps({"units": bad[:2]}))


def test_scenarios_name_units_that_are_there_and_are_no_more_than_were_asked_for() -> None:
    brief = make_brief(Loop.CORPUS)
    files = play(brief, CORPUS, most=1).files
    good = {"id": "a", "title": "A", "what": "B", "units": ["u1"]}
    listed = [good, {**good, "id": "b", "units": ["u99"]}, {**good, "id": "c"}, {**good, "id": "d"}]
    taken = loops.take_answer(brief, files, "scenarios", json.dumps({"scenarios": listed}))
    assert [each["id"] for each in json.loads(taken.files["notes/scenarios.json"].content)["scenarios"]] == ["a", "c"]
    assert "scenarios[2].units" in taken.findings[0]
    assert "more than 2" in taken.findings[1]
    long = make_brief(Loop.CORPUS, family="f" * 40)  # a task's key is both, and has a longest length
    fits, too_long = (json.dumps({"scenarios": [{**listed[0], "id": "s" * length}]}) for length in (23, 24))
    assert loops.take_answer(long, files, "scenarios", fits)
    with pytest.raises(UnusableAnswer, match="at most 23"):
        loops.take_answer(long, files, "scenarios", too_long)


def test_scenarios_of_units_that_a_person_removed_are_unusable() -> None:
    with pytest.raises(UnusableAnswer, match=r"units\.json.*no such file"):
        loops.take_answer(make_brief(Loop.CORPUS), CORPUS, "scenarios", json.dumps({"scenarios": []}))


SKILL = "---\nname: fee-tables\ndescription: Adds up tables of fees by group. Use it for CSV files of fees.\n---\n\n1. Add.\n"  # noqa: E501


@every(
    ({"skill_md": SKILL.replace("name: fee-tables", "name: other")}, "name-is-folder"),
    ({"skill_md": "# no frontmatter"}, "frontmatter"),
    ({"skill_md": 3}, "skills/fee-tables/SKILL.md"),
    ({"covers": "fee-tables-9"}, "expected one of fee-tables-1, fee-tables-2"),
    ({"covers": None}, "covers: null"),
    ({"gaps": "none"}, "gaps: "),
    ({"gaps": []}, "at least one that a task shows"),
    ({"gaps": [{"gap": "Blanks.", "tasks": ["fee-tables-1"]}]}, "at least one that a task shows"),
    ({"gaps": [{"gap": "", "tasks": ["fee-tables-2"]}]}, "at least one that a task shows"),
)
def test_a_reference_skill_keeps_the_contract_and_names_its_gaps(change: dict[str, object], says: str) -> None:
    files = {**BASE, **{path: File(text.encode()) for path, text in GOOD.items()}}
    good = {"skill_md": SKILL, "covers": "fee-tables-1", "gaps": [{"gap": "Blanks.", "tasks": ["fee-tables-2", "x"]}]}
    brief = make_brief(Loop.REFERENCE)
    taken = loops.take_answer(brief, files, "reference", json.dumps(good))
    assert json.loads(taken.files["notes/gaps.json"].content)["gaps"] == [{"gap": "Blanks.", "tasks": ["fee-tables-2"]}]
    with pytest.raises(UnusableAnswer) as refused:
        loops.take_answer(brief, files, "reference", json.dumps({**good, **change}))
    assert says in str(refused.value)
