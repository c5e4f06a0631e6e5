"""On PostgreSQL the same tests run again, so both databases find the same."""

from __future__ import annotations

import fnmatch
import itertools
import random
import re
from unittest.mock import patch

import pytest
from django.db import connection

from benchapp.imports.audited_edits import Author, RunEdit, TrialEdit, edit_runs, edit_trials
from benchapp.models import (
    Attempt,
    Chunk,
    Comment,
    Experiment,
    Run,
    SearchDocument,
    SearchSource,
    Snapshot,
    Suite,
    Trajectory,
    Trial,
)
from benchapp.search import indexing, search_index
from benchapp.search.hit_marks import marks, show
from benchapp.search.indexing import IndexProgress, has_waiting, index_anew, index_waiting
from benchapp.search.query import parse, quote
from benchapp.search.search_hits import HitPlace, find, glob_pattern, match_of, read_hits
from benchapp.search.tokens import stream
from inspector.web.access import local_user
from runner.base.types import File
from runner.protocols.probe import CONDITION as PROBE
from tests.cases import every
from tests.worlds.factories import make_episode, make_run, make_trial, make_unordered_episode, record_steps
from tests.worlds.search_worlds import make_search_world, step

pytestmark = pytest.mark.django_db


@pytest.fixture
def searched() -> None:
    make_search_world()


def kinds(text: str) -> list[str]:
    """The kinds of the hits, sorted; the query must be understood."""
    query = parse(text)
    assert not query.problems, query.problems
    found = find(query, local_user())
    return sorted(SearchDocument.objects.filter(pk__in=found.numbers).values_list("kind", flat=True))


@every(
    ("zebra", ["check", "decision", "note"]),
    ("zebra -again", ["check", "decision"]),
    ("-zebra kind:decision,note", []),
    ("KeyError", ["step", "step"]),  # a bare identifier is found in parts too: "key error"
    ('"KeyError"', ["step"]),
    ('"key error"', ["step", "step"]),
    ("cells", ["check", "decision", "file", "step"]),  # the step runs sum_cells.py
    ('"cells"', ["check", "decision", "file", "step"]),
    ("data/notes.txt", ["step"]),
    ("notes.txt", ["step"]),
    ("txt.notes", []),
    ("zeb*", ["check", "decision", "note"]),
    ('"the zeb"*', ["note"]),
    ("数据", ["step"]),
    ("清", ["step"]),
    ("洗", ["step"]),
    ("据数", []),
    ("27.5", ["check"]),
    ("needle failed", ["step"]),
    ("failed zebra", ["check", "note"]),
    ("-failed zebra", ["decision"]),
    ("role:adversarial zebra", ["check", "note"]),
    ("role:canonical kind:check", ["check"]),
    ("phase:deployment kind:note", ["note"]),
    ("condition:selfgen-* kind:file", ["file"]),
    ("model:~OPUS kind:note", ["note"]),
    ("model:opus kind:note", []),
    ("experiment:~here kind:file", ["file"]),
    ("task:*-T5 kind:check", ["check"]),
    ("family:sums kind:decision,check", ["check", "check", "decision"]),
    ("skill:csv-* kind:file,decision,check", ["check", "decision", "file"]),
    ("mounted:csv-handling kind:check", ["check", "check"]),
    ("tool:bash is:error", ["step"]),
    ("tool:ba* needle", ["step"]),
    ("tool:python", []),
    ("-tool:bash kind:step", ["step"]),
    ("is:passed,error kind:step", ["step", "step"]),
    ("-is:error failed kind:step", ["step"] * 4),
    ("path:*/skill.md", ["file"]),
    ("by:ann", ["note"]),
    ("kind:check passed", ["check"]),
)
def test_it_finds(text: str, expected: list[str], searched: None) -> None:
    assert kinds(text) == expected


def test_words_of_several_steps_of_a_passage_are_found_and_the_step_with_most_of_them_is_shown() -> None:
    make_search_world()
    query = parse("look KeyError region")
    ((document, sections),) = read_hits(find(query, local_user()).numbers)
    shown = show(sections, query)
    assert (document.first_step, document.last_step) == (1, 2)
    assert (shown.step, shown.terms, shown.quote) == (2, 2, "KeyError")


@pytest.mark.parametrize(
    ("text", "said"), [("is:error kind:step", "raise KeyError"), ("tool:bash is:error -needle", "python3")]
)
def test_a_filter_of_steps_opens_at_the_step_it_means(text: str, said: str) -> None:
    make_search_world()
    query = parse(text)
    ((_, sections),) = read_hits(find(query, local_user()).numbers)
    shown = show(sections, query)
    assert shown.step == 2
    assert said in "".join(piece for excerpt in shown.excerpts for piece, _ in excerpt.pieces)


def test_a_long_step_is_several_passages_and_each_shows_its_own_piece() -> None:
    make_search_world()
    query = parse("needle")
    ((document, sections),) = read_hits(find(query, local_user()).numbers)
    assert (document.first_step, document.last_step) == (3, 3)
    assert document.start > 0
    assert sum(len(section.text) for section in sections) <= document.end - document.start
    assert show(sections, query).step == 3
    pieces = SearchDocument.objects.filter(first_step=3).order_by("start").values_list("start", "end")
    assert [start for start, _ in pieces[1:]] == [end for _, end in pieces[: len(pieces) - 1]]


def test_facets_count_the_hits() -> None:
    make_search_world()
    facets = find(parse("zebra"), local_user()).facets
    assert facets["kind"] == {"check": 1, "note": 1, "decision": 1}
    assert facets["is"] == {"failed": 2}
    assert facets["condition"] == {"selfgen-always": 3}


@pytest.mark.parametrize(
    "text", ["skill:*", "mounted:*", "skill:csv-*", "-skill:csv-*", "mounted:csv-handling", "skill:csv-handling cells"]
)
def test_uses_are_found_the_same_whether_they_are_many_or_few(text: str) -> None:
    make_search_world()
    few = find(parse(text), local_user()).numbers
    with patch("benchapp.search.search_hits.MANY", 0):
        assert find(parse(text), local_user()).numbers == few != []


@pytest.mark.parametrize(
    "text",
    [
        "zebra role:adversarial",
        "zebra role:trap,canonical",
        "zebra phase:deployment",
        "zebra condition:SELFGEN-always",
        "zebra condition:selfgen-*",
        "zebra -phase:replay",
        "cells condition:selfgen-always -role:canonical",
    ],
)
def test_a_place_in_the_words_finds_what_the_columns_find(text: str) -> None:
    make_search_world()
    found = find(parse(text), local_user()).numbers
    with patch("benchapp.search.search_hits.PLACE_FACTS", ()):
        assert find(parse(text), local_user()).numbers == found != []


@pytest.mark.parametrize("text", ["zebra", "kind:step", "-nosuchword", "failed zebra", "cells"])
def test_of_too_many_hits_some_are_listed_and_the_others_follow(text: str) -> None:
    make_search_world()
    every = find(parse(text), local_user())
    assert every.last is None
    with patch("benchapp.search.search_hits.MOST", 1):
        first = find(parse(text), local_user())
        assert first.facets["kind"].total() == 1
        assert walk(text) == every.numbers


@pytest.mark.parametrize("text", ["kind:note zebra", "failed zebra", "cells"])
def test_hits_far_behind_others_with_the_words_are_found(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL looks at slices of what holds the words: here the smallest."""
    make_search_world()
    every = find(parse(text), local_user()).numbers
    monkeypatch.setattr("benchapp.search.search_hits.MOST", 1)
    for name in ("FIRST_SLICE", "GROWTH"):
        monkeypatch.setattr(search_index, name, 1)
    assert walk(text) == every


def walk(text: str) -> list[int]:
    """All hits, page after page."""
    found = find(parse(text), local_user())
    numbers = list(found.numbers)
    while found.last:
        found = find(parse(text), local_user(), HitPlace.read(str(found.last)))
        numbers += found.numbers
        assert len(numbers) < 10_000
    return numbers


FILLER = "some other words that say nothing of it "


@pytest.mark.parametrize("text", ["gnu", "gnu herd", "gn*", '"gnu herd"', "gnu -lion", "tool:bash gnu"])
def test_hits_in_which_the_words_stand_out_come_first_and_the_newest_first_among_equals(text: str) -> None:
    often, once, mixed, again = "gnu herd " * 40, "gnu herd", "gnu herd " * 40 + "gnu " * 9, "gnu herd"
    run = make_run()
    for said in (f"{often}{FILLER * 20}", f"{once} {FILLER * 150}", mixed, f"{again} {FILLER * 150}"):
        record_steps(make_trial(make_unordered_episode(run)).counting_attempt(), [step(1, said, "ls")])
    index_waiting()
    oldest_first = list(SearchDocument.objects.filter(kind="step").order_by("pk").values_list("pk", flat=True))
    place = [oldest_first.index(number) for number in find(parse(text), local_user()).numbers]
    assert place == [2, 0, 3, 1]
    with patch("benchapp.search.search_hits.MOST", 1):
        assert [oldest_first.index(number) for number in walk(text)] == place


def test_a_hit_is_as_good_as_the_lightest_of_its_words() -> None:
    run = make_run()
    for said in (f"{'gnu herd ' * 12}{FILLER * 20}", f"{'gnu ' * 200} herd {FILLER * 60}"):
        record_steps(make_trial(make_unordered_episode(run)).counting_attempt(), [step(1, said)])
    index_waiting()
    even, uneven = SearchDocument.objects.filter(kind="step").order_by("pk").values_list("pk", flat=True)
    assert find(parse("gnu"), local_user()).numbers == [uneven, even]
    assert find(parse("gnu herd"), local_user()).numbers == [even, uneven]


def test_a_query_of_many_words_is_answered() -> None:
    make_search_world()
    assert find(parse("zebra " * 30), local_user()).numbers
    assert find(parse(quote("raise KeyError region " * 40)), local_user()).numbers == []


def test_nonsense_is_no_place() -> None:
    for text in ("", "1", "-", "a-b", "1-", "-5", "1-²", "1-2-3", "1-" + "9" * 30):
        assert HitPlace.read(text) is None
    assert HitPlace.read("9-12") == HitPlace(search_index.HEAVIEST, 12)


# --- a second, slow implementation ----------------------------------------------------------------------------------

VOCABULARY = "red green blue keyError key error red_green x1 数据 数据清 清 data/red 3.5".split()


def naive(texts: dict[int, list[str]], words: str) -> set[int]:
    """The documents in which every wanted phrase is marked and no unwanted one."""
    query = parse(words)
    match = match_of(query)
    return {
        number
        for number, found in texts.items()
        if all(any(list(marks(text, [group])) for text in found) for group in match.all_of)
        and not any(list(marks(text, [[phrase]])) for text in found for phrase in match.none_of)
    }


def test_the_index_finds_what_reading_every_text_finds() -> None:
    dice = random.Random(7)
    texts = {
        number: [" ".join(dice.choices(VOCABULARY, k=dice.randint(1, 5))) for _ in range(dice.randint(1, 3))]
        for number in range(1, 120)
    }
    search_index.clear()  # tests that commit leave words behind: Django empties the tables of models only
    search_index.store_tokens([(number, stream(found)) for number, found in texts.items()])
    for _ in range(300):
        parts = []
        for place in range(dice.randint(1, 3)):
            text = " ".join(dice.choices(VOCABULARY, k=dice.choice((1, 1, 1, 2))))
            text = quote(text) if " " in text or dice.random() < 0.3 else text
            parts.append(f"{'-' * (place > 0 and dice.random() < 0.4)}{text}{'*' * (dice.random() < 0.2)}")
        words = " ".join(parts)
        with connection.cursor() as cursor:
            found = search_index.select_matching(match_of(parse(words)))
            cursor.execute(found.sql, found.params)
            assert {number for (number,) in cursor.fetchall()} == naive(texts, words), words


# --- keeping up -----------------------------------------------------------------------------------------------------


def test_it_indexes_everything_once_and_says_how_much() -> None:
    make_search_world(indexed=False)
    before = IndexProgress()
    assert before.indexed == 0
    assert before.total == 6  # two verdicts, two trajectories, a decision, a note
    assert has_waiting()
    assert index_waiting() == before.total
    after = IndexProgress()
    assert (after.indexed, after.is_complete, after.unread) == (before.total, True, 0)
    assert not has_waiting()
    documents = SearchDocument.objects.count()
    assert (index_waiting(), SearchDocument.objects.count()) == (0, documents)


def test_it_stops_in_time_and_goes_on_later() -> None:
    make_search_world(indexed=False)
    slices = 0
    while index_waiting(seconds=0):
        slices += 1
        assert slices < 50
    assert slices > 2
    assert IndexProgress().is_complete
    assert kinds("zebra") == ["check", "decision", "note"]


def test_what_was_killed_in_the_middle_leaves_nothing_half() -> None:
    make_search_world(indexed=False)
    with patch.object(search_index, "store_tokens", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        index_waiting()
    assert (SearchSource.objects.count(), SearchDocument.objects.count()) == (0, 0)


def test_two_at_once_index_nothing_twice() -> None:
    make_search_world(indexed=False)
    store = indexing._store

    def late(kind, batch):  # type: ignore[no-untyped-def]  # somebody else was quicker
        with patch.object(indexing, "_store", store):
            index_waiting()
        return store(kind, batch)

    with patch.object(indexing, "_store", late):
        index_waiting()
    assert SearchSource.objects.count() == IndexProgress().total
    assert kinds("zebra") == ["check", "decision", "note"]


def test_making_it_anew_gives_the_same() -> None:
    make_search_world()
    for _ in range(2):
        index_anew()
        assert IndexProgress().indexed == 0
        assert kinds("zebra") == []
        index_waiting()
    assert kinds("zebra") == ["check", "decision", "note"]
    assert kinds("-zebra kind:note") == []


def test_what_cannot_be_read_stops_nothing_and_is_told() -> None:
    world = make_search_world(indexed=False)
    trajectory = world.failed.counting_attempt().trajectories.get()
    Chunk.objects.filter(trajectory=trajectory).update(
        blob_id=Chunk.objects.exclude(trajectory=trajectory).get().outline_id
    )
    index_waiting()
    assert IndexProgress().unread == 1
    assert IndexProgress().is_complete
    assert kinds("zebra") == ["check", "decision", "note"]


def test_a_replaced_library_of_an_import_is_found_as_it_is_now() -> None:
    episode = make_unordered_episode(make_run(condition="unknown"))
    for text in ("wolf", "bear"):
        episode.library = Snapshot.objects.put({"one/SKILL.md": File(text.encode())})
        episode.save()
        assert has_waiting()
        index_waiting()
        assert not has_waiting()
    assert (kinds("wolf"), kinds("bear")) == ([], ["file"])
    assert IndexProgress().indexed == IndexProgress().total == 1


def test_what_an_edit_changes_is_found_by_its_new_values() -> None:
    world = make_search_world()
    Experiment.objects.update(origin="imported")
    Suite.objects.update(digest="")
    editor = Author(name="me")
    edit_runs(Run.objects.all(), RunEdit(condition="curated-static"), author=editor, reason="r")
    edit_trials(
        Trial.objects.filter(pk=world.failed.pk),
        TrialEdit(phase="replay", role="composition"),
        author=editor,
        reason="r",
    )
    index_waiting()
    assert kinds("zebra condition:selfgen-always") == kinds("zebra phase:deployment") == []
    assert kinds("zebra condition:curated-static") == ["check", "decision", "note"]
    assert kinds("zebra phase:replay role:composition") == ["check", "note"]


@pytest.mark.parametrize("many", [0, 5_000])
def test_superseded_and_deleted_and_retracted_things_are_not_found(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchapp.search.search_hits.MANY", many)
    world = make_search_world()
    Comment.objects.update(retracted_at=world.comment.written_at)
    assert kinds("zebra") == ["check", "decision"]
    Trajectory.objects.filter(attempt__trial=world.failed).update(is_superseded=True)
    assert kinds("needle") == []
    Attempt.objects.filter(trial=world.failed).update(status="superseded")
    assert kinds("zebra") == ["decision"]
    Comment.objects.all().delete()
    world.run.experiment.deleted_at = world.comment.written_at
    world.run.experiment.save()
    assert kinds("zebra") == []


def test_words_of_removed_documents_do_not_speak_for_new_ones() -> None:
    """After a flush numbers begin again, and SQLite's index cannot be flushed with them."""
    make_search_world()
    SearchDocument.objects.all().delete()
    SearchSource.objects.all().delete()
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM sqlite_sequence WHERE name = 'benchapp_searchdocument'")
    Comment.objects.update(text="nothing of the kind")
    index_waiting()
    assert kinds("zebra") == ["check", "decision"]


def test_only_so_much_is_in_memory_or_indexed_of_an_endless_step() -> None:
    attempt = make_trial().counting_attempt()
    record_steps(attempt, [step(1, "begin", "cat", "word " * 400_000 + "last")])
    index_waiting()
    assert IndexProgress().cut == 1
    assert kinds("begin") == ["step"]
    assert SearchDocument.objects.filter(kind="step").count() < 60


def test_without_a_broker_nothing_fails() -> None:
    make_search_world(indexed=False)
    assert indexing.follow_if_waiting() is False


@pytest.mark.parametrize("atomic", [True, False])
def test_a_glob_means_the_same_either_way(atomic):
    """Against the standard library's own globs, over short texts of two letters."""
    texts = ["".join(each) for size in range(6) for each in itertools.product("ab", repeat=size)]
    for glob in ("a*b", "*", "**a", "a?b*", "*ab*ba*", "*a?a", "?*?", "b", "*b*b*b", ""):
        pattern = re.compile(glob_pattern(glob, atomic=atomic))
        assert [bool(pattern.search(text)) for text in texts] == [fnmatch.fnmatchcase(text, glob) for text in texts]


def test_no_glob_is_tried_for_ever():
    """Each part tried at every place would be 10 to the 30th tries."""
    assert not re.search(glob_pattern("*a" * 20 + "*b"), "a" * 1_000)


def test_hits_of_probes_stand_after_all_others() -> None:
    first, probe, last = (make_run(condition=name) for name in ("no-skill", PROBE, "curated-static"))
    for run in (first, probe, last):
        trial = make_trial(make_episode(run))
        record_steps(trial.counting_attempt(), [step(1, "A zebra.")])
    index_waiting()
    found = find(parse("zebra"), local_user())
    assert [document.run.condition for document, _ in read_hits(found.numbers)] == ["curated-static", "no-skill", PROBE]
