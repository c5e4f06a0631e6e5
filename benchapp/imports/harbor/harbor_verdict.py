"""What a verifier left in a Harbor trial: rewards, further reports, printed output."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from benchapp.imports.problems import render_found
from benchapp.imports.reading.documents import Document, decode, read_json
from benchapp.imports.reading.walking import Root
from runner.base.text import clean, cut
from runner.base.types import Verdict, choose_reward, is_success
from runner.verifying import reports
from runner.verifying.reports import MAX_REPORT_BYTES, REWARDS, SECTIONS, SIDE_REPORTS, SideReports

MAX_OUTPUT_BYTES = 32 * 1024 * 1024
MAX_OUTPUT_CHARS = 1024 * 1024  # kept, beginning and end
MAX_REWARD_BYTES = 64 * 1024
OUTPUT = "test-stdout.txt"
FILES = (OUTPUT, *REWARDS, *SIDE_REPORTS)


def read_verdict(
    root: Root,
    folder: Path,
    reported: Mapping[str, float | None] | None,
    *,
    place: Document,
    source: str = "harbor",
    seconds: float | None = None,
) -> Verdict | None:
    """Read the verdict from a verifier's folder. `reported`: the rewards of result.json, None if it has none.

    Success means a reward of 1 or more, even after an exception. Of several rewards, the one named "reward" counts;
    without it, success and reward are unknown. Return None if the verifier left nothing.
    """
    files = {name: path for name in FILES if root.is_file(path := folder / name)}
    on_disk = _rewards_on_disk(root, files)
    if reported is not None and on_disk and choose_reward(reported) != choose_reward(on_disk):
        differ = f"result.json says {dict(reported)}, its files {dict(on_disk)}"
        place.report("rewards", "the reward the verifier wrote", differ)
    rewards = reported if reported is not None else on_disk
    side = read_side_reports(root, files)
    output = ""
    if OUTPUT in files and (content := root.read_ends(files[OUTPUT], MAX_OUTPUT_BYTES)) is not None:
        output = cut(clean(decode(root, files[OUTPUT], content)), MAX_OUTPUT_CHARS)
    if not rewards and not side.checks and not output:
        return None
    reward = choose_reward(rewards or {})
    return Verdict(
        source=source,
        success=is_success(reward),
        reward=reward,
        outcome=side.outcome if SECTIONS.keys() & files.keys() else None,  # not measured by plain tests
        process=side.process,
        overall=side.overall,
        checks=tuple(side.checks),
        dimensions=tuple(side.dimensions),
        rewards=dict(rewards or {}),
        output=output,
        duration_seconds=seconds,
        notes=tuple(map(str, side.problems)),
    )


def read_rewards(document: Document) -> dict[str, float | None] | None:
    """Return an object's `rewards` by name, or None if it has none. Anything but a finite number is reported."""
    if not isinstance(document.raw.get("rewards"), Mapping):
        if document.raw.get("rewards") is not None:
            document.report("rewards", "an object of numbers", render_found(document.raw["rewards"]))
        return None
    rewards = document.object("rewards")
    return {str(name)[:200]: rewards.number(name) for name in rewards.raw}


def _rewards_on_disk(root: Root, files: Mapping[str, Path]) -> dict[str, float | None]:
    if path := files.get("reward.json"):
        value = read_json(root, path, MAX_REWARD_BYTES)
        if isinstance(value, Mapping):
            return read_rewards(Document(root, path, {"rewards": value})) or {}
        if value is not None:
            root.report(path, "whole file", "an object of numbers", render_found(value))
    if path := files.get("reward.txt"):
        content = root.read(path, MAX_REWARD_BYTES)
        if content is not None:
            text = decode(root, path, content).strip()
            try:
                reward = float(text)
            except ValueError:
                reward = math.nan
            if math.isfinite(reward):
                return {"reward": reward}
            root.report(path, "whole file", "one finite number", f"found {text[:80]!r}")
    return {}


def read_side_reports(root: Root, files: Mapping[str, Path]) -> SideReports:
    """Read the reports other than the reward, and add their problems to the import's report."""
    contents = {name: root.read(path, MAX_REPORT_BYTES) for name, path in files.items() if name in SIDE_REPORTS}
    read = reports.read_side_reports({name: content for name, content in contents.items() if content is not None})
    for problem in read.problems:
        root.report(files[problem.path], problem.place, problem.expected, problem.message)
    return read
