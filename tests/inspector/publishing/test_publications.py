"""Publishing from a page: what the zip of each form holds, who may order, fetch and delete it,
and what it never holds."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from benchapp.exports.publications import order_publication
from benchapp.models import Activity, Publication, Queue, User
from benchapp.models.experiments import publications_folder
from benchapp.review.coding.queue_agreement import take_report
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.hypotheses import save_comparison
from benchapp.stats.metrics.catalogue import METRICS
from inspector.publishing import publication_job
from inspector.publishing.publication_job import publish_now
from tests.worlds.factories import make_experiment, make_learning_run, make_run, make_suite, make_trial, make_user
from tests.worlds.review_factories import make_queue, make_review

pytestmark = pytest.mark.django_db

HOSTILE = "a|b</td><script>alert(1)</script>"
PERSON = "ada-of-the-group"
MEMO = "what ada thinks of it in private"


@pytest.fixture(autouse=True)
def _own_folder(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.VAR_DIR = tmp_path
    monkeypatch.setattr(publication_job, "BROWSERS", ())


def make_record(name: str = HOSTILE) -> Any:
    experiment = make_experiment(suite=make_suite(environments=1, families=1), name=name)
    make_learning_run(experiment, condition="no-skill", outcomes=(True, False, False) * 3)
    make_learning_run(experiment, condition="selfgen-always", scripted=True, outcomes=(True,) * 9)
    return experiment


def make_coded_queue(**fields: Any) -> Queue:
    """Two people coded one trial alike."""
    people = [make_user(username=name, level="reviewer") for name in (PERSON, "grace")]
    queue = make_queue([make_trial(success=False)], reviewers=people, **fields)
    for person in people:
        make_review(queue.items.get(), person, ["misapplied"], mark={"memo": MEMO, "quote": "their words"})
    take_report(queue, "discussion", people[0])
    return queue


def order(client: Client, form: str, address: str, **fields: str) -> Publication:
    response = client.post(f"/publish/?{address}", {"form": form, **fields})
    assert (response.status_code, response.headers.get("Location")) == (302, f"/publish/?{address}#made")
    made = Publication.objects.latest("pk")
    publish_now(str(made.public_id))
    made.refresh_from_db()
    return made


def read_zip(client: Client, made: Publication) -> dict[str, bytes]:
    assert (made.status, made.reason) == ("done", "")
    response = client.get(f"/publish/{made.public_id}/file/")
    content = b"".join(response.streaming_content)
    assert hashlib.sha256(content).hexdigest() == made.facts["sha256"]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def read_listed(readme: str) -> dict[str, str]:
    """File -> digest, as its README lists them."""
    return dict(re.findall(r"^\| `([^`]+)` \| \d+ \| `([0-9a-f]{64})` \|$", readme, re.MULTILINE))


def test_a_data_package_holds_rows_values_and_what_they_mean(client: Client) -> None:
    files = read_zip(client, order(client, "data", f"experiment={make_record().public_id}"))
    whats = ("aggregates", "differences", "trials")
    assert set(files) == {
        "README.md",
        "codebook.csv",
        *(f"{what}.{form}" for what in whats for form in ("csv", "json", "parquet")),
    }
    assert len(list(csv.DictReader(io.StringIO(files["trials.csv"].decode())))) == 18
    columns = {
        (row["file"], row["column"]): row["meaning"]
        for row in csv.DictReader(io.StringIO(files["codebook.csv"].decode()))
    }
    for name in csv.DictReader(io.StringIO(files["trials.csv"].decode())).fieldnames or ():
        assert columns["trials", name]
    digests = read_listed(files["README.md"].decode())
    assert digests == {name: hashlib.sha256(files[name]).hexdigest() for name in files if name != "README.md"}


def test_a_report_is_a_page_and_text_that_no_name_can_break(client: Client) -> None:
    files = read_zip(client, order(client, "report", f"experiment={make_record().public_id}"))
    assert set(files) == {"README.md", "report.html", "report.md"}
    text = files["report.md"].decode()
    assert "<script" not in text + files["README.md"].decode()
    rows = [line for line in text.splitlines() if line.startswith("| Self-written")]
    assert [line.count("|") for line in rows] == [text.split("\n| condition")[1].split("\n")[0].count("|") + 1]
    assert "**Scripted model.**" in text
    assert "no Chromium was found" in files["README.md"].decode()


def test_a_site_holds_the_pages_of_its_experiment(client: Client) -> None:
    made = order(client, "site", f"experiment={make_record('Four ways').public_id}", trials="none")
    files = read_zip(client, made)
    assert {"index.html", "manifest.json", "README.md"} <= set(files)
    assert [name for name, _ in made.facts["says"]] == ["Site digest", "SHA-256 of manifest.json"]
    assert "The pages of 18 of 18 trials." in made.facts["left_out"]
    assert made.pages_drawn


def test_a_taxonomy_holds_definitions_counts_and_agreement_and_nothing_that_a_reviewer_wrote(client: Client) -> None:
    made = order(client, "taxonomy", f"queue={make_coded_queue().public_id}")
    files = read_zip(client, made)
    assert set(files) == {"README.md", "index.html", "taxonomy.csv", "taxonomy.tex", "codebook.yaml", "codebook.json"}
    page = files["index.html"].decode()
    for part in ("What misapplied means.", "1 of 1 items coded", "1 items coded by several", "1/1"):
        assert part in page
    assert "Shares need ten reviews" in page
    assert "Per 100" not in page
    everything = b"\n".join(files.values()).decode()
    assert not [word for word in (PERSON, "grace", MEMO, "their words") if word in everything]


def test_every_value_of_the_taxonomys_page_is_there(client: Client) -> None:
    """A misspelt key of its context would be an empty text."""
    page = read_zip(client, order(client, "taxonomy", f"queue={make_coded_queue().public_id}"))["index.html"].decode()
    assert not re.search(r"version :|: of |<dd></dd>|; +items|alpha +before|<h3></h3>", page)


def test_a_saved_comparison_is_published_with_its_own_numbers(client: Client) -> None:
    experiment = make_record("Four ways")
    choices = Choices(experiment=(experiment.public_id,))
    person = make_user(username=PERSON, level="reviewer")
    saved = save_comparison(choices, [METRICS["solved"]], name="<b>Ours</b>", user=person)
    address = f"saved={saved.public_id}"
    shared = client.get(saved.get_absolute_url()).text
    assert f'href="/publish/?{address}"' in shared
    assert "A report or a data package" in shared
    assert "A site, a report or a data package" in client.get(experiment.get_absolute_url()).text
    page = client.get(f"/publish/?{address}").text
    assert "Publish &lt;b&gt;Ours&lt;/b&gt;" in page
    assert re.findall(r'name="form" value="(\w+)"', page) == ["report", "data"]
    files = read_zip(client, order(client, "report", address))
    assert "declared when this comparison was saved, judged together" in files["report.html"].decode()
    assert not any(PERSON.encode() in content for content in files.values())
    files = read_zip(client, order(client, "data", address))
    assert json.loads(files["differences.json"])["declared_together"] == ["solved"]
    assert client.get("/publish/?saved=x").status_code == 404


def test_the_page_offers_what_fits_and_lists_what_was_made(client: Client) -> None:
    experiment = make_record("Four ways")
    offered = re.findall(r'name="form" value="(\w+)"', client.get(f"/publish/?experiment={experiment.public_id}").text)
    assert offered == ["site", "report", "data"]
    assert re.findall(r'name="form" value="(\w+)"', client.get("/publish/?condition=no-skill").text) == [
        "report",
        "data",
    ]
    assert "Nothing was published yet" in client.get("/publish/").text
    client.post(f"/publish/?experiment={experiment.public_id}", {"form": "data"})
    page = client.get("/publish/").text
    assert "Waits for a worker" in page
    assert 'hx-trigger="every 3s"' in page
    assert [row["status"] for row in client.get("/publish.json").json()["publications"]] == ["waiting"]
    assert Activity.objects.get().verb == "published"
    assert f"/publish/?experiment={experiment.public_id}" in client.get(experiment.get_absolute_url()).text


def test_the_page_says_how_much_goes_out_and_what_the_last_one_took(client: Client) -> None:
    address = f"experiment={make_record('Four ways').public_id}"
    page = client.get(f"/publish/?{address}").text
    for part in ("failed trials (6)", "all trials (18)", "2 runs with libraries", "a row for each of 18 trials"):
        assert part in page
    assert "Last " not in page, "nothing was measured here"
    made = order(client, "data", address)
    Publication.objects.filter(pk=made.pk).update(finished_at=made.made_at + timedelta(seconds=80))
    ready = f"{made.facts['files']} files, "
    assert f"Last time: {ready}" in (own := client.get(f"/publish/?{address}").text)
    assert "ready 1 min 20 s after the order" in own
    other = client.get(f"/publish/?experiment={make_record('Others').public_id}").text
    assert f"Last one here, of Four ways: {ready}" in other


def test_who_codes_it_blind_is_not_told_how_many_failed(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    experiment, reviewer = make_record("Four ways"), make_user(level=User.Level.REVIEWER)
    make_queue([experiment.runs.first().episodes.first().trials.first()], reviewers=[reviewer])
    client.force_login(reviewer)
    page = client.get(f"/publish/?experiment={experiment.public_id}").text
    assert "all trials (18)" in page
    assert "failed trials (" not in page


def test_experiments_that_compare_come_first_and_a_filter_finds_the_others(client: Client) -> None:
    both = make_experiment(name="an answer")
    for condition in ("no-skill", "curated-static"):
        make_run(both, condition=condition)
    for number in range(9):
        make_run(make_experiment(name=f"folder {number}"))
    page = client.get("/publish/").text
    assert page.index("an answer") < page.index("folder 8")
    assert "folder 0" not in page
    assert "2 more." in page
    assert "folder 0" in client.get("/publish/?find=folder").text
    assert "Nothing has this in its name." in client.get("/publish/?find=%3Cb%3E").text


@pytest.mark.parametrize(
    ("address", "form"),
    [("experiment={}", "taxonomy"), ("condition=no-skill", "site"), ("experiment={}", "x"), ("", "data")],
)
def test_what_does_not_fit_is_not_found(client: Client, address: str, form: str) -> None:
    address = address.format(make_record().public_id)
    assert client.post(f"/publish/?{address}", {"form": form}).status_code == 404
    assert not Publication.objects.exists()


@pytest.mark.parametrize(
    "address", ["queue=x", "queue=00000000-0000-0000-0000-000000000000", "since=x", "condition=nothing"]
)
def test_a_subject_that_is_none_is_not_found(client: Client, address: str) -> None:
    assert client.get(f"/publish/?{address}").status_code == 404


def test_what_was_deleted_since_stops_with_its_reason(client: Client) -> None:
    made = order_publication(make_user(), form="data", title="gone", query="condition=nothing")
    publish_now(str(made.public_id))
    made.refresh_from_db()
    assert (made.status, made.reason) == ("stopped", "no run matches these choices any longer")
    assert "no run matches these choices any longer" in client.get("/publish/").text
    assert list(publications_folder().iterdir()) == []


def test_reviewers_publish_and_only_the_maker_or_an_admin_deletes(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    experiment = make_record("Four ways")
    client.force_login(make_user(level=User.Level.VIEWER))
    address = f"/publish/?experiment={experiment.public_id}"
    assert "Reviewers and above can publish" in client.get(address).text
    assert client.post(address, {"form": "data"}).status_code == 403
    client.force_login(make_user(level=User.Level.REVIEWER))
    made = order(client, "data", f"experiment={experiment.public_id}")
    other = Client()
    other.force_login(make_user(level=User.Level.REVIEWER))
    assert other.post(f"/publish/{made.public_id}/delete/").status_code == 403
    assert made.path.exists()
    client.post(f"/publish/{made.public_id}/delete/")
    assert not made.path.exists()
    assert not Publication.objects.exists()


def test_a_blind_reviewer_gets_no_file_that_tells_what_they_still_have_to_say(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    experiment = make_record("Four ways")
    reviewer = make_user(level=User.Level.REVIEWER)
    trial = experiment.runs.first().episodes.first().trials.first()
    queue = make_queue([trial], reviewers=[reviewer])
    maker = make_user(level=User.Level.ADMIN)
    data = order_publication(
        maker, form="data", title="x", query=f"experiment={experiment.public_id}", experiment=experiment
    )
    taxonomy = order_publication(maker, form="taxonomy", title="y", queue=queue)
    for made in (data, taxonomy):
        publish_now(str(made.public_id))
    client.force_login(reviewer)
    for made in (data, taxonomy):
        assert client.get(f"/publish/{made.public_id}/file/").status_code == 403
    client.force_login(maker)
    for made in (data, taxonomy):
        assert client.get(f"/publish/{made.public_id}/file/").status_code == 200


def test_the_page_of_a_subject_lists_its_own_files(client: Client) -> None:
    first, second = make_coded_queue(), make_queue()
    made = order(client, "taxonomy", f"queue={first.public_id}")
    for address, is_listed in ((f"?queue={first.public_id}", True), (f"?queue={second.public_id}", False), ("", True)):
        assert (str(made.public_id) in client.get(f"/publish/{address}").text) is is_listed


def test_only_queues_with_an_answer_are_offered(client: Client) -> None:
    coded, blank = make_coded_queue(), make_queue()
    text = client.get("/publish/").text
    assert f"?queue={coded.public_id}" in text
    assert f"?queue={blank.public_id}" not in text


def test_who_still_codes_a_queue_cannot_publish_its_taxonomy() -> None:
    reviewer = make_user(level=User.Level.REVIEWER)
    made = order_publication(reviewer, form="taxonomy", title="early", queue=make_queue(reviewers=[reviewer]))
    publish_now(str(made.public_id))
    made.refresh_from_db()
    assert (made.status, made.reason[:24]) == ("stopped", "you still have items of ")


def test_files_of_nobody_are_swept(client: Client) -> None:
    publications_folder().mkdir()
    stray = publications_folder() / "00000000-0000-0000-0000-000000000000.zip"
    stray.write_bytes(b"left by an experiment that was swept")
    made = order(client, "data", f"experiment={make_record().public_id}")
    assert sorted(publications_folder().iterdir()) == [made.path]


@pytest.mark.browser
def test_a_browser_prints_the_report(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication_job, "BROWSERS", ("chromium",))
    files = read_zip(client, order(client, "report", f"experiment={make_record().public_id}"))
    assert files["report.pdf"].startswith(b"%PDF-")
