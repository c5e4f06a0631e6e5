"""From a model's text to a patch, or to an error that names its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.authoring.author_reply import MAX_REPLY_CHARS, UnreadableReply, read_patch
from runner.base.types import AuthorMode, ModelReply, Patch

GOOD = {"summary": "s", "operation_type": "revise", "upsert_files": {"a/SKILL.md": "text"}, "delete_paths": []}
PATCH = Patch("s", "revise", {"a/SKILL.md": "text"})


def read(text: str, mode: AuthorMode = AuthorMode.REVISE, finish: str = "stop") -> Patch:
    return read_patch(ModelReply(text, finish_reason=finish), mode, "a")


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_it_finds_the_object_wherever_it_stands(text: str) -> None:
    assert read(text) == PATCH


def test_it_reads_text_with_fences_and_raw_line_ends_inside() -> None:
    text = '{"upsert_files": {"a/SKILL.md": "x\n```sh\nls\n```\ny"}, "operation_type": "revise"}'
    assert read(text).upsert_files == {"a/SKILL.md": "x\n```sh\nls\n```\ny"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
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
    ],
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
