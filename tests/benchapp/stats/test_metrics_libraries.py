"""Library sizes, growth and churn against folding the recorded snapshots one after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchapp.models import Decision, Entry, Episode, Run, Seeding, Snapshot
from benchapp.stats.learning.library_history import FILE_KINDS, KEPT
from benchapp.stats.learning.library_sizes import count_churn, count_growth, read_final_libraries
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
    standing: list[tuple[Texts, set[str]]] = [({}, set())]
    ever: set[str] = set()
    seeded: set[str] = set()
    statuses: Counter[str] = Counter()
    for kind, files in events:
        if kind == "task":
            run_task(episode)
            standing.append(standing[-1])
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
        standing[-1] = (present, set(ever))
    run = Run.objects.get(pk=episode.run_id)

    grown = count_growth([run])[run.pk]
    if any(kind == "task" for kind, _ in events):
        assert [step.position for step in grown] == list(range(len(standing)))
        for step, (files, held) in zip(grown, standing, strict=True):
            assert (step.skills, step.ever) == (len(skills_in(files)), len(held))
            assert step.files == {kind: [kind_of(path) for path in files].count(kind) for kind in FILE_KINDS}
            assert step.bytes == sum(map(len, files.values()))
    else:
        assert grown == []
    found = count_churn([run])[run.pk]
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
    (size,) = read_final_libraries([episode.run])[episode.run_id]
    assert size.files == {"SKILL.md": 1, "references": 1, "scripts": 1, "assets": 0, "other": 3}
    assert (size.skills, size.bytes, size.files_total, size.title) == (1, 10, 6, episode.title)


def test_a_learning_run_grows_and_its_rejected_patch_changes_nothing() -> None:
    run = make_learning_run(families=2)
    steps = count_growth([run])[run.pk]
    assert [step.position for step in steps] == [0, 1, 2, 3, 4, 5, 6]
    assert [step.skills for step in steps] == [0, 1, 1, 1, 2, 2, 2]
    found = count_churn([run])[run.pk]
    assert found.decisions == {"applied": 4, "no-op": 0, "rejected": 2, "failed": 0}
    assert (found.created, found.deleted, found.retained, found.recorded) == (2, 0, 2, 1)


def test_an_imported_library_has_a_size_and_no_growth() -> None:
    episode = make_unordered_episode()
    hold(episode, make_snapshot())
    run = episode.run
    assert [size.skills for size in read_final_libraries([run])[run.pk]] == [1]
    assert count_growth([run])[run.pk] == []
    found = count_churn([run])[run.pk]
    assert (found.found, found.created, found.recorded) == (1, 0, 0)


def test_an_episode_without_a_library_has_no_size() -> None:
    episode = make_unordered_episode()
    assert read_final_libraries([episode.run])[episode.run_id] == []


def test_churn_leaves_tainted_episodes_out_and_sizes_mark_them() -> None:
    run = make_learning_run(environments=2, families=1)
    Episode.objects.filter(pk=run.episodes.first().pk).update(is_tainted=True)
    assert (count_churn([run])[run.pk].episodes, count_churn([run])[run.pk].created) == (1, 1)
    assert [size.tainted for size in read_final_libraries([run])[run.pk]] == [True, False]


def test_it_shows_the_library_as_the_record_knew_it_then() -> None:
    run = make_learning_run(families=2)
    third = START + timedelta(seconds=3, milliseconds=500)  # entries are recorded a second apart: T1, decision, T2
    early = count_growth([run], third)[run.pk]
    assert [step.skills for step in early] == [0, 0, 0], "the decision is of a later minute"
    assert [size.skills for size in read_final_libraries([run], START)[run.pk]] == [0]
    assert [size.skills for size in read_final_libraries([run])[run.pk]] == [2]


def test_what_it_keeps_is_forgotten_when_the_run_goes_on() -> None:
    run = make_learning_run(families=1)
    before = count_churn([run])[run.pk]
    decide(run.episodes.get(), {"another/SKILL.md": "text"})
    Run.objects.filter(pk=run.pk).touch()
    after = count_churn([Run.objects.get(pk=run.pk)])[run.pk]
    assert (before.ever, after.ever) == (1, 2)


def test_the_number_of_queries_does_not_grow_with_the_runs() -> None:
    def queries(runs: list[Run]) -> int:
        with CaptureQueriesContext(connection) as captured:
            read_final_libraries(runs), count_growth(runs), count_churn(runs)
        return len(captured)

    assert queries([make_learning_run(families=1)]) == 6
    assert queries([make_learning_run(families=2, environments=2) for _ in range(3)]) == 6


def test_the_ending_of_a_library_is_that_of_its_history() -> None:
    """Read alone, read after its history was, and read as of a moment before its last change."""
    run = make_learning_run(families=3)
    KEPT.clear()
    alone = read_final_libraries([run])
    assert KEPT.get(run) is None
    count_growth([run])
    assert KEPT.get(run) is not None
    assert read_final_libraries([run]) == alone
    first = Decision.objects.filter(episode__run=run, status="applied").order_by("decided_at").first()
    KEPT.clear()
    early = read_final_libraries([run], first.decided_at)
    assert sum(size.skills for size in early[run.pk]) < sum(size.skills for size in alone[run.pk])
