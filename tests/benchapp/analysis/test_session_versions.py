"""Which version of a skill in git the sessions of coding agents could see, which read it, and how they went."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.analysis.lineage.library_states import read_history
from benchapp.analysis.lineage.session_versions import (
    Repository as ImportedRepository,
)
from benchapp.analysis.lineage.session_versions import (
    SkillSessions,
    find_most_read_skill,
    list_repositories,
    list_seen_skills,
    match_folder,
    read_sessions,
    read_versions,
)
from benchapp.imports.batch import import_paths
from benchapp.models import Chunk, Episode, Experiment, SkillUse, Trajectory, Trial
from tests.benchapp.log_files import claude_session, codex_rollout
from tests.benchapp.skill_repository import Repository, make_skills

pytestmark = pytest.mark.django_db
READ = "cat .claude/skills/sort/SKILL.md"


@pytest.fixture
def team(tmp_path: Path) -> Repository:
    return make_skills(tmp_path / "me" / "toolbox")


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., None]:
    def make(session: str, started: str, cwd: object, **facts: object) -> None:
        claude_session(
            tmp_path / "logs" / f"{session}.jsonl", session, prompt=session, started=started, cwd=cwd, **facts
        )

    return make


def bring_in(*paths: Path) -> SkillSessions:
    import_paths(paths)
    return read_sessions(Episode.objects.get(key="sort"))


def versions_of(found: SkillSessions) -> dict[str, list[str]]:
    return {row.version.key: sorted(each.title for each in row.sessions) for row in found.versions}


def test_a_session_has_the_last_commit_before_its_start(
    team: Repository, tmp_path: Path, log: Callable[..., None]
) -> None:
    log("early", "2026-03-01T09:00:00Z", str(team.folder))
    log("at the commit", "2026-03-02T10:00:00Z", str(team.folder), command=READ, output="# sort\n" * 60)
    log("across", "2026-03-04T09:59:55Z", f"{team.folder}/data", is_error=True)
    log("third", "2026-03-07T00:00:00Z", f"{team.folder}/")
    log("untimed", "", str(team.folder))
    log("late", "2026-03-09T00:00:00Z", str(team.folder))  # the skill was deleted before
    logs = tmp_path / "logs"
    codex_rollout(logs / "rollout-c.jsonl", "c", cwd=str(team.folder), started="2026-03-05T00:00:00Z", command=READ)
    found = bring_in(team.folder, logs)
    assert versions_of(found) == {
        "R4": [],
        "R3": ["third"],
        "R2": ["List the files."],
        "R1": ["across", "at the commit"],
    }
    assert (found.untimed, found.before, found.gone, found.guessed) == (1, 1, 1, 0)
    (across,) = [each for each in found.sessions if each.title == "across"]
    assert [each.key for each in across.changes] == ["R2"]
    first = found.versions[3]
    assert (first.seen, first.read, first.changed, first.failed) == (2, 1, 1, (1, 2))
    assert [row.read for row in found.versions] == [0, 0, 1, 1]
    assert found.sentence == (
        "0 of 1 session with R3 read it; median 2 steps (R2: median 2 steps, 1 session). These are signals, not "
        "verdicts."
    )
    # The states are those of the library's page.
    episode = Episode.objects.get(key="sort")
    states = [state.key for state in read_history(episode).states]
    assert ["R0", *(version.key for version in read_versions([episode])[episode.pk])] == states
    head = team.read("rev-parse", "HEAD~1")
    assert found.versions[1].version.commit == head[:10]


def test_unknown_numbers_are_left_out_of_medians(team: Repository, log: Callable[..., None], tmp_path: Path) -> None:
    for session in ("a", "b", "c"):
        log(session, "2026-03-03T00:00:00Z", str(team.folder))
    import_paths([team.folder, tmp_path / "logs"])
    a, b, c = Trial.objects.filter(task__title__in="abc").order_by("task__title")
    Trial.objects.filter(pk=a.pk).update(steps=None, output_tokens=None, cost_usd=0.5, estimated_usd=None)
    Trial.objects.filter(pk=b.pk).update(steps=0, cost_usd=None, estimated_usd=None, skills_read=None)
    Trial.objects.filter(pk=c.pk).update(steps=9, cost_usd=None, estimated_usd=1.5, duration_seconds=None)
    Chunk.objects.filter(trajectory__attempt__trial=c).update(summary={})  # stored before messages were counted
    found = read_sessions(Episode.objects.get(key="sort"))
    row = found.versions[-1]
    medians = {"steps": (4.5, 2), "follow_ups": (0, 2), "seconds": (9.0, 2), "tokens": (110, 2), "usd": (1.0, 2)}
    assert row.medians == medians
    assert row.failed == (0, 2)
    assert "; median 4.5 steps in 2 of them." in found.sentence
    Trial.objects.update(steps=None)
    assert "with R1 read it; steps unknown." in read_sessions(Episode.objects.get(key="sort")).sentence


def test_a_listed_skill_or_another_one_is_not_read(team: Repository, log: Callable[..., None], tmp_path: Path) -> None:
    log("a", "2026-03-03T00:00:00Z", str(team.folder))
    import_paths([team.folder, tmp_path / "logs"])
    attempt = Trial.objects.get(task__title="a").counting_attempt()
    for skill, kind, read in (("sort", "mounted", 0), ("plot", "read", 0), ("sort", "invoked", 1)):
        SkillUse.objects.create(attempt=attempt, skill=skill, kind=kind)
        assert read_sessions(Episode.objects.get(key="sort")).versions[-1].read == read


def test_failed_calls_of_copied_steps_are_unknown(team: Repository, log: Callable[..., None], tmp_path: Path) -> None:
    log("a", "2026-03-03T00:00:00Z", str(team.folder), is_error=True)
    import_paths([team.folder, tmp_path / "logs"])
    Trajectory.objects.update(copied_steps=1)
    assert read_sessions(Episode.objects.get(key="sort")).versions[-1].failed == (0, 0)


def test_sessions_elsewhere_deleted_ones_and_hidden_ones_are_not_counted(
    team: Repository, log: Callable[..., None], tmp_path: Path
) -> None:
    at = "2026-03-03T00:00:00Z"
    folder = str(team.folder)
    for number, cwd in enumerate((f"{folder}2", f"{folder}/../secret", str(tmp_path), 7, ["toolbox"], "", "toolboxes")):
        log(f"not {number}", at, cwd)
    log("in", at, folder)
    found = bring_in(team.folder, tmp_path / "logs")
    assert [each.title for each in found.sessions] == ["in"]
    hidden = Trial.objects.filter(task__title="in")
    assert read_sessions(Episode.objects.get(key="sort"), hidden).sessions == []
    Experiment.objects.filter(name__startswith="Sessions").update(deleted_at="2026-04-01T00:00:00Z")
    assert read_sessions(Episode.objects.get(key="sort")).sentence == "No session of this record could see this skill."


A = ImportedRepository(1, ("home", "me", "repo"), "repo")
B = ImportedRepository(2, ("srv", "repo"), "repo")
UPLOADED = ImportedRepository(3, None, "skills")


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [
        ("/home/me/repo", {1: False}),
        ("/home/me//repo/./src/", {1: False}),
        ("/srv/repo/x", {2: False}),
        ("/home/me/repo2", {}),
        ("/home/me", {}),
        ("/home/me/x/../repo", {}),
        ("/mnt/repo/src", {1: True, 2: True}),  # both have the name: either may be meant
        (r"C:\work\skills\src", {3: True}),
        ("/home/me/repo/skills", {1: False}),  # certain for one, so the other is not guessed
        ("/", {}),
        (None, {}),
        (b"/home/me/repo", {}),
        (["/home/me/repo"], {}),
    ],
)
def test_the_folder_decides_and_a_name_is_a_guess(cwd: object, expected: dict[int, bool]) -> None:
    assert match_folder(cwd, [A, B, UPLOADED]) == expected


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        ("/home/me/repo/", "Git skills me/repo", (("home", "me", "repo"), "repo")),
        ("uploaded/repo", "Git skills repo", (None, "repo")),
        (".", "Git skills me/repo", (None, "repo")),
        ("../repo", "Git skills me/repo", (None, "repo")),
        ("/x/../repo", "Git skills me/repo", (None, "repo")),
        ("C:\\work\\repo", "x", (("C:", "work", "repo"), "repo")),
        ("/", "", ((), "")),
    ],
)
def test_a_repository_is_where_the_import_found_it(
    team: Repository, source: str, name: str, expected: tuple[object, str]
) -> None:
    import_paths([team.folder])
    Experiment.objects.update(source=source, name=name)
    (found,) = list_repositories()
    assert (found.folder, found.name) == expected


def test_a_moved_repository_is_a_guess(team: Repository, log: Callable[..., None], tmp_path: Path) -> None:
    log("moved", "2026-03-03T00:00:00Z", "/elsewhere/toolbox/src")
    found = bring_in(team.folder, tmp_path / "logs")
    assert (found.guessed, [each.is_guess for each in found.sessions]) == (1, [True])


def test_two_repositories_have_their_own_sessions(team: Repository, log: Callable[..., None], tmp_path: Path) -> None:
    other = make_skills(tmp_path / "you" / "toolbox")
    log("mine", "2026-03-03T00:00:00Z", str(team.folder), command=READ)
    log("yours", "2026-03-03T00:00:00Z", str(other.folder))
    import_paths([team.folder, other.folder, tmp_path / "logs"])
    seen = {
        str(each.run.experiment.source): [one.title for one in read_sessions(each).sessions]
        for each in Episode.objects.filter(key="sort")
    }
    assert seen == {str(team.folder): ["mine"], str(other.folder): ["yours"]}
    assert find_most_read_skill() is None


def test_a_session_lists_what_it_could_see(
    team: Repository, log: Callable[..., None], tmp_path: Path, django_assert_num_queries: Callable[..., object]
) -> None:
    log("reads", "2026-03-04T09:59:55Z", str(team.folder), command=READ, output="# sort\n" * 60)
    import_paths([team.folder, tmp_path / "logs"])
    main = Trajectory.objects.select_related("attempt").get()
    assert main.attempt
    with django_assert_num_queries(4):
        found = list_seen_skills(main.attempt, main.extra["cwd"], SkillUse.objects.all())
    said = [(each.episode.key, each.version.key, [one.key for one in each.changes], each.has_read) for each in found]
    assert said == [("sort", "R1", ["R2"], True), ("plot", "R1", [], False)]
    with django_assert_num_queries(1):
        assert list_seen_skills(main.attempt, "/elsewhere", []) == []
    with CaptureQueriesContext(connection) as captured:
        assert find_most_read_skill() == found[0].episode
    assert len(captured) == 4, "for any number of skills"
