"""Several imported experiments made one, and imported again."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchapp.archive.archive_export import write_archive
from benchapp.imports.audited_edits import Author, EditRefused, join_experiments, rename_experiment, split_experiment
from benchapp.management.commands.sweep import sweep
from benchapp.models import Activity, Attempt, Experiment, Run, Trial
from tests.benchapp.import_folders import JOB_ID, bring_in, job, trial
from tests.worlds.factories import make_experiment, make_run

pytestmark = pytest.mark.django_db
ADA = Author(name="ada")


def import_two(folder: Path) -> list[Experiment]:
    job(folder / "one")
    for path in job(folder / "two").rglob("*.json"):  # another job with other trials
        text = path.read_text().replace(JOB_ID, JOB_ID.replace("1", "2"))
        path.write_text(text.replace("00000000-0000-4000", "00000000-0000-4002"))
    bring_in(folder)
    return list(Experiment.objects.not_deleted().order_by("pk"))


def join(experiments: list[Experiment]) -> Experiment:
    return join_experiments(experiments, name=" Both ", author=ADA, reason="one benchmark")


def count() -> tuple[int, int, int]:
    return Run.objects.count(), Trial.objects.count(), Attempt.objects.count()


def test_joined_jobs_are_found_again_and_grow_where_they_are(tmp_path: Path) -> None:
    whole = join(import_two(tmp_path))
    before = count()
    assert (whole.name, whole.runs.count()) == ("Both", before[0])
    assert bring_in(tmp_path).counts["created"] == 0
    assert count() == before
    assert list(Experiment.objects.not_deleted()) == [whole]
    trial(tmp_path / "one", 9)
    assert bring_in(tmp_path).counts["created"] == 1
    assert set(Trial.objects.values_list("episode__run__experiment", flat=True)) == {whole.pk}


def test_a_sweep_keeps_what_splitting_needs(tmp_path: Path) -> None:
    experiments = import_two(tmp_path)
    whole = join(experiments)
    assert sweep().experiments == 0
    before = count()
    assert split_experiment(whole, author=ADA, reason="they differ") == experiments
    assert [each.runs.count() for each in experiments] == [1, 1]
    assert sweep().experiments == 1
    assert count() == before
    assert bring_in(tmp_path).counts["created"] == 0


def test_a_joined_experiment_is_archived_without_where_its_runs_came_from(tmp_path: Path) -> None:
    whole = join(import_two(tmp_path))
    assert write_archive(whole, tmp_path / "both.tar.zst").runs == 2


def test_the_record_keeps_who_joined_and_why(tmp_path: Path) -> None:
    experiments = import_two(tmp_path)
    join(experiments)
    found = Activity.objects.filter(verb="join")
    assert {each.target_id for each in found} == {each.public_id for each in experiments}
    assert {(each.actor_name, each.reason) for each in found} == {("ada", "one benchmark")}


def test_what_was_launched_here_is_neither_joined_nor_split_nor_renamed() -> None:
    own = [make_run().experiment, make_run().experiment]
    with pytest.raises(EditRefused, match="launched here"):
        join(own)
    with pytest.raises(EditRefused, match="launched here"):
        rename_experiment(own[0], name="x", author=ADA, reason="")
    with pytest.raises(EditRefused, match="not every run of it was joined"):
        split_experiment(own[0], author=ADA, reason="")
    assert Experiment.objects.not_deleted().count() == 2


@pytest.mark.parametrize("name", ["", "  ", "x" * 301])
def test_a_name_has_1_to_300_characters(name: str) -> None:
    imported = [make_experiment(origin="imported") for _ in range(2)]
    with pytest.raises(EditRefused, match="1 to 300"):
        join_experiments(imported, name=name, author=ADA, reason="")
    with pytest.raises(EditRefused, match="at least two"):
        join_experiments(imported[:1], name="x", author=ADA, reason="")
