"""What the client says of files that are no archive, or a wrong one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import skillglass
from skillglass.envelope import FORMAT, open_writer

EXPERIMENT = ["experiment", {"public_id": "one", "name": "One", "status": "done", "suite": None}]
RUN = ["run", {"public_id": "two", "experiment": 0, "condition": "no-skill", "agent_model": "m", "scripted": True}]
EPISODE = ["episode", {"public_id": "three", "run": 0, "key": "E1"}]
TRIAL = ["trial", {"public_id": "four", "episode": 0, "task": None, "success": None}]


def write(path: Path, *members: tuple[str, object]) -> Path:
    with path.open("wb") as file, open_writer(file, zipped=True) as writer:
        for name, content in members:
            lines = content if isinstance(content, list) else [content]
            writer.add_bytes(name, "".join(f"{json.dumps(line)}\n" for line in lines).encode())
    return path


def archive(path: Path, *lines: object, format: str = FORMAT) -> Path:
    manifest = ("manifest.json", {"format": format})
    return write(path, manifest, ("shared.jsonl", [EXPERIMENT]), ("runs/00001.jsonl", [*lines]))


def test_what_is_not_told_is_not_known(tmp_path: Path) -> None:
    """An older archive lacks columns, and a run that was imported into it lacks its task."""
    record = skillglass.open(archive(tmp_path / "a.tar.gz", RUN, EPISODE, TRIAL))
    (trial,) = record.trials()
    assert (trial["condition"], trial["episode_key"], trial["scripted"]) == ("no-skill", "E1", True)
    assert (trial["task"], trial["family"], trial["success"], trial["reward"]) == (None, None, None, None)
    (experiment,) = record.experiments()
    assert (experiment["trials"], experiment["trials_scored"], experiment["suite"]) == (1, 0, None)


def test_a_line_that_refers_to_nothing_is_told(tmp_path: Path) -> None:
    record = skillglass.open(archive(tmp_path / "a.tar.gz", RUN, EPISODE, ["trial", {"episode": 7}]))
    with pytest.raises(skillglass.RecordError, match="a.tar.gz: a line lacks a column, or refers to none"):
        record.trials()


def test_a_file_that_is_no_archive_is_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    for path, told in (
        (tmp_path / "none", "a file that can be read"),
        (tmp_path / "text", "a tar in zstd or gzip"),
        (write(tmp_path / "b", ("shared.jsonl", [EXPERIMENT])), "begins with manifest.json"),
        (write(tmp_path / "c", ("manifest.json", {"format": FORMAT})), "one experiment; found 0"),
        (archive(tmp_path / "d", format="other/1"), "format skillglass-archive/1; found 'other/1'"),
        (archive(tmp_path / "e", "no table"), "runs/00001.jsonl, line 1"),
    ):
        with pytest.raises(skillglass.RecordError, match=told) as error:
            skillglass.open(path)
        assert str(error.value).startswith(f"{path}: ")
    cut = tmp_path / "cut"
    cut.write_bytes(archive(tmp_path / "whole", RUN).read_bytes()[:-60])
    with pytest.raises(skillglass.RecordError, match="whole archive|does not unpack"):
        skillglass.open(cut)


def test_an_archive_says_where_its_metrics_are(tmp_path: Path) -> None:
    record = skillglass.open(archive(tmp_path / "a.tar.gz", RUN))
    for ask in (record.metrics, record.differences):
        with pytest.raises(skillglass.RecordError, match="expected the address of a record that imported it"):
            ask()
    with pytest.raises(skillglass.RecordError, match="expected experiment one, its only one; found 'two'"):
        record.trials("two")
