"""`manage.py view`: its own record, the page that it opens, and files that change while it runs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management.base import CommandError

from benchapp.deploy import view_record
from benchapp.imports.batch import import_paths
from benchapp.models import Episode
from inspector.management.commands.view import choose_page, fingerprint_files, unpack_archives
from tests.benchapp.import_folders import job, trial
from tests.benchapp.log_files import claude_session
from tests.benchapp.skill_repository import make_skills
from tests.worlds.factories import make_decision, make_episode, make_experiment, make_family, make_run, make_trial

# --- its record -----------------------------------------------------------------------------------------------------


def test_each_set_of_paths_has_its_record_in_the_cache(tmp_path: Path) -> None:
    environment = {
        "XDG_CACHE_HOME": str(tmp_path),
        "DATABASE_URL": "postgresql://team/record",
        "REDIS_URL": "redis://team",
    }
    view_record.set_up(["runs/monday", "--follow"], environment)
    record = Path(environment["SKILLGLASS_VAR"])
    assert re.fullmatch(r"monday-[0-9a-f]{8}", record.name)
    assert record.is_relative_to(tmp_path)
    assert environment["SINGLE_USER"] == "1"
    assert not {"DATABASE_URL", "REDIS_URL"} & environment.keys()
    again = {"XDG_CACHE_HOME": str(tmp_path)}
    view_record.set_up([str(Path("runs/monday").resolve())], again)
    assert again["SKILLGLASS_VAR"] == str(record)
    view_record.set_up(["runs/tuesday", "--record", str(tmp_path / "mine")], again)
    assert again["SKILLGLASS_VAR"] == str(tmp_path / "mine")


@pytest.mark.parametrize(("path", "name"), [("/", "all"), ("/tmp/..", "all"), ("/a/.ssh", "ssh"), ("/a/b c\n", "b-c-")])
def test_a_record_is_named_after_its_folder(path: str, name: str) -> None:
    assert view_record.name_record([path]).startswith(f"records/{name}-")


@pytest.mark.django_db
def test_a_zip_of_a_folder_is_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "VAR_DIR", tmp_path / "record")
    job(tmp_path / "runs" / "monday", trials=1)
    names = unpack_archives([Path(shutil.make_archive(str(tmp_path / "sent"), "zip", tmp_path, "runs"))])
    assert list(names.values()) == [str(tmp_path / "runs")]
    assert import_paths(names, names=names).counts["created"] == 1
    assert import_paths([tmp_path / "runs"]).counts["unchanged"] == 1
    (tmp_path / "no.zip").write_text("no zip")
    with pytest.raises(CommandError, match="cannot be unpacked"):
        unpack_archives([tmp_path / "no.zip"])


# --- the page that it opens ---------------------------------------------------------------------------------------


@pytest.mark.django_db
class TestChoosePage:
    def test_several_experiments_are_listed(self) -> None:
        make_experiment(name="a"), make_experiment(name="b")
        assert choose_page() == "/"

    def test_conditions_are_compared(self) -> None:
        experiment = make_experiment()
        for condition in ("no-skill", "with-skills"):
            make_trial(make_episode(make_run(experiment, condition=condition)), success=True)
        assert choose_page() == f"/experiments/{experiment.public_id}/"

    def test_a_library_that_changed_is_opened(self) -> None:
        run = make_run(make_experiment(), condition="gepa")
        make_decision(make_episode(run), make_family())
        assert choose_page() == f"/runs/{run.public_id}/library/"

    def test_a_skill_in_git_is_opened_where_sessions_read_it(self, tmp_path: Path) -> None:
        skills, logs = make_skills(tmp_path / "toolbox").folder, tmp_path / "logs"
        facts = {"cwd": str(skills), "started": "2026-03-03T00:00:00Z"}
        claude_session(logs / "a.jsonl", "a", **facts)
        import_paths([skills, logs])
        assert choose_page() == "/"  # nobody read a skill
        claude_session(
            logs / "b.jsonl", "b", **facts, command="cat .claude/skills/sort/SKILL.md", output="# Sort\n" * 60
        )
        import_paths([logs])
        skill = Episode.objects.get(key="sort")
        assert choose_page() == f"/runs/{skill.run.public_id}/library/sessions/?episode={skill.public_id}"
        make_run(make_experiment(name="something else"))
        assert choose_page() == "/"

    def test_of_skills_in_git_the_one_that_changed_most_and_exists_is_opened(self, tmp_path: Path) -> None:
        import_paths([make_skills(tmp_path / "toolbox").folder])
        skill = Episode.objects.get(key="plot")  # `sort` changed more and was deleted
        assert choose_page() == f"/runs/{skill.run.public_id}/library/?episode={skill.public_id}"

    def test_skills_without_a_history_are_opened(self, tmp_path: Path) -> None:
        (tmp_path / "SKILL.md").write_text("# Sums\n")
        import_paths([tmp_path])
        assert choose_page().startswith(f"/runs/{Episode.objects.get().run.public_id}/library/")

    def test_one_trial_is_opened(self) -> None:
        found = make_trial(make_episode(make_run(make_experiment())), success=True)
        assert choose_page() == f"/trials/{found.public_id}/"

    def test_trials_of_one_condition_are_listed(self) -> None:
        episode = make_episode(make_run(make_experiment()))
        make_trial(episode), make_trial(episode, sample=1)
        assert choose_page() == f"/compare/trials/?experiment={episode.run.experiment.public_id}"

    def test_else_it_is_the_experiment(self) -> None:
        experiment = make_experiment()
        assert choose_page() == f"/experiments/{experiment.public_id}/"


# --- while it runs --------------------------------------------------------------------------------------------------


def test_a_change_of_any_file_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b"
    file.parent.mkdir()
    file.write_text("1")
    seen = {fingerprint_files([tmp_path])}
    file.write_text("22")
    seen.add(fingerprint_files([tmp_path]))
    (tmp_path / "c").symlink_to("nowhere")
    seen.add(fingerprint_files([tmp_path]))
    file.unlink()
    seen.add(fingerprint_files([tmp_path]))
    assert len(seen) == 4


@contextmanager
def viewing(cache: Path, *words: object) -> Iterator[Callable[[str], str]]:
    """A running command; the function waits for a line with this text, and returns it."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop("DJANGO_SETTINGS_MODULE")
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "view", "--no-browser", *map(str, words)]
    hears = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=hears)
    assert process.stdout is not None

    def wait_for(text: str) -> str:
        assert process.stdout is not None
        return next(line for line in process.stdout if text in line)

    try:
        yield wait_for
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        process.stdout.close()


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=20) as answer:
        return str(answer.read().decode())


@pytest.mark.slow
def test_it_shows_a_folder_and_follows_it(tmp_path: Path) -> None:
    folder = job(tmp_path / "runs" / "monday", trials=1)
    with viewing(tmp_path / "cache", folder, "--follow") as wait_for:
        assert wait_for("Read") == "Read 1 experiment, 1 run, 1 trial, 2 steps.\n"
        address = wait_for("http").split()[0]
        assert "/trials/" in address
        assert "sum-csv" in get(address)
        time.sleep(2.5)
        shutil.copytree(trial(tmp_path / "other", 7), folder / "sum-csv__0000007")
        assert "1 new or changed" in wait_for("new")
    with viewing(tmp_path / "cache", folder) as wait_for:  # the record is still there
        assert "2 trials" in wait_for("Read")
        assert "/compare/trials/" in wait_for("http")


@pytest.mark.slow
def test_a_folder_without_runs_ends_with_what_it_can_read(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    done = subprocess.run(
        [sys.executable, str(settings.BASE_DIR / "manage.py"), "view", "--no-browser", str(tmp_path)],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "Nothing to show. The formats are harbor, " in done.stdout
