"""`manage.py publish`: what a site holds and what it must never hold, and what happens to the folder it goes to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from uuid import uuid4

import orjson
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from benchapp.models import Comment, Experiment, Probe, Trial, User
from benchapp.record.record_digest import record_digest
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.hypotheses import save_comparison
from benchapp.stats.metrics.catalogue import METRICS
from inspector.publishing import site as site_module
from inspector.publishing.site import Site, choose_trials
from runner.base.types import Source, Step
from tests.inspector.conftest import PLAIN
from tests.worlds.factories import make_experiment, make_learning_run, make_suite, make_user, record_steps
from tests.worlds.probe_factories import make_probe

pytestmark = pytest.mark.django_db

PERSON = "ada-of-the-group"
WORDS = "what ada thinks of it in private"
ADDRESS = re.compile(r' (?:href|src|data-chart|data-page|action)="([^"]*)"')


def make_record() -> Experiment:
    """Two conditions, a probe, and a comment, a reason and a saved comparison by one person."""
    suite = make_suite(environments=1, families=1)
    experiment = make_experiment(suite=suite, name="starter demo", source="/home/ada/runs")
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=(True, False, False) * 3)
    run = make_learning_run(experiment, condition="selfgen-always", scripted=True)
    person = make_user(username=PERSON, email=f"{PERSON}@example.org", level=User.Level.REVIEWER)
    trial = first_trial(experiment)
    trajectory = record_steps(trial.counting_attempt(), [Step(1, Source.USER, "do it"), Step(2, Source.AGENT, "done")])
    place = {"trajectory": str(trajectory.public_id), "step": 2}
    Comment.objects.create(on="step", place=place, address="", trial=trial, author=person, text=WORDS)
    make_probe(run.episodes.first(), "ppf", reverted=1)
    Probe.objects.update(reason=WORDS, actor=person)
    save_comparison(Choices(experiment=(experiment.public_id,)), [METRICS["ESR"]], name="declared", user=person)
    return experiment


def first_trial(experiment: Experiment) -> Trial:
    return Trial.objects.filter(episode__run__experiment=experiment, success=False).order_by("pk").first()


def publish(experiment: Experiment, folder: Path, *more: str, stderr: StringIO | None = None) -> str:
    told = StringIO()
    call_command("publish", str(experiment.public_id), str(folder), *more, stdout=told, stderr=stderr or StringIO())
    return told.getvalue()


def read_all(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@dataclass(frozen=True)
class Made:
    """A site with one trial, the lines about it and its progress, and the state of its record."""

    folder: Path
    told: str
    progress: str
    record: str
    trials: int


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Published once for all tests that only read it; the rows are gone before they begin."""
    storages = {**settings.STORAGES, "staticfiles": PLAIN}
    folder = tmp_path_factory.mktemp("published") / "site"
    with django_db_blocker.unblock(), transaction.atomic(), override_settings(STORAGES=storages):
        experiment = make_record()
        progress = StringIO()
        told = publish(experiment, folder, "--trials", str(first_trial(experiment).public_id), stderr=progress)
        total = Trial.objects.filter(episode__run__experiment=experiment).count()
        found = Made(folder, told, progress.getvalue(), record_digest(experiment), total)
        transaction.set_rollback(True)
    return found


def test_it_holds_the_pages_of_the_experiment_and_starts_with_it(made: Made) -> None:
    start = (made.folder / "index.html").read_text()
    assert "starter demo" in start
    assert f"Published from Skillglass {settings.VERSION}, record <code>{made.record}</code>" in start
    kinds = ["runs/*/index.html", "runs/*/library/index.html", "runs/*/library/q-*.html", "trials/*/index.html"]
    kinds += ["runs/*/library/blame/*.html", "compare/charts/*/index.html", "compare/charts/*.json"]
    kinds += ["comparisons/*/index.html", "published/index.html", "static/css/*.css", "static/vendor/*.woff2"]
    assert [kind for kind in kinds if not list(made.folder.glob(kind))] == []
    assert len(list(made.folder.glob("trials/*/index.html"))) == 1


def test_every_link_leads_to_a_file_of_the_site(made: Made) -> None:
    dead, seen = [], 0
    for page in made.folder.rglob("*.html"):
        for href in ADDRESS.findall(page.read_text()):
            path = href.partition("#")[0]
            if path.startswith(("https://", "http://")):
                continue
            seen += 1
            target = (page.parent / path).resolve() if path else page
            if not target.is_file() or not target.is_relative_to(made.folder.resolve()):
                dead.append((page.name, href))
    assert seen > 500
    assert dead == []


@pytest.mark.parametrize(
    "part",
    ["<form", "<dialog", "hx-", "<kbd", "onclick", "<style", " style=", "testserver", "published.invalid", "/home/ada"],
)
def test_no_page_holds_what_needs_a_server_or_names_a_machine(made: Made, part: str) -> None:
    assert [str(page) for page in made.folder.rglob("*.html") if part in page.read_text()] == []


@pytest.mark.parametrize("word", [PERSON, WORDS, "example.org"])
def test_it_tells_nothing_of_people(made: Made, word: str) -> None:
    """Comments, reasons of acts, names; the pages of an installation show all of these."""
    pages = [path for path in made.folder.rglob("*") if path.is_file() and "static" not in path.parts]
    assert [str(path) for path in pages if word.encode() in path.read_bytes()] == []


def test_the_manifest_names_each_file_with_its_digest(made: Made) -> None:
    files = read_all(made.folder)
    assert f"{len(files)} files, {sum(map(len, files.values())):,} bytes" in made.told
    content = files.pop("manifest.json")
    manifest = orjson.loads(content)
    assert {row["path"]: (row["sha256"], row["bytes"]) for row in manifest["files"]} == {
        path: (hashlib.sha256(each).hexdigest(), len(each)) for path, each in files.items()
    }
    assert (manifest["record_digest"], manifest["skillglass"]) == (made.record, settings.VERSION)
    assert manifest["trials"] == {"published": 1, "of": made.trials}
    assert manifest["site_digest"] in made.told
    assert hashlib.sha256(content).hexdigest() in made.told
    assert f"1 of {made.trials} with a page; {made.trials - 1} left out" in made.told


def test_progress_is_told_from_the_first_page_to_the_last(made: Made) -> None:
    lines = made.progress.splitlines()
    pages = sum("address" in row for row in orjson.loads((made.folder / "manifest.json").read_bytes())["files"])
    assert (lines[0], lines[-1]) == ("0 of 3 pages drawn", f"{pages:,} of {pages:,} pages drawn")
    assert len(lines) < 2 + 300 / 5  # none for each page: one every five seconds


@pytest.fixture
def experiment() -> Experiment:
    return make_record()


def test_two_publishes_of_one_record_differ_in_their_date_alone(experiment: Experiment, tmp_path: Path) -> None:
    own = str(first_trial(experiment).public_id)
    for name in ("first", "second"):
        publish(experiment, tmp_path / name, "--trials", own)
    first, second = read_all(tmp_path / "first"), read_all(tmp_path / "second")
    dated = [orjson.loads(each.pop("manifest.json")) for each in (first, second)]
    assert first == second
    assert dated[0].pop("published_at") <= dated[1].pop("published_at")
    assert dated[0] == dated[1]


def test_a_link_to_a_step_leads_to_the_page_that_holds_it(experiment: Experiment, tmp_path: Path) -> None:
    trial = first_trial(experiment)
    record_steps(trial.counting_attempt(), [Step(number, Source.AGENT, f"word {number}") for number in range(1, 131)])
    publish(experiment, tmp_path / "site", "--trials", str(trial.public_id))
    pages = {path: path.read_text() for path in (tmp_path / "site" / "trials" / str(trial.public_id)).glob("*.html")}
    assert len(pages) == 3  # of 30 and twice 50 steps
    held = {
        int(number): path.name for path, text in pages.items() for number in re.findall(r'<li id="step-(\d+)"', text)
    }
    assert sorted(held) == list(range(1, 131))
    links = [
        (path, href, int(step))
        for path, text in pages.items()
        for href, step in re.findall(r'href="([^"]*)#step-(\d+)"', text)
    ]
    assert len(links) > 300
    assert [link for link in links if (link[1].removeprefix("./") or link[0].name) != held[link[2]]] == []


# --- which trials ---------------------------------------------------------------------------------------------------


def test_failed_trials_come_first_where_not_all_have_room(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = Trial.objects.filter(episode__run__experiment=experiment)
    failed = set(trials.filter(success=False).values_list("public_id", flat=True))
    assert set(choose_trials(experiment, ["failed"])) == failed
    assert len(choose_trials(experiment, ["all"])) == trials.count() > len(failed)
    monkeypatch.setattr(site_module, "MOST_TRIALS", len(failed) + 1)
    chosen = choose_trials(experiment, ["all"])
    assert len(chosen) == len(failed) + 1
    assert failed < set(chosen)
    assert choose_trials(experiment, ["none"]) == []


def test_a_trial_that_is_not_of_this_experiment_is_named(experiment: Experiment, tmp_path: Path) -> None:
    strange = str(uuid4())
    with pytest.raises(CommandError, match=f"--trials {strange}: expected all, failed, none, or ids of trials"):
        publish(experiment, tmp_path / "site", "--trials", strange)
    assert list(tmp_path.iterdir()) == []


# --- the folder -----------------------------------------------------------------------------------------------------


def test_an_experiment_that_is_not_there_is_named(tmp_path: Path, db: None) -> None:
    with pytest.raises(CommandError, match="there is no experiment"):
        call_command("publish", str(uuid4()), str(tmp_path / "site"))


@pytest.fixture
def one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only the folder matters, the site is its first page."""
    monkeypatch.setattr(Site, "collect", lambda site, seeds, progress: site._ask(seeds[0]))


@pytest.fixture
def old_site(experiment: Experiment, one_page: None, tmp_path: Path) -> Path:
    publish(experiment, tmp_path / "site")
    return tmp_path / "site"


def _with_a_file(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")


def _as_a_file(folder: Path) -> None:
    folder.write_text("mine")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_with_a_file, "is not empty and holds no published site"),
        (_as_a_file, "expected a folder, or a name for a new one"),
    ],
)
def test_what_is_no_site_is_never_replaced(
    experiment: Experiment, one_page: None, tmp_path: Path, make: Callable[[Path], None], said: str
) -> None:
    make(tmp_path / "site")
    for more in ([], ["--replace"]):
        with pytest.raises(CommandError, match=said):
            publish(experiment, tmp_path / "site", "--trials", "none", *more)
    assert b"mine" in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_site_is_replaced_only_when_asked_and_nothing_else_lies_in_it(experiment: Experiment, old_site: Path) -> None:
    with pytest.raises(CommandError, match="--replace writes it again"):
        publish(experiment, old_site)
    (old_site / "CNAME").write_text("example.org")
    with pytest.raises(CommandError, match="CNAME is not a file of the published site"):
        publish(experiment, old_site, "--replace")
    (old_site / "CNAME").unlink()
    before = (old_site / "index.html").stat().st_ino
    publish(experiment, old_site, "--replace")
    assert (old_site / "index.html").stat().st_ino != before
    assert [path.name for path in old_site.parent.iterdir()] == ["site"]


def test_what_is_cut_short_leaves_the_old_site_and_nothing_beside_it(
    experiment: Experiment, old_site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_all(old_site)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Site, "write", stop)
    with pytest.raises(KeyboardInterrupt):
        publish(experiment, old_site, "--replace")
    assert read_all(old_site) == before
    assert [path.name for path in old_site.parent.iterdir()] == ["site"]


def test_a_record_that_changes_meanwhile_is_not_published(
    experiment: Experiment, one_page: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = iter(["before", "after"])
    monkeypatch.setattr(site_module, "record_digest", lambda _: next(digests))
    with pytest.raises(CommandError, match="the record changed while its pages were drawn"):
        publish(experiment, tmp_path / "site")
    assert list(tmp_path.iterdir()) == []
