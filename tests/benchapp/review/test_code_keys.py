"""A code keeps its key from version to version, and no key ever means a second thing."""

from __future__ import annotations

import pytest

from benchapp.models import CodebookVersion
from benchapp.review.codebooks.codebook_file import starters
from benchapp.review.codebooks.codebook_versions import draft_of, freeze
from benchapp.review.codebooks.codes import Wording, add, merge, move, retire
from benchapp.review.codebooks.hierarchy import keys_of
from benchapp.review.queues.passes import judging_skills
from tests.benchapp.review.rewording import redefine, rename
from tests.worlds.factories import make_user
from tests.worlds.review_factories import make_code, make_version

pytestmark = pytest.mark.django_db


def named_keys(version: CodebookVersion) -> dict[str, str]:
    keys = keys_of(version)
    return {code.name: keys[code.pk] for code in version.codes.all()}


def make_tree() -> CodebookVersion:
    version = make_version((), frozen=False)
    group = make_code(version, "group", ordinal=0)
    make_code(version, "one", parent=group, ordinal=1)
    make_code(version, "two", parent=group, ordinal=2)
    make_code(version, "alone", ordinal=3)
    make_code(version, "last", ordinal=4)
    return freeze(version, make_user())


def test_a_key_is_the_place_in_the_tree() -> None:
    assert named_keys(make_tree()) == {"group": "1", "one": "11", "two": "12", "alone": "2", "last": "3"}


def test_the_next_version_keeps_the_keys_of_what_it_keeps_and_reuses_none() -> None:
    first = make_tree()
    draft = draft_of(first.codebook, make_user())
    codes = {code.name: code for code in draft.codes.all()}
    rename(codes["two"], "second", None)
    redefine(codes["last"], None, definition="Something else.", include="", exclude="")
    retire(codes["one"], None)
    retire(codes["alone"], None)
    add(draft, Wording("new below"), None, parent=codes["group"])
    add(draft, Wording("new"), None)
    assert named_keys(draft) == {"group": "1", "second": "12", "last": "3", "new below": "13", "new": "4"}
    assert named_keys(first)["alone"] == "2"  # what was coded under it still says so


def test_what_moves_below_another_or_is_merged_gets_a_key_of_its_own() -> None:
    draft = draft_of(make_tree().codebook, make_user())
    codes = {code.name: code for code in draft.codes.all()}
    move(codes["alone"], None, parent=codes["group"])
    merge([codes["one"], codes["two"]], Wording("both"), None)
    assert named_keys(draft) == {"group": "1", "both": "13", "alone": "14", "last": "3"}


def test_no_two_codes_of_a_version_have_one_key() -> None:
    version = make_version([f"code {n}" for n in range(12)])
    keys = [key for key in keys_of(version).values() if key]
    assert keys == list("123456789")


@pytest.mark.parametrize(
    ("starter", "ready"),
    [
        ("skill-evolution", {"plain reasoning error", "measurement", "verifier false negative"}),
        ("skillgenbench", {"runtime/dependency", "interface/schema", "numeric/formula"}),
        ("skillflow", {"within a trial", "missing recalculation", "premature success"}),
    ],
)
def test_codes_that_judge_skills_are_known_by_their_words(starter: str, ready: set[str]) -> None:
    version = make_version((), frozen=False)
    rows = {}
    for ordinal, (text, parent, _) in enumerate(starters()[starter].text.flat()):
        above = rows[parent.name] if parent else None
        rows[text.name] = make_code(version, text.name, definition=text.definition, parent=above, ordinal=ordinal)
    judging = judging_skills(rows.values())
    assert ready <= {name for name, code in rows.items() if code.pk not in judging}
    waiting = {name for name, code in rows.items() if code.pk in judging}
    assert waiting >= ({"silent bypass", "over-general", "patch refused"} if starter == "skill-evolution" else set())
    assert bool(waiting) == (starter != "skillgenbench")
