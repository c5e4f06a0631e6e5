"""A record behind the pages of an installation, read from its exports and JSON twins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote, urlencode

from skillglass.connection import Connection
from skillglass.record_columns import DECISIONS, EXPERIMENTS
from skillglass.record_rows import JsonRow, RecordError, RecordRows


class ServedRecord:
    """Sends `token`, or logs in like a person if `user` is given. Both stay in memory, and only go to this address."""

    def __init__(self, address: str, user: str = "", password: str = "", *, token: str = "") -> None:
        self._connection = Connection(address, user, password, token=token)

    def experiments(self, **query: object) -> RecordRows:
        """Newest first. `query`: as in the address of the first page, such as `q="demo"` or `probes=1`."""
        return RecordRows(map(_shape_experiment, self._read_pages("/index.json", query, "experiments")), EXPERIMENTS)

    def trials(self, experiment: str = "", **choices: object) -> RecordRows:
        """One row per planned trial. `choices`: as in the address of `/compare/`, such as `condition="no-skill"`."""
        return self._export("trials", experiment, choices)

    def metrics(self, experiment: str = "", **choices: object) -> RecordRows:
        """One row per group and metric, with k, n, the value and its interval."""
        return self._export("aggregates", experiment, choices)

    def differences(self, experiment: str = "", **choices: object) -> RecordRows:
        """One row per group with a baseline and metric: the deciding test, its interval, p and sentence."""
        return self._export("differences", experiment, choices)

    def decisions(self, experiment: str) -> RecordRows:
        """One row per answer of an author, in the order of runs, episodes and numbers."""
        return RecordRows(self._read_decisions(experiment), DECISIONS)

    def _read_decisions(self, experiment: str) -> Iterator[JsonRow]:
        for run in self._read_pages(f"/experiments/{quote(experiment, safe='')}.json", {}, "runs"):
            address = f"/runs/{run['id']}/library.json"
            first = self._read(address, {}, "episodes")
            for episode in first["episodes"]:
                if not episode["decisions"]:
                    continue
                is_open = first["episode"] == episode["id"]
                page = first if is_open else self._read(address, {"episode": episode["id"]}, "decisions")
                for each in page["decisions"]:
                    yield _shape_decision(experiment, run, episode, each)

    def _export(self, what: str, experiment: str, choices: dict[str, object]) -> RecordRows:
        chosen = {**choices, **({"experiment": experiment} if experiment else {})}
        found = self._read(f"/compare/export/{what}.json", chosen, "rows", "columns")
        return RecordRows(found["rows"], {each["name"]: each["type"] for each in found["columns"]})

    def _read_pages(self, path: str, query: dict[str, object], name: str) -> Iterator[JsonRow]:
        number, more = 1, True
        while more:
            found = self._read(path, {**query, "page": number}, name, "next")
            yield from found[name]
            number, more = number + 1, found["next"] is not None

    def _read(self, path: str, query: dict[str, object], *members: str) -> JsonRow:
        """Return an object with these members, which every version of Skillglass with that address has."""
        asked = f"{path}{'?' if query else ''}{urlencode(query, doseq=True)}"
        address = f"{self._connection.root}{asked}"
        _, content = self._connection.ask(asked)
        try:
            found = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise RecordError(f"{address}: expected JSON of Skillglass; {error}") from error
        if not isinstance(found, dict) or (set(members) - found.keys()):
            raise RecordError(f"{address}: expected JSON of Skillglass, an object with {', '.join(members)}")
        return found


def _shape_experiment(row: JsonRow) -> JsonRow:
    trials = row["trials"]
    taken = {
        name: row[name] for name in ("status", "suite", "scripted", "is_probe", "runs", "started_at", "finished_at")
    }
    counts = {"trials": trials["total"], "trials_scored": trials["scored"], "trials_passed": trials["passed"]}
    texts = {name: sorted(row[name]) for name in ("conditions", "agent_models")}
    found = {"experiment": row["id"], "experiment_name": row["name"], **taken, **counts, **texts}
    return {name: found[name] for name in EXPERIMENTS}


def _shape_decision(experiment: str, run: JsonRow, episode: JsonRow, row: JsonRow) -> JsonRow:
    after = row["after_trial"] or {}
    found = {
        **{name: run[name] for name in ("condition", "agent_model", "author_model", "replicate")},
        **{name: row[name] for name in DECISIONS if name in row},
        "decision": row["id"],
        "experiment": experiment,
        "run": run["id"],
        "episode": episode["id"],
        "episode_key": episode["key"],
        "after_trial": after.get("id"),
        "after_task": after.get("task"),
        "after_success": after.get("success"),
        "before_digest": row["before"],
        "after_digest": row["after"],
        "lines_added": row["lines"]["added"],
        "lines_removed": row["lines"]["removed"],
    }
    return {name: None if found[name] == "" else found[name] for name in DECISIONS}
