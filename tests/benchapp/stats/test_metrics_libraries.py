"""Library sizes, growth and churn against folding the recorded snapshots one after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchapp.models import Decision, Entry, Episode, Run, Seeding, Snapshot
from benchapp.stats.learning import computed_runs
from benchapp.stats.learning.libraries import FILE_KINDS, NUMBERS, Growth, LibraryNumbers, read_library_numbers
from tests.worlds.factories import (
    START,
    add_entry,
    make_decision,
    make_environment,
    make_episode,
    make_family,
    make_learning_run,
    make_run,
    make_snapshot,
    make_suite,
    make_trial,
    make_unordered_episode,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computed_runs, "facts_folder", lambda: tmp_path / "facts")


def numbers(run: Run, as_of: datetime | None = None) -> LibraryNumbers:
    return read_library_numbers([run], as_of)[run.pk]


Texts = Mapping[str, str]


def kind_of(path: str) -> str:
    inside = path.split("/", 1)[1]
    if inside == "SKILL.md":
        return "SKILL.md"
    folder = inside.split("/")[0] if "/" in inside else ""
    return folder if folder in ("references", "scripts", "assets") else "other"


def skills_in(files: Texts) -> set[str]:
    return {path.split("/")[0] for path in files if path.count("/") == 1 and path.endswith("/SKILL.md")}


def seed(episode: Episode, files: Texts) -> None:
    snapshot = make_snapshot(files)
    family = make_family(environment=episode.environment)
    add_entry(episode, Entry.Kind.SEED, seeding=Seeding.objects.create(family=family, snapshot=snapshot))
    hold(episode, snapshot)


def hold(episode: Episode, snapshot: Snapshot) -> None:
    episode.library = snapshot
    episode.save(update_fields=["library"])


def run_task(episode: Episode, phase: str = "acquisition") -> None:
    trial = make_trial(episode, phase=phase, snapshot=episode.library)
    add_entry(episode, Entry.Kind.TRIAL, attempt=trial.counting_attempt())


def decide(episode: Episode, files: Texts | None, status: str = "applied", **fields: Any) -> None:
    family = make_family(environment=episode.environment)
    after = None if files is None else make_snapshot(files)
    make_decision(episode, family, after=after, status=status, **fields)


def an_episode(run: Run | None = None) -> Episode:
    return make_episode(run or make_run(), environment=make_environment(make_suite()))


PATHS = st.sampled_from(
    [
        f"{skill}/{path}"
        for skill in ("a", "b", "c")
        for path in (
            "SKILL.md",
            "SKILL.md",
            "references/x.md",
            "scripts/deep/x.py",
            "assets/x",
            "Scripts/x.py",
            "LICENSE",
        )
    ]
)
LIBRARIES = st.dictionaries(PATHS, st.text(alphabet="xy", max_size=3), max_size=5)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("task"), st.none()),
        st.tuples(st.just("seed"), LIBRARIES),
        st.tuples(st.just("applied"), LIBRARIES),
        st.tuples(st.sampled_from(("no-op", "rejected", "failed")), st.none()),
        st.tuples(st.just("replay"), st.none()),
    ),
    max_size=8,
)


@given(events=EVENTS)
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_equals_folding_the_events(events: list[tuple[str, Texts | None]]) -> None:
    episode = an_episode()
    present: Texts = {}
    states: list[tuple[Texts, set[str]]] = [({}, set())]
    ever: set[str] = set()
    seeded: set[str] = set()
    statuses: Counter[str] = Counter()
    for kind, files in events:
        if kind == "task":
            run_task(episode)
            states.append(states[-1])
            continue
        if kind == "replay":
            run_task(episode, phase="replay")
            continue
        if kind == "seed":
            assert files is not None
            seed(episode, files)
            seeded |= skills_in(files) - ever
        else:
            decide(episode, files, kind, files_changed=2, lines_added=3, lines_removed=1)
            statuses[kind] += 1
        present = present if files is None else files
        ever |= skills_in(present)
        states[-1] = (present, set(ever))
    run = Run.objects.get(pk=episode.run_id)

    grown = numbers(run).growth
    if any(kind == "task" for kind, _ in events):
        assert grown.position.tolist() == list(range(len(states)))
        for place, (files, held) in enumerate(states):
            assert (grown.skills[place], grown.ever[place]) == (len(skills_in(files)), len(held))
            assert grown.files[place] == len(files)
    else:
        assert not len(grown.position)
    found = numbers(run).churn
    for size in numbers(run).sizes:
        assert size.files == {kind: [kind_of(path) for path in present].count(kind) for kind in FILE_KINDS}
        assert size.bytes == sum(map(len, present.values()))
    assert found.decisions == {status: statuses[status] for status in ("applied", "no-op", "rejected", "failed")}
    assert (found.ever, found.seeded, found.retained) == (len(ever), len(seeded), len(skills_in(present)))
    assert (found.created, found.deleted) == (len(ever - seeded), len(ever - skills_in(present)))
    assert found.lines_added == 3 * statuses["applied"]


def test_it_counts_files_by_kind_and_tells_folders_by_exact_case() -> None:
    episode = an_episode()
    hold(
        episode,
        make_snapshot(
            {
                "a/SKILL.md": "12345",
                "a/scripts/run.py": "1",
                "a/Scripts/run.py": "1",
                "a/scripts.md": "1",
                "a/references/SKILL.md": "1",
                "b/skill.md": "1",
            }
        ),
    )
    (size,) = numbers(episode.run).sizes
    assert size.files == {"SKILL.md": 1, "references": 1, "scripts": 1, "assets": 0, "other": 3}
    assert (size.skills, size.bytes, size.files_total, size.title) == (1, 10, 6, episode.title)


def test_a_learning_run_grows_and_its_rejected_patch_changes_nothing() -> None:
    run = make_learning_run(families=2)
    steps = numbers(run).growth
    assert steps.position.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert steps.skills.tolist() == [0, 1, 1, 1, 2, 2, 2]
    found = numbers(run).churn
    assert found.decisions == {"applied": 4, "no-op": 0, "rejected": 2, "failed": 0}
    assert (found.created, found.deleted, found.retained, found.recorded) == (2, 0, 2, 1)


def test_an_imported_library_has_a_size_and_no_growth() -> None:
    episode = make_unordered_episode()
    hold(episode, make_snapshot())
    run = episode.run
    assert [size.skills for size in numbers(run).sizes] == [1]
    assert not len(numbers(run).growth.position)
    found = numbers(run).churn
    assert (found.found, found.created, found.recorded) == (1, 0, 0)


def test_an_episode_without_a_library_has_no_size() -> None:
    episode = make_unordered_episode()
    assert numbers(episode.run).sizes == ()


def test_churn_leaves_tainted_episodes_out_and_sizes_mark_them() -> None:
    run = make_learning_run(environments=2, families=1)
    Episode.objects.filter(pk=run.episodes.first().pk).update(is_tainted=True)
    assert (numbers(run).churn.episodes, numbers(run).churn.created) == (1, 1)
    assert [size.tainted for size in numbers(run).sizes] == [True, False]


def test_it_shows_the_library_as_the_record_knew_it_then() -> None:
    run = make_learning_run(families=2)
    third = START + timedelta(seconds=3, milliseconds=500)  # entries are recorded a second apart: T1, decision, T2
    early = numbers(run, third).growth
    assert early.skills.tolist() == [0, 0, 0], "the decision is of a later minute"
    assert [size.skills for size in numbers(run, START).sizes] == [0]
    assert [size.skills for size in numbers(run).sizes] == [2]


def test_what_it_keeps_is_forgotten_when_the_run_goes_on() -> None:
    run = make_learning_run(families=1)
    before = numbers(run).churn
    decide(run.episodes.get(), {"another/SKILL.md": "text"})
    Run.objects.filter(pk=run.pk).touch()
    after = numbers(Run.objects.get(pk=run.pk)).churn
    assert (before.ever, after.ever) == (1, 2)


def test_the_number_of_queries_does_not_grow_with_the_runs() -> None:
    def queries(runs: list[Run]) -> int:
        with CaptureQueriesContext(connection) as captured:
            read_library_numbers(runs)
        return len(captured)

    assert queries([make_learning_run(families=1)]) == 4
    assert queries([make_learning_run(families=2, environments=2) for _ in range(3)]) == 4


def test_a_new_process_finds_the_same_numbers_without_a_query() -> None:
    run = make_learning_run(families=3)
    first = numbers(run)
    NUMBERS.clear()
    with CaptureQueriesContext(connection) as captured:
        again = numbers(run)
    assert not captured.captured_queries
    assert (again.sizes, again.churn, again.last) == (first.sizes, first.churn, first.last)
    for field in fields(Growth):
        np.testing.assert_array_equal(getattr(again.growth, field.name), getattr(first.growth, field.name))


def test_a_run_at_work_is_not_kept_on_disk(tmp_path: Path) -> None:
    numbers(make_learning_run(status="running"))
    assert not (tmp_path / "facts").exists()


def test_what_is_kept_is_not_told_of_a_moment_before_the_last_change() -> None:
    run = make_learning_run(families=3)
    whole = numbers(run)
    first = Decision.objects.filter(episode__run=run, status="applied").order_by("decided_at").first()
    early = numbers(run, first.decided_at)
    assert sum(size.skills for size in early.sizes) < sum(size.skills for size in whole.sizes)
    assert numbers(run, whole.last) is whole
