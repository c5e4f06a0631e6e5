"""From a model's text to a patch, or to an error that names its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.authoring.author_reply import MAX_REPLY_CHARS, UnreadableReply, read_patch
from runner.base.types import AuthorMode, ModelReply, Patch
from tests.cases import every

GOOD = {"summary": "s", "operation_type": "revise", "upsert_files": {"a/SKILL.md": "text"}, "delete_paths": []}
PATCH = Patch("s", "revise", {"a/SKILL.md": "text"})


def read(text: str, mode: AuthorMode = AuthorMode.REVISE, finish: str = "stop") -> Patch:
    return read_patch(ModelReply(text, finish_reason=finish), mode, "a")


@every(
    json.dumps(GOOD),
    json.dumps(GOOD, indent=2),
    f"\n\n  {json.dumps(GOOD)}  \n",
    f"\ufeff{json.dumps(GOOD)}",
    f"Here it is:\n```json\n{json.dumps(GOOD)}\n```\nDone.",
    f"```\n{json.dumps(GOOD, indent=1)}\n```",
    f"I looked at the trial.\n{json.dumps(GOOD)}\nThat should help.",
    f"The skill names `{{input}}` now.\n{json.dumps(GOOD)}",
    f"```json\n{json.dumps(GOOD, indent=1)}\n```\nIt reads ${{HOME}}.",
    f"<think>Maybe {{narrow}} it?</think>\n{json.dumps(GOOD)}\nUses {{x}}.",
    f'The log says {{"code": 1}}:\n```json\n{{"code": 1}}\n```\nSo:\n```json\n{json.dumps(GOOD)}\n```',
    json.dumps({**GOOD, "delete_paths": None}),
    json.dumps({key: value for key, value in GOOD.items() if key != "delete_paths"}),
    json.dumps({**GOOD, "reasoning": "more keys do no harm"}),
    '{"summary": "s", "operation_type": " revise ", "upsert_files": {"a/SKILL.md": "text"}}',
)
def test_it_finds_the_object_wherever_it_stands(text: str) -> None:
    assert read(text) == PATCH


def test_it_reads_text_with_fences_and_raw_line_ends_inside() -> None:
    text = '{"upsert_files": {"a/SKILL.md": "x\n```sh\nls\n```\ny"}, "operation_type": "revise"}'
    assert read(text).upsert_files == {"a/SKILL.md": "x\n```sh\nls\n```\ny"}


@every(
    ("", "empty"),
    ("   \n", "empty"),
    ("I cannot do that.", "not JSON at line 1, column 1"),
    ('{"upsert_files": {', "not JSON at line 1, column"),
    ('{"a": 1,\n "b": }', "not JSON at line 2, column"),
    ("[1, 2]", "a JSON array, expected an object"),
    ('"text"', "a JSON string, expected an object"),
    ("null", "a JSON null, expected an object"),
    ("{}", "upsert_files: missing, expected an object"),
    ('{"upsert_files": []}', "upsert_files: a JSON array"),
    ('{"upsert_files": "x"}', "upsert_files: a JSON string"),
    ('{"upsert_files": {"a/SKILL.md": null}}', "upsert_files['a/SKILL.md']: missing"),
    ('{"upsert_files": {"a/SKILL.md": {"x": 1}}}', "upsert_files['a/SKILL.md']: a JSON object"),
    ('{"upsert_files": {"a/SKILL.md": 7}}', "upsert_files['a/SKILL.md']: a JSON number"),
    ('{"upsert_files": {"a": "x", "a": "y"}}', "the key 'a' appears twice"),
    ('{"upsert_files": {}, "upsert_files": {}}', "the key 'upsert_files' appears twice"),
    ('{"upsert_files": {}, "delete_paths": "a/SKILL.md"}', "delete_paths: a JSON string, expected a list"),
    ('{"upsert_files": {}, "delete_paths": {"a": 1}}', "delete_paths: a JSON object, expected a list"),
    ('{"upsert_files": {}, "delete_paths": ["a", 2]}', "delete_paths[1]: a JSON number"),
    ('{"upsert_files": {}, "operation_type": ["revise"]}', "operation_type: a JSON array, expected text"),
    ('{"upsert_files": {}, "summary": 3}', "summary: a JSON number, expected text"),
    (f"{json.dumps(GOOD)}\n{json.dumps({**GOOD, 'summary': 'or'})}", "two JSON objects with upsert_files"),
    ('{a} {"upsert_files": {"a/SKILL.md": "long', "not JSON at line 1, column 2"),
    ("{" * 2_000_000, "not JSON"),
    ('{"upsert_files": {}, "x": NaN}', "NaN"),
    ('{"x": ' + "[" * 100_000, "nested too deeply"),
    ("```a\n" * 500_000, "not JSON"),  # as slow as its square if each fence looked for its end
    ("{" + ",".join(f'"{i}":0' for i in range(200_000)) + ',"0":0}', "the key '0' appears twice"),
    ('{"x": ' + "9" * 5_000 + "}", "not usable JSON"),
    ("x" * (MAX_REPLY_CHARS + 1), "characters, expected at most"),
    (json.dumps({"upsert_files": {f"{i}/SKILL.md": "" for i in range(201)}}), "201 files"),
    (json.dumps({"upsert_files": {}, "delete_paths": ["x"] * 201}), "201 entries"),
)
def test_it_names_the_place_of_what_it_cannot_read(text: str, said: str) -> None:
    with pytest.raises(UnreadableReply) as caught:
        read(text)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400


def test_it_says_when_a_reply_was_cut_off() -> None:
    with pytest.raises(UnreadableReply, match="cut off at the limit on output tokens"):
        read('{"upsert_files": {"a/SKILL.md": "long', finish="length")


@pytest.mark.parametrize("mode", [AuthorMode.ZERO_SHOT, AuthorMode.INDUCE])
def test_a_first_skill_may_come_as_one_text_and_without_an_operation(mode: AuthorMode) -> None:
    assert read('{"summary": "s", "skill_md": "text"}', mode) == Patch("s", "create", {"a/SKILL.md": "text"})
    with pytest.raises(UnreadableReply):
        read('{"summary": "s", "skill_md": "text"}')


def test_a_missing_operation_of_a_revision_is_left_to_the_contract() -> None:
    assert read('{"upsert_files": {}}').operation_type == ""


@pytest.mark.parametrize(
    ("summary", "kept"),
    [("two\nlines\tand  space", "two lines and space"), ("nul\0 esc\x1b[0m \ud800", "nul\ufffd esc\ufffd[0m \ufffd")],
)
def test_a_summary_is_one_line_that_can_be_stored(summary: str, kept: str) -> None:
    assert read(json.dumps({**GOOD, "summary": summary})).summary == kept


def test_a_summary_is_capped() -> None:
    assert len(read(json.dumps({**GOOD, "summary": "x" * 5_000})).summary) == 1_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
REPLIES = st.one_of(
    st.text(max_size=60),
    JSON.map(json.dumps),
    st.dictionaries(
        st.sampled_from(["summary", "operation_type", "upsert_files", "delete_paths", "skill_md"]), JSON, max_size=5
    ).map(json.dumps),
)


def read_or_complain(text: str, mode: AuthorMode) -> Patch | str:
    try:
        return read(text, mode)
    except UnreadableReply as error:
        return str(error)


@given(REPLIES, st.sampled_from(list(AuthorMode)))
def test_it_gives_a_patch_or_says_why_not(text: str, mode: AuthorMode) -> None:
    found = read_or_complain(text, mode)
    assert found  # a complaint is never empty
    if isinstance(found, Patch):
        assert all(isinstance(value, str) for value in (*found.upsert_files.values(), *found.delete_paths))


# --- the forms that a paper's prompts ask for -----------------------------------------------------------------------


def test_one_skill_between_marks_is_a_patch_and_says_whose_frontmatter_it_has() -> None:
    patch = read('Here:\n[SKILL]\n# Merge\n\n{"a": 1}\n[/SKILL]\nDone.', AuthorMode.WRITE)
    assert patch.upsert_files == {
        "a/SKILL.md": '---\nname: a\ndescription: How to work on tasks of the kind a.\n---\n\n# Merge\n\n{"a": 1}\n'
    }
    assert patch.summary.endswith("Its frontmatter is Skillglass's.")
    own = read("[SKILL]\n```markdown\n---\nname: a\ndescription: d\n---\nText.\n```\n[/SKILL]", AuthorMode.CORRECT)
    assert own.upsert_files == {"a/SKILL.md": "---\nname: a\ndescription: d\n---\nText.\n"}
    assert own.summary == "One skill between [SKILL] and [/SKILL]."


@pytest.mark.parametrize(
    ("text", "finish", "told"),
    [
        ("[SKILL]\n# Half", "length", r"\[SKILL\] without \[/SKILL\] \(the reply was cut off at the limit"),
        ("[SKILL]\n \n[/SKILL]", "stop", "nothing between the marks"),
    ],
)
def test_marks_that_hold_no_skill_say_so(text: str, finish: str, told: str) -> None:
    with pytest.raises(UnreadableReply, match=told):
        read(text, AuthorMode.WRITE, finish)


def test_marks_inside_json_are_text_and_modes_with_operations_know_no_marks() -> None:
    whole = {"summary": "s", "upsert_files": {"a/SKILL.md": "[SKILL]\nx\n[/SKILL]"}}
    for text in (json.dumps(whole), f"```json\n{json.dumps(whole, indent=1)}\n```"):
        assert read(text, AuthorMode.WRITE).upsert_files == whole["upsert_files"]
    with pytest.raises(UnreadableReply, match="no JSON object found|not JSON"):
        read("[SKILL]\nx\n[/SKILL]", AuthorMode.REVISE)


def test_the_folder_of_a_printed_prompt_is_the_library_where_skills_are_named() -> None:
    path = "environment/skills/a/SKILL.md"
    text = json.dumps({"upsert_files": {path: "x"}, "delete_paths": ["environment/skills/b/SKILL.md"]})
    patch = read(text, AuthorMode.CRAFT)
    assert (patch.upsert_files, patch.delete_paths) == ({"a/SKILL.md": "x"}, ("b/SKILL.md",))
    assert read(json.dumps({**GOOD, "upsert_files": {path: "x"}})).upsert_files == {path: "x"}
