"""Nights of SkillOpt-Sleep: it replays tasks from past sessions and proposes edits of a skill, which a person may
adopt.

`.skillopt-sleep/staging/` of a project is an experiment of one run: a night is a round with one decision. The gate's
word and the person's are two facts: a proposal that the gate accepted is applied only if the live skill took it.
Every result in evidence.jsonl is a trial; version 0.2.0 has no such file, only the held-out tasks with the skill
before the night.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path, PurePosixPath

from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import Document, decode, read_lines, read_optional
from benchapp.imports.reading.found_trials import FoundRow, graded, read_share
from benchapp.imports.reading.skill_history import SkillHistory
from benchapp.imports.reading.walking import Root, list_names, name_of
from runner.base.types import DecisionStatus, Phase

NAME, TITLE, FOLDER, STATE = "skillopt-sleep", "SkillOpt-Sleep", ".skillopt-sleep", "state.json"
MAX_TEXT_BYTES = 16 * 1024 * 1024
PHASES = {"train": Phase.ACQUISITION, "train_post_skill": Phase.REPLAY}  # others are evaluations
BEFORE = ("baseline_val", "train")  # replays with the skill as it was


def claims(root: Root, folder: Path) -> bool:
    """Is it the folder of a project's nights, or the one in a home folder, with the state?"""
    return folder.name == FOLDER and (root.is_dir(folder / "staging") or root.is_file(folder / STATE))


def find(root: Root, folder: Path) -> Iterator[sources.FoundExperiment]:
    nights = SleptProject(root, folder)
    if nights.nights:
        trials = tuple(trial for night in nights.nights for trial in night.trials)
        yield sources.FoundExperiment(nights.source, trials, histories=(nights.history,))
        return
    near = folder.parent.parent
    if not _is_inside(root, near) or not any(root.is_dir(sub / FOLDER / "staging") for sub in root.listing(near)[0]):
        message = "none: the summaries of the nights alone are left out"
        root.report(folder, "", "staging/ with nights, here or in a project next to it", message)


class SleptProject:
    """The nights of one project."""

    def __init__(self, root: Root, folder: Path) -> None:
        self.root, self.folder, self.project = root, folder, folder.parent
        staged = root.listing(folder / "staging")[0] if root.is_dir(folder / "staging") else []
        self.source = sources.ExperimentSource.of_folder(root, self.project, format=NAME, title=TITLE)
        complete = [sub for sub in staged if root.is_file(sub / "report.json") or root.is_file(sub / "manifest.json")]
        self.nights = [Night(self, sub) for sub in complete]
        if left := [name_of(sub) for sub in staged if sub not in complete]:
            root.report(folder / "staging", "", "nights with a report", f"{list_names(left)}: without; left out")
        paths = [PurePosixPath(path) for night in self.nights if (path := night.manifest.text("live_skill_path"))]
        self.slug = (re.sub(r"[^A-Za-z0-9._-]+", "-", paths[-1].parent.name).strip(".-") if paths else "") or "skill"
        self.live = next((text for path in paths[-1:] if (text := self.read_live(path)) is not None), None)

    def text(self, path: Path) -> str | None:
        content = self.root.read(path, MAX_TEXT_BYTES) if self.root.is_file(path) else None
        return None if content is None else decode(self.root, path, content)

    def read_live(self, path: PurePosixPath) -> str | None:
        """Read the live skill, if it is in the given folder. `path` is that of the machine it was written on."""
        homes = [PurePosixPath(home) for night in self.nights if (home := night.report.text("project"))]
        inside = next((path.relative_to(home) for home in homes if path.is_relative_to(home)), None)
        if inside is None or ".." in inside.parts or not _is_inside(self.root, self.project):
            return None
        return self.text(self.project / inside)

    @cached_property
    def intents(self) -> dict[str, str]:
        """Return the requests behind the tasks, by their ids: as mined in a night, or from the state, where it is
        near."""
        homes = self.root.listing(self.project.parent)[0] if _is_inside(self.root, self.project.parent) else []
        paths = [self.folder / STATE, *(home / FOLDER / STATE for home in homes if home != self.project)]
        rows = [
            (task.text("task_id"), task.text("intent")) for night in self.nights for task in night.select("task_ready")
        ]
        for state in (read_optional(self.root, path) for path in paths):
            ours = {night.name for night in self.nights}
            if any(PurePosixPath(row.text("staging") or "").name in ours for row in state.objects("history")):
                rows += [(task.text("id"), task.text("intent")) for task in state.objects("task_archive")]
        return {ident: intent for ident, intent in rows if ident and intent}

    @cached_property
    def run(self) -> sources.RunSource:
        settings = [event.object("config") for night in self.nights for event in night.select("start")]
        named = [
            {each.text(key, 200) or each.text("model", 200) or sources.UNKNOWN for each in settings}
            for key in ("target_model", "optimizer_model")
        ]
        agent, author = (names.pop() if len(names) == 1 else sources.UNKNOWN for names in named)
        backends = sorted({name for night in self.nights if (name := night.diagnostics.text("backend", 100))})
        return sources.RunSource(NAME, "", agent, author, NAME, setup={"backends": backends})

    @property
    def episode(self) -> sources.EpisodeSource:
        return sources.EpisodeSource(title=self.slug, family=self.slug)

    @property
    def history(self) -> sources.HistorySource:
        trials = tuple(trial.ids[0] for night in self.nights for trial in night.trials)
        at = self.root.modified_at(self.nights[0].folder / "report.json")  # its times have no zone
        path = self.root.label(self.folder)
        return sources.HistorySource(self.run, self.episode, NAME, path, trials, self.moments, at)

    def moments(self) -> Iterator[sources.Moment]:
        history = SkillHistory(self.slug, f"{self.slug}/SKILL.md")
        texts = [self.live, *(text for night in self.nights for text in (night.backup, night.proposed))]
        by_hash = {hashlib.sha256(text.encode()).hexdigest(): text for text in texts if text is not None}
        for number, night in enumerate(self.nights):
            later = self.nights[number + 1 :]
            adopted = night.was_adopted(self.live, later)
            unchanged = self.live if not any(each.was_adopted(self.live, []) for each in self.nights[number:]) else None
            known = (night.backup, by_hash.get(night.pin), history.current, unchanged)
            before = next((text for text in known if text is not None), None)
            if before != history.current:  # the first one, or a person changed it
                yield from history.seed(before)
            taken = night.proposed or any(event.raw.get("accepted") is True for event in night.select("trial"))
            shown = []
            for trial, name in zip(night.trials, night.phases, strict=True):
                is_before = name in BEFORE or not (taken or name.startswith("gate_trial"))
                yield from history.tried([trial], before if is_before else night.proposed, of_candidate=not is_before)
                shown += [trial.ids[0]] if name.startswith("train") else []
            status, summary, error = night.decide(adopted, self.live is None)
            yield history.decide(status, night.proposed, night.operation, summary, error=error, evidence=shown)
            night.report_unread()
        if self.live is not None and self.live != history.current:
            yield from history.seed(self.live)


class Night:
    """One folder in staging/."""

    def __init__(self, of: SleptProject, folder: Path) -> None:
        self.of, self.root, self.folder, self.name = of, of.root, folder, name_of(folder)
        self.report, self.manifest, self.diagnostics = (
            read_optional(of.root, folder / f"{name}.json") for name in ("report", "manifest", "diagnostics")
        )
        self.proposed, self.backup = of.text(folder / "proposed_SKILL.md"), of.text(folder / "backup" / "SKILL.md")
        self.pin = self.manifest.object("legacy").object("skill").text("live_sha256", 64) or ""
        path = folder / "evidence.jsonl"
        self.events = list(read_lines(of.root, path)) if of.root.is_file(path) else []
        rows = [(event.text("phase", 100) or "unknown", event) for event in self.select("result")]
        rows = rows or [("baseline_val", row) for row in self.diagnostics.objects("holdout_detail")]
        self.phases = [phase for phase, _ in rows]
        both = [{name: read_share(row, name) for name in ("hard", "soft")} for _, row in rows]
        self.scores = [{name: value for name, value in pair.items() if value is not None} for pair in both]
        self.trials = [self._found(number, *row) for number, row in enumerate(rows)]
        self.edits = [(word, edit) for word in ("edits", "rejected_edits") for edit in self.report.objects(word)]
        self.operation = ", ".join(dict.fromkeys(op for _, edit in self.edits if (op := edit.text("op", 20))))

    def select(self, event: str) -> list[Document]:
        return [row for row in self.events if row.raw.get("event") == event]

    def _found(self, number: int, phase: str, row: Document) -> FoundRow:
        task = row.text("task_id", 200) or row.text("id", 200) or row.place
        ident = f"{self.of.source.key}/{self.name}/{phase}/{task}/{row.raw.get('seq', number)}"
        path, order = f"{self.root.label(row.path)}, {row.place}", (self.name, f"{number:08d}")
        build = partial(self._trial, row, phase, task, self.scores[number])
        return FoundRow(self.root, path, (ident,), order, build, dict(row.raw))

    def _trial(self, row: Document, phase: str, task: str, scores: dict[str, float]) -> sources.TrialSource:
        output = f"{row.text('why') or ''}\nthe answer began: {row.text('response_head') or ''}"
        success, title = scores["hard"] == 1 if "hard" in scores else None, self.of.intents.get(task, task)[:300]
        seconds = (row.amount("latency_ms") or 0) / 1000 or None  # 0: not measured
        return sources.TrialSource(
            run=self.of.run,
            task=sources.TaskSource(NAME, f"{name_of(self.of.project)}/{task}", title, family=self.of.slug),
            timing=sources.Timing(started_text=row.text("ts", 64) or "", duration_seconds=seconds),
            verdict=graded(scores, success=success, reward=scores.get("soft"), output=output) if scores else None,
            config=dict(row.raw),
            episode=self.of.episode,
            phase=PHASES.get(phase, Phase.EVALUATION),
        )

    def was_adopted(self, live: str | None, later: list[Night]) -> bool:
        """Did a person adopt its proposal? By what adopting leaves, or by the skill that came after it."""
        if self.proposed is None:
            return False
        pin = hashlib.sha256(self.proposed.encode()).hexdigest()
        followed = any(night.pin == pin or night.backup == self.proposed for night in later)
        has_receipt = self.root.is_file(self.folder / "adopted_legacy.json")
        return self.backup is not None or has_receipt or followed or live == self.proposed

    def decide(self, adopted: bool, is_live_unknown: bool) -> tuple[DecisionStatus, str, str]:
        """Return the status, the summary, and the error of a night that failed."""
        accepted, action = self.report.raw.get("accepted") is True, self.report.text("gate_action", 100) or "unknown"
        error = "" if self.edits else self.diagnostics.text("call_error") or ""
        words = f"accepted by the gate ({action})" if accepted else f"not accepted by the gate ({action})"
        status = DecisionStatus.REJECTED if self.edits else DecisionStatus.NO_OP
        if error:
            status = DecisionStatus.FAILED
        elif adopted:
            status, words = DecisionStatus.APPLIED, f"{words}, adopted by a person"
        elif accepted:
            unknown = "; whether a person adopted it is unknown, its live file is not in the folder"
            status, words = DecisionStatus.NO_OP, words + (unknown if is_live_unknown else ", not adopted by a person")
        before, after = self.report.number("baseline_score"), self.report.number("candidate_score")
        self.check("baseline_val", "baseline_score", before)
        self.check("final_val", "candidate_score", after)
        total = self.phases.count("baseline_val")
        scores = ["unknown" if score is None else f"{score:.4g}" for score in (before, after)]
        lines = [
            f"night {self.report.count('night') or self.name}: {words}",
            f"gate: score {scores[0]} -> {scores[1]} on {total} held-out tasks",
            self.report.text("no_edits_reason") or "",
        ]
        for word, edit in self.edits:
            target, op, content, why = (edit.text(key, 2_000) or "" for key in ("target", "op", "content", "rationale"))
            lines.append(f"{'rejected: ' if word == 'rejected_edits' else ''}{target} {op}: {content} ({why})")
        return status, "\n".join(filter(None, lines)), error

    def check(self, phase: str, key: str, recorded: float | None) -> None:
        """Report a score of the gate that the rows do not have. Its metric is in an event of the gate."""
        pairs = zip(self.phases, self.scores, strict=True)
        rows = [scores for name, scores in pairs if name == phase and len(scores) == 2]
        event = next(iter(self.select("baseline")), None)
        if not rows or recorded is None or event is None:
            return
        hard, soft = (sum(scores[name] for scores in rows) / len(rows) for name in ("hard", "soft"))
        weight = {"hard": 0.0, "soft": 1.0}.get(event.text("metric") or "", event.number("mixed_weight"))
        mean = hard + (soft - hard) * (0.5 if weight is None else weight)
        if abs(mean - recorded) > 0.001:
            self.report.report(key, f"{mean:.4g}, as in {len(rows)} results", f"{recorded:.4g}; the results count")

    def report_unread(self) -> None:
        """Report proposals that are not of the one skill."""
        files = [entry for entry in self.root.listing(self.folder)[1] if entry.name.startswith("proposed_")]
        if left := [entry.name for entry in files if entry.name != "proposed_SKILL.md" and entry.size]:
            message = f"{list_names(left)}: memory or other skills; left out"
            self.root.report(self.folder, "", "proposals for one skill", message)


def _is_inside(root: Root, path: Path) -> bool:
    return path.is_relative_to(root.base)
