"""The same numbers in three formats, every column in the dictionary, nothing that should stay inside."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from datetime import datetime, timedelta
from io import BytesIO, StringIO
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from benchapp.exports.dictionary import EXPORTS, Column, ValueKind
from benchapp.exports.export_run import FIRST_SETTLED_COLUMN, FORMATS, TRIAL_LOOKUPS, Export, parse_export_request
from benchapp.exports.formats import csv_pieces, json_pieces, write_parquet
from benchapp.models import Attempt, Episode, TaskGroup, Trial
from benchapp.models.trials import NUMBERS
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.comparing.narrowing import OUTCOMES, Narrowing, trials_behind
from benchapp.stats.metrics.catalogue import METRICS, RUN_METRICS
from runner.base.types import Role
from tests.worlds.factories import (
    make_experiment,
    make_family,
    make_learning_run,
    make_suite,
    make_trial,
    make_unordered_episode,
)

pytestmark = pytest.mark.django_db

BASELINE = (True, False, False, True, False, False, True, False, False)


def make_pair(**fields: Any) -> None:
    suite = make_suite(environments=1, families=1)
    experiment = make_experiment(suite=suite, **fields)
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=BASELINE)
    make_learning_run(
        experiment, condition="selfgen-always", outcomes=(True, None, True, True, True, False, True, True, None)
    )


def written(export: Export, form: str) -> bytes:
    target = BytesIO()
    export.write(target, form)
    return target.getvalue()


def read_back(export: Export, form: str) -> list[dict[str, Any]]:
    """As plain values: what an empty cell, a null and a missing value of Parquet are all None in."""
    content = written(export, form)
    if form == "json":
        return [_from_json(row, export.fields) for row in orjson.loads(content)["rows"]]
    if form == "csv":
        rows = csv.DictReader(StringIO(content.decode(), newline=""))
        return [{field.name: _from_csv(row[field.name], field) for field in export.fields} for row in rows]
    return pq.read_table(BytesIO(content)).to_pylist()


def _from_json(row: Mapping[str, Any], fields: tuple[Column, ...]) -> dict[str, Any]:
    times = {field.name for field in fields if field.kind is ValueKind.TIME}
    return {name: datetime.fromisoformat(value) if name in times and value else value for name, value in row.items()}


def _from_csv(text: str, field: Column) -> Any:
    if field.kind is ValueKind.NUMBERS:
        return [float(part) if part else None for part in text.split(";")]
    if text == "":
        return None
    read = {
        ValueKind.INTEGER: int,
        ValueKind.NUMBER: float,
        ValueKind.BOOLEAN: {"true": True, "false": False}.__getitem__,
        ValueKind.TIME: datetime.fromisoformat,
    }.get(field.kind, str)
    return read(text)


# --- columns --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", EXPORTS)
@pytest.mark.parametrize("form", FORMATS)
def test_it_writes_exactly_the_columns_of_the_dictionary(what: str, form: str) -> None:
    make_pair()
    rows = read_back(Export(what, Choices()), form)
    assert rows
    assert list(rows[0]) == [field.name for field in EXPORTS[what]]


def test_it_exports_every_number_of_a_trial_and_names_every_role() -> None:
    columns = {field.name: field for field in EXPORTS["trials"]}
    assert set(NUMBERS) <= set(list(columns)[FIRST_SETTLED_COLUMN:])
    assert columns["role"].meaning.endswith(": " + ", ".join(Role))  # the client imports no enum


@pytest.mark.parametrize("what", EXPORTS)
def test_it_says_of_each_column_what_it_is(what: str) -> None:
    for field in EXPORTS[what]:
        assert field.meaning, field.name
        assert field.unit or field.kind is not ValueKind.NUMBERS, field.name
    assert len({field.name for field in EXPORTS[what]}) == len(EXPORTS[what])


@pytest.mark.parametrize("what", EXPORTS)
def test_it_leaves_no_cell_empty_that_the_dictionary_calls_never_empty(what: str) -> None:
    make_pair()
    for row in read_back(Export(what, Choices()), "json"):
        for field in EXPORTS[what]:
            assert field.missing or row[field.name] is not None, field.name


def test_it_writes_the_dictionary_into_parquet() -> None:
    make_pair()
    schema = pq.read_schema(BytesIO(written(Export("trials", Choices()), "parquet")))
    told = schema.field("cost_usd").metadata
    assert told[b"unit"] == b"USD"
    assert b"counting attempt" in told[b"meaning"]
    assert told[b"missing_means"]
    assert orjson.loads(schema.metadata[b"skillglass"])["export"] == "trials"


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", EXPORTS)
def test_it_gives_the_same_numbers_in_all_formats(what: str) -> None:
    make_pair()
    export = Export(what, Choices(), declared=(METRICS["ESR"],))
    as_csv, as_json, as_parquet = (read_back(export, form) for form in FORMATS)
    assert as_csv == as_json == as_parquet


def test_it_exports_every_trial_with_what_the_record_holds() -> None:
    make_pair()
    rows = {row["trial"]: row for row in read_back(Export("trials", Choices()), "json")}
    assert len(rows) == Trial.objects.count()
    for trial in Trial.objects.select_related("task__family", "episode__run"):
        row = rows[str(trial.public_id)]
        assert (row["task"], row["family"], row["phase"]) == (trial.task.key, trial.task.family.key, trial.phase)
        assert (row["success"], row["turns"], row["cost_usd"]) == (trial.success, trial.turns, trial.cost_usd)
        assert row["author_model"] == (trial.episode.run.author_model or None)


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_known_of_unknown_tokens_is_exported_as_a_least(form: str) -> None:
    known_in_part = {"input_tokens": None, "output_tokens": 310, "input_at_least": 1_300}
    trial = make_trial(attempt=known_in_part)
    assert (trial.input_tokens, trial.input_at_least, trial.output_at_least) == (None, 1_300, None)
    (row,) = (row for row in read_back(Export("trials", Choices()), form) if row["trial"] == str(trial.public_id))
    names = ("input_tokens", "input_at_least", "output_tokens", "output_at_least")
    assert [row[name] for name in names] == [None, 1_300, 310, None]


def test_it_counts_in_aggregates_what_the_trials_say() -> None:
    make_pair()
    trials = read_back(Export("trials", Choices()), "json")
    for row in read_back(Export("aggregates", Choices()), "json"):
        if row["metric"] in RUN_METRICS:
            continue
        metric = METRICS[row["metric"]]
        of_group = [trial for trial in trials if trial["condition"] == row["condition"]]
        covered = [trial for trial in of_group if metric.covers(trial["phase"], trial["role"])]
        scored = [trial for trial in covered if trial["success"] is not None]
        passed = sum(trial["success"] for trial in scored)
        assert (row["passed"], row["scored"], row["planned"]) == (passed, len(scored), len(covered))
        assert row["value"] == pytest.approx(passed / len(scored))
        assert row["replicate_values"] == [row["value"]]


def test_it_exports_numbers_of_whole_runs_with_what_they_rest_on() -> None:
    make_pair()
    rows = {
        (row["condition"], row["metric"]): row
        for row in read_back(Export("aggregates", Choices()), "json")
        if row["metric"] in RUN_METRICS
    }
    assert {metric for _, metric in rows} == set(RUN_METRICS)
    libraries = {episode.library.skills_total for episode in Episode.objects.filter(run__condition="selfgen-always")}
    retained = rows["selfgen-always", "skills-retained"]
    assert (retained["value"], retained["rests_on_what"]) == (fmean(libraries), "episodes")
    assert retained["scored"] is None
    unknown = rows["no-skill", "pass@2"]
    assert (unknown["value"], unknown["rests_on"]) == (None, None)
    assert "2 scored samples" in unknown["note"]


def test_it_exports_differences_with_their_sentence_and_no_baseline_row() -> None:
    make_pair()
    comparison = comparison_of(Choices())
    group = next(group for group in comparison.groups.all if group.condition == "selfgen-always")
    rows = read_back(Export("differences", Choices()), "json")
    assert {row["condition"] for row in rows} == {"selfgen-always"}
    row = next(row for row in rows if row["metric"] == "ESR")
    found = comparison.family_difference(group, METRICS["ESR"])
    assert found is not None
    assert (row["tasks"], row["delta"], row["claim"]) == (found.tasks, found.delta, "one run")
    assert (row["p_holm"], row["comparisons"]) == (found.p, 1)
    assert row["relative"] == pytest.approx(found.delta / found.other)
    assert row["sentence"].startswith("Deployment success: Self-written, always revised solved")


def test_it_leaves_out_what_was_settled_after_the_pin() -> None:
    make_pair()
    pin = timezone.now() - timedelta(minutes=1)
    Trial.objects.update(settled_at=pin - timedelta(hours=1))
    late = Trial.objects.filter(success=True).first()
    Trial.objects.filter(pk=late.pk).update(settled_at=pin + timedelta(seconds=1))
    late.episode.run.__class__.objects.update(created_at=pin - timedelta(hours=2))
    rows = {row["trial"]: row for row in read_back(Export("trials", Choices(as_of=pin)), "json")}
    row = rows.pop(str(late.public_id))
    assert (row["task"], row["phase"]) == (late.task.key, late.phase)
    assert [row[name] for name in list(TRIAL_LOOKUPS)[FIRST_SETTLED_COLUMN:]] == [None] * (
        len(TRIAL_LOOKUPS) - FIRST_SETTLED_COLUMN
    )
    assert all(other["status"] for other in rows.values())


# --- what stays inside ----------------------------------------------------------------------------------------------


def test_it_never_exports_what_agents_and_verifiers_wrote() -> None:
    secret = "sk-hidden-0123456789"
    trial = make_trial(attempt={"exception_message": secret, "exception_type": secret, "source_key": secret})
    Attempt.objects.update(sandbox={"note": secret})
    assert trial.exception_type == secret
    for what in EXPORTS:
        for form in FORMATS:
            assert secret.encode() not in written(Export(what, Choices()), form)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_it_lets_no_spreadsheet_run_a_name(start: str) -> None:
    hostile = f'{start}HYPERLINK("http://example.com")'
    make_pair(name=hostile)
    content = written(Export("trials", Choices()), "csv").decode()
    names = {row["experiment_name"] for row in csv.DictReader(StringIO(content, newline=""))}
    assert names == {f"'{hostile}"}
    (name,) = {row["experiment_name"] for row in read_back(Export("trials", Choices()), "parquet")}
    assert name == hostile


def test_it_keeps_negative_numbers_as_numbers() -> None:
    fields = (Column("delta", ValueKind.NUMBER, "a difference"),)
    assert b"".join(csv_pieces(fields, [(-0.25,)])) == b"delta\r\n-0.25\r\n"


# --- streams --------------------------------------------------------------------------------------------------------


def test_it_reads_rows_while_it_writes_them() -> None:
    """A million rows are never in memory: after the first piece only a piece's worth was read."""
    fields, read = (Column("place", ValueKind.INTEGER, "its place"),), []

    def rows() -> Any:
        for place in range(1_000_000):
            read.append(place)
            yield (place,)

    for pieces in (csv_pieces(fields, rows()), json_pieces(fields, rows(), {})):
        read.clear()
        next(pieces), next(pieces)
        assert 0 < len(read) <= 1_000


def test_it_writes_parquet_in_row_groups(tmp_path: Path) -> None:
    fields = (Column("place", ValueKind.INTEGER, "its place"),)
    path = tmp_path / "places.parquet"
    with path.open("wb") as target:
        write_parquet(target, fields, ((place,) for place in range(25_000)), {})
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)] == [10_000, 10_000, 5_000]


def test_it_writes_whole_files_without_a_row() -> None:
    for what in EXPORTS:
        for form in FORMATS:
            assert read_back(Export(what, Choices()), form) == []


# --- addresses ------------------------------------------------------------------------------------------------------


def test_it_narrows_trials_by_the_parts_of_the_address() -> None:
    make_pair()
    export, problems = parse_export_request("trials", QueryDict("condition=no-skill&phase=replay&outcome=failed"))
    assert problems == []
    rows = read_back(export, "json")
    assert {(row["condition"], row["phase"], row["success"]) for row in rows} == {("no-skill", "replay", False)}


@pytest.mark.parametrize(
    ("what", "query", "says"),
    [
        ("trials", "outcome=broken", "outcome: 'broken' is unknown"),
        ("trials", "famly=E1-F1", "famly: no such choice"),
        ("trials", "replicate=one", "replicate: 'one' is unknown"),
        ("trials", "covered=NOPE", "covered: 'NOPE' is unknown"),
        ("aggregates", "phase=replay", "phase: narrows trials alone"),
        ("differences", "table=nope", "table: 'nope' is unknown"),
        ("trials", "family=a&family=b", "family: 2 values given"),
    ],
)
def test_it_exports_nothing_where_a_part_is_not_understood(client: Client, what: str, query: str, says: str) -> None:
    make_pair()
    response = client.get(f"/compare/export/{what}.csv?{query}")
    assert response.status_code == 400
    assert says in response.text
    assert "no-skill" not in response.text


@pytest.mark.parametrize("form", FORMATS)
def test_it_sends_files_by_their_name(client: Client, form: str) -> None:
    make_pair()
    response = client.get(f"/compare/export/trials.{form}?metric=ESR")
    assert response.headers["Content-Disposition"] == f'attachment; filename="skillglass-trials.{form}"'
    content = b"".join(response.streaming_content)
    assert len(content) > 1000
    assert response.headers["Content-Type"] == FORMATS[form]


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_the_command_writes_what_the_address_gives(tmp_path: Path, form: str) -> None:
    make_pair()
    target = tmp_path / f"trials.{form}"
    call_command("export", "trials", query="condition=no-skill", output=target)
    export, _ = parse_export_request("trials", QueryDict("condition=no-skill"))
    rows = read_back(export, form)
    assert rows
    assert len(rows) == Trial.objects.filter(episode__run__condition="no-skill").count()
    if form == "csv":  # the others say when they were made
        assert target.read_bytes() == written(export, form)
    assert list(tmp_path.iterdir()) == [target]


def test_the_command_leaves_nothing_behind_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_pair()
    target = tmp_path / "trials.csv"
    target.write_text("the old one")

    def breaks(self: Export) -> Any:
        yield tuple(None for _ in self.fields)
        raise OSError("the disk is full")

    monkeypatch.setattr(Export, "rows", breaks)
    with pytest.raises(OSError, match="the disk is full"):
        call_command("export", "trials", output=target)
    assert target.read_text() == "the old one"
    assert list(tmp_path.iterdir()) == [target]


def test_the_command_names_what_it_does_not_understand(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"--query: outcome: 'x' is unknown, expected one of passed, failed"):
        call_command("export", "trials", query="outcome=x", output=tmp_path / "a.csv")
    with pytest.raises(CommandError, match="there is no folder"):
        call_command("export", "trials", output=tmp_path / "none" / "a.csv")


# --- trials behind metrics ------------------------------------------------------------------------------------------


def test_the_trials_behind_a_metric_are_those_it_counts() -> None:
    """SQL and columns agree on every metric there is, on tainted episodes, open slots and reads too."""
    make_pair()
    make_learning_run(make_experiment(suite=make_suite(environments=2, families=1)), condition="no-skill")
    Trial.objects.filter(pk__in=list(Trial.objects.values_list("pk", flat=True)[::5])).update(skills_read=0)
    Trial.objects.filter(pk=Trial.objects.last().pk).update(finished_at=None, success=None, skills_read=None)
    Episode.objects.filter(pk=Trial.objects.first().episode_id).update(is_tainted=True)
    episode = make_unordered_episode()
    for ordinal, task in enumerate(make_family(suite=make_suite()).tasks.all()):
        make_trial(episode, task, phase="evaluation", success=ordinal % 2 == 0)
    untainted = Trial.objects.filter(episode__is_tainted=False)
    learned = untainted.filter(episode__run__condition="no-skill", phase="acquisition")[0]
    make_trial(learned.episode, learned.task, phase="deployment", success=True)  # tried while learning, and deployed
    comparison = comparison_of(Choices())
    assert len(comparison.groups.all) == 4
    for group in comparison.groups.all:
        choices = Choices(**group.narrowing)
        for key, metric in METRICS.items():
            rate = comparison.cell(group, metric).rate
            assert trials_behind(choices, Narrowing(covered=key)).count() == rate.planned, key
            if metric.is_share:
                counts = [trials_behind(choices, Narrowing(covered=key, outcome=name)).count() for name in OUTCOMES]
                assert counts == [rate.passed, rate.scored - rate.passed, rate.missing], key


@pytest.mark.parametrize("form", FORMATS)
def test_trials_have_a_column_for_each_attribute_of_their_tasks(form: str) -> None:
    make_pair()
    task = Trial.objects.first().task
    TaskGroup.objects.create(task=task, attribute="trap", value="shortcut")
    TaskGroup.objects.create(task=task, attribute="trap", value="generic")
    TaskGroup.objects.create(task=task, attribute="colour", value="red")
    rows = read_back(Export("trials", Choices()), form)
    assert list(rows[0])[-2:] == ["group_colour", "group_trap"]
    of_task = [row for row in rows if row["task"] == task.key]
    assert {(row["group_trap"], row["group_colour"]) for row in of_task} == {("shortcut; generic", "red")}
    assert {row["group_trap"] for row in rows if row["task"] != task.key} == {None}
