"""A pack says where it is wrong before anything is sent, and sends what it says with values in their places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.authoring.agent_prompts import AuthorKit
from runner.authoring.chosen_prompts import ChosenPrompts
from runner.base.errors import SetupError, SuiteError
from runner.base.types import AuthorMode
from runner.prompts.prompt_pack import PackMessage, PromptPack, find_pack, read_pack
from runner.prompts.roles import CHOSEN, MAX_CHOICE, OWN, VALUES, Asked, read_choice, say_choice, write_choice
from tests.cases import every
from tests.runner.small_patches import occasion

USER = "You look after {{family_key}}.\n\nWhat happened:\n{{trace}}\nReplace {{placeholders}} yourself.\n"


def write_pack(folder: Path, user: str = USER, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    message = {"role": "user", "file": "revise.txt", "values": {"trace": "evidence"}, "literal": ["placeholders"]}
    prompt = {"role": "author", "occasion": "revise", "messages": [message]}
    (folder / "revise.txt").write_text(user, "utf-8")
    told = {"format": "skillglass-prompts/1", "name": folder.name, "prompts": [prompt], **changes}
    (folder / "pack.yaml").write_text(yaml.safe_dump(told), "utf-8")
    return folder


def test_it_puts_values_in_their_places_and_leaves_literal_braces(tmp_path: Path) -> None:
    prompt = read_pack(write_pack(tmp_path / "mine")).find(Asked("author", "revise"), "selfgen-always")
    assert prompt is not None
    assert prompt.names == {"family_key", "evidence"}
    (message,) = prompt.fill({"family_key": "E1", "evidence": "```\nlog\n```"})
    assert message == {
        "role": "user",
        "content": "You look after E1.\n\nWhat happened:\n```\nlog\n```\nReplace {{placeholders}} yourself.\n",
    }


def test_an_agent_is_given_the_messages_as_one_text_but_not_what_is_for_one_answer(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "file": "once.txt", "answers_once": True},
        {"role": "user", "file": "revise.txt", "values": {"trace": "evidence"}, "literal": ["placeholders"]},
    ]
    prompts = [{"role": "author", "occasion": "revise", "messages": messages}]
    folder = write_pack(tmp_path / "mine", prompts=prompts)
    (folder / "once.txt").write_text("Reply with JSON.\n", "utf-8")
    chosen = ChosenPrompts({Asked("author", "revise"): read_pack(folder).prompts[0]})
    theirs = chosen.instruct(occasion())
    assert theirs is not None
    assert theirs.startswith("You look after E1-LS1.")
    assert "Reply with JSON" not in theirs
    kit = AuthorKit(occasion(), theirs)
    assert kit.instruction.startswith(theirs.rstrip())
    assert "# Where you write" in kit.instruction
    assert chosen.instruct(occasion(AuthorMode.INDUCE)) is None


def test_what_a_value_says_is_never_read_for_placeholders() -> None:
    message = PackMessage(role="user", file="a.txt", text="{{task}} {{skills}}")
    assert message.fill({"task": "{{skills}}", "skills": "\\1 {{task}}"}) == "{{skills}} \\1 {{task}}"


def test_a_value_of_several_lines_has_lines_of_its_own_where_a_print_ran_them_together() -> None:
    message = PackMessage(role="user", file="a.txt", text="Task: {{task}} Then go on.")
    assert message.fill({"task": "```\nSort.\n```"}) == "Task: \n```\nSort.\n```\n Then go on."


@every(
    (USER + "{{surprise}}", {}, "revise.txt: line 6, column 1", "{{surprise}} has no value"),
    (USER.replace("{{trace}}", ""), {}, "revise.txt: text", "expected the placeholder {{trace}}"),
    (USER.replace("{{placeholders}}", "x"), {}, "revise.txt: text", "expected the placeholder {{placeholders}}"),
    (USER + "{{advice}}", {}, "revise.txt: line 6, column 1", "{{advice}} has no value for prompts.0"),
    (USER, {"name": "paper"}, "pack.yaml: name", "expected another name than skillglass and paper"),
    (USER, {"name": "Not A Name"}, "pack.yaml: name", "should match pattern"),
    (USER, {"format": "other/1"}, "pack.yaml: format", "skillglass-prompts/1"),
    (USER, {"colour": "red"}, "pack.yaml: colour", "Extra inputs are not permitted"),
    (USER, {"prompts": []}, "pack.yaml: prompts", "at least 1 item"),
    (
        USER,
        {"prompts": [{"role": "agent", "occasion": "solve", "messages": [{"role": "user", "file": "revise.txt"}]}]},
        "pack.yaml: prompts.0",
        "found agent, solve",
    ),
    (
        USER,
        {"prompts": [{"role": "author", "occasion": "write", "messages": [{"role": "user", "file": "none.txt"}]}]},
        "none.txt: file",
        "expected a plain file",
    ),
    (
        USER,
        {"prompts": [{"role": "author", "occasion": "write", "messages": [{"role": "user", "file": "../x.txt"}]}]},
        "pack.yaml: prompts.0.messages.0.file",
        "should match pattern",
    ),
)
def test_every_error_names_file_and_place(user: str, changes: Any, place: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(SuiteError) as caught:
        read_pack(write_pack(tmp_path / "mine", user, **changes))
    assert place in str(caught.value)
    assert told in str(caught.value)


def test_a_prompt_is_there_once_for_each_condition(tmp_path: Path) -> None:
    message = {"role": "user", "file": "plain.txt"}
    prompts = [
        {"role": "author", "occasion": "write", "messages": [message]},
        {"role": "author", "occasion": "write", "condition": "one-shot", "messages": [message]},
    ]
    folder = write_pack(tmp_path / "mine", prompts=prompts)
    (folder / "plain.txt").write_text("Write {{task}}", "utf-8")
    pack = read_pack(folder)
    assert [pack.find(Asked("author", "write"), name) for name in ("one-shot", "other")] == [
        pack.prompts[1],
        pack.prompts[0],
    ]
    with pytest.raises(SuiteError, match="author, write exists already"):
        read_pack(write_pack(folder, prompts=[*prompts, prompts[0]]))


def test_its_digest_moves_with_every_word_and_with_nothing_else(tmp_path: Path) -> None:
    first = read_pack(write_pack(tmp_path / "mine"))
    assert read_pack(write_pack(tmp_path / "mine", source="from elsewhere")).digest == first.digest
    assert read_pack(write_pack(tmp_path / "mine", USER + " ")).digest != first.digest
    message = {"role": "system", "file": "revise.txt", "values": {"trace": "evidence"}, "literal": ["placeholders"]}
    prompts = [{"role": "author", "occasion": "revise", "messages": [message]}]
    assert read_pack(write_pack(tmp_path / "mine", prompts=prompts)).digest != first.digest


def test_an_unknown_pack_names_the_known_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_VAR", str(tmp_path))
    write_pack(tmp_path / "prompts" / "mine")
    assert isinstance(find_pack("mine"), PromptPack)
    for name in ("yours", "../prompts/mine", ""):
        with pytest.raises(SetupError, match="known: mine; manage.py read_prompts"):
            find_pack(name)


def test_a_choice_is_written_as_it_is_read() -> None:
    assert read_choice("paper") == dict.fromkeys(CHOSEN, "paper")
    assert read_choice("author.paper~teacher.mine") == {"author": "paper", "teacher": "mine"}
    assert read_choice("author.paper~teacher.skillglass") == {"author": "paper"}
    for text in (OWN, "paper", "mine", "author.paper", "author.mine~teacher.paper"):
        assert write_choice(read_choice(text)) == text
    assert write_choice(read_choice("teacher.mine~author.mine~student.mine~generator.mine")) == "mine"


@every(
    ("judge.paper", "expected one of the roles author, student, teacher, generator"),
    ("/etc", "expected skillglass, paper or the name of a pack"),
    ("", "expected skillglass, paper or the name of a pack"),
    ("author.paper~author.mine", "prompts of author: named twice"),
    ("x" * (MAX_CHOICE + 1), f"at most {MAX_CHOICE} characters"),
)
def test_a_choice_that_is_none_says_what_was_expected(text: str, told: str) -> None:
    with pytest.raises(SetupError, match=told):
        read_choice(text)


def test_a_choice_has_words_for_people() -> None:
    assert say_choice("paper") == "the paper's prompts"
    assert say_choice("mine") == "prompts of mine"
    assert say_choice("author.paper~teacher.mine") == "the paper's author prompts, teacher prompts of mine"


def test_every_value_has_a_word_for_what_it_is() -> None:
    assert all(all(known.values()) for known in VALUES.values())
