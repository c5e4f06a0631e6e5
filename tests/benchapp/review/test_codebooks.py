from __future__ import annotations

import json

import pytest
from django.db import transaction

from benchapp.models import Activity, Attribution, Code, Codebook, CodebookVersion, CodeOrigin
from benchapp.review.codebooks import codebook_versions
from benchapp.review.codebooks.codebook_file import (
    CodebookFileError,
    CodebookText,
    read_codebook,
    starters,
    write_codebook,
)
from benchapp.review.codebooks.codebook_versions import (
    CodebookRefused,
    digest_of,
    discard,
    draft_of,
    freeze,
    start,
    text_of,
)
from benchapp.review.codebooks.codes import Wording, add, merge, move, retire, reword, split_code
from benchapp.review.codebooks.hierarchy import in_order
from tests.benchapp.review.rewording import redefine, rename
from tests.cases import every
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_version

pytestmark = pytest.mark.django_db


def begun(*names: str) -> CodebookVersion:
    """A draft whose version before has codes of these names."""
    return draft_of(make_version(names or ["a", "b", "c"]).codebook, make_user())


def named(version: CodebookVersion, name: str) -> Code:
    return version.codes.get(name=name)


def origins(version: CodebookVersion) -> dict[str, dict[str, str]]:
    """name -> name in the version before -> kind"""
    return {
        code.name: {origin.before.name: origin.kind for origin in code.origins.select_related("before")}
        for code in version.codes.all()
    }


def tree(version: CodebookVersion) -> list[str]:
    return ["  " * depth + code.name for code, depth in in_order(version.codes.all())]


def acts() -> list[str]:
    return list(Activity.objects.order_by("id").values_list("verb", flat=True))


# --- beginning and freezing -----------------------------------------------------------------------------------------


def test_it_starts_with_a_draft_freezes_it_and_drafts_the_next() -> None:
    ada = make_user(username="ada")
    book = start("Ours", ada, about="What breaks")
    draft = book.versions.get()
    code = add(draft, Wording("a", "What a is"), ada)
    add(draft, Wording("a1"), ada, parent=code)
    first = freeze(draft, ada, "the first")
    assert (first.is_frozen, first.frozen_by, first.note, len(first.digest)) == (True, ada, "the first", 64)
    second = draft_of(book, ada)
    assert (second.number, second.previous, draft_of(book, make_user())) == (2, first, second)
    assert tree(second) == ["a", "  a1"]
    assert origins(second) == {"a": {"a": "kept"}, "a1": {"a1": "kept"}}
    assert digest_of(second) == first.digest
    assert acts() == ["codebook.started", "code.added", "code.added", "codebook.frozen", "codebook.drafted"]
    assert set(Activity.objects.values_list("target_id", flat=True)) == {book.public_id}


def test_it_refuses_to_freeze_nothing_or_nothing_new() -> None:
    ada = make_user()
    book = start("Ours", ada)
    with pytest.raises(CodebookRefused, match="without a code"):
        freeze(book.versions.get(), ada)
    add(book.versions.get(), Wording("a"), ada)
    freeze(book.versions.get(), ada)
    with pytest.raises(CodebookRefused, match="Nothing differs from version 1"):
        freeze(draft_of(book, ada), ada)
    rename(named(draft_of(book, ada), "a"), "b", ada)
    assert freeze(draft_of(book, ada), ada).number == 2


def test_it_refuses_to_change_what_was_frozen_since_it_was_looked_at() -> None:
    draft, ada = begun("a", "b"), make_user()
    seen = named(draft, "a")
    rename(named(draft, "b"), "c", ada)
    freeze(CodebookVersion.objects.get(pk=draft.pk), ada)
    for change in (
        lambda: add(draft, Wording("x"), ada),
        lambda: rename(seen, "x", ada),
        lambda: retire(seen, ada),
        lambda: split_code(seen, [Wording("x"), Wording("y")], ada),
        lambda: freeze(draft, ada),
        lambda: discard(draft, ada),
    ):
        with pytest.raises(CodebookRefused, match="no longer a draft"):
            change()


def test_discarding_takes_everything_back_and_leaves_a_trace() -> None:
    draft, ada = begun("a", "b"), make_user()
    add(draft, Wording("c"), ada, parent=named(draft, "a"))
    split_code(named(draft, "b"), [Wording("b1"), Wording("b2")], ada)
    discard(draft, ada)
    book = Codebook.objects.get()
    assert [version.number for version in book.versions.all()] == [1]
    assert tree(draft_of(book, ada)) == ["a", "b"]
    assert acts().count("codebook.discarded") == 1


def test_discarding_the_first_draft_takes_the_codebook_along() -> None:
    book = start("Ours", None)
    discard(book.versions.get(), None)
    assert not Codebook.objects.exists()
    assert acts() == ["codebook.started", "codebook.discarded"]


def test_no_two_codebooks_and_no_two_codes_share_a_name() -> None:
    start("Ours", None)
    with pytest.raises(CodebookRefused, match="already"):
        start(" ours ", None)
    draft = begun("Silent bypass", "b")
    for change in (
        lambda: add(draft, Wording("B"), None),
        lambda: rename(named(draft, "b"), " silent  BYPASS", None),
        lambda: split_code(named(draft, "b"), [Wording("x"), Wording("X")], None),
        lambda: merge([named(draft, "b"), add(draft, Wording("z"), None)], Wording("SILENT BYPASS"), None),
    ):
        with pytest.raises(CodebookRefused, match="already"), transaction.atomic():
            change()


@every(
    (Wording(" \x00 "), "needs a name"),
    (Wording("x" * 121), "at most 120"),
    (Wording("x", "y" * 8001), "definition may have 8,000"),
)
def test_it_refuses_codes_without_name_or_measure(wording: Wording, says: str) -> None:
    with pytest.raises(CodebookRefused, match=says):
        add(begun(), wording, None)


# --- origins --------------------------------------------------------------------------------------------------------


def test_each_act_says_how_a_code_follows() -> None:
    draft, ada = begun("keep", "name", "mean", "one", "two", "big", "old"), make_user()
    rename(named(draft, "name"), "title", ada)
    redefine(named(draft, "mean"), ada, definition="Something else", include="", exclude="")
    merge([named(draft, "one"), named(draft, "two")], Wording("both"), ada)
    split_code(named(draft, "big"), [Wording("big left"), Wording("big right")], ada)
    retire(named(draft, "old"), ada, reason="never used")
    add(draft, Wording("new"), ada)
    assert origins(draft) == {
        "keep": {"keep": "kept"},
        "title": {"name": "renamed"},
        "mean": {"mean": "redefined"},
        "both": {"one": "merged", "two": "merged"},
        "big left": {"big": "split"},
        "big right": {"big": "split"},
        "new": {},
    }
    assert tree(draft) == ["keep", "title", "mean", "both", "big left", "big right", "new"]


def test_a_name_or_a_meaning_changed_and_changed_back_was_kept() -> None:
    draft = begun("a")
    code = named(draft, "a")
    was = code.definition
    reword(code, Wording("b", "Other"), None)
    assert origins(draft) == {"b": {"a": "redefined"}}
    rename(code, "a", None)
    redefine(code, None, definition=was, include="", exclude="")
    assert origins(draft) == {"a": {"a": "kept"}}


def test_a_renamed_code_that_is_merged_was_merged() -> None:
    draft = begun("a", "b")
    rename(named(draft, "a"), "x", None)
    merge([named(draft, "b"), named(draft, "x")], Wording("y"), None)
    assert origins(draft) == {"y": {"a": "merged", "b": "merged"}}


def test_merging_with_a_new_code_is_no_merge_of_old_ones() -> None:
    draft = begun("a")
    new = add(draft, Wording("new"), None)
    old = named(draft, "a")
    merge([new, old], Wording.of(old), None)
    assert origins(draft) == {"a": {"a": "kept"}}


def test_a_split_stays_a_split_whatever_follows() -> None:
    draft = begun("a", "b")
    parts = split_code(named(draft, "a"), [Wording("a1"), Wording("a2")], None)
    rename(parts[0], "a", None)
    retire(parts[1], None)
    assert origins(draft)["a"] == {"a": "split"}
    merge([named(draft, "b"), parts[0]], Wording("b"), None)
    assert origins(draft) == {"b": {"a": "split", "b": "merged"}}


def test_a_merged_code_that_is_split_leaves_all_its_labels_to_readers() -> None:
    draft = begun("a", "b")
    both = merge([named(draft, "a"), named(draft, "b")], Wording("both"), None)
    split_code(both, [Wording("x"), Wording("y")], None)
    assert origins(draft) == {"x": {"a": "split", "b": "split"}, "y": {"a": "split", "b": "split"}}


def test_a_split_of_a_new_code_has_no_origin() -> None:
    draft = begun("a")
    split_code(add(draft, Wording("new"), None), [Wording("n1"), Wording("n2")], None)
    assert origins(draft) == {"a": {"a": "kept"}, "n1": {}, "n2": {}}


def test_somebody_elses_change_is_not_overwritten_unseen() -> None:
    draft = begun("a")
    code = named(draft, "a")
    seen = Wording.of(code).fingerprint
    rename(named(draft, "a"), "b", None)
    with pytest.raises(CodebookRefused, match="Somebody else changed"):
        reword(code, Wording("c"), None, seen=seen)
    assert reword(code, Wording("c"), None, seen=Wording.of(named(draft, "b")).fingerprint).name == "c"


# --- the tree -------------------------------------------------------------------------------------------------------


def test_moving_keeps_the_order_of_reading() -> None:
    draft = begun("a", "b", "c", "d")
    move(named(draft, "c"), None, parent=named(draft, "a"))
    move(named(draft, "d"), None, parent=named(draft, "a"), before=named(draft, "c"))
    assert tree(draft) == ["a", "  d", "  c", "b"]
    move(named(draft, "b"), None, parent=None, before=named(draft, "a"))
    assert tree(draft) == ["b", "a", "  d", "  c"]
    assert [code.ordinal for code in draft.codes.order_by("ordinal")] == [0, 1, 2, 3]
    assert origins(draft)["c"] == {"c": "kept"}


def test_no_code_hangs_below_itself() -> None:
    draft = begun("a", "b", "c")
    move(named(draft, "b"), None, parent=named(draft, "a"))
    move(named(draft, "c"), None, parent=named(draft, "b"))
    for below in ("a", "b", "c"):
        with pytest.raises(CodebookRefused, match="below itself"):
            move(named(draft, "a"), None, parent=named(draft, below))


def test_no_tree_grows_deeper_than_a_file_may_be() -> None:
    draft = begun("1", "2", "3", "4", "5", "6", "7")
    for name in "23456":
        move(named(draft, name), None, parent=named(draft, str(int(name) - 1)))
    with pytest.raises(CodebookRefused, match="6 levels"):
        move(named(draft, "7"), None, parent=named(draft, "6"))
    assert read_codebook(write_codebook(text_of(draft), "yaml"), name="x").codes[1].name == "7"


def test_what_hung_below_a_retired_code_hangs_where_it_hung() -> None:
    draft = begun("a", "b", "c")
    move(named(draft, "b"), None, parent=named(draft, "a"))
    move(named(draft, "c"), None, parent=named(draft, "b"))
    retire(named(draft, "b"), None)
    assert tree(draft) == ["a", "  c"]


def test_merging_a_code_with_one_above_it_makes_no_circle() -> None:
    draft = begun("top", "x", "kept", "low")
    move(named(draft, "x"), None, parent=named(draft, "top"))
    move(named(draft, "kept"), None, parent=named(draft, "x"))
    move(named(draft, "low"), None, parent=named(draft, "kept"))
    merge([named(draft, "kept"), named(draft, "top")], Wording("one"), None)
    assert tree(draft) == ["one", "  x", "  low"]


def test_it_merges_only_codes_of_one_draft() -> None:
    draft = begun("a", "b")
    with pytest.raises(CodebookRefused, match="one draft"):
        merge([named(draft, "a"), begun("x").codes.get()], Wording("y"), None)
    with pytest.raises(CodebookRefused, match="at least two"):
        merge([named(draft, "a"), named(draft, "a")], Wording("y"), None)
    with pytest.raises(CodebookRefused, match="at least two"):
        split_code(named(draft, "a"), [Wording("y")], None)


# --- who did what ---------------------------------------------------------------------------------------------------


def test_the_log_says_who_did_what() -> None:
    draft, ada = begun("a", "b", "c"), make_user(username="ada")
    redefine(named(draft, "c"), ada, definition="New", include="", exclude="")
    merge([named(draft, "a"), named(draft, "b")], Wording("ab"), ada)
    retire(named(draft, "c"), ada, reason="unused")
    rows = {row.verb: row for row in Activity.objects.filter(actor=ada)}
    assert rows["code.redefined"].detail == {
        "version": 2,
        "code": "c",
        "texts": {"definition": {"before": "What c means.", "now": "New"}},
    }
    assert rows["code.merged"].detail == {"version": 2, "codes": ["a", "b"], "into": "ab"}
    assert (rows["code.retired"].detail["code"], rows["code.retired"].reason) == ("c", "unused")


# --- starters and files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", starters())
def test_every_starter_clones_into_a_draft_that_says_the_same(key: str) -> None:
    starter = starters()[key]
    book = codebook_versions.clone_starter(key, make_user())
    draft = book.versions.get()
    assert (book.name, book.cloned_from, draft.is_frozen) == (starter.text.name, f"starter {key}", False)
    assert draft.codes.count() == starter.codes_total
    assert text_of(draft).codes == starter.text.codes
    assert freeze(draft, None).digest == digest_of(draft)


@pytest.mark.parametrize("key", starters())
def test_every_code_of_a_starter_says_what_it_means_and_what_it_does_not(key: str) -> None:
    text = starters()[key].text
    assert text.source
    assert text.about
    attributions = {label for _, label in Attribution.choices}
    for code, _, _ in text.flat():
        assert code.definition, code.name
        assert code.include, code.name
        assert code.exclude, code.name
        assert code.name not in attributions


def test_there_is_no_other_starter() -> None:
    with pytest.raises(CodebookRefused, match="there are skill-evolution, "):
        codebook_versions.clone_starter("mine", None)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_version_written_to_a_file_reads_as_the_same(form: str) -> None:
    draft = codebook_versions.clone_starter("skillflow", None).versions.get()
    trial = make_trial(success=False)
    code = draft.codes.first()
    code.examples.create(trial=trial, step=3, field="message", start=4, end=9, quote="= no:\n  #x", is_counter=True)
    found = read_codebook(write_codebook(text_of(draft), form), name="x")
    again = codebook_versions.start_from(found, None, name="Again")
    assert digest_of(again.versions.get()) == digest_of(draft)
    example = again.versions.get().codes.first().examples.get()
    assert (example.trial, example.step, example.quote, example.is_counter) == (trial, 3, "= no:\n  #x", True)


def test_json_may_escape_every_character() -> None:
    raw = {"format": "skillglass-codebook 1", "name": "Café 😀", "codes": [{"name": "a 😀"}]}
    found = read_codebook(json.dumps(raw, indent="\t").encode("utf-8-sig"), name="x.json")
    assert (found.name, found.codes[0].name) == ("Café 😀", "a 😀")


def test_examples_of_trials_that_are_not_here_keep_their_words() -> None:
    content = b"""format: skillglass-codebook 1
name: From elsewhere
codes:
  - name: a
    examples:
      - {trial: 00000000-0000-0000-0000-000000000009, step: 2, quote: the words}
"""
    book = codebook_versions.start_from(read_codebook(content, name="x.yaml"), None)
    example = book.versions.get().codes.get().examples.get()
    assert (example.trial, example.step, example.quote) == (None, 2, "the words")
    assert Activity.objects.get().detail["anchors_unknown"] == 1


@every(
    (
        b"format: skillglass-codebook 1\nname: x\ncodes:\n  - name: a\n    definiton: y\n",
        "line 5 (codes.0.definiton): expected no such key",
    ),
    (
        b"format: skillglass-codebook 1\nname: x\ncodes:\n  - include: y\n",
        "line 4 (codes.0.name): expected this key",
    ),
    (
        b"format: skillglass-codebook 2\nname: x\ncodes: [{name: a}]\n",
        "line 1 (format): expected 'skillglass-codebook 1'",
    ),
    (b"format: skillglass-codebook 1\nname: x\ncodes: []\n", "line 3: expected at least one code"),
    (
        b"format: skillglass-codebook 1\nname: x\ncodes:\n- name: a\n- name: b\n  children:\n  - name: A\n",
        "line 7: expected another name than “A”, which line 4 has",
    ),
    (
        b"format: skillglass-codebook 1\nname: x\ncodes: [{name: a, examples: [{step: 1}]}]\n",
        "expected an example with a trial",
    ),
    (b"format: x\nname: &a x\ncodes: [*a]\n", "line 3: expected no alias"),
    (b"name: x\nname: y\n", "line 2: expected each key once"),
    (b"codes: [\n", "line 2, column 1: expected YAML or JSON"),
    (b"\xff\xfe", "byte 0: expected UTF-8"),
    (b"", "line 1 (whole file): expected keys with values"),
    (b"x" * 600_000, "expected at most 524,288 bytes"),
    (b"[" * 100_000, "expected at most 6 levels"),
)
def test_a_broken_file_is_refused_with_line_and_what_was_expected(content: bytes, says: str) -> None:
    with pytest.raises(CodebookFileError) as refused:
        read_codebook(content, name="mine.yaml")
    assert says in str(refused.value)
    assert all(fault.startswith("mine.yaml") for fault in refused.value.faults)


def test_a_tree_too_deep_is_refused() -> None:
    text = "format: skillglass-codebook 1\nname: x\ncodes:\n- name: c0\n"
    for depth in range(1, 7):
        text += "  " * (depth - 1) + f"  children:\n{'  ' * depth}- name: c{depth}\n"
    with pytest.raises(CodebookFileError, match="at most 6 levels"):
        read_codebook(text.encode(), name="x")


def test_a_clone_stands_alone() -> None:
    draft = begun("a", "b")
    copy = codebook_versions.clone(draft, None)
    assert copy.cloned_from == str(draft.public_id)
    assert isinstance(text_of(draft), CodebookText)
    assert origins(copy.versions.get()) == {"a": {}, "b": {}}
    assert not CodeOrigin.objects.filter(code__version__codebook=copy).exists()
    rename(named(copy.versions.get(), "a"), "z", None)
    assert tree(draft) == ["a", "b"]
