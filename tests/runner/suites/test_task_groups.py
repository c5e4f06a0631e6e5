"""What readers take of releases to group results by, and what a mapping file may say. No digest covers either."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runner.base.errors import SuiteProblems
from runner.base.suite import Suite
from runner.base.types import Task
from runner.suites import SUITES, load_suite, read_suite_folder
from runner.suites.families import BESIDE, FORMAT, read_mapping
from runner.suites.tasks.task_files import MAX_NAMES, outline_tests
from tests.cases import every

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
DIGESTS = {  # as they were before tasks had groups
    "starter": "87c27cba6e9115c6057b54022db88e4e7157aa1faa53305f8d4cdb3f30d759cd",
    "starter-learning": "67dc50cd1de803f8091a9dab1d26a6432102970d8351c92e38a430df68e46ea8",
    "starter-corpora": "780aebc2e1ce0242f74cfa372c640dc6e6685269ed6319605b47721dcd606f26",
}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))


def tasks_of(suite: Suite) -> dict[str, Task]:
    families = [family for environment in suite.environments for family in environment.families]
    return {task.key: task for family in families for task in family.tasks}


def copy_example(tmp_path: Path, name: str) -> Path:
    return Path(shutil.copytree(EXAMPLES / "suites" / name, tmp_path / name))


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("key", SUITES)
def test_bundled_suites_have_groups_and_the_digests_they_had(key: str) -> None:
    suite = load_suite(key)
    assert suite.digest == DIGESTS.get(key, suite.digest)
    assert all("domain" in task.groups for task in tasks_of(suite).values())


def test_skillevolbench_states_domain_rank_gap_trap_and_composition() -> None:
    tasks = tasks_of(read_suite_folder(EXAMPLES / "suites" / "skillevolbench"))
    assert tasks["E3-LS2-T5"].groups["trap"] == ("unit_spelling",)
    assert tasks["E3-LS2-T6"].groups["composition"] == ("cross_family",)
    assert tasks["E3-LS2-T3"].groups == {"gap": ("decimal-comma",), "domain": ("data_processing",), "rank": ("3",)}


def test_skillflow_states_the_place_in_its_ranking() -> None:
    ranks = {
        key: task.groups["rank"] for key, task in tasks_of(read_suite_folder(EXAMPLES / "suites/skillflow")).items()
    }
    assert ranks == {
        "ledger_cash_box": ("1",),
        "ledger_bank_fees": ("2",),
        "ledger_two_currencies": ("3",),
        "ledger_reversals": ("4",),
    }


def test_a_task_that_the_ranking_leaves_out_has_no_rank(tmp_path: Path) -> None:
    folder = copy_example(tmp_path, "skillflow")
    family = folder / "Ledger-Reconciliation"
    write(family / "ALL_TASK_DIFFICULTY_RANKING.json", '["ledger_reversals"]')
    tasks = tasks_of(read_suite_folder(folder))
    assert tasks["ledger_reversals"].groups["rank"] == ("1",)
    assert "rank" not in tasks["ledger_cash_box"].groups


def test_a_corpus_states_its_kind_as_the_source() -> None:
    assert tasks_of(load_suite("starter-corpora"))["canal-days"].groups["source"] == ("repository",)


def test_metadata_of_another_shape_is_noted_and_the_task_is_read(tmp_path: Path) -> None:
    folder = copy_example(tmp_path, "skilllearnbench")
    source = folder / "tasks/log-level-counts/log-level-counts-1/task.toml"
    write(source, source.read_text().replace('category = "operations"', "category = {a = 1}"))
    suite = read_suite_folder(folder)
    assert "category" not in tasks_of(suite)["log-level-counts-1"].groups
    assert any("metadata.category" in note for note in suite.notes)


def test_a_file_beside_the_suite_says_more_and_changes_no_digest(tmp_path: Path) -> None:
    folder = copy_example(tmp_path, "skillflow")
    before = read_suite_folder(folder)
    write(
        folder / BESIDE,
        f"format: {FORMAT}\n"
        "families: {Ledger-Reconciliation: {domain: Finance, difficulty: mixed}}\n"
        "tasks: {ledger_reversals: {difficulty: easy, trap: [sign, sign, order]}, gone: {gap: x}}\n",
    )
    suite = read_suite_folder(folder)
    tasks = tasks_of(suite)
    assert suite.digest == before.digest
    assert tasks["ledger_reversals"].groups["difficulty"] == ("easy",)  # the task's own wins over its family's
    assert tasks["ledger_cash_box"].groups["difficulty"] == ("mixed",)  # and the file over the release
    assert tasks["ledger_reversals"].groups["trap"] == ("sign", "order")
    assert suite.notes[-1] == "groups.yaml names tasks that are not here: gone"


@every(
    ("format: other\ntasks: {a: {gap: b}}", "format", "'skillglass-groups/1'"),
    (f"format: {FORMAT}", "tasks", "groups of at least one family or task"),
    (f"format: {FORMAT}\nmore: 1\ntasks: {{a: {{gap: b}}}}", "more", "format, families or tasks"),
    (f"format: {FORMAT}\ntasks: {{a: {{Gap: b}}}}", "tasks.a.Gap", "a name of lower-case letters, digits and _"),
    (f"format: {FORMAT}\ntasks: {{a: {{role: b}}}}", "tasks.a.role", "another name"),
    (f"format: {FORMAT}\ntasks: {{a: {{gap: []}}}}", "tasks.a.gap", "a text, or 1 to 20"),
    (f"format: {FORMAT}\ntasks: {{a: {{gap: {{b: c}}}}}}", "tasks.a.gap", "a text, or 1 to 20"),
    (f"format: {FORMAT}\ntasks: {{a: {{gap: {'x' * 201}}}}}", "tasks.a.gap", "a text, or 1 to 20"),
    (f"format: {FORMAT}\ntasks: {{a: 3}}", "tasks.a", "a table"),
    (f"format: {FORMAT}\ntasks: {{a: {{}}}}", "tasks.a", "a table of attributes and values"),
    ("[1, 2]", "file", "a mapping of names"),
)
def test_a_wrong_mapping_is_refused_with_file_place_and_what_was_expected(
    text: str, place: str, expected: str, tmp_path: Path
) -> None:
    source = write(tmp_path / "map.yaml", text)
    with pytest.raises(SuiteProblems) as refused:
        read_mapping(source)
    problem = refused.value.problems[0]
    assert (problem.path, problem.place) == (str(source), place)
    assert problem.expected.startswith(expected)


@pytest.mark.parametrize(("name", "families"), [("skillflow", 20), ("skilllearnbench", 20)])
def test_the_papers_groups_that_ship_can_be_read(name: str, families: int) -> None:
    mapping = read_mapping(EXAMPLES / "groups" / f"{name}.yaml")
    assert len(mapping.families) == families
    assert len({said["domain"] for said in mapping.families.values()}) == (5 if name == "skillflow" else 15)


def test_an_outline_names_checks_and_follows_no_link(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    many = "\n".join(f"def test_{number}(): pass" for number in range(MAX_NAMES + 5))
    write(tests / "test_many.py", many)
    write(tests / "test.sh", "exit 0")
    (tests / "big.py").write_bytes(b"\0" * 100)
    (tests / "link.py").symlink_to("/etc/passwd")
    found = {each.path: each for each in outline_tests(tmp_path)}
    assert sorted(found) == ["big.py", "test.sh", "test_many.py"]
    assert (len(found["test_many.py"].names), found["test_many.py"].more) == (MAX_NAMES, 5)
    assert found["big.py"].names == ()
    assert outline_tests(tmp_path / "nowhere") == []
