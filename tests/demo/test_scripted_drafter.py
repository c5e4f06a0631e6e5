"""The scripted model as drafter: which rules it finds, what it can vary,
and that it says so where it can do nothing."""

from __future__ import annotations

import tomllib

import pytest

from demo.scripted import Scripted
from demo.scripted_drafter import TRADES, TableRule, TableTask, find_rule, read_table_task
from demo.scripted_profile import Dice
from runner.base.types import File
from runner.drafting import loops
from runner.drafting.draft import Ask, Loop, UnusableAnswer
from tests.cases import every
from tests.runner.drafts import PlayedDraft, make_brief, play


@every(
    ("A parcel weighs at most 31,500 grams.", TableRule("most", 31_500)),
    ("Boxes of no more than 30 kilos are taken.", TableRule("most", 30)),
    ("A series has at least 5 races.", TableRule("least", 5)),
    ("The weight is rounded up to the next full 500 g.", TableRule("step", 500)),
    ("Whatever is longer than 120 minutes does not count.", TableRule("most", 120)),
    ("Loans shorter than 3 days are left out.", TableRule("least", 3)),
    ("Loans longer than 14 days are frequent.", None),
    ("The desk opens at nine.", None),
    ("At most 1 of them.", None),
    ("At most 99,999,999,999 of them.", None),
)
def test_a_rule_is_found_where_it_says_what_counts(text: str, rule: TableRule | None) -> None:
    assert find_rule(text) == rule


@pytest.mark.parametrize("kind", ["most", "least", "step"])
def test_a_table_task_is_read_again_from_its_files(kind: str) -> None:
    rule = TableRule(kind, 40)
    task = TableTask('Loans "by" branch', TRADES[2], rule, rule.sentence(TRADES[2].amount), 2)
    files = task.files(Dice(5))
    assert read_table_task(files) == task
    assert tomllib.loads(files["task.toml"])["task"]["name"] == 'Loans "by" branch'
    assert read_table_task({**files, "environment/more.csv": "a\n"}) is None
    assert read_table_task({**files, "solution/solve.sh": "true\n"}) is None


def test_its_critic_finds_a_file_that_a_person_renamed_in_an_instruction() -> None:
    path = "tasks/fee-tables-4/instruction.md"

    def edit(draft: PlayedDraft) -> None:
        if draft.keys[-1] == "architect/2/1":
            text = draft.text(path).replace(".csv`, a record", "-old.csv`, a record")
            draft.files = {**draft.files, path: File(text.encode())}

    seed = {f"tasks/fee-tables-1/{name}": File(b"# Add\n") for name in ("instruction.md", "task.toml")}
    draft = play(make_brief(Loop.EXPANSION), seed, between=edit)
    assert draft.keys[-3:] == ["critic/2/1", "architect/2/2", "critic/2/2"]
    assert "fee-tables-4, instruction.md: it names" in draft.taken[-3].words
    assert "-old.csv" not in draft.text(path)


@pytest.mark.parametrize(
    ("loop", "files"),
    [
        (Loop.INSTANCES, {"tasks/fee-tables-1/instruction.md": File(b"# Write a poem\n")}),
        (Loop.CORPUS, {"corpus/a.md": File(b"# A poem\n\nWithout any list.\n")}),
    ],
)
def test_it_says_so_where_it_can_do_nothing(loop: Loop, files: dict[str, File]) -> None:
    brief = make_brief(loop)
    ask = loops.next_ask(brief, files, [])
    assert isinstance(ask, Ask)
    reply = Scripted().complete(ask.request)
    assert "this is the scripted model" in reply.text
    with pytest.raises(UnusableAnswer, match="the model refuses"):
        loops.take_answer(brief, files, ask.key, reply.text)


def test_every_answer_says_that_it_is_scripted() -> None:
    seed = {f"tasks/fee-tables-1/{name}": File(b"# Add\n") for name in ("instruction.md", "task.toml")}
    for request in [ask.request for ask in play(make_brief(Loop.EXPANSION), seed).asks]:
        assert '"summary": "Scripted model: ' in Scripted().complete(request).text
