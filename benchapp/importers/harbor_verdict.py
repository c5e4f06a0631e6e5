"""What Harbor's verifier left: rewards, CTRF checks, printed output."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from benchapp.importers.documents import Document, decode, read_json, read_object
from benchapp.importers.problems import found
from benchapp.importers.walking import Root
from runner.trajectories.text import clean, cut
from runner.types import Check, CheckGroup, CheckStatus, Verdict

MAX_OUTPUT_BYTES = 32 * 1024 * 1024
MAX_OUTPUT_CHARS = 1024 * 1024  # kept, beginning and end
MAX_REWARD_BYTES = 64 * 1024
MAX_CHECKS = 10_000
FILES = ("test-stdout.txt", "reward.txt", "reward.json", "ctrf.json")

_STATUS = {
    "passed": CheckStatus.PASSED,
    "failed": CheckStatus.FAILED,
    "skipped": CheckStatus.SKIPPED,
    "pending": CheckStatus.SKIPPED,
    "other": CheckStatus.ERROR,
}


def read_verdict(
    root: Root,
    folder: Path,
    told: Mapping[str, float] | None,
    *,
    place: Document,
    source: str = "harbor",
    seconds: float | None = None,
) -> Verdict | None:
    """The verdict of a verifier's folder. `told`: the rewards of result.json, None where it has none.

    Success follows the reward whatever exception there was: 1 or more. Of several rewards the one named "reward"
    counts; several without it leave success and reward unknown. None: there is nothing to tell.
    """
    files = {name: path for name in FILES if (path := folder / name).is_file() and not path.is_symlink()}
    on_disk = _rewards_on_disk(root, files)
    if told is not None and on_disk and _total(told) != _total(on_disk):
        place.report(
            "rewards", "the reward the verifier wrote", f"result.json says {dict(told)}, its files {dict(on_disk)}"
        )
    rewards = told if told is not None else on_disk
    checks = _checks(root, files["ctrf.json"]) if "ctrf.json" in files else ()
    output = _output(root, files["test-stdout.txt"]) if "test-stdout.txt" in files else ""
    if not rewards and not checks and not output:
        return None
    reward = _total(rewards or {})
    return Verdict(
        source=source,
        success=None if reward is None else reward >= 1.0,
        reward=reward,
        checks=checks,
        rewards=dict(rewards or {}),
        output=output,
        duration_seconds=seconds,
    )


def told_rewards(document: Document) -> dict[str, float] | None:
    """Finite rewards by name of an object with `rewards`; others are reported. None: there is no such object."""
    if not isinstance(document.raw.get("rewards"), Mapping):
        if document.raw.get("rewards") is not None:
            document.report("rewards", "an object of numbers", found(document.raw["rewards"]))
        return None
    rewards = document.object("rewards")
    values = {str(name)[:200]: rewards.number(name) for name in rewards.raw}
    return {name: value for name, value in values.items() if value is not None}


def _total(rewards: Mapping[str, float]) -> float | None:
    if "reward" in rewards:
        return rewards["reward"]
    return next(iter(rewards.values())) if len(rewards) == 1 else None


def _rewards_on_disk(root: Root, files: Mapping[str, Path]) -> dict[str, float]:
    if path := files.get("reward.json"):
        value = read_json(root, path, MAX_REWARD_BYTES)
        if isinstance(value, Mapping):
            return told_rewards(Document(root, path, {"rewards": value})) or {}
        if value is not None:
            root.report(path, "whole file", "an object of numbers", found(value))
    if path := files.get("reward.txt"):
        content = root.read(path, MAX_REWARD_BYTES)
        if content is not None:
            return _plain_reward(root, path, decode(root, path, content).strip())
    return {}


def _plain_reward(root: Root, path: Path, text: str) -> dict[str, float]:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        root.report(path, "whole file", "one finite number", f"found {text[:80]!r}")
        return {}
    return {"reward": value}


def _output(root: Root, path: Path) -> str:
    content = root.read(path, MAX_OUTPUT_BYTES)
    return "" if content is None else cut(clean(decode(root, path, content)), MAX_OUTPUT_CHARS)


def _checks(root: Root, path: Path) -> tuple[Check, ...]:
    """The tests of a CTRF report. Its times are seconds where Harbor's verifiers write them."""
    document = read_object(root, path)
    if document is None:
        return ()
    results = document.object("results")
    if "tests" not in results.raw:
        document.report("results.tests", "a list of tests", "there is none")
        return ()
    checks = [_check(test) for test in results.objects("tests")]
    if len(checks) > MAX_CHECKS:
        results.report("tests", f"at most {MAX_CHECKS:,} tests", f"found {len(checks):,}; the rest is left out")
    return tuple(checks[:MAX_CHECKS])


def _check(test: Document) -> Check:
    status = test.text("status", 40)
    if status not in _STATUS:
        test.report("status", f"one of {', '.join(_STATUS)}", found(test.raw.get("status")))
    message, trace = test.text("message", 100_000), test.text("trace", 100_000)
    return Check(
        group=CheckGroup.TEST,
        name=test.text("name", 500) or "unnamed test",
        status=_STATUS.get(status or "", CheckStatus.ERROR),
        message="\n\n".join(part for part in (message, trace) if part and part.strip()),
        duration_seconds=test.amount("duration"),
    )
