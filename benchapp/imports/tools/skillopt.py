"""Runs of SkillOpt: an optimizer model edits one skill in steps, and a gate accepts or rejects each candidate.

An output folder is an experiment of two runs. `old-skill` is the given skill on the selection and test items;
`skillopt` is everything else: one episode with its history. Each row of a results.jsonl is a trial.
skills/skill_vNNNN.md is the skill after a step *and* after the slow update at the end of its epoch: a step's own text
is in its candidate_skill.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath

from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import Document, decode, read_json, read_lines, read_optional
from benchapp.imports.reading.found_trials import FoundRow, graded, of_messages, read_share
from benchapp.imports.reading.skill_history import SkillHistory
from benchapp.imports.reading.walking import Root, list_names, name_of
from runner.base.text import clean
from runner.base.types import DecisionStatus, JsonValue, Phase

NAME, TITLE, OLD = "skillopt", "SkillOpt", "old-skill"
EVALUATED, EVAL_SUMMARY = "with-skills", "eval_summary.json"  # of one skill, by skillopt-eval
MAX_TEXT_BYTES = 16 * 1024 * 1024
METRICS = ("hard", "soft", "em", "f1", "sub_em", "anls")  # the first two in every environment
ANSWERS = ("predicted_answer", "gold_answers", "ground_truth")
FILES = ("conversation.json", "target_system_prompt.txt", "target_user_prompt.txt")  # of one row
# The settings to keep. The rest of config.json stays out: it has endpoints, and API keys in clear.
SETTINGS = """env seed num_epochs steps_per_epoch train_size batch_size accumulation minibatch_size merge_batch_size
    edit_budget min_edit_budget lr_scheduler lr_control_mode skill_update_mode use_slow_update slow_update_samples
    slow_update_gate_with_selection use_meta_skill use_gate gate_metric gate_mixed_weight split_mode max_turns
    max_completion_tokens reasoning_effort optimizer_backend target_backend""".split()
KNOWN = """skills steps slow_update meta_skill config.json history.json runtime_state.json summary.json best_skill.md
    lr_history.jsonl selection_eval_baseline final_selection_eval test_eval_baseline test_eval
    test_eval_final eval_summary.json results.jsonl predictions""".split()
_OF_STEP = {"step", "step_in_epoch", "action", "rollout_hard"}
ACTIONS = {  # what a step or slow update did: the status of the decision, and words for it
    "accept_new_best": (DecisionStatus.APPLIED, "accepted as new best"),
    "accept": (DecisionStatus.APPLIED, "accepted"),
    "force_accept": (DecisionStatus.APPLIED, "accepted without a gate"),
    "inject_placeholder": (DecisionStatus.APPLIED, "an empty block for slow updates was added, without a gate"),
    "reject": (DecisionStatus.REJECTED, "rejected"),
    "skip_no_patches": (DecisionStatus.NO_OP, "skipped: no usable edits"),
    "skip_no_rewrite": (DecisionStatus.FAILED, "skipped: no usable rewrite"),
    "no_content": (DecisionStatus.FAILED, "no guidance was produced"),
}


def claims(root: Root, folder: Path) -> bool:
    """Has it the first version of a skill, a best one and steps, or at least the history of the steps? Or has it the
    results of one skill?"""
    if root.is_file(folder / "skills" / "skill_v0000.md"):
        return True
    if root.is_file(folder / "best_skill.md") and root.is_dir(folder / "steps"):
        return True
    if root.is_file(folder / EVAL_SUMMARY) and root.is_file(folder / "results.jsonl"):
        return {"skill", "hard"} <= read_optional(root, folder / EVAL_SUMMARY).raw.keys()
    value = read_json(root, folder / "history.json") if root.is_file(folder / "history.json") else None
    return isinstance(value, list) and any(isinstance(row, dict) and row.keys() >= _OF_STEP for row in value)


def find(root: Root, folder: Path) -> Iterator[sources.FoundExperiment]:
    run = OptimizedSkill(root, folder)
    trials = tuple(trial for stage in run.stages.values() for trial in stage.trials)
    run.stage(".").check(run.evaluated, {"hard": "hard", "soft": "soft"})
    if trials or run.records:
        yield sources.FoundExperiment(run.source, trials, histories=tuple(run.histories()))
    folders, files = root.listing(folder)
    if left := [name_of(path) for path in (*folders, *(file.path for file in files)) if path.name not in KNOWN]:
        root.report(folder, "", "what SkillOpt writes", f"{list_names(left)}: something else; left out")
    below = root.tree(folder, skip=frozenset({"predictions"}))
    rows = [file.name.removesuffix("/results.jsonl") for file in below if file.path.name == "results.jsonl"]
    if left := [name for name in rows if name not in {*run.stages, "results.jsonl"}]:
        root.report(folder, "", "results in the folders of SkillOpt", f"{list_names(left)}: another place; left out")


class OptimizedSkill:
    """One output folder."""

    def __init__(self, root: Root, folder: Path) -> None:
        self.root, self.folder, self.none = root, folder, Document(root, folder, {})
        self.config, self.summary = (read_optional(root, folder / f"{name}.json") for name in ("config", "summary"))
        self.evaluated = self.document(EVAL_SUMMARY)
        self.env = re.sub(r"[^A-Za-z0-9._-]+", "-", self.config.text("env", 60) or "").strip(".-") or "skill"
        rows = {step: row for row in self.listed("history.json") if (step := row.count("step"))}
        steps = sorted(rows.keys() | self.numbers("steps", "step_"))
        own = {step: self.document(f"{_step(step)}/step_record.json") for step in steps}
        self.records = {step: record or rows.get(step, record) for step, record in own.items()}
        self.epochs = sorted(self.numbers("slow_update", "epoch_") | self.numbers("meta_skill", "epoch_"))
        last = {record.count("epoch"): step for step, record in self.records.items()}
        self.last_steps = {epoch: last.get(epoch, 0) for epoch in self.epochs}  # 0: without any step, so at the end
        named = (self.config, *self.records.values())
        ends = (self.summary, *reversed(self.records.values()))
        self.best_step = next((step for each in ends if (step := each.count("best_step")) is not None), None)
        self.metric = next((name for each in named if (name := each.text("gate_metric", 20))), "hard")

    # --- files ---------------------------------------------------------------------------------------------------

    def document(self, name: str) -> Document:
        return read_optional(self.root, self.folder / name)

    def listed(self, name: str) -> Iterator[Document]:
        """Yield the objects of a file that is a list; none if it is missing."""
        value = read_json(self.root, self.folder / name) if self.root.is_file(self.folder / name) else None
        return Document(self.root, self.folder / name, {"list": value}).objects("list")

    def text(self, name: str) -> str | None:
        path = self.folder / name
        content = self.root.read(path, MAX_TEXT_BYTES) if self.root.is_file(path) else None
        return None if content is None else decode(self.root, path, content)

    def folders(self, name: str) -> dict[str, Path]:
        path = self.folder / name
        return {name_of(sub): sub for sub in self.root.listing(path)[0]} if self.root.is_dir(path) else {}

    def numbers(self, below: str, word: str) -> set[int]:
        return {int(name[len(word) :]) for name in self.folders(below) if re.fullmatch(rf"{word}[0-9]{{2,9}}", name)}

    @cached_property
    def source(self) -> sources.ExperimentSource:
        names = {f"epoch {epoch}": f"meta_skill/epoch_{epoch:02d}/meta_skill_result.json" for epoch in self.epochs}
        notes = {epoch: self.document(name).text("meta_skill_content") for epoch, name in names.items()}
        tokens = self.summary.object("token_summary")
        spec = {
            "format": NAME,
            "settings": {key: self.config.raw[key] for key in SETTINGS if key in self.config.raw},
            "tokens_by_stage": {stage: dict(tokens.object(stage).raw) for stage in tokens.raw} or sources.UNKNOWN,
            "optimizer_notes": {epoch: text for epoch, text in notes.items() if text},
            **({"evaluated": dict(self.evaluated.raw)} if self.evaluated else {}),
        }
        found = sources.ExperimentSource.of_folder(self.root, self.folder, format=NAME, title=TITLE)
        return replace(found, spec=spec, was_cut_short=not (self.summary or self.evaluated))

    def run(self, condition: str) -> sources.RunSource:
        model, author = (self.config.text(f"{role}_model", 200) or sources.UNKNOWN for role in ("target", "optimizer"))
        return sources.RunSource(NAME, "", model, "" if condition == OLD else author, condition)

    # --- trials --------------------------------------------------------------------------------------------------

    @cached_property
    def stages(self) -> dict[str, Stage]:
        """Return every set of trials by its folder, in the order they ran. What the gate scored only served the
        search; only the test of the best skill is the result."""
        places = [("selection_eval_baseline", Phase.ACQUISITION)]
        for step in (*self.records, 0):
            inner = ["rollout", *(f"{sub}/rollout" for sub in self.folders(_step(step)) if sub.startswith("batch_"))]
            places += [(f"{_step(step)}/{name}", Phase.ACQUISITION) for name in inner]
            places.append((f"{_step(step)}/selection_eval", Phase.ACQUISITION))
            for epoch in self.ended_by(step):
                below = (f"slow_update/{epoch}", f"meta_skill/{epoch}")
                places += [(f"{name}/rollout_{which}", Phase.REPLAY) for name in below for which in ("prev", "curr")]
                places.append((f"{below[0]}/selection_eval", Phase.ACQUISITION))
        places += [("final_selection_eval", Phase.ACQUISITION), ("test_eval_baseline", Phase.DEPLOYMENT)]
        places += [
            ("test_eval", Phase.DEPLOYMENT),
            ("test_eval_final", Phase.ACQUISITION),
        ]  # the last one of the last skill
        places += [(".", Phase.EVALUATION)] if self.evaluated else []
        found = [place for place in places if self.folders(f"{place[0]}/predictions") or self.has_rows(place[0])]
        return {name: Stage(self, number, name, phase) for number, (name, phase) in enumerate(found)}

    def ended_by(self, step: int) -> list[str]:
        return [f"epoch_{epoch:02d}" for epoch, last in self.last_steps.items() if last == step]

    def has_rows(self, name: str) -> bool:
        return self.root.is_file(self.folder / name / "results.jsonl")

    def stage(self, name: str) -> Stage:
        return self.stages.get(name) or Stage(self, 0, name, Phase.ACQUISITION)

    def messages(self, files: tuple[Path, ...]) -> list[Mapping[str, JsonValue]]:
        """Return the conversation as chat messages, after the prompts, which most environments keep apart from it."""
        found: list[Mapping[str, JsonValue]] = []
        for number, item in enumerate(self.listed(str(files[0].relative_to(self.folder)))):
            raw = item.raw
            if isinstance(raw.get("role"), str):
                found.append(raw)
            elif raw.get("type") == "tool_call":
                ident, function = f"call-{number}", dict[str, JsonValue](name="tool", arguments={"cmd": raw.get("cmd")})
                found.append({"role": "assistant", "tool_calls": [{"id": ident, "function": function}]})
                found.append({"role": "tool", "tool_call_id": ident, "content": raw.get("obs")})
            elif "model_response" in raw:  # a move in ALFWorld
                found.append({"role": "assistant", "content": raw["model_response"]})
                found.append({"role": "user", "content": raw.get("env_feedback")})
            elif raw.get("type") == "message":
                found.append({"role": "assistant", "content": raw.get("content")})
            else:
                item.report("", "a message, a tool call or a move", f"one with {list_names(sorted(raw))}; left out")
        prompts = [self.text(str(path.relative_to(self.folder))) for path in files[1:]]
        known = {text for message in found if isinstance(text := message.get("content"), str)}
        given = zip(("system", "user"), prompts, strict=True)
        before = [{"role": role, "content": text} for role, text in given if text and text not in known]
        return [*before, *found] if found else []

    # --- history -------------------------------------------------------------------------------------------------

    def histories(self) -> Iterator[sources.HistorySource]:
        for condition, read in ((OLD, self.given_skill), (NAME, self.evolution)):
            stages = [stage for stage in self.stages.values() if stage.condition == condition]
            trials = [trial.ids[0] for stage in stages for trial in stage.trials]
            if trials or (condition == NAME and self.records):
                path, at = self.root.label(self.folder), self.root.modified_at(self.folder / "config.json")
                yield sources.HistorySource(self.run(condition), self.episode, NAME, path, tuple(trials), read, at)

    @property
    def episode(self) -> sources.EpisodeSource:
        return sources.EpisodeSource(title=self.env, family=self.env)

    def given_skill(self) -> Iterator[sources.Moment]:
        history, text = SkillHistory(self.env, f"{self.env}/SKILL.md"), self.text("skills/skill_v0000.md")
        yield from history.seed(text)
        for name in ("selection_eval_baseline", "test_eval_baseline"):
            yield from history.tried(self.stage(name).trials, text)

    def evolution(self) -> Iterator[sources.Moment]:
        history = SkillHistory(self.env, f"{self.env}/SKILL.md")
        raw = {f"selection_{name}": self.summary.raw.get(f"baseline_selection_{name}") for name in ("hard", "soft")}
        self.score = self.gate_score("selection_eval_baseline", Document(self.root, self.summary.path, raw))
        yield from history.seed(self.text("skills/skill_v0000.md"))
        self.scored_at = {history.current: "the given skill"}  # the tool scores no text twice
        for step in (*self.records, 0):
            record, stored = self.records.get(step, self.none), f"skills/skill_v{step:04d}.md"
            own = [name for name in self.stages if name.startswith(f"{_step(step)}/")]
            rollouts = [name for name in own if name.endswith("/rollout")]
            for name in rollouts:
                yield from history.tried(self.stage(name).trials, history.current)
            if len(rollouts) == 1:
                self.stage(rollouts[0]).check(record, {"hard": "rollout_hard", "soft": "rollout_soft"})
            if step:
                shown = [ident for name in rollouts for ident in self.shown(name)]
                yield from self.decide(history, _step(step), record, stored, shown)
            for epoch in self.ended_by(step):
                yield from self.end_epoch(history, epoch, stored)
            if step and (text := self.text(stored)) is not None and text != history.current:
                yield from self.explain(history, record, stored, text)
        for name in ("final_selection_eval", "test_eval_final"):  # of the last skill, so before the best one is chosen
            yield from history.tried(self.stage(name).trials, history.current)
        best = self.text("best_skill.md")
        if best is not None and (self.has_rows("test_eval") or not self.source.was_cut_short):
            yield sources.FreezeMoment(kept=history.files(best))
        yield from history.tried(self.stage("test_eval").trials, best)
        for sub, key in {"_baseline": "baseline_test", "": "test", "_final": "final_test"}.items():
            self.stage(f"test_eval{sub}").check(self.summary, {"hard": f"{key}_hard", "soft": f"{key}_soft"})

    def end_epoch(self, history: SkillHistory, epoch: str, stored: str) -> Iterator[sources.Moment]:
        """Yield the comparison with the skill at the end of the epoch before, and the slow update."""
        before = [step for step, record in self.records.items() if record.count("epoch") == int(epoch[6:]) - 1]
        old, shown = self.text(f"skills/skill_v{before[-1]:04d}.md") if before else None, []
        record = self.document(f"slow_update/{epoch}/slow_result.json")
        for name, text in (("prev", old), ("curr", history.current)):
            for below in ("slow_update", "meta_skill"):
                stage = self.stage(f"{below}/{epoch}/rollout_{name}")
                stage.check(record, {"hard": f"{name}_hard"})
                yield from history.tried(stage.trials, text, of_candidate=True)
                shown += [trial.ids[0] for trial in stage.trials]
        if record:
            yield from self.decide(history, f"slow_update/{epoch}", record, stored, shown)

    def decide(
        self, history: SkillHistory, place: str, record: Document, stored: str, shown: list[str]
    ) -> Iterator[sources.Moment]:
        """Yield the trials of a candidate, then what was decided about it."""
        candidate, stage = self.text(f"{place}/candidate_skill.md"), self.stage(f"{place}/selection_eval")
        yield from history.tried(stage.trials, candidate, of_candidate=True)
        stage.check(record, {"hard": "selection_hard", "soft": "selection_soft"})
        action, edits = record.text("action", 100) or "", self.document(f"{place}/ranked_edits.json")
        if not record:
            words = "none: the run ended in this step; no decision"
            self.root.report(self.folder / place, "", "a step_record.json", words)
            return
        status, words = ACTIONS.get(action, (DecisionStatus.FAILED, f"unknown action {action!r}"))
        if action not in ACTIONS:
            record.report("action", f"one of {', '.join(ACTIONS)}", f"{words}; kept as failed")
        report = self.listed(f"{place}/edit_apply_report.json")
        applied = Counter(row.text("status", 100) or sources.UNKNOWN for row in report)
        others = ", ".join(f"{kind} {count}" for kind, count in applied.items() if not kind.startswith("applied"))
        if status is DecisionStatus.REJECTED and candidate is not None and candidate == history.current:
            status = DecisionStatus.FAILED if applied["error"] else DecisionStatus.NO_OP
        if status is DecisionStatus.APPLIED and candidate is None:
            is_best = record.count("step") == self.best_step
            candidate = self.text(stored) or (self.text("best_skill.md") if is_best else None)
        if status is DecisionStatus.APPLIED and candidate is None:
            status, words = DecisionStatus.FAILED, f"{words}, but its text is missing: left as before"
            self.root.report(self.folder / place, "", "the text of the accepted candidate", words)
        said = [
            record.text("reasoning") or edits.text("reasoning") or "",
            f"not all of {applied.total()} edits applied: {others}" if others else "",
            self.say_gate(place, record, candidate, action, words),
        ]
        ops = [op for edit in edits.objects("edits") if (op := edit.text("op", 20))]
        operation = "slow update" if place.startswith("slow") else ", ".join(dict.fromkeys(ops))
        error = words if status is DecisionStatus.FAILED else ""
        yield history.decide(status, candidate, operation, "\n".join(filter(None, said)), error=error, evidence=shown)

    def explain(self, history: SkillHistory, record: Document, stored: str, text: str) -> Iterator[sources.Moment]:
        """Yield a change without an edit: notes on lapses that no gate sees, or one without a known reason."""
        if notes := record.count("n_appendix_notes_added"):
            message = f"{notes} notes on lapses were added to the appendix, without a gate"
            yield history.decide(DecisionStatus.APPLIED, text, "appendix", message)
        else:
            message = "another one; kept as a change without an author"
            self.root.report(self.folder / stored, "", "the skill that the decisions made", message)
            yield from history.seed(text)

    def shown(self, rollout: str) -> list[str]:
        """Return the trials of the minibatches: of the failed ones, the others, or both, as there are files of them."""
        stage, patches = self.stage(rollout), (self.folder / rollout).parent / "patches"
        files = [entry.name for entry in self.root.listing(patches)[1]] if self.root.is_dir(patches) else []
        kinds = {kind for kind in ("fail", "succ") if any(f"minibatch_{kind}" in name for name in files)}
        pairs = zip(stage.trials, stage.scores, strict=True)
        return [trial.ids[0] for trial, scores in pairs if ("succ" if scores.get("hard") == 1 else "fail") in kinds]

    def gate_score(self, name: str, record: Document) -> float | None:
        """Return the score that the gate compares, by the rows. As recorded where there are none: a text scored
        before."""
        recorded = record.number("selection_hard"), record.number("selection_soft")
        means = (self.stage(name).mean("hard"), self.stage(name).mean("soft"))
        hard, soft = recorded if None in means else means
        if self.metric in ("hard", "soft"):
            return hard if self.metric == "hard" else soft
        weight, found = self.config.number("gate_mixed_weight"), record.number("candidate_gate_score")
        return found if hard is None or soft is None else hard + (soft - hard) * (0.5 if weight is None else weight)

    def say_gate(self, place: str, record: Document, candidate: str | None, action: str, words: str) -> str:
        name, before = f"{place}/selection_eval", "unknown" if self.score is None else f"{self.score:.4g}"
        if (after := self.gate_score(name, record)) is None:
            return words
        total, scored = len(self.stage(name).trials), self.scored_at.get(candidate, "an equal text")
        self.scored_at.setdefault(candidate, place)
        if action in ACTIONS and ACTIONS[action][0] is DecisionStatus.APPLIED:
            self.score = after
        is_known = candidate is not None and self.root.is_dir(self.folder / place)
        where = f" on {total} items" if total else f" as scored before for {scored}" if is_known else ""
        gate = "no gate" if action == "force_accept" else "gate"
        return f"{gate}: {self.metric} {before} -> {after:.4g}{where}, {words}"


class Stage:
    """The trials of one results.jsonl: one skill on one set of items."""

    def __init__(self, run: OptimizedSkill, number: int, name: str, phase: Phase) -> None:
        self.run, self.name, self.phase = run, name, phase
        self.condition = OLD if name.endswith("_baseline") else EVALUATED if name == "." else NAME
        self.trials: list[FoundRow] = []
        self.scores: list[dict[str, float]] = []
        path, folders, seen = run.folder / name / "results.jsonl", run.folders(f"{name}/predictions"), set[str]()
        for row in read_lines(run.root, path) if run.has_rows(name) else ():
            ident = clean(str(row.raw["id"]))[:300] if isinstance(row.raw.get("id"), str | int) else row.place
            if ident in seen:
                row.report("id", "an id of its own", f"{ident!r} again; kept as another trial")
                ident = f"{ident}, {row.place}"
            seen.add(ident)
            files = tuple(folders.get(ident, path.parent / "predictions") / part for part in FILES)
            scores = {metric: value for metric in METRICS if (value := read_share(row, metric)) is not None}
            ids, order = (f"{run.source.key}/{name}/{ident}",), (f"{number:06d}", f"{len(seen):08d}")
            build = partial(self.trial, row, ident, files, scores)
            self.trials.append(
                FoundRow(run.root, f"{run.root.label(path)}, {row.place}", ids, order, build, dict(row.raw), files)
            )
            self.scores.append(scores)
        silent = sum(not run.root.is_file(trial.files[0]) for trial in self.trials)
        if silent:
            message = f"{silent} of {len(seen)} rows have none, so no trajectory"
            run.root.report(path, "", "a conversation.json for each row", message)
        if left := [sub for sub in folders if sub not in seen]:
            run.root.report(path, "", "a row for each folder of predictions", f"{list_names(left)}: no row; left out")

    def trial(
        self, row: Document, ident: str, files: tuple[Path, ...], scores: dict[str, float]
    ) -> sources.TrialSource:
        reason, env, messages = row.text("fail_reason") or "", self.run.env, self.run.messages(files)
        title = row.text("question") or row.text("task_description") or row.text("instruction") or ident
        game = PurePosixPath(row.text("gamefile") or "").parent.parts[-2:]  # ALFWorld: env_003 is not one game
        answers = [f"{key}: {value}" for key in ANSWERS if (value := row.raw.get(key))]
        metrics = [(metric, scores[metric]) for metric in METRICS[2:] if metric in scores]
        checks = [(metric, value >= 1, f"{value:.4g} of 1") for metric, value in metrics]
        for case in row.objects("cases"):
            checks.append((f"case {case.raw.get('no')}", case.raw.get("ok") is True, case.text("reason") or ""))
        success, output = scores["hard"] == 1 if "hard" in scores else None, "\n".join(filter(None, [reason, *answers]))
        verdict = graded(scores, success=success, reward=scores.get("soft"), checks=checks, output=output)
        return sources.TrialSource(
            run=self.run.run(self.condition),
            task=sources.TaskSource(NAME, f"{env}/{'/'.join(game) or ident}", " ".join(title.split()), family=env),
            timing=sources.Timing(),
            verdict=verdict if scores else None,
            config={key: value for key, value in row.raw.items() if len(str(value)) <= 1_000},
            choices=(sources.SourceChoice((of_messages(FILES[0], messages),)),) if messages else (),
            episode=self.run.episode,
            phase=self.phase,
            exception=sources.ExceptionSource("agent failed", reason) if row.raw.get("agent_ok") is False else None,
        )

    def mean(self, metric: str) -> float | None:
        values = [scores[metric] for scores in self.scores if metric in scores]
        return sum(values) / len(values) if values else None

    def check(self, document: Document, keys: Mapping[str, str]) -> None:
        """Report a mean that the tool recorded if the rows have another. `keys`: the document's key of a metric."""
        for metric, key in keys.items():
            mean, recorded = self.mean(metric), document.number(key)
            if mean is not None and recorded is not None and abs(mean - recorded) > 0.001:
                document.report(key, f"{mean:.4g}, as in {len(self.trials)} rows", f"{recorded:.4g}; the rows count")


def _step(step: int) -> str:
    return f"steps/step_{step:04d}"
