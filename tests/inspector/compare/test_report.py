"""The report: one file, no other; and what strangers named cannot act in it."""

from __future__ import annotations

import base64
import hashlib
from html.parser import HTMLParser

import orjson
import pytest
from django.test import Client

from benchapp.stats.comparing.choices import Choices
from inspector.charts import CHARTS
from inspector.charts.chart_request import build_sheet
from inspector.pages.compare.answer_page import AnswerHead
from inspector.pages.compare.report import least_bytes
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
BASELINE = (True, False, False, True, False, False, True, False, False)
REFERENCES = {"src", "href", "srcset", "action", "data", "poster", "formaction", "background", "ping"}


class Parsed(HTMLParser):
    """Every tag with its attributes, and the text of every script and style."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.said: list[str] = []
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif self.inside != "style":
            self.said.append(data)

    @property
    def code(self) -> list[str]:
        return [text for attributes, text in self.scripts if attributes.get("type") != "application/json"]

    @property
    def figures(self) -> dict[str, dict[str, object]]:
        found = [each for each in self.scripts if each[0].get("type") == "application/json"]
        return {str(attributes["id"]): orjson.loads(text) for attributes, text in found}


@pytest.fixture
def pair() -> None:
    suite = make_suite(environments=1, families=1)
    experiment = make_experiment(suite=suite, name=HOSTILE)
    for condition, outcomes in (("no-skill", BASELINE), (HOSTILE, (True,) * 9)):
        make_learning_run(experiment, condition=condition[:100], agent_model=HOSTILE, scripted=True, outcomes=outcomes)


def report(client: Client, address: str = "/compare/report/") -> Parsed:
    response = client.get(address)
    assert response.status_code == 200
    return Parsed(response.text)


def test_it_refers_to_nothing_outside_itself(client: Client, pair: None) -> None:
    parsed = report(client)
    assert not [(tag, name) for tag, attributes in parsed.tags for name in attributes if name in REFERENCES]
    assert not {tag for tag, _ in parsed.tags} & {"link", "img", "iframe", "object", "embed", "base", "form", "a"}


def test_its_policy_lets_its_own_scripts_run_and_nothing_else(client: Client, pair: None) -> None:
    parsed = report(client)
    (policy,) = (each["content"] for tag, each in parsed.tags if tag == "meta" and "http-equiv" in each)
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in parsed.code]
    assert len(hashes) == 2
    assert policy == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src "
        + " ".join(f"'sha256-{each}'" for each in hashes)
    )


def test_names_of_strangers_stay_text(client: Client, pair: None) -> None:
    response = client.get("/compare/report/")
    parsed = Parsed(response.text)
    assert HOSTILE not in response.text
    assert all("onerror" not in attributes for _, attributes in parsed.tags)
    assert not any(text.strip() == "alert(1)" for text in parsed.code)
    assert any("<img src=x" in text for text in parsed.said)  # it is there, as text


def test_it_holds_every_chart_that_has_something_to_draw(client: Client, pair: None) -> None:
    parsed = report(client)
    places = {attributes["data-figure"] for _, attributes in parsed.tags if "data-figure" in attributes}
    assert places == set(parsed.figures)
    assert places
    assert all(figure["data"] for figure in parsed.figures.values())
    text = " ".join(parsed.said)
    for chart in CHARTS.values():
        assert chart.title in text  # drawn, or named with the reason


def test_it_gives_the_answer_of_its_page(client: Client) -> None:
    """Heading, headline and what is left after correction are the page's; conditions have their plain names."""
    experiment = make_experiment(suite=make_suite(environments=6, families=1), name="Six rooms")
    make_learning_run(experiment, condition="no-skill", outcomes=(False,) * 9)
    for condition in ("selfgen-always", "curated-static"):
        make_learning_run(experiment, condition=condition, outcomes=(True,) * 9)
    page = client.get(experiment.get_absolute_url()).text
    response = client.get("/compare/report/", {"experiment": experiment.public_id})
    text = " ".join(" ".join(Parsed(response.text).said).split())
    for sentence in ("Did skills help?", "Self-written, always revised", "Human-written, as is"):
        assert sentence in page
        assert sentence in text
    sheet = build_sheet(Choices(experiment=(experiment.public_id,)))
    assert sheet.metric is not None
    head = AnswerHead(sheet, sheet.metric)
    assert f"{head.answer.heading} {head.headline}" in text
    assert head.lede in text
    assert "Uncorrected" not in text
    assert "<h1>Six rooms</h1>" in response.text
    assert response.headers["Content-Disposition"] == 'attachment; filename="skillglass-six-rooms.html"'
    assert "Download the report" in page


def test_it_says_what_it_is_about(client: Client, pair: None) -> None:
    text = " ".join(" ".join(report(client, "/compare/report/?replicate=1&baseline=no-skill").said).split())
    for part in ("Scripted model.", "Fingerprint", "As of", "Replicate", "Compared with", "Method", "Wilson"):
        assert part in text


def test_the_report_of_a_saved_comparison_holds_its_declared_set(client: Client, pair: None) -> None:
    saved = client.post(
        "/comparisons/save/", {"name": "Kept & named", "metrics": ["ESR"], "understood": "ESR"}
    ).headers["Location"]
    response = client.get(f"{saved}report/")
    assert response.headers["Content-Disposition"].startswith('attachment; filename="skillglass-')
    text = " ".join(" ".join(Parsed(response.text).said).split())
    assert "Kept & named" in text
    assert "1 difference declared when this comparison was saved" in text


def test_it_is_whole_without_a_run(client: Client) -> None:
    parsed = report(client, "/compare/report/?condition=none-such")
    assert "No run with a trial matches." in " ".join(parsed.said)


def test_the_size_that_is_said_is_what_a_report_weighs_at_least(client: Client, pair: None) -> None:
    assert 1_000_000 < least_bytes() < len(client.get("/compare/report/").content) < least_bytes() + 2_000_000


def test_it_leads_back_to_its_numbers_and_marks_rows_only_where_they_differ(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=1), name="Scripted")
    make_learning_run(experiment, condition="no-skill", outcomes=BASELINE, scripted=True)
    text = " ".join(" ".join(report(client, f"/compare/report/?experiment={experiment.public_id}").said).split())
    assert f"http://testserver/compare/?experiment={experiment.public_id}&as_of=20" in text
    assert "That holds for every row." in text
    assert "rows are marked" not in text
    make_learning_run(experiment, condition="selfgen-always", outcomes=BASELINE, scripted=False)
    assert "Their rows are marked." in " ".join(" ".join(report(client, "/compare/report/").said).split())
