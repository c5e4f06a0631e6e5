"""A record in an archive (`export_experiment`), read from its lines. Its digests are checked by an import, not here."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from skillglass.envelope import FORMAT, MANIFEST, MAX_LINE, SHARED, ArchiveError, Member, open_members
from skillglass.record_columns import DECISIONS, EXPERIMENTS, TRIALS
from skillglass.record_rows import JsonRow, RecordError, RecordRows

TABLE_OF = {"task_revision": "revision", "before": "snapshot", "after": "snapshot", "after_trial": "trial"}
GROUPS = "task group"
_SHARED = ("suite", "environment", "family", "task", "revision", "snapshot", "experiment", GROUPS)
READ = frozenset((*_SHARED, "run", "episode", "probe", "trial", "decision"))


@dataclass(frozen=True)
class ArchivedTables:
    """The lines of one run and those that runs share, by table; a reference is an index of a line in its table."""

    lines: dict[str, list[JsonRow]]

    def value(self, row: JsonRow, path: str) -> Any:
        """`path`: columns joined by `__`, as `episode__run__condition`. None if a reference or a value is."""
        *references, name = path.split("__")
        for each in references:
            place = row.get(each)
            if place is None:
                return None
            row = self.lines[TABLE_OF.get(each, each)][place]
        found = row.get(name)
        if isinstance(found, str):
            return found.replace("+00:00", "Z") if name.endswith("_at") else found or None
        return found


class ArchivedRecord:
    """One experiment. RecordError names the file, and what is wrong in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shared: dict[str, list[JsonRow]] = defaultdict(list)
        self._runs: list[ArchivedTables] = []
        try:
            self._read()
        except (ArchiveError, ValueError, TypeError, LookupError, RecursionError) as error:
            raise RecordError(f"{path}: {error}") from error

    def experiments(self) -> RecordRows:
        return RecordRows(self._shape(self._summarize()), EXPERIMENTS)

    def _summarize(self) -> Iterator[JsonRow]:
        shared, (row,) = ArchivedTables(self._shared), self._shared["experiment"]
        trials = [trial for run in self._runs for trial in run.lines["trial"]]
        runs = [run for each in self._runs for run in each.lines["run"]]
        found = {
            **{name: shared.value(row, name) for name in ("status", "started_at", "finished_at")},
            "experiment": row["public_id"],
            "experiment_name": row["name"],
            "suite": shared.value(row, "suite__key"),
            "conditions": sorted({each["condition"] for each in runs}),
            "agent_models": sorted({each["agent_model"] for each in runs}),
            "scripted": any(each["scripted"] for each in runs),
            "is_probe": any(each.lines["probe"] for each in self._runs),
            "runs": len(runs),
            "trials": len(trials),
            "trials_scored": sum(each["success"] is not None for each in trials),
            "trials_passed": sum(each["success"] is True for each in trials),
        }
        yield {name: found[name] for name in EXPERIMENTS}

    def trials(self, experiment: str = "") -> RecordRows:
        """One row per planned trial, in the columns of the served ones. `settled_at` is unknown in an archive."""
        self._expect(experiment)
        attributes = sorted({each["attribute"] for each in self._shared[GROUPS]})
        columns = {each.name: each.kind for each in TRIALS} | {f"group_{name}": "text" for name in attributes}
        groups = self._read_groups()
        rows = (
            {each.name: run.value(row, each.lookup) for each in TRIALS}
            | {f"group_{name}": "; ".join(groups[row["task"], name]) or None for name in attributes}
            for run in self._runs
            for row in run.lines["trial"]
        )
        return RecordRows(self._shape(rows), columns)

    def decisions(self, experiment: str = "") -> RecordRows:
        """One row per answer of an author, in the order of runs, episodes and numbers."""
        self._expect(experiment)
        elsewhere = {
            "decision": "public_id",
            "experiment": "episode__run__experiment__public_id",
            "run": "episode__run__public_id",
            "episode": "episode__public_id",
            "episode_key": "episode__key",
            **{name: f"episode__run__{name}" for name in ("condition", "agent_model", "author_model", "replicate")},
            "family": "family__key",
            "before_digest": "before__digest",
            "after_digest": "after__digest",
            "after_trial": "after_trial__public_id",
            "after_task": "after_trial__task__key",
            "after_success": "after_trial__success",
        }
        rows = (
            {name: run.value(row, elsewhere.get(name, name)) for name in DECISIONS}
            for run in self._runs
            for row in sorted(run.lines["decision"], key=lambda each: (each["episode"], each["number"]))
        )
        return RecordRows(self._shape(rows), DECISIONS)

    def metrics(self, experiment: str = "") -> NoReturn:
        """Not available: metrics are computed, and an archive only has what they are computed from."""
        raise RecordError(f"{self._path}: an archive has no metrics; expected the address of a record that imported it")

    differences = metrics

    def _expect(self, experiment: str) -> None:
        (row,) = self._shared["experiment"]
        if experiment not in ("", row["public_id"]):
            raise RecordError(
                f"{self._path}: expected experiment {row['public_id']}, its only one; found {experiment!r:.60}"
            )

    def _shape(self, rows: Iterator[JsonRow]) -> list[JsonRow]:
        try:
            return list(rows)
        except (TypeError, LookupError) as error:
            raise RecordError(
                f"{self._path}: a line lacks a column, or refers to none that is there: {error!r}"
            ) from error

    def _read(self) -> None:
        with open_members(self._path) as members:
            manifest = next(members, None)
            if manifest is None or manifest.name != MANIFEST:
                raise ArchiveError("", f"an archive that begins with {MANIFEST}", "it begins otherwise")
            if (found := json.loads(manifest.whole(MAX_LINE)).get("format")) != FORMAT:
                raise ArchiveError(MANIFEST, f"format {FORMAT}", f"found {found!r:.60}")
            for member in members:
                if member.name == SHARED:
                    _read_lines(member, self._shared)
                elif member.name.startswith("runs/"):
                    lines: dict[str, list[JsonRow]] = defaultdict(list, self._shared)
                    _read_lines(member, lines)
                    self._runs.append(ArchivedTables(lines))
        if len(self._shared["experiment"]) != 1:
            raise ArchiveError(SHARED, "one experiment", f"found {len(self._shared['experiment'])}")

    def _read_groups(self) -> dict[tuple[int, str], list[str]]:
        """(place of the task, attribute) -> its values."""
        found: dict[tuple[int, str], list[str]] = defaultdict(list)
        for each in self._shared[GROUPS]:
            found[each["task"], each["attribute"]].append(each["value"])
        return found


def _read_lines(member: Member, lines: dict[str, list[JsonRow]]) -> None:
    for number, line in enumerate(member.lines(MAX_LINE), start=1):
        match json.loads(line, parse_constant=lambda _: None):  # NaN is not a number in an export either
            case [str(table), dict(row)]:
                if table in READ:
                    lines[table].append(row)
            case _:
                raise ArchiveError(f"{member.name}, line {number}", "[table, {column: value}]", "something else")
