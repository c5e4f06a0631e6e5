"""Which words of a text are constants of a task, and which any task has."""

from __future__ import annotations

from runner.authoring.copied import CopySource
from runner.base.constants import find_constants
from tests.cases import every


def found(text: str) -> list[tuple[str, str]]:
    return [tuple(place.constant) for place in find_constants(text)]


@every(
    ("open /app/data/orders_march.csv first", "path", "/app/data/orders_march.csv"),
    ("see `ledger_2024.xlsx`.", "path", "ledger_2024.xlsx"),
    ("the CIK 0001172661 is", "id", "0001172661"),
    ("invoice INV-20391-B must", "id", "INV-20391-B"),
    ("id 5b1e2a90-1c1d-4f7e-9c53-0d6a2b1f8e77", "id", "5b1e2a90-1c1d-4f7e-9c53-0d6a2b1f8e77"),
    ("mail jo.doe@acme-corp.com now", "id", "jo.doe@acme-corp.com"),
    ("since 2009-03-17 only", "id", "2009-03-17"),
    ("the total is 39,017,133,374 dollars", "number", "39017133374"),
    ("a factor of 27.4183", "number", "27.4183"),
)
def test_it_finds_what_belongs_to_one_task(text, kind, constant):
    assert found(text) in ([(kind, constant)], [("number", constant)])


@every(
    "run /usr/bin/python3 on port 8080 with UTF-8",
    "about 1000 rows, 65536 bytes, 0.05, 95.5%, 100 and 2024",
    "read SKILL.md, output.csv and requirements.txt",
    "import os.path; df.groupby; np.sqrt; pandas 2.0.3",
    "https://example.com/a/b.html",
    "see references/units.md and scripts/fix.py",
    "Express.js and Vue.js",
)
def test_it_leaves_what_every_task_has(text):
    assert found(text) == []


def test_places_are_those_of_the_text():
    text = "x /app/in/big_table.csv y"
    place = next(find_constants(text))
    assert text[place.start : place.end] == "/app/in/big_table.csv"


def test_it_is_quick_on_a_long_hostile_line():
    assert found("/" * 50_000 + "a" * 50_000 + "-1" * 20_000) is not None


def test_a_copied_run_is_found_whole_and_once():
    said = "merge the newest record in which every one of these fields is filled before the others"
    text = f"First read. Then {said.upper()}, at last."
    runs = list(CopySource.of(["nothing of that", said], 8).runs_in(text))
    assert [(text[run.start : run.end].lower(), run.words, run.source) for run in runs] == [(said, 16, 1)]


def test_numbers_in_a_row_are_no_copied_text():
    row = "1 2 3 4 5 6 7 8 9 10 11 12 13 14"
    assert list(CopySource.of([row], 8).runs_in(row)) == []


def test_what_a_third_text_says_too_can_be_left_out():
    said = "one two three four five six seven eight nine"
    assert list(CopySource.of([said], 8).without([f"told: {said}"]).runs_in(said)) == []
