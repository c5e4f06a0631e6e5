"""Git repositories of skills: each commit that changes a skill is a decision, across moves, reverts and merges."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from django.core.management import call_command

from benchapp.analysis.lineage.library_states import read_history
from benchapp.imports.batch import import_paths
from benchapp.imports.format_check import check_format
from benchapp.imports.reading import git_history
from benchapp.imports.tools import git_skills
from benchapp.models import Decision, Episode, Run
from tests.benchapp.import_folders import job, write
from tests.benchapp.imports.tools.conftest import SKILL_TOOLS
from tests.benchapp.skill_repository import Repository

pytestmark = pytest.mark.django_db
SAMPLE = SKILL_TOOLS / "git-skill-history"
SKILL = "---\nname: sums\ndescription: Adds.\n---\n# Sums\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "team" / "skills")
    made.commit("A readme", README_md="# Ours\n")
    made.commit("Skill for sums\n\nKey sk-ant-REDACTME0123456789abcdefghijklmnop", sums__SKILL_md=SKILL)
    made.commit("Results", sums__evals__benchmark_md="9 of 10\n")
    made.commit("Round", sums__SKILL_md=f"{SKILL}- Round.\n", sums__references__units_md="cm\n")
    made.git("revert", "--no-edit", "HEAD")
    return made


def told() -> list[tuple[str, str, str]]:
    rows = Decision.objects.order_by("episode__key", "number")
    return [(row.episode.key, row.operation_type, row.summary.splitlines()[0]) for row in rows]


@pytest.mark.parametrize("at_once", [1, 16 * 1024 * 1024])
def test_each_commit_that_changes_a_skill_is_a_decision(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(git_history, "READ_AT_ONCE", at_once)
    report = import_paths([repository.folder])
    assert list(report.problems) == []
    assert told() == [
        *(("sums", "create", "Skill for sums"), ("sums", "revise", "Round")),
        ("sums", "revert", 'Revert "Round"'),
    ]
    first, second, _ = Decision.objects.order_by("number")
    assert "REDACTME" not in first.summary
    assert first.summary.endswith("by Ada.")
    assert "ada@example.com" not in first.summary
    assert sorted(second.after.manifest()) == ["sums/SKILL.md", "sums/references/units.md"]
    assert [step.after.key for step in read_history(Episode.objects.get()).steps] == ["R1", "R2", "R3"]
    assert Run.objects.get().condition == "git"
    call_command("check_record")
    assert import_paths([repository.folder]).counts["unchanged"] == 1


def test_a_skill_goes_on_where_its_folder_goes(repository: Repository) -> None:
    repository.git("mv", "sums", "totals")
    repository.commit("Rename")
    write(repository.folder / "skills/totals/SKILL.md", SKILL + "- Twice.\n")
    repository.git("rm", "-rq", "totals")
    repository.commit("Move and change")
    repository.commit("Another", other__SKILL_md="# Other\n")
    repository.git("rm", "-rq", "skills")
    repository.commit("Drop it")
    import_paths([repository.folder])
    assert told() == [
        ("other", "create", "Another"),
        *(("sums", "create", "Skill for sums"), ("sums", "revise", "Round"), ("sums", "revert", 'Revert "Round"')),
        *(("sums", "revise", "Move and change"), ("sums", "delete", "Drop it")),
    ]


def test_a_merge_counts_once(repository: Repository) -> None:
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("Side", sums__SKILL_md=f"{SKILL}- Side.\n")
    repository.commit("Side again", sums__SKILL_md=f"{SKILL}- Side twice.\n")
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "Merge side", "side")
    import_paths([repository.folder])
    assert told()[3:] == [("sums", "revise", "Merge side")]


def test_a_skill_that_comes_back_continues(repository: Repository) -> None:
    """As where plugins were removed and the removal was reverted (anthropics/claude-plugins-official)."""
    repository.commit("Theirs", theirs__sums__SKILL_md="# Theirs\n")
    repository.git("rm", "-rq", "sums", "theirs")
    repository.commit("Drop both")
    repository.git("revert", "--no-edit", "HEAD")
    import_paths([repository.folder])
    assert told()[3:] == [
        ("sums", "delete", "Drop both"),
        ("sums", "create", 'Revert "Drop both"'),
        *(("theirs/sums", kind, text) for kind, text in (("create", "Theirs"), ("delete", "Drop both"))),
        ("theirs/sums", "create", 'Revert "Drop both"'),
    ]


def test_a_repository_that_is_one_skill(tmp_path: Path) -> None:
    made = Repository(tmp_path / "sums")
    made.commit("First", SKILL_md=SKILL, README_md="# Ours\n")
    made.commit("Second", SKILL_md=f"{SKILL}- Round.\n", src__main_py="pass\n")
    made.commit("Third", references__units_md="cm\n")
    made.commit("Not of the skill", README_md="# Theirs\n", src__main_py="...\n")
    import_paths([made.folder])
    assert told() == [("sums", "create", "First"), ("sums", "revise", "Second"), ("sums", "revise", "Third")]
    assert sorted(Decision.objects.latest("number").after.manifest()) == ["sums/SKILL.md", "sums/references/units.md"]


def test_commits_without_a_skill_do_not_count(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_history, "MAX_COMMITS", 4)
    assert list(import_paths([repository.folder]).problems) == []  # 4 of 5 commits change what is in `sums`
    monkeypatch.setattr(git_history, "MAX_COMMITS", 3)
    [problem, instead] = import_paths([repository.folder]).problems
    assert problem.expected == "at most 3 commits"
    assert instead.message == "none that can be read: they are shown as they are now"


def test_a_shallow_clone_has_the_commits_that_it_has(repository: Repository, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--depth", "2", f"file://{repository.folder}", clone], check=True)
    [problem] = import_paths([clone]).problems
    assert problem.message == "a shallow clone, which lacks the earlier commits"
    assert [row[1:] for row in told()] == [("create", "Round"), ("revert", 'Revert "Round"')]


def test_skills_without_a_history_are_shown_as_they_are(repository: Repository, tmp_path: Path) -> None:
    """A folder inside a repository, a worktree (its .git is a file), the skills of an agent."""
    repository.git("worktree", "add", "-q", str(tmp_path / "tree"))
    write(tmp_path / "tree" / "node_modules" / "other" / "SKILL.md", "# Other\n")
    [problem] = import_paths([tmp_path / "tree"]).problems
    assert problem.message == "none that can be read: they are shown as they are now"
    assert not Decision.objects.exists()
    episode = Episode.objects.get()
    assert (episode.key, sorted(episode.library.manifest())) == ("sums", ["sums/SKILL.md"])
    assert import_paths([repository.folder / "sums"]).counts["skills"] == 1


def test_other_formats_read_the_same_folder(repository: Repository) -> None:
    job(repository.folder / "runs" / "monday")
    report = import_paths([repository.folder])
    assert (report.counts["attempts"], report.counts["experiments"]) == (3, 2)


def test_links_and_broken_repositories_are_reported(repository: Repository) -> None:
    (repository.folder / "sums" / "out").symlink_to("/etc/passwd")
    repository.commit("A link")
    (problem,) = import_paths([repository.folder]).problems
    assert problem.message == "a symbolic link that leads out; not followed"
    assert len(told()) == 3  # a link is not a file of the skill
    objects = repository.folder / ".git" / "objects"
    for found in sorted(objects.glob("??/*"))[:5]:
        found.unlink()
    expected = {problem.expected for problem in import_paths([repository.folder]).problems}
    assert expected & {"a git history that is whole", "every object of the history"}


def test_the_format_s_check_finds_nothing(repository: Repository) -> None:
    repository.git("gc", "--quiet")  # one pack in place of thirty objects: each file is broken in six ways
    assert check_format(git_skills, [repository.folder]).faults == []


@pytest.mark.shared_data
def test_a_real_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "-q", SAMPLE / "skills-repo.bundle", tmp_path / "roast"], check=True)
    import_paths([tmp_path / "roast"], format="git-skills")
    assert Decision.objects.count() == 11  # of 12 commits; one only adds results
    assert Episode.objects.get().key == "roast-my-code"


def test_a_file_that_a_partial_clone_lacks_costs_no_history(repository: Repository) -> None:
    repository.commit("A picture", sums__assets__large_md="Large.\n" * 99)
    large = repository.read("rev-parse", "HEAD:sums/assets/large.md").strip()
    (repository.folder / ".git" / "objects" / large[:2] / large[2:]).unlink()
    [problem] = import_paths([repository.folder]).problems
    assert (problem.place, problem.message) == (large, "missing or broken; the file was left out")
    assert told()[-1] == ("sums", "revise", "A picture")
    assert sorted(Decision.objects.latest("number").after.manifest()) == ["sums/SKILL.md"]
