"""What leaves for a repository of your own: the menu, its files, the text of a pull request, and the command."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from benchapp.models import Decision, Episode
from benchapp.stats.comparing.choices import Choices
from inspector.pages.compare.report import write_markdown
from inspector.pages.library.take_view import code, fence
from inspector.web.access import local_user
from runner.base.trees import read_tree
from runner.base.types import File
from tests.benchapp.exports.test_taken_skills import files_in, git, start
from tests.worlds.factories import (
    make_decision,
    make_episode,
    make_experiment,
    make_family,
    make_learning_run,
    make_run,
    make_snapshot,
    make_suite,
    make_trial,
    make_user,
)
from tests.worlds.review_factories import make_queue

pytestmark = pytest.mark.django_db

HOSTILE = "Fixes #1 @everyone `x` | <img src=x onerror=alert(1)>\n```\n# Approved\n![x](//evil.example)\n"


def a_decision(**fields: object) -> Decision:
    episode = make_episode(make_run(make_experiment(name=HOSTILE), author_model="acme/writer"), title="Monthly tables")
    trial = make_trial(episode, success=False)
    given = {"before": make_snapshot({}), "after": make_snapshot({"tidy/SKILL.md": "text\n"}), "summary": HOSTILE}
    return make_decision(episode, make_family(), after_trial=trial, evidence=[trial], **{**given, **fields})


def address(episode: Episode, form: str, **query: object) -> str:
    asked = "&".join(f"{name}={value}" for name, value in {"episode": episode.public_id, **query}.items())
    return f"/runs/{episode.run.public_id}/library/take/{form}/?{asked}"


def test_the_menu_leads_to_files_that_are_what_they_say(client: Client, tmp_path: Path) -> None:
    episode = a_decision().episode
    make_decision(episode, make_family(), before=episode.library, after=make_snapshot({"tidy/SKILL.md": "more\n"}))
    page = client.get(f"/runs/{episode.run.public_id}/library/?decision=2").content.decode()
    links = [
        link.partition('"')[0].replace("&amp;", "&") for link in page.split('href="') if "/library/take/" in link[:90]
    ]
    taken = [client.get(link) for link in links]
    assert [each.status_code for each in taken] == [200] * 4
    assert [each["Content-Disposition"].partition("=")[2] for each in taken] == [
        *('"monthly-tables-r2.zip"', '"monthly-tables-r2.patch"', '"monthly-tables-r2.patch"', '"monthly-tables-r2.md"')
    ]
    with zipfile.ZipFile(io.BytesIO(taken[0].content)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"tidy/SKILL.md": b"more\n"}
    folder = start(tmp_path / "own", {})
    git(folder, "am", "-q", given=taken[1].content)
    assert files_in(folder) == {"skills/tidy/SKILL.md": File(b"more\n")}
    assert taken[2].content.count(b"\nSubject: ") == 1
    assert taken[1].content.count(b"\nSubject: ") == 2
    asked = f"/runs/{episode.run.public_id}/library/?from=R1&to=R2&episode={episode.public_id}"
    assert "Take it out" in client.get(asked).content.decode()
    empty = make_episode()
    assert "Take it out" not in client.get(f"/runs/{empty.run.public_id}/library/").content.decode()


def test_nonsense_in_the_address_is_named(client: Client) -> None:
    episode = a_decision().episode
    for asked in (
        address(episode, "zip", round="R9"),
        address(episode, "tar"),
        address(episode, "patch", **{"from": "R1", "round": "R0"}),
        address(episode, "patch", prefix="../x"),
        f"/runs/{episode.run.public_id}/library/take/zip/?episode=x",
    ):
        found = client.get(asked)
        assert (found.status_code, found["Content-Type"]) == (400, "text/plain; charset=utf-8"), asked
    other = address(make_episode(), "zip").replace(str(episode.run.public_id), "x")
    foreign = f"/runs/{episode.run.public_id}/library/take/zip/?{other.partition('?')[2]}"
    assert client.get(foreign).status_code == 404
    assert client.post(address(episode, "zip")).status_code == 405


def test_a_reviewer_who_is_blind_to_the_library_takes_nothing(client: Client) -> None:
    decision = a_decision()
    reviewer = make_user(username="ada")
    assert decision.after_trial
    make_queue([decision.after_trial], reviewers=[reviewer], hides_conditions=True)
    client.force_login(reviewer)
    for form in ("zip", "patch", "pull-request"):
        assert client.get(address(decision.episode, form)).status_code == 403
    client.force_login(local_user())
    assert client.get(address(decision.episode, "zip")).status_code == 200


def test_the_text_says_why_and_nothing_in_it_means_anything_elsewhere(client: Client) -> None:
    decision = a_decision()
    found = client.get(address(decision.episode, "pull-request"))
    text = found.content.decode()
    assert found["Content-Type"] == "text/markdown; charset=utf-8"
    assert "- added `tidy/SKILL.md`" in text
    assert "### R1: decision 1, " in text
    assert "The author saw 1 trial: 0 of 1 with a verdict passed." in text
    assert "Whether the skills help: the record has no comparison" in text
    plain, inside = [], ""
    for line in text.splitlines():  # what Markdown reads outside of blocks and spans of code
        if line.startswith("```") and (not inside or line == inside):
            inside = "" if inside else line.removesuffix("text")
        elif not inside:
            plain.append("".join(line.split("`")[::2]))
    outside = "\n".join(plain)
    assert not inside
    for sign in ("#1", "@everyone", "<img", "![x]", "# Approved", "Fixes"):
        assert sign in text, sign
        assert sign not in outside, sign


def test_the_evidence_is_that_of_the_experiments_page(client: Client) -> None:
    suite = make_suite(environments=1, families=2)
    experiment = make_experiment(suite=suite)
    outcomes = (False, False, False, False, False, True, False, False, False)
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=outcomes)
    run = make_learning_run(experiment, condition="self-generated")
    text = client.get(address(run.episodes.get(), "pull-request")).content.decode()
    report = write_markdown(Choices(experiment=(experiment.public_id,)), "")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) == 2
    assert "these skills" in "".join(row[0] for row in rows)
    for name, solved, count, delta, around, verdict in rows:
        title = name.partition("`")[2].partition("`")[0]
        (there,) = [line for line in report.splitlines() if line.startswith(f"| {title} |")]
        assert (
            f" | {solved} | {count} | {delta.removesuffix(' points')} | {around} | {verdict.removesuffix(' |')}"
            in there
        )
    assert "Used by `" in text
    assert "Whether the skills help" not in text
    make_learning_run(experiment, condition="self-generated", replicate=2)
    assert "counts 2 libraries" in client.get(address(run.episodes.get(), "pull-request")).content.decode()
    early = client.get(address(run.episodes.get(), "pull-request", round="R1")).content.decode()
    assert "What R1 does: the comparison is about whole runs" in early


def test_code_holds_whatever_it_is_given() -> None:
    assert code("a `b` | c\nd") == "`a 'b' ¦ c`"
    assert code(" \n") == "—"
    assert fence("x\n````\ny") == "`````text\nx\n````\ny\n`````"


def test_the_command_writes_each_form(tmp_path: Path) -> None:
    episode = a_decision().episode
    call_command("take_skills", str(episode.public_id), str(tmp_path / "new/out"))
    assert read_tree(tmp_path / "new/out").files == {"tidy/SKILL.md": File(b"text\n")}
    with pytest.raises(CommandError, match="new or an empty folder"):
        call_command("take_skills", str(episode.public_id), str(tmp_path / "new/out"))
    for form in ("zip", "patch", "pull-request"):
        call_command("take_skills", str(episode.run.public_id), str(tmp_path / form), "--as", form, "--round", "1")
    folder = start(tmp_path / "own", {})
    git(folder, "am", "-q", str(tmp_path / "patch"))
    assert files_in(folder) == {"skills/tidy/SKILL.md": File(b"text\n")}
    assert (tmp_path / "pull-request").read_text().startswith("# Skills from `Fixes")
    for wrong, said in (
        (["--round", "R9"], "never at 'R9'"),
        (["--as", "patch", "--from", "R1"], "nothing changed from R1 to R1"),
    ):
        with pytest.raises(CommandError, match=said):
            call_command("take_skills", str(episode.public_id), str(tmp_path / "x"), *wrong)
    with pytest.raises(CommandError, match="no episode or run"):
        call_command("take_skills", "01890000-0000-7000-8000-000000000000", str(tmp_path / "x"))
    make_episode(episode.run)
    with pytest.raises(CommandError, match="a run with several episodes"):
        call_command("take_skills", str(episode.run.public_id), str(tmp_path / "x"))
