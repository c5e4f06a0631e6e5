"""The reader of SkillEvolBench's format: environments, families, roles and skills, and every contradiction by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runner.base.errors import SuiteProblems
from runner.base.types import Role
from runner.suites import read_suite_folder

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "suites" / "skillevolbench"
TASKS = "benchmark/tasks"
META = "benchmark/skills/unit-aware-totals/meta.yaml"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A copy of the example."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "suite"))


def problems(path: Path) -> list[tuple[str, str, str]]:
    """(path below the suite, place, message) of everything that is wrong."""
    with pytest.raises(SuiteProblems) as caught:
        read_suite_folder(path, strict=True)
    return [(str(Path(each.path).relative_to(path)), each.place, each.message) for each in caught.value.problems]


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_skillevolbench_gives_environments_families_roles_and_curated_skills() -> None:
    suite = read_suite_folder(EXAMPLE)
    (environment,) = suite.environments
    (family,) = environment.families
    assert (environment.key, environment.name) == ("E3", "Data processing structured query")
    assert (family.key, family.slug) == ("E3-LS2", "unit-aware-totals")
    assert [(task.key, task.role, task.ordinal) for task in family.tasks] == [
        (f"E3-LS2-T{index}", role, index) for index, role in enumerate(Role, start=1)
    ]
    assert list(family.curated) == ["unit-aware-totals/SKILL.md"]
    assert b"decimal commas" not in family.curated["unit-aware-totals/SKILL.md"].content
    assert family.tasks[5].requires == ("E3-LS2", "E3-LS5")
    assert suite.notes == ("Composes with E3-LS5, which is not in this copy: E3-LS2-T6",)


def test_an_agent_is_never_told_what_meta_says_of_the_traps() -> None:
    family = read_suite_folder(EXAMPLE).environments[0].families[0]
    told = family.name + family.description + "".join(str(file.content) for file in family.curated.values())
    assert "decimal comma" in (EXAMPLE / META).read_text()
    assert "decimal comma" not in told


def test_skillevolbench_tasks_bring_what_their_files_ask_for() -> None:
    task = read_suite_folder(EXAMPLE).environments[0].families[0].tasks[0]
    assert task.machine.context == EXAMPLE / TASKS / "parcels-by-depot" / "environment"
    assert (task.machine.memory_mb, task.machine.storage_mb, task.machine.network) == (512, 1024, False)
    assert (task.agent_timeout_seconds, task.verifier_timeout_seconds) == (600.0, 60.0)
    assert task.verifier_environment == {"PROJECT_ROOT": "/root/task", "HARBOR_LOG_DIR": "/logs/verifier"}


def test_a_family_whose_tasks_are_elsewhere_is_left_out_and_told(suite: Path) -> None:
    other = suite / "benchmark/skills/other-skill"
    shutil.copytree(suite / "benchmark/skills/unit-aware-totals", other)
    text = (other / "meta.yaml").read_text()
    text = text.replace("E3-LS2", "E4-LS1").replace("environment_id: E3", "environment_id: E4")
    (other / "meta.yaml").write_text(text.replace("unit-aware-totals", "other-skill"))
    read = read_suite_folder(suite)
    assert [environment.key for environment in read.environments] == ["E3"]
    assert "Left out, a family without tasks here: E4-LS1" in read.notes


@pytest.mark.parametrize(
    ("file", "old", "new", "place"),
    [
        ("task-spec.yaml", "task_id: E3-LS2-T5", "task_id: E9-LS2-T5", "task_id"),
        ("task-spec.yaml", "role: adversarial", "role: hostile", "role"),
        ("task-spec.yaml", "task_index: 5", "task_index: 4", "task_index"),
        ("task-spec.yaml", "task_index: 5", "task_index: '5'", "task_index"),
        ("task-spec.yaml", "phase: evaluation", "phase: learning", "phase"),
        ("task-spec.yaml", "task_slug: doses-by-ward", "task_slug: ../doses", "task_slug"),
        ("task-spec.yaml", "tests: tests", "tests: ../../other/tests", "harbor.tests"),
        ("task-spec.yaml", "trap_types:", "required_skills:", "required_skills"),
        ("task-spec.yaml", "latent_skill_id: E3-LS2", "latent_skill_id: E3-LS3", "latent_skill_id"),
    ],
)
def test_a_skillevolbench_task_that_contradicts_itself_is_named(
    suite: Path, file: str, old: str, new: str, place: str
) -> None:
    rewrite(suite / TASKS / "doses-by-ward" / file, old, new)
    found = problems(suite)
    assert (f"{TASKS}/doses-by-ward/{file}", place) in [each[:2] for each in found]
    # The only other thing said is that the family now lacks a task.
    assert {each[0] for each in found} <= {f"{TASKS}/doses-by-ward/{file}", "benchmark/skills/unit-aware-totals"}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('role = "adversarial"', 'role = "variant"', "task.toml: metadata.role is 'variant'"),
        ('skill = "unit-aware-totals"', 'skill = "other"', "task.toml: metadata.skill is 'other'"),
        ('split = "evaluation"', "split = 3", "task.toml: metadata.split is 3"),
    ],
)
def test_what_task_toml_repeats_decides_nothing_and_is_told(suite: Path, old: str, new: str, told: str) -> None:
    rewrite(suite / TASKS / "doses-by-ward" / "task.toml", old, new)
    (note,) = (note for note in read_suite_folder(suite, strict=True).notes if note.startswith(told))
    assert note.endswith(": doses-by-ward")


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("family_id: E3-LS2", "family_id: E3-LS9", "family_id"),
        ("slug: unit-aware-totals", "slug: ../../tasks", "slug"),
        ("curated_skill_path: SKILL.md", "curated_skill_path: ../../../etc/passwd", "curated_skill_path"),
        ("E3-LS2-T5, E3-LS2-T6", "E3-LS2-T6, E3-LS2-T5", "task_ids"),
        ("name: Unit-aware totals", "name: ''", "name"),
    ],
)
def test_a_family_that_contradicts_itself_is_named(suite: Path, old: str, new: str, place: str) -> None:
    rewrite(suite / META, old, new)
    assert (META, place) in [each[:2] for each in problems(suite)]


def test_a_family_without_all_its_roles_is_refused(suite: Path) -> None:
    shutil.rmtree(suite / TASKS / "doses-by-ward")
    shutil.rmtree(suite / TASKS / "harvest-by-field")
    assert problems(suite) == [
        ("benchmark/skills/unit-aware-totals", "E3-LS2", "there is none for enriched, adversarial")
    ]


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("composition_type: cross_family", "composition_type: none", "composition_type"),
        ("primary_skill: E3-LS2.unit-aware-totals", "primary_skill: E3-LS4.other", "primary_skill"),
        ("required_skills: [E3-LS2.unit-aware-totals, E3-LS5.keyed-lookups]", "", "required_skills"),
        ("order: [E3-LS2.unit-aware-totals, ", "order: [", "required_skill_compose_order"),
        ("E3-LS5.keyed-lookups]\n", "keyed-lookups]\n", "required_skills"),
    ],
)
def test_a_composition_says_what_it_composes(suite: Path, old: str, new: str, place: str) -> None:
    spec = f"{TASKS}/freight-cost-by-route/task-spec.yaml"
    rewrite(suite / spec, old, new)
    assert (spec, place) in [each[:2] for each in problems(suite)]


def test_an_id_that_is_there_twice_is_named(suite: Path) -> None:
    shutil.copytree(suite / TASKS / "doses-by-ward", suite / TASKS / "zz-doses")
    rewrite(suite / TASKS / "zz-doses/task-spec.yaml", "task_slug: doses-by-ward", "task_slug: zz-doses")
    assert problems(suite) == [
        (f"{TASKS}/zz-doses/task-spec.yaml", "task_id", "E3-LS2-T5 is also the id of tasks/doses-by-ward")
    ]
