"""Folders of corpora: what is read of them, and that nothing but the material can be reached through it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.base.errors import SuiteProblems
from runner.base.types import Corpus, CorpusKind, Environment
from runner.suites import format_of, read_suite_folder, skillgenbench_suite
from runner.suites.starter_suite import STARTER_CORPORA
from runner.suites.tasks.task_files import read_tree

HEAD = "format: skillgenbench-corpora/1\nname: Rules of a shop\nkind: domain-document\n"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))


def make_task(folder: Path) -> None:
    for name in ("environment", "tests", "solution"):
        (folder / name).mkdir(parents=True)
    (folder / "task.toml").write_text('version = "1.0"\n\n[task]\nname = "A day in the shop"\n')
    (folder / "instruction.md").write_text("Do it.\n")
    (folder / "environment" / "Dockerfile").write_text("FROM scratch\n")
    (folder / "tests" / "test.sh").write_text("#!/bin/sh\n# verifies\n")
    (folder / "solution" / "solve.sh").write_text("#!/bin/sh\n# solves\n")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """corpora/shop of a suite of one corpus."""
    folder = tmp_path / "suite" / "corpora" / "shop"
    (folder / "material" / "deep").mkdir(parents=True)
    (folder / "corpus.yaml").write_text(HEAD)
    (folder / "material" / "rules.md").write_text("Sell nothing on Sundays.\n")
    (folder / "material" / "deep" / "more.txt").write_text("More.\n")
    (folder / "reference" / "selling").mkdir(parents=True)
    (folder / "reference" / "selling" / "SKILL.md").write_text("---\nname: selling\n---\n")
    make_task(folder / "tasks" / "one-day")
    make_task(folder / "practice" / "a-try")
    return folder


def read(shop: Path) -> Environment:
    (found,) = read_suite_folder(shop.parents[1]).environments
    return found


def corpus(shop: Path) -> Corpus:
    found = read(shop).corpus
    assert found is not None
    return found


def problems(shop: Path) -> list[tuple[str, str, str]]:
    """(path below the corpus, place, message) of everything that is wrong."""
    with pytest.raises(SuiteProblems) as caught:
        read_suite_folder(shop.parents[1], "skillgenbench", strict=True)
    return [(os.path.relpath(each.path, shop), each.place, each.message) for each in caught.value.problems]


def test_a_corpus_is_an_environment_with_one_family_of_tasks_and_practice(shop: Path) -> None:
    environment = read(shop)
    (family,) = environment.families
    assert (environment.key, environment.name, family.key) == ("shop", "Rules of a shop", "shop")
    assert [(task.key, task.title, task.ordinal, task.practice) for task in family.tasks] == [
        ("one-day", "A day in the shop", 1, False),
        ("a-try", "A day in the shop", 2, True),
    ]
    assert set(family.curated) == {"selling/SKILL.md"}
    assert corpus(shop).kind is CorpusKind.DOMAIN_DOCUMENT
    assert set(read_tree(corpus(shop).folder)) == {"rules.md", "deep/more.txt"}


def test_its_format_is_known_by_its_shape_with_the_folder_around_it_or_without(shop: Path) -> None:
    whole, part = shop.parents[1], shop.parent
    assert format_of(whole) == format_of(part) == "skillgenbench"
    assert read_suite_folder(whole).digest == read_suite_folder(part).digest
    assert (read_suite_folder(whole).key, read_suite_folder(part).key) == ("suite", "suite")


def test_the_digests_are_over_the_material_and_nothing_else_of_the_corpus_enters_it(shop: Path) -> None:
    before, whole = corpus(shop).digest, read_suite_folder(shop.parents[1]).digest
    (shop / "tasks" / "one-day" / "tests" / "hidden.json").write_text("{}")
    assert corpus(shop).digest == before
    (shop / "material" / "deep" / "more.txt").write_text("Other.\n")
    assert corpus(shop).digest != before
    assert read_suite_folder(shop.parents[1]).digest != whole


def test_the_digest_tells_tasks_that_count_from_practice(shop: Path) -> None:
    """The last task that counts becomes the one to practise on: the same tasks in the same order."""
    shutil.rmtree(shop / "practice" / "a-try")
    make_task(shop / "tasks" / "two-days")
    before = read_suite_folder(shop.parents[1])
    shutil.move(shop / "tasks" / "two-days", shop / "practice" / "two-days")
    after = read_suite_folder(shop.parents[1])
    tasks = [[task.digest for task in suite.environments[0].families[0].tasks] for suite in (before, after)]
    assert tasks[0] == tasks[1]
    assert before.digest != after.digest


def test_what_may_be_missing_and_what_is_left_out_is_told(shop: Path) -> None:
    shutil.rmtree(shop / "reference")
    shutil.rmtree(shop / "practice")
    (shop / "drafts").mkdir()
    (shop.parent / "notes").mkdir()
    notes = read_suite_folder(shop.parents[1]).notes
    for said in (
        "Left out, no corpus.yaml: notes",
        "No reference skill, so reference-skill cannot run: shop",
        "No practice task, so nothing is learned from trajectories before a seal: shop",
        "Left out, not part of a corpus: shop/drafts",
    ):
        assert said in notes


def test_material_that_repeats_what_a_task_is_judged_by_is_told(shop: Path) -> None:
    shutil.copy(shop / "tasks" / "one-day" / "tests" / "test.sh", shop / "material" / "check.sh")
    os.link(shop / "practice" / "a-try" / "solution" / "solve.sh", shop / "material" / "linked.sh")
    (note,) = (each for each in read_suite_folder(shop.parents[1]).notes if "tests or of a solution" in each)
    assert "shop/material/check.sh" in note
    assert "shop/material/linked.sh" in note


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        ("", "file", "found None"),
        ("- a\n", "file", "found a list"),
        (HEAD.replace("/1", "/2"), "format", "found 'skillgenbench-corpora/2'"),
        (HEAD.replace("name: Rules of a shop", "name: ''"), "name", "found ''"),
        (HEAD.replace("domain-document", "novel"), "kind", "found 'novel'"),
        (HEAD.replace("domain-document", "[a]"), "kind", "found a list"),
        (HEAD + "material: ../../secrets\n", "material", "nobody knows this field"),
        ("a: &a [x]\nb: &b [*a,*a]\n", "format", "found None"),
        (HEAD + "x" * 2_000_000, "size", "it has more"),
    ],
)
def test_a_head_that_is_not_as_expected_is_named_with_its_place(
    shop: Path, content: str, place: str, message: str
) -> None:
    (shop / "corpus.yaml").write_text(content)
    assert problems(shop) == [("corpus.yaml", place, message)]


def linked_part(name: str, target: str) -> Callable[[Path], None]:
    def make(shop: Path) -> None:
        shutil.rmtree(shop / name)
        (shop / name).symlink_to(target)

    return make


def link_in_material(target: str) -> Callable[[Path], None]:
    return lambda shop: (shop / "material" / "deep" / "link").symlink_to(target)


@pytest.mark.parametrize(
    ("make", "path", "message"),
    [
        (linked_part("material", "tasks/one-day"), "material", "it is a link"),
        (linked_part("tasks", "practice"), "tasks", "it is a link"),
        (linked_part("practice", "tasks"), "practice", "it is a link"),
        (linked_part("reference", "material"), "reference", "it is a link"),
        (link_in_material("../../tasks/one-day/tests"), "material/deep/link", "it is a link"),
        (link_in_material("../rules.md"), "material/deep/link", "it is a link"),
        (link_in_material("/etc/passwd"), "material/deep/link", "it is a link"),
        (link_in_material(".."), "material/deep/link", "it is a link"),
        (lambda shop: os.mkfifo(shop / "material" / "pipe"), "material/pipe", "it is a special file"),
        (
            lambda shop: (shop / "tasks" / "one-day" / "tests" / "m").symlink_to("../../../material"),
            "tasks/one-day/tests/m",
            "it is a link",
        ),
    ],
    ids=[
        "material is a task",
        "tasks are practice",
        "practice is tasks",
        "reference is material",
        "material leads to tests",
        "material leads to material",
        "material leads out",
        "material in a circle",
        "pipe",
        "tests lead to material",
    ],
)
def test_no_part_leads_into_another(shop: Path, make: Callable[[Path], None], path: str, message: str) -> None:
    make(shop)
    assert (path, message) in {(where, said) for where, _, said in problems(shop)}


def test_a_corpus_that_is_a_link_is_refused_and_so_is_a_linked_folder_of_corpora(shop: Path) -> None:
    (shop.parent / "twin").symlink_to(shop)
    assert problems(shop) == [("../twin", "folder", "it is a link")]
    (shop.parent / "twin").unlink()
    shop.parent.rename(shop.parents[1] / "elsewhere")
    shop.parent.symlink_to("elsewhere")
    assert [message for _, _, message in problems(shop)] == ["it is a link"]


@pytest.mark.parametrize("name", [".git", ".hg", ".svn"])
def test_a_repository_comes_without_its_history(shop: Path, name: str) -> None:
    (shop / "material" / "deep" / name).mkdir()
    (shop / "material" / "deep" / name / "HEAD").write_text("ref")
    assert problems(shop) == [("material", name, f"found 'deep/{name}/HEAD'")]


def test_material_is_bounded_by_number_and_size(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (shop / "material" / "large.bin").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    assert problems(shop)[0][:2] == ("material/large.bin", "size")
    (shop / "material" / "large.bin").unlink()
    monkeypatch.setattr(skillgenbench_suite, "MAX_MATERIAL_FILES", 1)
    assert problems(shop) == [("material", "size", "there is more")]
    monkeypatch.setattr(skillgenbench_suite, "MAX_MATERIAL_FILES", 2)
    monkeypatch.setattr(skillgenbench_suite, "MAX_MATERIAL_BYTES", 20)
    assert problems(shop) == [("material", "size", "there is more")]


@pytest.mark.parametrize("name", [b"a\nb", b"caf\xe9", "a\u202eb".encode()])
def test_names_that_no_prompt_could_show_are_refused(shop: Path, name: bytes) -> None:
    Path(os.fsdecode(os.fsencode(shop / "material") + b"/" + name)).write_text("x")
    (problem,) = problems(shop)
    assert (problem[0], problem[2]) == ("material", "it is not printable")


@pytest.mark.parametrize(
    ("missing", "path", "place"),
    [
        ("material", "material", "folder"),
        ("tasks", "tasks", "folder"),
        ("reference/selling/SKILL.md", "reference/selling", "SKILL.md"),
    ],
)
def test_what_has_to_be_there_is_asked_for(shop: Path, missing: str, path: str, place: str) -> None:
    if missing.endswith("SKILL.md"):
        (shop / missing).rename(shop / "reference" / "selling" / "other.md")
    else:
        shutil.rmtree(shop / missing)
    assert problems(shop) == [(path, place, "there is none")]


def test_an_empty_material_is_none(shop: Path) -> None:
    shutil.rmtree(shop / "material")
    (shop / "material").mkdir()
    assert problems(shop) == [("material", "folder", "there is none")]


def test_a_task_name_stands_for_one_task(shop: Path) -> None:
    make_task(shop / "practice" / "one-day")
    assert ("task", "'one-day' occurs more than once") in {each[1:] for each in problems(shop)}


def test_the_bundled_corpora_read_alike_from_a_copy(tmp_path: Path) -> None:
    shutil.copytree(STARTER_CORPORA, tmp_path / "copy")
    assert read_suite_folder(tmp_path / "copy").digest == read_suite_folder(STARTER_CORPORA).digest
