"""A suite's page and load_suite show the findings of screening, computed once for each state of a suite."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from benchapp.analysis import suite_screening
from benchapp.analysis.suite_screening import summarise_screening, take_screening
from benchapp.models import Suite, SuiteFile
from benchapp.record.sets.suite_files import find_suite
from benchapp.stats.learning import computed_runs
from runner.screening.suite_findings import Screening, SuiteFinding, Weight

pytestmark = pytest.mark.django_db

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "suites"
FLOW = "Ledger-Reconciliation"
NASTY = "<script>alert(1)</script>\x1b[31m"


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    for module in (computed_runs, suite_screening):
        monkeypatch.setattr(module, "facts_folder", lambda: tmp_path / "facts")


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    """A small suite in whose second task the answer is told, and whose last one is given the first one's file."""
    folder = Path(shutil.copytree(EXAMPLES / "skillflow", tmp_path / "flow"))
    task = folder / FLOW / "ledger_bank_fees"
    (task / "tests" / "expected.json").write_text('{"fees": 48213.77}')
    with (task / "instruction.md").open("a") as file:
        file.write(f"\nThe correct answer is 48213.77 {NASTY}.\n")
    for name in ("ledger_cash_box", "ledger_reversals"):
        (folder / FLOW / name / "environment" / "rates.csv").write_text("day,rate\n" + "1,2.5\n" * 20)
    return folder


def load(folder: Path, *more: str) -> str:
    out = StringIO()
    call_command("load_suite", str(folder), *more, stdout=out)
    return out.getvalue()


def twin(client: Client, url: str) -> dict[str, Any]:
    response = client.get(url)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_loading_prints_the_count_and_the_worst_and_refuses_nothing(flow: Path) -> None:
    said = load(flow)
    assert "screening     1 leak and 1 place to look at." in said
    assert "leak: The instruction of ledger_bank_fees holds 48213.77, which the tests expect." in said
    assert said.index("leak: ") < said.index("look: ")
    assert "Launch it as suite: flow" in said
    assert "\x1b" not in said
    told = json.loads(load(flow, "--json"))["screening"]
    assert [each["kind"] for each in told["findings"]] == ["answer-in-instruction", "shared-input"]


def test_a_check_screens_too_and_a_sound_suite_says_so(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLES / "skillflow", tmp_path / "sound"))
    assert "screening     Nothing found." in load(folder, "--check")


def test_the_page_shows_findings_with_both_places_and_links_to_the_tasks(client: Client, flow: Path) -> None:
    load(flow)
    found = twin(client, "/suites/flow.json")["screening"]
    assert (found["leaks"], found["looks"], found["more"], found["skipped"]) == (1, 1, 0, [])
    leak, look = found["findings"]
    assert (leak["weight"], leak["tasks"]) == ("leak", ["ledger_bank_fees"])
    assert [each["path"] for each in leak["quotes"]] == ["instruction.md", "tests/expected.json"]
    first = look["quotes"][0]
    assert (first["task"], first["path"], first["line"]) == ("ledger_cash_box", "environment/rates.csv", None)
    assert first["text"].startswith("day,rate 1,2.5")
    page = client.get("/suites/flow/").text
    assert "<summary>Screening <small>1 leak and 1 place to look at.</small>" in page
    assert "The instruction of ledger_bank_fees holds 48213.77" in page
    assert 'task=ledger_bank_fees#task"' in page
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.index("An instruction gives an answer away") < page.index("Tasks share an input")


def test_a_bundled_suite_is_screened_when_its_page_is_opened(client: Client) -> None:
    assert twin(client, "/suites/starter.json")["screening"]["says"] == "Nothing found."


def test_a_suite_that_nobody_screened_is_screened_when_somebody_asks(client: Client, flow: Path) -> None:
    load(flow)
    shutil.rmtree(computed_runs.facts_folder())
    assert twin(client, "/suites/flow.json")["screening"] is None
    assert "Screen it now" in client.get("/suites/flow/").text
    assert twin(client, "/suites/flow.json?screening=now")["screening"]["leaks"] == 1
    assert "Screen it now" not in client.get("/suites/flow/").text


def test_it_is_computed_once_for_each_state_of_the_suite(
    client: Client, flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(flow)
    with monkeypatch.context() as patched:
        patched.setattr(suite_screening, "screen_suite", lambda suite: pytest.fail("screened again"))
        load(flow)
        assert twin(client, "/suites/flow.json?screening=now")["screening"]["leaks"] == 1
    instruction = flow / FLOW / "ledger_bank_fees" / "instruction.md"
    instruction.write_text(instruction.read_text().replace("48213.77", "written by hand"))
    assert twin(client, "/suites/flow.json")["screening"] is None
    load(flow)
    assert twin(client, "/suites/flow.json")["screening"]["leaks"] == 0
    assert len(list(computed_runs.facts_folder().iterdir())) == 1  # that of the former state is gone


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000, b'{"findings": [{"kind": 1}]}', b"\xff"])
def test_a_kept_file_that_cannot_be_read_is_none(flow: Path, content: bytes) -> None:
    load(flow)
    (path,) = computed_runs.facts_folder().iterdir()
    path.write_bytes(content)
    assert take_screening(find_suite("flow")) is None


def test_a_folder_that_is_gone_is_screened_from_the_record_if_its_files_are_there(client: Client, flow: Path) -> None:
    load(flow)
    shutil.rmtree(flow)
    assert twin(client, "/suites/flow.json")["screening"]
    SuiteFile.objects.all().delete()
    Suite.objects.update(files_digest="")
    assert twin(client, "/suites/flow.json")["screening"] is None
    assert "Screening" not in client.get("/suites/flow/").text


@pytest.mark.parametrize(
    ("leaks", "looks", "more", "says"),
    [
        (0, 0, 0, "Nothing found."),
        (2, 0, 0, "2 leaks."),
        (1, 2, 3, "1 leak and 2 places to look at; 3 more of the same kinds are left out."),
    ],
)
def test_the_sentence_counts_what_there_is(leaks: int, looks: int, more: int, says: str) -> None:
    weights = [Weight.LEAK] * leaks + [Weight.LOOK] * looks
    found = tuple(SuiteFinding("roles", weight, (), str(number)) for number, weight in enumerate(weights))
    assert summarise_screening(Screening(found, more)) == says
