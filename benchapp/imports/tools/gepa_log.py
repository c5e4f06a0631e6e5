"""What GEPA writes about a run: candidates.json, run_log.json and run_log.txt, read together.

Texts that were rejected, and scores on validation, are in the text log only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeGuard

from benchapp.imports.problems import render_found
from benchapp.imports.reading.documents import Document, decode, is_finite, read_json
from benchapp.imports.reading.walking import Root
from runner.base.text import clean
from runner.base.types import File, Files, JsonValue

CANDIDATES, LOG, TEXT_LOG = "candidates.json", "run_log.json", "run_log.txt"
MAX_LOG_BYTES = 64 * 1024 * 1024
MAX_ITERATIONS = 10_000
MAX_ITEM = 10**9  # the number of an item of a data set
PARENT, PROPOSAL = "subsample_scores", "new_subsample_scores"  # scores on a minibatch of the training set

# Anybody writes these lines: no repetition may begin inside another, or a long line takes quadratic time.
_NUMBER = r"-?\d{1,30}(?:\.\d{0,30})?(?:e[+-]?\d{1,3})?"
_FLAT = r"[^{}\n]*"
_LINE = re.compile(r"^Iteration (\d{1,9}): ", re.MULTILINE)
_PROPOSED = re.compile(r"Proposed new text for (.{1,200}?): ", re.DOTALL)
_OWN = ("New subsample score", "Accepted candidate", "Reflective mutation", "All subsample scores", "Merge")
_SCORES = re.compile(r"Individual valset scores for new program: (\{" + _FLAT + r"\})")
_FRONT = re.compile(r"New valset pareto front scores: (\{" + _FLAT + r"\})")
_PROGRAMS = re.compile(
    r"Updated valset pareto front programs: (\{" + _FLAT + r"(?:\{" + _FLAT + r"\}" + _FLAT + r")*\})"
)
_BASE = re.compile(r"Base program full valset score: (" + _NUMBER + r") over (\d{1,9})")
_BEST = re.compile(r"Best program as per aggregate score on valset: (\d{1,9})\b")
_PAIR = re.compile(r"\b(\d{1,9}): (" + _NUMBER + r")(?=[,}])")
_SET = re.compile(r"\b(\d{1,9}): \{([\d, ]+)\}")


@dataclass
class Iteration:
    """One row of run_log.json with what the text log adds. `number`: from 1, as in the text log. `reason`: in GEPA's words."""

    row: Document
    number: int
    parent: int
    accepted: int | None = None  # its candidate
    texts: dict[str, str] = field(default_factory=dict)  # proposed, by component
    validation: dict[int, float] = field(default_factory=dict)
    reason: str = ""

    def scores(self, name: str) -> list[tuple[int, float]]:
        """Return (item of the training set, score); empty where nothing was scored."""
        items, scores = self.row.raw.get("subsample_ids"), self.row.raw.get(name)
        if not isinstance(items, list) or not isinstance(scores, list):
            return []
        pairs = zip(items, scores, strict=False)
        return [(item, float(score)) for item, score in pairs if _is_item(item) and _is_number(score)]


class GepaLog:
    """`candidates`: libraries with a skill for each component, by their number; 0 is the seed."""

    def __init__(self, root: Root, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.candidates = self._read_candidates()

    def _read_candidates(self) -> list[Files]:
        path = self.folder / CANDIDATES
        value = read_json(self.root, path)
        if not isinstance(value, list):
            if value is not None:
                self.root.report(path, "whole file", "a list of candidates", render_found(value))
            return []
        found: list[Files] = []
        for place, candidate in enumerate(value):
            texts = candidate if isinstance(candidate, dict) else {}
            files = library_of((name, text) for name, text in texts.items() if isinstance(text, str))
            if len(files) < max(1, len(texts)):
                self.root.report(path, f"[{place}]", "texts by component", render_found(candidate))
            found.append(files)
        return found

    @cached_property
    def log(self) -> dict[int, str]:
        """Return the text log of each iteration, by its number there: 0 is the seed's, 1 the first."""
        path = self.folder / TEXT_LOG
        content = (self.root.read(path, MAX_LOG_BYTES) if self.root.is_file(path) else None) or b""
        parts = _LINE.split(clean(decode(self.root, path, content)))
        if len(parts) == 1:
            self.root.report(path, "", "the text log", "none: texts rejected and scores on validation are unknown")
        found = defaultdict[int, list[str]](list)
        for number, text in zip(parts[1::2], parts[2::2], strict=True):
            found[int(number)].append(text)
        return {number: "".join(texts) for number, texts in sorted(found.items())}

    @cached_property
    def iterations(self) -> list[Iteration]:
        path = self.folder / LOG
        value = read_json(self.root, path) if self.root.is_file(path) else None
        if not isinstance(value, list):
            self.root.report(path, "", "a list of iterations", "none: the course of the run is unknown")
            return []
        if len(value) > MAX_ITERATIONS:
            self.root.report(path, "", f"at most {MAX_ITERATIONS:,} iterations", "more; the rest is left out")
        found = []
        for place, raw in enumerate(value[:MAX_ITERATIONS]):
            row = Document(self.root, path, raw if isinstance(raw, dict) else {}, f"[{place}]")
            parent, index = row.count("selected_program_candidate"), row.count("i")
            if parent is None or parent >= len(self.candidates):
                self.root.report(path, f"[{place}]", "an iteration with the candidate it began from", render_found(raw))
            else:
                found.append(self._read_iteration(Iteration(row, (place if index is None else index) + 1, parent)))
        return found

    def _read_iteration(self, found: Iteration) -> Iteration:
        row, text = found.row, self.log.get(found.number, "")
        found.accepted = row.count("new_program_idx")
        if found.accepted is not None and found.accepted >= len(self.candidates):
            row.report("new_program_idx", f"a candidate of {CANDIDATES}", f"found {found.accepted}; taken as not kept")
            found.accepted = None
        names = _PROPOSED.split(text)
        for name, proposed in zip(names[1::2], names[2::2], strict=True):
            lines = proposed.splitlines()  # what follows the text in the entry is GEPA's own
            end = next((place for place, line in enumerate(lines) if line.startswith(_OWN)), len(lines))
            found.texts[name] = "\n".join(lines[:end])
        found.reason = next((line for line in text.splitlines() if line.startswith(_OWN)), "")
        found.validation = _read_pairs(_SCORES, text)
        if found.accepted is not None and not found.validation and self.log:
            place, expected = f"Iteration {found.number}", f"the scores of candidate {found.accepted} on validation"
            self.root.report(self.folder / TEXT_LOG, place, expected, "none: unknown")
        for name in (PARENT, PROPOSAL):
            scored = row.raw.get(name)
            if isinstance(scored, list) and 0 < len(found.scores(name)) < len(scored):
                lost = len(scored) - len(found.scores(name))
                row.report(name, "a finite score of each item, by the item's number", f"{lost} others; left out")
        if (items := row.raw.get("subsample_ids")) and not found.scores(PARENT):
            row.report(
                "subsample_ids", "a score for each item", f"none for {items}: {found.reason or 'no trial'}"[:300]
            )
        return found

    @cached_property
    def seed_scores(self) -> dict[int, float]:
        """Return the seed's scores on validation. The log gives their mean, single ones where the seed is on the first front
        that it lists; what is missing follows from the mean if it is one score, or if nothing is left for them."""
        base = _BASE.search(self.log.get(0, ""))
        listed = next((text for text in self.log.values() if _PROGRAMS.search(text)), "")
        front = _read_pairs(_FRONT, listed)
        holders = {int(item): programs.split(", ") for item, programs in _SET.findall(_first(_PROGRAMS, listed))}
        known = {item: score for item, score in front.items() if "0" in holders.get(item, ())}
        total = int(base[2]) if base else len(known)
        missing = front.keys() - known.keys()
        if base and missing and len(front) == total:
            rest = round(float(base[1]) * total - sum(known.values()), 6)
            if len(missing) == 1 or (rest == 0 and min(front.values()) >= 0):
                known |= dict.fromkeys(missing, rest)
        if len(known) < total:
            place, expected = f"Iteration 0, {total} items", "the seed's score on each item of validation"
            self.root.report(self.folder / TEXT_LOG, place, expected, f"found {len(known)}; the others are unknown")
        return known

    @cached_property
    def best(self) -> int | None:
        """Return the candidate that was best on validation at the end; None if the log does not name one."""
        named = [int(_first(_BEST, text)) for text in self.log.values() if _BEST.search(text)]
        return named[-1] if named and named[-1] < len(self.candidates) else None

    @cached_property
    def is_binary(self) -> bool:
        """Are all scores 0 or 1, so that 1 is a pass?"""
        scores = {score for each in self.iterations for name in (PARENT, PROPOSAL) for _, score in each.scores(name)}
        scores.update(score for each in self.iterations for score in each.validation.values())
        return scores | set(self.seed_scores.values()) <= {0.0, 1.0}


def library_of(texts: Iterable[tuple[str, str]]) -> dict[str, File]:
    """Return a library with a skill for each component."""
    named = ((re.sub(r"[^\w.-]+", "-", clean(name)).strip(".-")[:100] or "text", text) for name, text in texts)
    return {f"{name}/SKILL.md": File(text.encode()) for name, text in named}


def _read_pairs(pattern: re.Pattern[str], text: str) -> dict[int, float]:
    pairs = ((int(item), float(score)) for item, score in _PAIR.findall(_first(pattern, text)))
    return {item: score for item, score in pairs if is_finite(score)}


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _is_item(value: JsonValue) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_ITEM


def _is_number(value: JsonValue) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and is_finite(value)
