"""The readers of released formats: what they make of a folder, what they tell, what they refuse."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from runner.base.errors import SetupError, SuiteProblems
from runner.base.suite import Suite
from runner.base.types import KeyPoint, Task
from runner.protocols import slots
from runner.protocols.conditions import find_condition
from runner.protocols.plan import EpisodePlan
from runner.suites import FORMATS, format_of, key_of, read_suite_folder
from runner.suites.starter_suite import STARTER, STARTER_CORPORA
from runner.suites.tasks.task_files import read_workspace_files
from tests.cases import every
from tests.conftest import SHARED_DATA

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "suites"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))


def write_task(folder: Path, toml: str = "", **files: str) -> Path:
    """A small Harbor task; keyword names spell paths with __ for /."""
    contents = {
        "task.toml": toml,
        "instruction.md": "Do it.\n",
        "environment/Dockerfile": "FROM scratch\n",
        "tests/test.sh": "#!/bin/sh\n",
        "solution/solve.sh": "#!/bin/sh\n",
    }
    for name, content in (contents | {key.replace("__", "/"): value for key, value in files.items()}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def tasks_of(suite: Suite) -> list[Task]:
    families = [family for environment in suite.environments for family in environment.families]
    return [task for family in families for task in family.tasks]


def problems(path: Path, format: str | None = None) -> list[tuple[str, str, str]]:
    """(path below the suite, place, message) of everything that is wrong."""
    with pytest.raises(SuiteProblems) as caught:
        read_suite_folder(path, format, strict=True)
    return [(str(Path(each.path).relative_to(path)), each.place, each.message) for each in caught.value.problems]


# --- shapes -----------------------------------------------------------------------------------------------------


@every(
    ("skillevolbench", "skillevolbench"),
    ("skillevolbench/benchmark", "skillevolbench"),
    ("skilllearnbench", "skilllearnbench"),
    ("skilllearnbench/tasks", "skilllearnbench"),
    ("skillflow", "skillflow"),
    ("skillflow/Ledger-Reconciliation", "skillflow"),
    ("harbor/first-steps", "harbor"),
    ("harbor/public-set", "harbor"),
    ("harbor/first-steps/hello-file", "harbor"),
)
def test_it_knows_a_format_by_its_shape(folder: str, format: str) -> None:
    assert format_of(EXAMPLES / folder) == format
    assert read_suite_folder(EXAMPLES / folder).digest == read_suite_folder(EXAMPLES / folder, format).digest


def test_it_reads_the_projects_own_format_and_trusts_nothing_it_says_of_itself() -> None:
    suite = read_suite_folder(STARTER)
    assert (format_of(STARTER), suite.key, len(tasks_of(suite))) == ("skillglass", "starter", 24)
    assert not suite.trusted


def test_a_folder_without_a_suite_names_the_formats(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=re.escape(", ".join(FORMATS))):
        read_suite_folder(tmp_path)
    with pytest.raises(SetupError, match="there is none"):
        read_suite_folder(tmp_path / "nowhere")
    with pytest.raises(SetupError, match="unknown suite format 'zip'"):
        read_suite_folder(tmp_path, "zip")


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("SkillFlow Tasks/test_tasks", "SkillFlow-Tasks"),
        ("SkillEvolBench/benchmark", "SkillEvolBench"),
        ("a/b.c", "b.c"),
    ],
)
def test_a_suite_is_named_after_the_folder_that_says_something(path: str, key: str) -> None:
    assert key_of(Path("/data") / path) == key


@pytest.mark.shared_data
def test_a_real_instance_of_skilllearnbench_loads_unchanged(tmp_path: Path) -> None:
    shared = SHARED_DATA.parent / "contact" / "skilllearnbench" / "github-repo-analytics"
    if not shared.is_dir():
        pytest.skip("the instance is not beside the project")
    shutil.copytree(shared, tmp_path / "tasks" / shared.name)
    shutil.copytree(SHARED_DATA / "skilllearnbench" / "skills", tmp_path / "skills")
    shutil.copytree(SHARED_DATA / "skilllearnbench" / "eval_keypoints", tmp_path / "eval_keypoints")
    suite = read_suite_folder(tmp_path)
    assert (format_of(tmp_path), suite.set_aside) == ("skilllearnbench", {})
    assert [task.key for task in tasks_of(suite)] == ["github-repo-analytics-1"]


# --- one bad task ------------------------------------------------------------------------------------------------


def test_one_bad_task_never_refuses_a_release(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_task(tmp_path / "s" / name)
    write_task(tmp_path / "s/b")
    (tmp_path / "s/b/environment/compose.yaml").write_text("services: {main: {pid: host}}\n")
    suite = read_suite_folder(tmp_path / "s")
    assert [task.key for task in tasks_of(suite)] == ["a", "c"]
    ((what, (problem,)),) = suite.set_aside.items()
    said = "it needs processes or users of the host: pid"
    assert (what, problem.place, problem.message) == ("task b", "services.main.pid", said)
    assert problems(tmp_path / "s") == [("b/environment/compose.yaml", "services.main.pid", said)]
    write_task(tmp_path / "t/a")
    write_task(tmp_path / "t/c")
    without = read_suite_folder(tmp_path / "t")
    assert [task.digest for task in tasks_of(without)] == [task.digest for task in tasks_of(suite)]


@every(
    ("environment/data/rows.csv", True),
    ("tests/expected.json", True),
    ("solution/solve.sh", True),
    ("instruction.md", True),
    ("notes/picture.png", False),
)
def test_a_file_that_was_never_downloaded_sets_its_task_aside(place: str, is_problem: bool, tmp_path: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 1048576\n"
    write_task(tmp_path / "s/a", **{place.replace("/", "__"): pointer})
    write_task(
        tmp_path / "s/b", environment__about__md="version https://git-lfs.github.com is a line of its own\n" * 40
    )
    suite = read_suite_folder(tmp_path / "s")
    assert [task.key for task in tasks_of(suite)] == (["b"] if is_problem else ["a", "b"])
    if is_problem:
        ((problem,),) = suite.set_aside.values()
        assert problem.message == "it is a Git LFS pointer; its content was not downloaded"
        assert problem.path == str(tmp_path / "s/a" / place)


def test_a_shape_that_no_reader_foresaw_costs_its_task_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_task(tmp_path / "s/a")
    write_task(tmp_path / "s/b")

    def surprised(*_: object) -> None:
        raise AttributeError("'str' object has no attribute 'items'")

    monkeypatch.setattr("runner.suites.compose.read_compose", surprised)
    (tmp_path / "s/b/environment/compose.yaml").write_text("services: {main: {}}")
    suite = read_suite_folder(tmp_path / "s")
    assert [task.key for task in tasks_of(suite)] == ["a"]
    assert [problem.message for problem in suite.set_aside["task b"]] == [
        "AttributeError: 'str' object has no attribute 'items'"
    ]


def test_where_nothing_is_left_everything_is_told_with_the_format_it_was_read_in(tmp_path: Path) -> None:
    (write_task(tmp_path / "s/a") / "instruction.md").unlink()
    with pytest.raises(SuiteProblems, match=r"^read as harbor:\n.*instruction.md: there is none") as caught:
        read_suite_folder(tmp_path / "s")
    assert caught.value.format == "harbor"


def test_a_family_goes_with_what_it_cannot_do_without_and_no_other_goes_with_it(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "skillflow", tmp_path / "flow")
    shutil.copytree(EXAMPLES / "skilllearnbench", tmp_path / "learn")
    shutil.copytree(tmp_path / "flow/Ledger-Reconciliation", tmp_path / "flow/Other")
    for place, task in enumerate(sorted((tmp_path / "flow/Other").glob("*/task.toml"))):
        task.parent.rename(tmp_path / f"flow/Other/t{place}")
    (tmp_path / "flow/Other/ALL_TASK_DIFFICULTY_RANKING.json").write_text("{")
    suite = read_suite_folder(tmp_path / "flow")
    assert ([each.key for each in suite.environments], list(suite.set_aside)) == (
        ["Ledger-Reconciliation"],
        ["family Other"],
    )
    human = tmp_path / "learn/skills/human_authored/log-level-counts/log-levels"
    (human / "elsewhere.md").symlink_to("/etc/passwd")
    suite = read_suite_folder(tmp_path / "learn")
    assert ([each.key for each in suite.environments], list(suite.set_aside)) == (
        ["overlapping-meetings"],
        ["family log-level-counts"],
    )


def test_an_instance_that_is_set_aside_leaves_the_others_and_the_seed_is_told(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "skilllearnbench", tmp_path / "s")
    (tmp_path / "s/tasks/log-level-counts/log-level-counts-1/instruction.md").write_text("")
    suite = read_suite_folder(tmp_path / "s")
    assert [task.key for task in tasks_of(suite)][0] == "log-level-counts-2"
    assert list(suite.set_aside) == ["task log-level-counts-1"]
    assert "No instance 1 here, so the lowest number is the seed: log-level-counts" in suite.notes


@pytest.mark.parametrize(
    "odd", ["sums/sums-1", "sums/sums-1/../ALL_TASK_DIFFICULTY_RANKING.json", "sums/corpus.yaml", "sums/task-spec.yaml"]
)
def test_one_odd_folder_does_not_decide_the_format(tmp_path: Path, odd: str) -> None:
    for name in ("add/a", "add/b", "join/c", "join/d", "split/e"):
        write_task(tmp_path / "s/tasks" / name)
    (tmp_path / "s/skills").mkdir()
    if odd.endswith("-1"):
        write_task(tmp_path / "s/tasks" / odd)
    else:
        write_task(tmp_path / "s/tasks/sums/f")
        (tmp_path / "s/tasks" / odd.replace("sums-1/../", "")).write_text("{}")
    assert format_of(tmp_path / "s") == "harbor"


@pytest.mark.parametrize("odd", ["extra/extra-1/task.toml", "suite.yaml", "task.toml"])
def test_no_odd_file_decides_the_format_of_a_flat_set(tmp_path: Path, odd: str) -> None:
    for name in ("a", "b", "c"):
        write_task(tmp_path / "s" / name)
    (tmp_path / "s" / odd).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "s" / odd).write_text("# of another tool\n")
    assert format_of(tmp_path / "s") == "harbor"
    assert [task.key for task in tasks_of(read_suite_folder(tmp_path / "s"))] == ["a", "b", "c"]


# --- skills that tasks ship ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["one", "family/one"])
def test_skills_that_a_task_ships_are_left_out_in_every_format(tmp_path: Path, place: str) -> None:
    format = {"one": "harbor", "family/one": "skillflow"}[place]
    skill = {"environment__skills__told__SKILL.md": "x", "environment__data__agent_skills__deep__er__SKILL.md": "x"}
    write_task(tmp_path / "set" / place, **skill)
    suite = read_suite_folder(tmp_path / "set", format)
    assert set(tasks_of(suite)[0].machine.blank_folders) == {"skills", "data/agent_skills"}
    assert [note for note in suite.notes if "Ships skills" in note] == [
        "Ships skills, which are left out: environment/data/agent_skills: one",
        "Ships skills, which are left out: environment/skills: one",
    ]


@every(STARTER, STARTER_CORPORA, *(EXAMPLES / name for name in ("skillevolbench", "skillflow", "harbor/first-steps")))
def test_every_reader_leaves_them_out(source: Path, tmp_path: Path) -> None:
    release = tmp_path / "release"
    shutil.copytree(source, release, ignore=shutil.ignore_patterns("__pycache__"))
    before = {task.key: task.digest for task in tasks_of(read_suite_folder(release))}
    for toml in release.rglob("task.toml"):
        skill = toml.parent / "environment" / "skills" / "told" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("x")
    suite = read_suite_folder(release)
    assert {task.machine.blank_folders for task in tasks_of(suite)} == {("skills",)}
    assert all(task.digest != before[task.key] for task in tasks_of(suite))
    assert [note for note in suite.notes if note.startswith("Ships skills, which are left out: environment/skills: ")]


def test_data_named_skills_is_the_tasks_own(tmp_path: Path) -> None:
    write_task(tmp_path / "set" / "one", environment__skills__table_csv="a", environment__SKILL_md="x")
    assert tasks_of(read_suite_folder(tmp_path / "set"))[0].machine.blank_folders == ()


def test_a_task_that_never_ran_with_its_skills_keeps_its_digest(tmp_path: Path) -> None:
    """Formats that always left the folder out go on as they were; elsewhere the task is another one now."""
    digests = set()
    for format, place in (("harbor", "one"), ("skillflow", "family/one")):
        write_task(tmp_path / format / place, **{"environment__skills__told__SKILL.md": "x"})
        digests.add(tasks_of(read_suite_folder(tmp_path / format, format))[0].digest)
    assert len(digests) == 2


def test_a_task_without_an_image_gets_none_of_them_in_its_working_directory(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "set" / "one", **{"environment__skills__told__SKILL.md": "x", "environment__a": "x"})
    (folder / "environment" / "Dockerfile").unlink()
    assert list(read_workspace_files(tasks_of(read_suite_folder(tmp_path / "set"))[0])) == ["a"]


def test_a_named_image_beside_a_dockerfile_is_told(tmp_path: Path) -> None:
    write_task(tmp_path / "set" / "one", '[environment]\ndocker_image = "registry.example/one:1"\n')
    suite = read_suite_folder(tmp_path / "set")
    machine = tasks_of(suite)[0].machine
    assert (machine.image, machine.context is not None) == ("registry.example/one:1", True)
    assert "Built from its Dockerfile if its image is not available: one" in suite.notes


# --- SkillLearnBench --------------------------------------------------------------------------------------------


def test_skilllearnbench_makes_a_family_of_each_task_and_tasks_of_its_instances() -> None:
    suite = read_suite_folder(EXAMPLES / "skilllearnbench")
    assert [(each.key, [family.key for family in each.families]) for each in suite.environments] == [
        ("log-level-counts", ["log-level-counts"]),
        ("overlapping-meetings", ["overlapping-meetings"]),
    ]
    family = suite.environments[0].families[0]
    assert [(task.key, task.ordinal, task.role) for task in family.tasks] == [
        ("log-level-counts-1", 1, None),
        ("log-level-counts-2", 2, None),
    ]
    assert family.tasks[0].digest != family.tasks[1].digest
    assert list(family.curated) == ["log-levels/SKILL.md"]
    assert family.description == "log level counts (operations, logs, counting)"
    assert family.tasks[0].machine.blank_folders == ("skills",)


def test_key_points_beside_the_tasks_come_with_the_instance_they_are_of(tmp_path: Path) -> None:
    release = tmp_path / "release"
    shutil.copytree(EXAMPLES / "skilllearnbench", release)
    bare = read_suite_folder(release)
    folder = release / "eval_keypoints/log-level-counts/log-level-counts-2"
    folder.mkdir(parents=True)
    point = {"key_point": "Lower the case.", "reason": "why", "skill_reference": "lower()"}
    (folder / "skill-key-points.generated.json").write_text(json.dumps([point, {"reason": "no text"}]))
    (folder / "traj-key-points.generated.json").write_text("[]")
    (folder / "traj-extracted-oracle.json").write_text("{broken")
    suite = read_suite_folder(release)
    seed, second, *_ = tasks_of(suite)
    assert seed.key_points == ()
    assert second.key_points == (KeyPoint("skill", 0, "Lower the case.", "why", "lower()"),)
    assert suite.digest == bare.digest  # nothing that is run has changed
    where = "log-level-counts-2/"
    assert f"Left out, a key point without key_point: {where}skill-key-points.generated.json" in suite.notes
    left_out = f"Left out, no readable list of key points: {where}traj-extracted-oracle.json"
    assert left_out in suite.notes


def test_key_points_behind_a_link_are_nobodys(tmp_path: Path) -> None:
    release, elsewhere = tmp_path / "release", tmp_path / "elsewhere"
    shutil.copytree(EXAMPLES / "skilllearnbench", release)
    folder = elsewhere / "log-level-counts/log-level-counts-1"
    folder.mkdir(parents=True)
    (folder / "skill-key-points.generated.json").write_text('[{"key_point": "secret"}]')
    (release / "eval_keypoints").symlink_to(elsewhere)
    assert not [task for task in tasks_of(read_suite_folder(release)) if task.key_points]


def test_instances_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        write_task(tmp_path / "s/tasks/sums" / f"sums-{number}")
    (tmp_path / "s/tasks/sums/localtest").mkdir()
    (tmp_path / "s/tasks/notes").mkdir()
    suite = read_suite_folder(tmp_path / "s")
    assert [task.key for task in tasks_of(suite)] == ["sums-1", "sums-2", "sums-10"]
    assert "Left out, not an instance: sums/localtest" in suite.notes
    assert "Left out, contains no task instance: notes" in suite.notes


@pytest.mark.parametrize("linked", ["skills", "skills/human_authored", "skills/human_authored/{task}"])
def test_a_curated_library_that_lies_elsewhere_on_this_machine_is_refused(linked: str, tmp_path: Path) -> None:
    release = tmp_path / "release"
    shutil.copytree(EXAMPLES / "skilllearnbench", release)
    task = next((release / "tasks").iterdir()).name
    private = tmp_path / "private" / "human_authored" / task
    private.mkdir(parents=True)
    (private / "s").mkdir()
    (private / "s" / "SKILL.md").write_text("secret")
    place = release / linked.format(task=task)
    if place.exists():
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to({"skills": private.parents[1], "human_authored": private.parent}.get(place.name, private))
    with pytest.raises(SuiteProblems, match="a link"):
        read_suite_folder(release, strict=True)


def test_an_instance_by_another_name_is_named_and_a_missing_seed_told(tmp_path: Path) -> None:
    write_task(tmp_path / "s/tasks/sums/sums-2")
    assert "No instance 1 here, so the lowest number is the seed: sums" in read_suite_folder(tmp_path / "s").notes
    write_task(tmp_path / "s/tasks/sums/totals-3")
    write_task(tmp_path / "s/tasks/sums/sums-02")
    assert [(each[0], each[2]) for each in problems(tmp_path / "s")] == [
        ("tasks/sums/totals-3", "found 'totals-3'"),
        ("tasks/sums", "two instances have the same"),
    ]


def test_the_toml_of_the_tasks_without_a_verifier_table_is_taken(tmp_path: Path) -> None:
    toml = '[task]\nid = "posters"\nname = "Posters"\ncategory = "c"\ndifficulty = "easy"\n[evaluation]\nrequired_files = ["a"]\n'  # noqa: E501
    write_task(tmp_path / "s/tasks/poster/poster-1", toml)
    suite = read_suite_folder(tmp_path / "s")
    assert suite.notes == ()
    assert tasks_of(suite)[0].verifier_timeout_seconds == 600.0


# --- SkillFlow --------------------------------------------------------------------------------------------------


def test_skillflow_makes_an_environment_of_each_family_in_the_order_of_its_ranking() -> None:
    suite = read_suite_folder(EXAMPLES / "skillflow")
    (environment,) = suite.environments
    assert [task.key for task in environment.families[0].tasks] == [
        "ledger_cash_box",
        "ledger_bank_fees",
        "ledger_two_currencies",
        "ledger_reversals",
    ]
    assert [task.ordinal for task in tasks_of(suite)] == [1, 2, 3, 4]
    assert (tasks_of(suite)[0].machine.memory_mb, tasks_of(suite)[0].machine.storage_mb) == (512, 1024)


def test_a_tag_made_on_another_machine_is_not_asked_for() -> None:
    suite = read_suite_folder(EXAMPLES / "skillflow")
    assert [task.machine.image for task in tasks_of(suite)] == [None] * 4
    assert suite.notes == ("Built from its Dockerfile, not taken from a tag made on another machine: ledger_bank_fees",)


@pytest.mark.parametrize("nesting", ["", "test_tasks", "test_tasks/test_tasks"])
def test_both_nestings_of_a_download_are_read(tmp_path: Path, nesting: str) -> None:
    shutil.copytree(EXAMPLES / "skillflow", tmp_path / "flow" / nesting)
    suite = read_suite_folder(tmp_path / "flow")
    assert (suite.key, len(tasks_of(suite))) == ("flow", 4)
    assert suite.digest == read_suite_folder(EXAMPLES / "skillflow").digest


def ranked(tmp_path: Path, ranking: object) -> Path:
    family = tmp_path / "s" / "Family-A"
    for name in ("t1", "t2", "t3"):
        write_task(family / name)
    (family / "ALL_TASK_DIFFICULTY_RANKING.json").write_text(json.dumps(ranking))
    return tmp_path / "s"


@every(
    ([" t3 ", "", "t1", "t3"], ["t3", "t1", "t2"], "names a task more than once"),
    (["t2"], ["t2", "t1", "t3"], "leaves it out, so it comes last: Family-A/t1, Family-A/t3"),
    (["t3", "gone", "t2", "t1"], ["t3", "t2", "t1"], "names a task that is not there: Family-A/gone"),
    (["../../etc/passwd", "t1", "t2", "t3"], ["t1", "t2", "t3"], "names a task that is not there"),
    ([], ["t1", "t2", "t3"], "so tasks are ordered by name: Family-A"),
)
def test_a_ranking_is_read_by_the_rules_of_the_release(
    ranking: list[str], order: list[str], note: str, tmp_path: Path
) -> None:
    suite = read_suite_folder(ranked(tmp_path, ranking))
    assert [task.key for task in tasks_of(suite)] == order
    assert any(note in each for each in suite.notes)


@pytest.mark.parametrize(("ranking", "place"), [({"t1": 1}, "file"), (["t1", 2], "[1]"), ("t1", "file")])
def test_a_ranking_of_another_kind_is_named(tmp_path: Path, ranking: object, place: str) -> None:
    assert [each[:2] for each in problems(ranked(tmp_path, ranking))] == [
        ("Family-A/ALL_TASK_DIFFICULTY_RANKING.json", place)
    ]


def test_another_order_is_another_suite(tmp_path: Path) -> None:
    first = read_suite_folder(ranked(tmp_path, ["t1", "t2", "t3"]))
    second = read_suite_folder(ranked(tmp_path, ["t2", "t1", "t3"]))
    assert first.digest != second.digest
    assert {task.digest for task in tasks_of(first)} == {task.digest for task in tasks_of(second)}


def test_a_name_that_several_families_use_is_told_apart(tmp_path: Path) -> None:
    for family in ("A", "B"):
        write_task(tmp_path / "s" / family / "t1")
        (tmp_path / "s" / family / "ALL_TASK_DIFFICULTY_RANKING.json").write_text('["t1"]')
    assert [task.key for task in tasks_of(read_suite_folder(tmp_path / "s"))] == ["A.t1", "B.t1"]


def test_a_family_named_as_a_title_gets_a_key_that_fits_into_addresses(tmp_path: Path) -> None:
    write_task(tmp_path / "s" / "Inventory-&-Finance Integration" / "t1")
    (tmp_path / "s" / "Inventory-&-Finance Integration" / "ALL_TASK_DIFFICULTY_RANKING.json").write_text('["t1"]')
    suite = read_suite_folder(tmp_path / "s")
    assert [environment.key for environment in suite.environments] == ["Inventory-Finance-Integration"]
    assert suite.notes == (
        "Key of the family in folder 'Inventory-&-Finance Integration': Inventory-Finance-Integration",
    )


def test_families_whose_names_come_to_one_key_are_told(tmp_path: Path) -> None:
    for family in ("A-B", "A&B"):
        write_task(tmp_path / "s" / family / f"t-{len(family)}{ord(family[1])}")
        (tmp_path / "s" / family / "ALL_TASK_DIFFICULTY_RANKING.json").write_text("[]")
    told = {place for _, place, _ in problems(tmp_path / "s")}
    assert told == {"family"}
    suite = read_suite_folder(tmp_path / "s")
    assert ([each.key for each in suite.environments], list(suite.set_aside)) == (["A-B"], ["family A-B"])


def test_a_protocol_that_goes_by_roles_refuses_tasks_without_them() -> None:
    """It would plan no trial at all, and an experiment of nothing would look finished."""
    (environment,) = read_suite_folder(EXAMPLES / "skillflow").environments
    arguments = {"condition": find_condition("no-skill"), "run_seed": 1, "setup_digest": "0" * 64, "agent": "nop"}
    with pytest.raises(SetupError, match="needs a role for every task.*ledger_cash_box"):
        EpisodePlan(episode="e", environment=environment, **arguments)
    assert len(slots(EpisodePlan(episode="e", environment=environment, protocol="skillflow", **arguments))) == 4


# --- Harbor -----------------------------------------------------------------------------------------------------


def test_harbor_tasks_share_a_family_unless_they_name_others_and_a_family_is_an_environment(tmp_path: Path) -> None:
    write_task(tmp_path / "mine/a", '[task]\nname = "org/a"\n')
    write_task(tmp_path / "mine/b", '[metadata]\nfamily = "joins"\n')
    write_task(tmp_path / "mine/c")
    (tmp_path / "mine/assets").mkdir()
    suite = read_suite_folder(tmp_path / "mine")
    families = [(each.key, family) for each in suite.environments for family in each.families]
    assert [(key, family.key, [(task.key, task.title) for task in family.tasks]) for key, family in families] == [
        ("joins", "joins", [("b", "b")]),
        ("mine", "mine", [("a", "org/a"), ("c", "c")]),
    ]
    assert suite.notes == ("Left out, holds no task: assets",)


def test_tasks_may_lie_in_folders_of_their_category(tmp_path: Path) -> None:
    for name in ("data/join", "data/pivot", "web/join", "web/parse"):
        write_task(tmp_path / "set/tasks" / name)
    (tmp_path / "set/tasks/docs").mkdir()
    suite = read_suite_folder(tmp_path / "set")
    assert [(each.key, [task.key for task in each.families[0].tasks]) for each in suite.environments] == [
        ("data", ["data.join", "pivot"]),
        ("web", ["web.join", "parse"]),
    ]
    assert suite.notes == (
        "Left out, holds no task: docs",
        "Several folders hold a task of this name, so their keys begin with the folder: data/join, web/join",
    )


def test_a_task_that_lacks_a_file_is_named(tmp_path: Path) -> None:
    for missing in ("instruction.md", "tests/test.sh", "task.toml"):
        folder = write_task(tmp_path / "s" / missing.replace("/", "-"))
        (folder / missing).unlink()
    assert problems(tmp_path / "s") == [
        ("instruction.md", "instruction.md", "there is none"),
        ("task.toml", "task.toml", "there is none"),
        ("tests-test.sh", "tests/test.sh", "there is none"),
    ]


def test_a_task_without_a_solution_is_taken_and_told(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "s/a")
    shutil.rmtree(folder / "solution")
    assert read_suite_folder(tmp_path / "s").notes == ("No solution/solve.sh, so the oracle cannot run it: a",)
