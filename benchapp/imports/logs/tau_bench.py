"""Results of tau-bench: a list of tries, each with its conversation. Agent and models are only in the file's name.

A try that ended in an error has a reward of 0 there: here it has no verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from benchapp.imports.reading.documents import Document, read_parts
from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    ExceptionSource,
    ExperimentSource,
    FoundExperiment,
    RunSource,
    SourceChoice,
    TaskSource,
    Timing,
    TrialSource,
)
from benchapp.imports.reading.found_trials import FoundRow, of_messages
from benchapp.imports.reading.walking import FolderEntry, Root, name_of, tail_of
from runner.base.text import clean
from runner.base.types import Check, CheckGroup, CheckStatus, Verdict, is_success

NAME, TITLE = "tau-bench", "tau-bench"
SUFFIXES = frozenset({".json"})
_HEAD_BYTES = 256 * 1024  # a try names its task's actions, then the policy
_MARKS = (b'"task_id"', b'"reward"', b'"info"', b'"traj"')
_NAMED = re.compile(r"(tool-calling|act|react|few-shot)-(.+)-[\d.]+_range_-?\d+--?\d+_user-(.+)-[a-z]+_\d+\.json")
_DOMAIN = re.compile(r"#\s*(\w{1,40}) agent policy", re.IGNORECASE)  # the first line of the policy


def claims_file(root: Root, entry: FolderEntry) -> bool:
    with root.open(entry.path) as stream:
        head = stream.read(_HEAD_BYTES)
    return head.lstrip().startswith(b"[") and all(mark in head for mark in _MARKS)


def find_files(root: Root, entries: Sequence[FolderEntry]) -> Iterator[FoundExperiment]:
    for entry in entries:
        trials = dict[str, FoundRow]()
        for index, (_, value) in enumerate(read_parts(root, entry.path)):
            if not isinstance(value, Mapping) or not isinstance(value.get("task_id"), int | str):
                root.report(entry.path, f"[{index}]", "a try with its task_id", f"found {value!r:.60}; left out")
                continue
            found = _find_trial(root, entry, Document(root, entry.path, value, f"[{index}]"))
            if found.ids[0] in trials:
                root.report(entry.path, f"[{index}]", "each trial of a task once", "a second one; left out")
            trials.setdefault(found.ids[0], found)
        source = ExperimentSource.of_folder(root, entry.path.parent, format=NAME, title=TITLE)
        yield FoundExperiment(source, trials=tuple(sorted(trials.values(), key=lambda found: found.order)))


def _find_trial(root: Root, entry: FolderEntry, row: Document) -> FoundRow:
    task, trial = str(row.raw["task_id"])[:200], row.count("trial") or 0
    build = partial(_build, row, name_of(entry.path), task)
    ident = f"{NAME}:{tail_of(entry.path, 2)}/{task}/{trial}"
    place, order = f"{root.label(entry.path)}, {row.place}", (name_of(entry.path), f"{task:>12}", f"{trial:06}")
    return FoundRow(root, place, (ident,), order, build, dict(row.raw))


def _build(row: Document, name: str, task: str) -> TrialSource:
    info, reward, named = row.object("info"), row.number("reward"), _NAMED.fullmatch(name)
    error = info.text("error", 100_000)
    messages = [dict(message.raw) for message in row.objects("traj")]
    policy = next((str(message.get("content")) for message in messages if message.get("role") == "system"), "")
    found = _DOMAIN.match(policy.lstrip())
    domain = found[1].lower() if found else UNKNOWN
    reached = is_success(reward)
    asked = info.object("task").text("instruction", 1_000) or ""
    compared = info.object("reward_info").object("info")
    met = {"actions": compared.raw.get("r_actions"), **compared.object("outputs").raw}
    checks = [
        Check(CheckGroup.TEST, clean(key)[:500], CheckStatus.PASSED if value else CheckStatus.FAILED)
        for key, value in met.items()
        if isinstance(value, bool | int | float)
    ]
    return TrialSource(
        run=RunSource(
            harness=named[1] if named else UNKNOWN,
            agent_model=named[2] if named else UNKNOWN,
            author_model="",
            variant=name.removesuffix(".json"),
            setup={"source": NAME, "file": name, "user_model": named[3] if named else None, "domain": domain},
        ),
        task=TaskSource(NAME, f"{domain}/{task}", f"{task}: {asked[:150]}" if asked else task, family=domain),
        timing=Timing(),
        verdict=None if reached is None or error else Verdict("environment", reached, reward, checks=tuple(checks)),
        config=dict(info.raw),
        choices=(SourceChoice((of_messages("traj", messages),)),) if messages else (),
        exception=ExceptionSource("error", error, info.text("traceback", 100_000) or "") if error else None,
    )
