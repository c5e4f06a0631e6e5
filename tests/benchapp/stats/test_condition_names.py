"""The plain name and the mark of a condition."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

from benchapp.imports.formats import format_names
from benchapp.stats.comparing.condition_names import KNOWN, SHAPES, Origin, name_condition
from runner.protocols.conditions import Start, conditions_of
from runner.protocols.registry import OFFERED as BENCHMARKS
from tests.cases import every

BASE = Path(__file__).parents[3] / "templates" / "base.html"
OFFERED = [(protocol, condition) for protocol in BENCHMARKS for condition in conditions_of(protocol).values()]
WROTE_FIRST = {  # who wrote the first skill, by what the library holds at the start
    Start.NO_LIBRARY: {Origin.NOBODY, Origin.TRACES},
    Start.EMPTY: {Origin.MODEL},
    Start.ZERO_SHOT: {Origin.MODEL},
    Start.LEARNED: {Origin.MODEL},
    Start.CURATED: {Origin.HUMAN},
}


@every(*OFFERED)
def test_every_condition_that_can_be_launched_has_a_plain_name(protocol, condition):
    name = name_condition(condition.name)
    assert name.title != condition.name
    assert name.origin in WROTE_FIRST[condition.start]
    assert (name.origin is Origin.TRACES) == (condition.retrieval_k > 0)


@every(*BENCHMARKS)
def test_two_conditions_of_a_protocol_share_neither_name_nor_mark(protocol):
    names = [name_condition(code) for code in conditions_of(protocol)]
    for one, other in combinations(names, 2):
        assert one.title != other.title
        assert one.short != other.short
        assert (one.colour, one.shape) != (other.colour, other.shape)


def test_every_shape_is_drawn_on_pages():
    drawn = set(re.findall(r'id="shape-([\w-]+)"', BASE.read_text()))
    assert drawn == {*SHAPES, *(name.shape for name in KNOWN.values())}


def test_no_name_is_kept_for_a_condition_that_is_gone():
    ours = {condition.name for _, condition in OFFERED} | {
        "old-skill",
        "with-skills",
    }  # the last two only come in with imports
    assert ours <= set(KNOWN)
    assert set(KNOWN) - ours <= set(format_names())  # a tool's own runs


@every(
    ("self-feedback@4", "Self-written, own feedback, 4 rounds"),
    ("naive-prompt@8000", "Generated, one prompt, 8,000 tokens"),
    ("one-shot@3", "Self-written, one shot, 3 seed instances"),
    ("one-shot@1", "Self-written, one shot, 1 seed instance"),
    ("one-shot@x", "Self-written, one shot, x"),
    ("with-skills@5b", "With skills, iteration 5b"),
    ("old-skill@2", "Old skill, iteration 2"),
    ("with <b>skills</b>", "with <b>skills</b>"),
)
def test_a_parameter_stands_in_words_and_a_foreign_code_as_it_is(code, title):
    assert name_condition(code).title == title


def test_a_foreign_condition_has_no_mark():
    name = name_condition("with-tools")
    assert (name.colour, name.origin) == ("", None)


def test_iterations_and_amounts_are_in_order_of_their_numbers():
    codes = ["self-feedback@10", "self-feedback@2", "old-skill@20", "old-skill@3", "old-skill@5b", "old-skill"]
    in_order = ["old-skill", "old-skill@3", "old-skill@5b", "old-skill@20", "self-feedback@2", "self-feedback@10"]
    assert sorted(codes, key=lambda code: name_condition(code).order) == in_order
