"""GEPA run folders (`run_dir` of gepa.optimize and optimize_anything).

A candidate is a text for each component: here a library with a skill for each. Candidates are a tree: an iteration
starts from any earlier one. GEPA accepts a proposal that beats its parent on a minibatch of the training set, then
scores it on the validation set. What gepa_state.bin alone has is lost: a pickle is a program, and is never opened.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TypeGuard

from benchapp.imports.problems import render_found
from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import Document, decode, read_json, read_optional
from benchapp.imports.reading.found_trials import FoundRow, dump_json, of_messages
from benchapp.imports.reading.skill_history import changed_texts
from benchapp.imports.reading.walking import Root, list_names, name_of, tail_of
from runner.base.encoding import is_finite
from runner.base.text import clean
from runner.base.types import AuthorMode, DecisionStatus, File, Files, JsonValue, Patch, Phase, Verdict, is_success

NAME = "gepa"
TITLE = "GEPA"
START = "old-skill"  # the condition of the seed
STATE = "gepa_state.bin"

CANDIDATES, LOG, TEXT_LOG = "candidates.json", "run_log.json", "run_log.txt"
MAX_LOG_BYTES = 64 * 1024 * 1024
MAX_ITERATIONS = 10_000
MAX_ITEM, MAX_ITEM_NAME = 10**9, 300  # the number of an item of a data set, or the characters of its name
PARENT, PROPOSAL = "subsample_scores", "new_subsample_scores"  # scores on a minibatch of the training set

# Anybody writes these lines: no repetition may begin inside another, or a long line takes quadratic time.
_NUMBER = r"-?\d{1,30}(?:\.\d{0,30})?(?:e[+-]?\d{1,3})?"
_ITEM = r"""(\b\d{1,9}|'(?:[^'\\\n]|\\.){1,300}'|"(?:[^"\\\n]|\\.){1,300}")"""  # as Python prints a number or a name
_LINE = re.compile(r"^Iteration (\d{1,9}): ", re.MULTILINE)
_DSPY = "dspy.teleprompt.gepa.gepa"
_PRINTED = re.compile(r"(?:\d{4}/\d\d/\d\d )?\d\d:\d\d:\d\d (?:INFO|WARNING|ERROR) ([\w.]{1,100}): ")
_BAR = re.compile(r"%\|.{0,200}\[\d\d:")  # of tqdm
_PROPOSED = re.compile(r"Proposed new text for (.{1,200}?): ", re.DOTALL)
_OWN = ("New subsample score", "Accepted candidate", "Reflective mutation", "All subsample scores", "Merge")
_SCORES = re.compile(r"Individual valset scores for new program: (\{.*\})")
_FRONT = re.compile(r"New valset pareto front scores: (\{.*\})")
_PROGRAMS = re.compile(r"Updated valset pareto front programs: (\{.*\})")
_BASE = re.compile(r"Base program full valset score: (" + _NUMBER + r") over (\d{1,9})")
_ACCEPTED = re.compile(rf"^Accepted candidate \(subsample score ({_NUMBER}) -> ({_NUMBER})\)", re.MULTILINE)
_INDEX = re.compile(r"New program candidate index: (\d{1,9})\b")
_BEST = re.compile(r"Best program as per aggregate score on valset: (\d{1,9})\b")
_PAIR = re.compile(_ITEM + r": (" + _NUMBER + r")(?=[,}])")
_SET = re.compile(_ITEM + r": \{([\d, ]+)\}")

Item = int | str


def claims(root: Root, folder: Path) -> bool:
    return root.is_file(folder / CANDIDATES) and any(root.is_file(folder / name) for name in (LOG, TEXT_LOG, STATE))


def find(root: Root, folder: Path) -> Iterator[sources.FoundExperiment]:
    if root.is_file(folder / STATE):
        root.report(folder / STATE, "", "a file that can be read without running it", "a pickle; it was not opened")
    run = GepaRun(root, folder)
    if not run.candidates:
        return
    start, evolved = run.list_trials()
    library = sources.LibrarySource(run.source(START), run.episode, NAME, root.label(folder), run.candidates[0])
    idents = tuple(trial.ids[0] for trial in evolved)
    label = root.label(folder)
    yield sources.FoundExperiment(
        sources.ExperimentSource.of_folder(root, folder, format=NAME, title=TITLE),
        trials=(*start, *evolved),
        libraries=(library,) if start else (),
        libraries_total=bool(start),
        histories=(
            sources.HistorySource(run.source(NAME), run.episode, NAME, label, idents, run.list_moments, run.written_at),
        ),
    )


@dataclass
class Iteration:
    """One proposal of an iteration with what the text log adds. `number`: of the iteration, from 1, as in the text
    log, and which of several proposals it is. `reason`: in GEPA's words."""

    row: Document
    number: str
    parent: int
    merged: str = ""  # the two candidates of a merge; `parent` is the better one
    accepted: int | None = None  # its candidate
    texts: dict[str, str] = field(default_factory=dict)  # proposed, by component
    validation: dict[Item, float] = field(default_factory=dict)
    reason: str = ""

    def scores(self, name: str) -> list[tuple[Item, float]]:
        """Return (item of the training set, score); empty where nothing was scored."""
        items, scores = self.row.raw.get("subsample_ids"), self.row.raw.get(name)
        if not isinstance(items, list) or not isinstance(scores, list):
            return []
        pairs = zip(items, scores, strict=False)
        return [(item, float(score)) for item, score in pairs if _is_item(item) and _is_number(score)]


class GepaRun:
    """What candidates.json, run_log.json and run_log.txt say together: texts that were rejected, and scores on
    validation, are in the text log only. `candidates`: libraries with a skill for each component, by their number; 0
    is the seed."""

    def __init__(self, root: Root, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.candidates = self._read_candidates()
        self.name = tail_of(folder, 2)
        self.skill = next(iter(self.candidates[0]), "all").partition("/")[0] if self.candidates else "all"
        self.episode = sources.EpisodeSource(self.skill, self.skill, family=self.skill)

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
        parts = _LINE.split(_take_printed(clean(decode(self.root, path, content))))
        if len(parts) == 1:
            missing = "none: texts rejected and scores on validation are unknown. "
            missing += "DSPy prints it: save what it prints under this name"
            self.root.report(path, "", "the text log", missing)
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
        found = [
            each
            for place, raw in enumerate(value[:MAX_ITERATIONS])
            for each in self._read_row(
                Document(self.root, path, raw if isinstance(raw, dict) else {}, f"[{place}]"), place
            )
        ]
        unscored = defaultdict[str, list[str]](list)
        for each in found:
            if each.row.raw.get("subsample_ids") and not each.scores(PARENT):
                unscored[each.reason or "no reason in the log"].append(str(each.number))
        for reason, numbers in unscored.items():
            message = f"none, so no trial, in {len(numbers)}: {list_names(numbers)}. {reason}"
            self.root.report(path, "iterations", "a score for each item of the minibatch", message[:300])
        return found

    def _read_row(self, row: Document, place: int) -> Iterator[Iteration]:
        """Yield the iteration's proposals: one, or with a sampling strategy several, each with its own parent and
        minibatch. The text log has which of several was accepted; without it those that improved, in their order."""
        index = row.count("i")
        number = (place if index is None else index) + 1
        proposals, text = list(_list_proposals(row)), self.log.get(number, "")
        blocks = dict[tuple[float, float], str]()
        parts = _ACCEPTED.split(text)
        for old, new, block in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            blocks.setdefault((round(float(old), 6), round(float(new), 6)), block)
        named = row.raw.get("new_program_indices")
        waiting = [each for each in named if isinstance(each, int)] if isinstance(named, list) else []
        texts = _PROPOSED.split(text)
        for order, raw in enumerate(proposals):
            proposal = Document(row.root, row.path, raw, row.place)
            parent = proposal.count("selected_program_candidate")
            if parent is None or parent >= len(self.candidates):
                expected = "the candidate that the iteration began with, or those that it merged"
                row.report("selected_program_candidate", expected, "none; the iteration is left out")
                continue
            found = Iteration(proposal, f"{number}.{order + 1}" if order else str(number), parent, _name_merged(raw))
            if len(proposals) == 1:
                yield self._read_iteration(found, text, texts, proposal.count("new_program_idx"))
                continue
            before, after = _sum(raw.get(PARENT)), _sum(raw.get(PROPOSAL))
            block = blocks.pop((before, after), "")
            accepted = int(_first(_INDEX, block)) if _INDEX.search(block) else None
            if not self.log and after > before and waiting:
                accepted = waiting.pop(0)
            own = texts[1 + 2 * order : 3 + 2 * order] if len(texts) == 1 + 2 * len(proposals) else []
            yield self._read_iteration(found, block, ["", *own], accepted)

    def _read_iteration(self, found: Iteration, text: str, names: list[str], accepted: int | None) -> Iteration:
        """`names`: the components of proposed texts, each with what follows it in the text log."""
        row, found.accepted = found.row, accepted
        if found.accepted is not None and found.accepted >= len(self.candidates):
            row.report("new_program_idx", f"a candidate of {CANDIDATES}", f"found {found.accepted}; taken as not kept")
            found.accepted = None
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
                row.report(name, "a finite score of each item, by its number or name", f"{lost} others; left out")
        return found

    @cached_property
    def seed_scores(self) -> dict[Item, float]:
        """Return the seed's scores on validation. The log gives their mean, single ones where the seed is on the
        first front that it lists; what is missing follows from the mean if it is one score, or if nothing is left for
        them."""
        if stated := self._read_stated():
            return stated
        base = _BASE.search(self.log.get(0, ""))
        listed = next((text for text in self.log.values() if _PROGRAMS.search(text)), "")
        front = _read_pairs(_FRONT, listed)
        holders = {_read_item(item): ids.split(", ") for item, ids in _SET.findall(_first(_PROGRAMS, listed))}
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

    def _read_stated(self) -> dict[Item, float]:
        """Return the scores that GEPA writes for agents (`write_agent_state`)."""
        raw = read_optional(self.root, self.folder / "iterations" / "seed" / "val_scores.json").raw
        return {int(item) if item.isdecimal() else item: score for item, score in raw.items() if _is_number(score)}

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

    @property
    def written_at(self) -> datetime:
        """Return when the candidates were last written: GEPA writes no times."""
        return datetime.fromtimestamp((self.folder / CANDIDATES).stat(follow_symlinks=False).st_mtime, UTC)

    def source(self, condition: str) -> sources.RunSource:
        return sources.RunSource(
            harness=NAME, author_model=sources.UNKNOWN if condition == NAME else "", condition=condition
        )

    def _ident(self, *parts: object) -> str:
        return f"{NAME}:{self.name}/{'/'.join(map(str, parts))}"

    def list_trials(self) -> tuple[list[FoundRow], list[FoundRow]]:
        """Return the seed's trials on validation, and all others."""
        start = [self._trial((0, "val", item), 0, item, score, START) for item, score in self.seed_scores.items()]
        found = []
        for each in self.iterations:
            # A merge is tried on items of validation: its parents have scores there.
            sides = [("proposal", PROPOSAL, each.accepted)]
            sides = sides if each.merged else [("parent", PARENT, each.parent), *sides]
            for side, name, candidate in sides:
                for place, (item, score) in enumerate(each.scores(name)):
                    ident, split = (each.number, side, place), "val" if each.merged else "train"
                    found.append(self._trial(ident, candidate, item, score, split=split))
            for item, score in each.validation.items() if each.accepted is not None else ():
                found.append(self._trial((each.number, "val", item), each.accepted, item, score))
        return start, found

    def _trial(
        self,
        ident: tuple[int | str, str, Item],
        candidate: int | None,
        item: Item,
        score: float,
        condition: str = NAME,
        split: str = "val",
    ) -> FoundRow:
        number, side, _ = ident
        task = f"{split}-{clean(str(item))}"
        is_result = side == "val" and (condition == START or candidate == self.best)
        phase = Phase.EVALUATION if is_result else Phase.ACQUISITION  # others' scores only served the search
        outputs = self.folder / "generated_best_outputs_valset" / f"task_{item}"
        is_kept = side == "val" and ".." not in outputs.parts and self.root.is_dir(outputs)
        kept = self.root.listing(outputs)[1] if is_kept else []
        answer = next((entry.path for entry in kept if entry.name.endswith(f"_prog_{candidate}.json")), None)

        def build() -> sources.TrialSource:
            return sources.TrialSource(
                run=self.source(condition),
                task=sources.TaskSource(
                    NAME, task, task, family=self.skill, ordinal=item if isinstance(item, int) else 0
                ),
                timing=sources.Timing(),
                verdict=Verdict(NAME, is_success(score) if self.is_binary else None, reward=score),
                config={"split": split, "candidate": candidate, "iteration": number},
                choices=() if answer is None else (_read_answer(self.root, answer),),
                episode=self.episode,
                phase=phase,
                is_phase_late=True,
            )

        row: list[JsonValue] = [*ident, candidate, item, score, self.is_binary, str(phase)]
        path = f"{self.root.label(self.folder)}, iteration {number}, {split} item {item}"
        files = () if answer is None else (answer,)
        return FoundRow(
            self.root, path, (self._ident(*ident),), (f"{number:0>6}", side, f"{item:0>6}"), build, row, files
        )

    def list_moments(self) -> Iterator[sources.Moment]:
        yield sources.SeedMoment(self.skill, self.candidates[0])
        tried = partial(sources.TrialMoment, of_candidate=True)
        for each in self.iterations:
            before = self.candidates[each.parent]
            after = {**before, **library_of(each.texts.items())}
            after = after if each.accepted is None else dict(self.candidates[each.accepted])
            tried_before = [] if each.merged else each.scores(PARENT)
            shown = tuple(self._ident(each.number, "parent", place) for place in range(len(tried_before)))
            scored = each.scores(PROPOSAL)
            yield from (tried(ident, before) for ident in shown)
            for place in range(len(scored)):
                yield tried(self._ident(each.number, "proposal", place), None if after == before else after)
            kept = DecisionStatus.APPLIED if each.accepted is not None else DecisionStatus.REJECTED
            changed = changed_texts(before, after)
            yield sources.DecisionMoment(
                family=self.skill,
                mode=AuthorMode.EVOLVE,
                status=kept if scored else DecisionStatus.NO_OP,
                after=after if each.accepted is not None else before,
                after_trial=shown[-1] if shown else None,
                operation_type="merge" if each.merged else "revise" if scored else "",
                summary=_summarise(each),
                patch=Patch(each.reason, "revise", changed) if changed else None,
                evidence=shown,
                before=before,
            )
            for item in each.validation if each.accepted is not None else ():
                yield tried(self._ident(each.number, "val", item), after)
        if self.best is not None:
            yield sources.FreezeMoment(kept=self.candidates[self.best])


def _take_printed(text: str) -> str:
    """Return GEPA's own lines of what DSPy printed, or the text itself. Progress bars and other loggers come between
    them."""
    parts = _PRINTED.split(text)
    own = [body for name, body in zip(parts[1::2], parts[2::2], strict=True) if name == _DSPY]
    lines = (line for body in own for line in body.splitlines() if not _BAR.search(line))
    return "\n".join(lines) if own else text


def library_of(texts: Iterable[tuple[str, str]]) -> dict[str, File]:
    """Return a library with a skill for each component."""
    named = ((re.sub(r"[^\w.-]+", "-", clean(name)).strip(".-")[:100] or "text", text) for name, text in texts)
    return {f"{name}/SKILL.md": File(text.encode()) for name, text in named}


def _read_pairs(pattern: re.Pattern[str], text: str) -> dict[Item, float]:
    pairs = ((_read_item(item), float(score)) for item, score in _PAIR.findall(_first(pattern, text)))
    return {item: score for item, score in pairs if is_finite(score)}


def _read_item(text: str) -> Item:
    """Return the number, or the name without its quotation marks. `text`: what _ITEM matched."""
    return int(text) if text.isdecimal() else re.sub(r"\\(.)", r"\1", text[1:-1])


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _is_item(value: JsonValue) -> TypeGuard[Item]:
    """Is it the number or the name of an item? Data loaders may give names."""
    if isinstance(value, str):
        return 0 < len(value) <= MAX_ITEM_NAME
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_ITEM


def _is_number(value: JsonValue) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and is_finite(value)


def _list_proposals(row: Document) -> Iterator[dict[str, JsonValue]]:
    """Yield what an iteration proposed, each as a row of its own: the tasks of a sampling strategy; a merge, whose
    parent is the better one of the two; else the row itself."""
    raw = dict(row.raw)
    tasks = [dict(task.raw) for task in row.objects("tasks")]
    entities = raw.get("merged_entities")
    if _name_merged(raw) and isinstance(entities, list):
        scores = [raw.get(f"id{number}_subsample_scores") for number in (1, 2)]
        better = 1 if _sum(scores[1]) > _sum(scores[0]) else 0
        found = {"selected_program_candidate": entities[better], PARENT: scores[better]}
        yield raw | found | {PROPOSAL: raw.get("new_program_subsample_scores")}
    elif len(tasks) > 1:
        yield from (
            raw | {PROPOSAL: None, **task, "selected_program_candidate": task.get("parent_idx")} for task in tasks
        )
    else:
        yield raw


def _sum(scores: JsonValue) -> float:
    found = (score for score in scores if _is_number(score)) if isinstance(scores, list) else ()
    return round(sum(found), 6)  # as far as the text log and the scores agree


def _name_merged(raw: Mapping[str, JsonValue]) -> str:
    """Return the two candidates that an iteration merged; empty if it merged none."""
    entities = raw.get("merged_entities")
    pair = entities[:2] if isinstance(entities, list) else []
    return " and ".join(str(each) for each in pair) if len(pair) == 2 and all(map(_is_item, pair)) else ""


def _summarise(each: Iteration) -> str:
    start = f"Merge of candidates {each.merged}" if each.merged else f"From candidate {each.parent}"
    old, new = (sum(score for _, score in each.scores(name)) for name in (PARENT, PROPOSAL))
    count = len(each.scores(PROPOSAL))
    if not count:
        return f"{start}. {each.reason or 'No proposal was scored.'}"
    gate = f"{start}. Minibatch of {count}: {old:g} -> {new:g}"
    if each.accepted is None:
        return f"{gate}, not better: rejected."
    scores = each.validation.values()
    mean = f" Validation: {sum(scores) / len(scores):.3g} on {len(scores)} items." if scores else ""
    return f"{gate}, accepted as candidate {each.accepted}.{mean}"


def _read_answer(root: Root, path: Path) -> sources.SourceChoice:
    """Read what a candidate answered, as a conversation of one message."""
    value = read_json(root, path)
    text = value.get("full_assistant_response") if isinstance(value, dict) else value
    content = text if isinstance(text, str) else dump_json(value).decode()
    return sources.SourceChoice((of_messages(name_of(path), [{"role": "assistant", "content": content}]),))
