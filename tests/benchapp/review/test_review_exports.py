"""Files of results: what they carry, what they keep back,
and that no text of anybody's runs in a spreadsheet or in LaTeX."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.core.management import CommandError, call_command

from benchapp.exports.dictionary import EXPORTS
from benchapp.exports.export_run import Export
from benchapp.exports.formats import csv_pieces
from benchapp.models import AgreementReport, Code, Queue, Resolution, Review, User
from benchapp.review.results.queue_results import Heading, taxonomy_of
from benchapp.review.results.review_exports import TAXONOMY, LabelExport, taxonomy_rows, taxonomy_table
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.narrowing import Narrowing
from tests.worlds.factories import make_user
from tests.worlds.review_factories import make_queue, make_review, make_version
from tests.worlds.review_worlds import World, draw_one_more, make_reviewed_world, say

pytestmark = pytest.mark.django_db


def queue_of(world: World) -> Queue:
    return Queue.objects.select_related("version__codebook").get(pk=world.queue.pk)


def table(queue: Queue) -> list[dict[str, str]]:
    taxonomy = taxonomy_of([queue])
    text = b"".join(csv_pieces(TAXONOMY, taxonomy_rows(taxonomy, Heading(taxonomy.coding)))).decode()
    return list(csv.DictReader(StringIO(text, newline="")))


def labels(queue: Queue, asker: User | None = None, **asked: bool) -> list[dict[str, Any]]:
    export = LabelExport(queue, asker, **asked)
    return [orjson.loads(line) for line in export.pieces("jsonl")]


def report(queue: Queue, *, alpha: float | None, before: bool = True) -> None:
    values = {"codes": {"alpha": alpha, "interval": {"low": 0.2, "high": 0.8} if alpha is not None else None}}
    AgreementReport.objects.create(
        queue=queue,
        version=queue.version,
        occasion="complete",
        is_before_discussion=before,
        items_total=9,
        reviewers_total=2,
        values=values,
    )


def test_it_carries_codebook_version_n_overlap_and_alpha_on_every_row() -> None:
    world = make_reviewed_world()
    say(world, 0, ["stale"], ["tool"])
    say(world, 1, ["stale"])
    queue = queue_of(world)
    report(queue, alpha=0.5)
    report(queue, alpha=0.9, before=False)  # after they talked: not the one to publish
    found = table(queue)
    assert len(found) == 4
    assert {row["codebook"] for row in found} == {queue.version.codebook.name}
    assert {(row["version"], row["items_coded"], row["items_overlap"], row["alpha"]) for row in found} == {
        ("1", "2", "1", "0.5")
    }
    stale = next(row for row in found if row["code"] == "stale")
    assert (stale["parent"], stale["depth"], stale["k"], stale["n"]) == ("skill", "1", "1.5", "2")
    assert stale["per_100_population_low"] == ""  # two items are no ground for an interval


def test_it_says_that_alpha_was_not_computed() -> None:
    queue = queue_of(make_reviewed_world())
    assert Heading(taxonomy_of([queue]).coding).alpha_said == "not computed"
    assert {row["alpha"] for row in table(queue)} == {""}
    report(queue, alpha=None)
    assert Heading(taxonomy_of([queue]).coding).alpha_said == "undefined"


def test_it_writes_a_latex_table_that_runs_nothing() -> None:
    queue = make_queue([], version=make_version((r"50% \input{x} & more_",)), name="$evil$")
    queue = Queue.objects.select_related("version__codebook").get(pk=queue.pk)
    taxonomy = taxonomy_of([queue])
    text = taxonomy_table(taxonomy, Heading(taxonomy.coding))
    assert r"50\% \textbackslash{}input\{x\} \& more\_" in text
    assert r"\input" not in text
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 1
    assert r"$n = 0$ trials coded of 0 drawn" in text


def test_it_prints_intervals_where_there_are_some_and_counts_always() -> None:
    world = make_reviewed_world()
    for place in range(9):
        say(world, place, ["tool"], ["tool"])
    taxonomy = taxonomy_of([queue_of(world)])
    text = taxonomy_table(taxonomy, Heading(taxonomy.coding))
    assert r"tool & 9/9 & -- & -- & --" in text  # nine coded
    assert r"\hspace{1em}stale & 0/9" in text


@pytest.mark.parametrize("reviewed", [9, 10])
def test_too_few_items_have_counts_alone_in_every_file(reviewed: int) -> None:
    world = draw_one_more(make_reviewed_world())
    for place in range(reviewed):
        say(world, place, ["tool"], ["tool"])
    (tool,) = (row for row in table(queue_of(world)) if row["code"] == "tool")
    told = [tool[name] for name in ("per_100_population", "per_100_failed", "per_100_attempted", "estimated_total")]
    assert [bool(value) for value in told] == [reviewed == 10] * 4
    taxonomy = taxonomy_of([queue_of(world)])
    latex = taxonomy_table(taxonomy, Heading(taxonomy.coding))
    assert (f"tool & {reviewed}/{reviewed} & -- & -- & --" in latex) is (reviewed == 9)


def test_csv_and_latex_list_the_most_frequent_cause_first() -> None:
    world = make_reviewed_world()
    say(world, 0, ["tool"], ["tool"])
    say(world, 1, ["tool", "misapplied"], ["tool"])
    queue = queue_of(world)
    order = ["tool", "skill", "misapplied", "stale"]  # the codebook's is skill, stale, misapplied, tool
    assert [row["code"] for row in table(queue)] == order
    taxonomy = taxonomy_of([queue])
    latex = taxonomy_table(taxonomy, Heading(taxonomy.coding))
    assert sorted(order, key=lambda name: latex.index(f"{name} & ")) == order


def test_it_gives_every_label_with_its_anchor_under_a_pseudonym() -> None:
    world = make_reviewed_world()
    first, second = world.people
    mark = {"attribution": "skill", "is_first_failure": True, "start": 3, "end": 9, "quote": "secret", "memo": "why"}
    make_review(world.items[0], first, ["stale", "tool"], mark=mark, memo="whole", seconds=40)
    make_review(world.items[0], second, [])
    make_review(world.items[1], first, state=Review.State.SKIPPED, skip_reason="no trajectory")
    make_review(world.items[2], first, ["tool"], state=Review.State.DRAFT)
    Resolution.objects.create(item=world.items[0], adjudicator=second, category="slip").codes.set(
        Code.objects.filter(version=world.queue.version, name="stale")
    )
    found = labels(queue_of(world))
    assert [(row["said_by"], row["state"], row["code"]) for row in found] == [
        ("review", "submitted", "stale"),
        ("review", "submitted", "tool"),
        ("review", "submitted", None),
        ("review", "skipped", None),
        ("resolution", "resolved", "stale"),
    ]
    stale = found[0]
    assert (stale["reviewer"], stale["attribution"], stale["first_failure"]) == (first.pseudonym, "skill", True)
    assert (stale["step"], stale["field"], stale["start"], stale["end"]) == (1, "message", 3, 9)
    assert stale["unit_id"] == str(world.items[0].trial.public_id)
    assert stale["hid_conditions"] is True
    text = orjson.dumps(found).decode()
    for kept_back in ("secret", "why", "whole", "no trajectory", first.username):
        assert kept_back not in text


def test_it_gives_quotes_and_memos_only_when_asked() -> None:
    world = make_reviewed_world()
    make_review(world.items[0], world.people[0], ["stale"], mark={"quote": "secret", "memo": "why"}, memo="whole")
    make_review(world.items[1], world.people[0], state=Review.State.SKIPPED, skip_reason="no trajectory")
    with_quotes = labels(queue_of(world), quotes=True)
    assert with_quotes[0]["quote"] == "secret"
    assert "memo" not in with_quotes[0]
    with_memos = labels(queue_of(world), memos=True)
    assert (with_memos[0]["memo"], with_memos[0]["review_memo"]) == ("why", "whole")
    assert with_memos[1]["review_memo"] == "no trajectory"
    assert "quote" not in with_memos[0]


def test_it_does_not_say_which_trial_it_was_to_somebody_who_is_still_blind_to_it() -> None:
    world = make_reviewed_world(hides_labels=False)
    say(world, 0, ["stale"])
    elsewhere = make_user(level=User.Level.REVIEWER)
    make_queue([world.items[0].trial], reviewers=[elsewhere], version=world.queue.version)
    assert labels(queue_of(world), elsewhere)[0]["unit_id"] is None
    assert labels(queue_of(world), make_user())[0]["unit_id"] == str(world.items[0].trial.public_id)


def test_it_quotes_nothing_to_somebody_who_is_still_blind_to_the_trial() -> None:
    world = make_reviewed_world(hides_labels=False)
    mark = {"quote": "as selfgen-always says", "memo": "tells it"}
    make_review(world.items[0], world.people[0], ["stale"], mark=mark, memo="as well")
    elsewhere = make_user(level=User.Level.REVIEWER)
    make_queue([world.items[0].trial], reviewers=[elsewhere], version=world.queue.version)
    names = ("quote", "memo", "review_memo")
    told = labels(queue_of(world), make_user(), quotes=True, memos=True)[0]
    kept = labels(queue_of(world), elsewhere, quotes=True, memos=True)[0]
    assert [told[name] for name in names] == ["as selfgen-always says", "tells it", "as well"]
    assert [kept[name] for name in names] == [None, None, None]


def test_it_gives_one_row_to_every_answer_in_every_format() -> None:
    world = make_reviewed_world()
    say(world, 0, ["stale", "tool"], [])
    export = LabelExport(queue_of(world), None)
    rows = list(csv.DictReader(StringIO(b"".join(export.pieces("csv")).decode(), newline="")))
    whole = orjson.loads(b"".join(export.pieces("json")))
    assert len(rows) == len(whole["rows"]) == len(labels(queue_of(world))) == 3
    assert [field["name"] for field in whole["columns"]] == list(rows[0])


def test_it_makes_no_formula_of_a_quote_or_a_memo() -> None:
    world = make_reviewed_world()
    make_review(world.items[0], world.people[0], ["stale"], mark={"quote": "=cmd()", "memo": "+cmd"}, memo="@x")
    text = b"".join(LabelExport(queue_of(world), None, quotes=True, memos=True).pieces("csv")).decode()
    (row,) = csv.DictReader(StringIO(text, newline=""))
    assert (row["quote"], row["memo"], row["review_memo"]) == ("'=cmd()", "'+cmd", "'@x")


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_writes_what_the_pages_give(tmp_path: Path) -> None:
    world = make_reviewed_world()
    say(world, 0, ["stale"])
    written = {form: tmp_path / f"table.{form}" for form in ("csv", "json", "tex")}
    for path in written.values():
        call_command(
            "export_review", str(world.queue.public_id), table=path, labels=tmp_path / "labels.jsonl", verbosity=0
        )
    assert orjson.loads(written["json"].read_bytes())["items_coded"] == 1
    assert written["csv"].read_text().startswith("code,parent,depth")
    assert r"\begin{tabular}" in written["tex"].read_text()
    assert len((tmp_path / "labels.jsonl").read_text().splitlines()) == 1


def test_the_command_refuses_in_words(tmp_path: Path) -> None:
    world = make_reviewed_world()
    with pytest.raises(CommandError, match="a name ending in csv, json, tex"):
        call_command("export_review", str(world.queue.public_id), table=tmp_path / "table.xlsx")
    with pytest.raises(CommandError, match="Nothing to write"):
        call_command("export_review", str(world.queue.public_id))
    with pytest.raises(CommandError, match="There is no queue"):
        call_command("export_review", "00000000-0000-0000-0000-000000000000", table=tmp_path / "table.csv")


def test_no_export_of_runs_holds_what_reviewers_wrote() -> None:
    world = make_reviewed_world()
    mark = {"quote": "quoted-text", "memo": "memo-of-mark", "attribution": "author"}
    make_review(world.items[0], world.people[0], ["misapplied"], mark=mark, memo="memo-of-review")
    for what in EXPORTS:
        text = b"".join(Export(what, Choices(), Narrowing()).pieces("json")).decode()
        assert what == "differences" or str(world.experiment.public_id) in text  # the models differ: no baseline
        for kept_back in ("quoted-text", "memo-of-mark", "memo-of-review", "misapplied", world.people[0].pseudonym):
            assert kept_back not in text
