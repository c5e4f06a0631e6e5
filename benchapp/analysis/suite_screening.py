"""Cache a suite's screening below the var folder: reading all files of a release takes too long for a page."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path

from benchapp.stats.learning.computed_runs import facts_folder, write_kept
from runner.base.encoding import Undecodable, decode, encode
from runner.base.suite import Suite
from runner.base.text import plural
from runner.screening.screening import screen_suite, screening_key
from runner.screening.suite_findings import Screening, Weight


def take_screening(suite: Suite) -> Screening | None:
    """Return the cached screening; None if this state of the suite was not screened, or the cache cannot be read."""
    try:
        return decode(Screening, json.loads(_path(suite).read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError, Undecodable):
        return None


def screen_once(suite: Suite) -> Screening:
    """Return the cached screening, or make a new one that replaces those of other states of the suite."""
    found = take_screening(suite)
    if found is None:
        found = screen_suite(suite)
        text = json.dumps(encode(found)).encode()
        write_kept(_path(suite), f"{_name(suite)}-*", lambda part: part.write(text))
    return found


def summarise_screening(screening: Screening) -> str:
    """Summarise in one sentence."""
    leaks, looks = screening.count(Weight.LEAK), screening.count(Weight.LOOK)
    if not screening.findings:
        return "Nothing found."
    parts = [plural(leaks, "leak")] if leaks else []
    parts += [f"{plural(looks, 'place')} to look at"] if looks else []
    more = f"; {screening.more:,} more of the same kinds are left out" if screening.more else ""
    return f"{' and '.join(parts)}{more}."


def _name(suite: Suite) -> str:
    return f"suite-{blake2b(suite.key.encode(), digest_size=12).hexdigest()}-screening"


def _path(suite: Suite) -> Path:
    return facts_folder() / f"{_name(suite)}-{screening_key(suite)[:24]}.json"
