"""docs/reference/paper-results.md: no table or figure is missing,
and every address in it answers over runs of every kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.core.management import get_commands
from django.test import Client
from django.urls import resolve

from benchapp.analysis.diagnoses.diagnosis_queue import diagnose_episode
from benchapp.judges.judge_passes import judge_run
from benchapp.models import Attempt, Judging, Run, Task, TaskGroup, Trial
from benchapp.record.slices import Budget
from benchapp.stats.comparing.condition_names import KNOWN
from benchapp.stats.metrics.catalogue import METRICS, TABLES
from benchapp.stats.metrics.splits import PLACES
from inspector.charts import CHARTS
from inspector.pages.documents.documents import read_document
from tests.inspector.charts import (
    test_charts_authors,
    test_charts_generation,
    test_charts_instances,
    test_charts_learning_curve,
    test_charts_regimes,
)
from tests.worlds.factories import make_experiment, make_learning_run, make_suite
from tests.worlds.judging_worlds import Judge, add_run
from tests.worlds.judging_worlds import make_world as make_judged_world
from tests.worlds.probe_factories import measure_round

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "docs" / "reference" / "paper-results.md"
EXPERIMENTS = ROOT / "examples" / "experiments" / "papers"
PAPERS = ROOT.parent / "shared" / "papers"
LAST = {"SkillEvolBench": (9, 7), "SkillFlow": (6, 11), "SkillGenBench": (5, 8), "SkillLearnBench": (17, 20)}
VALUES = {"canonical": "one", "context-shift": "one"}  # of an attribute, by the role of a task; "other" for the others
NO_DATA = "no data: "
NOT_YET = "not yet"
PLACEHOLDER = re.compile(r"<\w+>")


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A line of the document: which tables or figures of a paper, and its cells."""

    paper: str
    names: tuple[str, ...]
    shows: str
    made_by: str
    needs: str

    @property
    def addresses(self) -> list[str]:
        return re.findall(r"`(/[^`]*)`", f"{self.made_by} {self.needs}")

    @property
    def charts(self) -> set[str]:
        return set(re.findall(r"/compare/charts/([a-z-]+)/", self.made_by))


def read_rows() -> Iterator[ResultRow]:
    for section in re.split(r"^## ", DOCUMENT.read_text(), flags=re.MULTILINE)[1:]:
        for line in re.findall(r"^\| ((?:Table|Figure)s? .*)\|$", section, re.MULTILINE):
            result, *cells = (cell.strip() for cell in line.split("|"))
            yield ResultRow(section.split("\n")[0], tuple(list_names(result)), *cells)


def list_names(result: str) -> Iterator[str]:
    """ "Tables 4 to 6" is Table 4, Table 5 and Table 6; the part of "Figure 2 (a)" is left out."""
    kind, numbers = result.split(" ", 1)
    found = [int(number) for number in re.findall(r"\d+", numbers)]
    span = range(found[0], found[-1] + 1) if " to " in numbers else found
    yield from (f"{kind.rstrip('s')} {number}" for number in span)


ROWS = list(read_rows())


@pytest.mark.parametrize("paper", LAST)
def test_no_table_and_no_figure_is_missing(paper: str) -> None:
    tables, figures = LAST[paper]
    wanted = {f"Table {n}" for n in range(1, tables + 1)} | {f"Figure {n}" for n in range(1, figures + 1)}
    listed = [row.names for row in ROWS if row.paper == paper]
    assert {name for names in listed for name in names} == wanted
    repeated = {name for name, count in Counter(name for names in listed for name in names).items() if count > 1}
    assert repeated <= {"Figure 2"}  # SkillLearnBench's has three parts


@pytest.mark.shared_data
@pytest.mark.parametrize("paper", LAST)
def test_the_papers_have_as_many(paper: str) -> None:
    text = (PAPERS / f"{paper.lower()}.txt").read_text()
    ends = " [A-Z]" if paper == "SkillEvolBench" else ":"
    for kind, last in zip(("Table", "Figure"), LAST[paper], strict=True):
        found = {int(number) for number in re.findall(rf"^{kind} (\d+){ends}", text, re.MULTILINE)}
        assert max(found) == last


def test_the_counts_are_those_of_the_rows() -> None:
    made = [row for row in ROWS if not row.made_by.startswith((NO_DATA, NOT_YET))]
    without = [row for row in ROWS if row.made_by.startswith(NO_DATA)]
    judged = {row for row in made if "judge" in row.needs}
    several = {row for row in made if re.search("(several (author|agent)|each agent) model", row.needs)}
    said = [int(number) for number in re.findall(r"\*\*(\d+)\*\*", DOCUMENT.read_text())]
    counts = [made, judged, several, without, [row for row in ROWS if row.made_by.startswith(NOT_YET)]]
    assert said == [len({(row.paper, name) for row in rows for name in row.names}) for rows in counts]


def test_every_row_has_a_page_a_command_or_a_reason() -> None:
    for row in ROWS:
        assert row.addresses or "`manage.py " in row.made_by or row.made_by.startswith(NO_DATA), row.names
        if row.made_by.startswith(NO_DATA):
            assert len(row.made_by) > len(NO_DATA) + 10


def test_everything_it_names_exists() -> None:
    text = DOCUMENT.read_text()
    assert set(re.findall(r"`manage\.py (\w+)", text)) <= set(get_commands())
    for name in re.findall(r"`(examples/[^`]+)`", text):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"`([a-z-]+[\w-]*\.yaml)`", text):
        assert (EXPERIMENTS / name).is_file(), name
    for address in (address for row in ROWS for address in row.addresses):
        parts = urlsplit(address)
        asked = parse_qsl(parts.query)
        key = re.fullmatch(r"/compare/charts/([a-z-]+)/", parts.path)
        for name, value in asked:
            known: dict[str, Any] = {"table": TABLES, "metric": METRICS, "condition": KNOWN}
            if name in known:
                assert value.partition("@")[0] in known[name], address
            elif name == "option":
                option, _, chosen = value.partition(":")
                values = CHARTS[key[1]].options[option] if key else ()
                assert chosen in values or (option == "by" and chosen not in PLACES), address


def test_a_row_shows_the_picture_of_its_chart() -> None:
    for row in ROWS:
        pictures = set(re.findall(r"\(\.\./pictures/([a-z/-]+-light\.png)\)", row.shows))
        wanted = {f"charts/{key}-light.png" for key in row.charts}
        assert {name for name in wanted if (ROOT / "docs" / "pictures" / name).is_file()} <= pictures, row.names
        assert all((ROOT / "docs" / "pictures" / name).is_file() for name in pictures), row.names


def test_every_chart_that_follows_a_figure_is_listed() -> None:
    named = {(row.paper, key) for row in ROWS for key in row.charts}
    followed = {
        (source.split(",")[0], key) for key, chart in CHARTS.items() for source in chart.after.split("; ") if source
    }
    assert followed <= named


# --- every address over runs of every kind --------------------------------------------------------------------------


def fill() -> Run:
    """Runs under two protocols' settings, by two authors, judged, with budgets, seeds, rounds and groups of tasks."""
    suite = make_suite(environments=2, families=2)
    for attribute in ("domain", "category", "source"):
        TaskGroup.objects.bulk_create(
            TaskGroup(task=task, attribute=attribute, value=VALUES.get(task.role, "other"))
            for task in Task.objects.filter(suite=suite)
        )
    experiment = make_experiment(suite=suite)
    for condition in ("no-skill", "raw-trajectory", "selfgen-always", "selfgen-always-tier3"):
        author = "author" if condition.startswith("selfgen") else ""
        run = make_learning_run(experiment, condition=condition, author_model=author, outcomes=(False, True, True) * 3)
        for episode in run.episodes.all():
            diagnose_episode(episode)
    test_charts_authors.make_world()
    test_charts_regimes.make_world()
    for condition in ("naive-prompt@2000", "naive-prompt@8000"):
        test_charts_generation.make_budget_run(experiment, condition, (False, True), (True, True), author_model="a")
    test_charts_instances.make_families(Run.objects.get(condition="naive-prompt@2000"), (True, False), (False, True))
    _, long, _ = test_charts_learning_curve.make_world()
    measure_round(long, 1, "fff")
    world = make_judged_world(samples=2)
    for judged in (world.run, add_run(world, author_model="another")):
        judge_run(judged, Judge(), budget=Budget())
    for model in (Attempt, Trial):  # a trial repeats what its counting attempt used
        model.objects.update(input_tokens=1000, output_tokens=100, cost_usd=0.5, turns=4)
    return run


def fill_address(address: str, run: Run) -> str:
    judging = Judging.objects.order_by("pk")[0]
    suite = "starter-corpora" if "by=source" in address else "starter"
    names = {"<key>": suite, "<task>": "E1-LS1-T5", "<id>": str(run.public_id)}
    if "/judgements/" in address:
        names["<id>"] = str(judging.run.public_id)
    elif address.startswith("/experiments/"):
        names["<id>"] = str(run.experiment.public_id)
    return PLACEHOLDER.sub(lambda found: names[found[0]], address)


def as_twin(address: str) -> str:
    path, mark, query = address.partition("?")
    return f"{path.rstrip('/')}.json{mark}{query}"


@pytest.mark.django_db
def test_every_address_answers_understands_its_choices_and_draws(client: Client) -> None:
    run, wrong = fill(), list[object]()
    addresses = sorted({address for row in ROWS for address in row.addresses})
    assert len(addresses) > 40
    for address in addresses:
        there = fill_address(address, run)
        response = client.get(there)
        if response.status_code != 200:
            wrong.append((address, response.status_code))
        elif there.partition("?")[0].endswith("/"):
            twin = client.get(as_twin(there)).json()
            if twin.get("problems") or ("figure" in twin and not twin["figure"]):
                wrong.append((address, twin.get("problems"), twin.get("absent")))
    assert wrong == []
    compared = client.get("/compare.json?table=skillgenbench").json()["groups"]
    assert any(group["pass_at_k"] for group in compared)
    judged = client.get(f"/runs/{Judging.objects.order_by('pk')[0].run.public_id}/judgements.json").json()
    spread = {line["measure"]: line["samples"] for line in judged["spread"]}
    assert {name: spread[name]["n"] for name in ("alignment", "accuracy")} == {"alignment": 2, "accuracy": 2}


@pytest.mark.django_db
def test_the_addresses_are_those_of_pages(client: Client) -> None:
    """A reader of the document as a page finds them whole."""
    shown = unescape(re.sub(r"<[^>]+>", "", read_document("reference/paper-results").html))
    for address in (address for row in ROWS for address in row.addresses):
        assert address in shown
        assert resolve(re.sub(PLACEHOLDER, "00000000-0000-4000-8000-000000000000", address).partition("?")[0])
