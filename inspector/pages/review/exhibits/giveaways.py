"""Words of an item's evidence that would give away what its queue hides: names of conditions, models,
runs and skills."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q

from benchapp.models import Attempt, Blob, Episode, Family, QueueItem, Run, SkillUse, SnapshotFile, Trial
from benchapp.review.blinding import Hidden
from inspector.pages.review.exhibits.masking import SKILL_PATHS, Mask, mask_of, skill_patterns
from runner.agents.shell_tools import TOOL_NAMES
from runner.protocols.conditions import condition_names

MAX_SKILLS = 2_000
MIN_PATH_PART = 8  # characters of a part of a source's path that are worth hiding

# What the agent was given besides its task begins with one of these lines and runs to the end of the prompt.
_SECTIONS = re.compile(r"^## (?:Skill library|Earlier trials of this family)[ \t]*$", re.MULTILINE)
_PARAGRAPHS = re.compile(r"(?:\A|\n)[ \t]*(?:\n[ \t]*)*\S.*?(?=\n[ \t]*\n|\Z)", re.DOTALL)
_SPEAKS_OF_SKILLS = re.compile(
    r"\bskills?\b|\bearlier (?:trials?|attempts?|trajector)|<system-reminder>", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Masks:
    """`names` is cut out of every text. `skills` finds calls that use a skill: they are hidden whole, with what came
    back. Both are empty where nothing is hidden."""

    names: Mask
    skills: Mask
    hidden: Hidden

    def is_harness_talk(self, text: str) -> bool:
        """Does a message that is not the agent's mention what it was given?"""
        return self.hidden.conditions and (_SPEAKS_OF_SKILLS.search(text) is not None or self.skills.hides(text))

    def memory_in(self, prompt: str) -> list[tuple[int, int]]:
        """Return the ranges of a prompt that may come from the condition: sections of ours, paragraphs that mention
        skills, and the white space at its end, whose amount depends on what came after it."""
        if not self.hidden.conditions:
            return []
        section = _SECTIONS.search(prompt)
        end = len((prompt[: section.start()] if section else prompt).rstrip())
        spans = [found.span() for found in _PARAGRAPHS.finditer(prompt, 0, end) if self.is_harness_talk(found.group())]
        return [
            *((start, min(stop, end)) for start, stop in spans),
            *([(end, len(prompt))] if end < len(prompt) else []),
        ]


NO_MASKS = Masks(Mask(), Mask(), Hidden())


def masks_of_trial(trial: Trial, attempt: Attempt | None, hidden: Hidden) -> Masks:
    """Read the masks of a trial: the same four queries for every trial that something is hidden of, else none."""
    if not hidden.facts:
        return NO_MASKS
    skills = _skills_of(trial) if hidden.conditions else []
    paths = [trial.episode.run.source_key, attempt.source_key if attempt else ""]
    names = _names(trial.episode.run, hidden, paths=paths, ids=[trial.public_id, trial.episode.public_id])
    if hidden.models and attempt is not None:  # what its own trajectories call their agent and model
        own = attempt.trajectories.values_list("model", "agent_name")
        names += [name for pair in own for name in pair if _tells(name)]
    unnamed = tell_apart(skills, trial)
    mask = mask_of(names=names, skills=unnamed, paths=hidden.conditions, models=hidden.models)
    uses = re.compile("|".join([SKILL_PATHS, *skill_patterns(skills)]), re.IGNORECASE) if hidden.conditions else None
    return Masks(mask, Mask(uses), hidden)


def masks_of_episode(episode: Episode, hidden: Hidden) -> Masks:
    """Read the masks of a decision or a library.
    Its skills are what is reviewed, so only conditions, models and runs are hidden."""
    if not hidden.facts:
        return NO_MASKS
    names = _names(episode.run, hidden, paths=[episode.run.source_key], ids=[episode.public_id])
    return Masks(mask_of(names=names, models=hidden.models), Mask(), hidden)


def _names(run: Run, hidden: Hidden, *, paths: Iterable[str], ids: Iterable[object]) -> list[str]:
    """Return the names of the run. Experiments and folders are hidden with either: people name them after both."""
    experiment = run.experiment
    names = [experiment.name, run.label, *map(str, (experiment.public_id, run.public_id, *ids))]
    names += [part for path in (experiment.source, *paths) for part in re.split(r"[/\\]", path)]
    names = [name for name in names if len(name) >= MIN_PATH_PART]
    if hidden.conditions:
        names += [*condition_names(), run.condition]
    if hidden.models:
        for model in (run.agent_model, run.author_model):
            names += [model, model.rpartition("/")[2]]
        names.append(run.harness)
    return [name for name in names if _tells(name)]


def _tells(name: str) -> bool:
    """Is it a name to hide? `shell` is a harness and a tool that several harnesses offer: its steps show it anyway."""
    return bool(name) and name != Run.UNKNOWN and name not in TOOL_NAMES


def _skills_of(trial: Trial) -> list[str]:
    """Return every skill that the trial's text could name: used or mounted there, in its episode's libraries at any
    time, and those that its suite's families give their names to. Three queries."""
    used = SkillUse.objects.filter(attempt__trial=trial).values_list("skill", flat=True).distinct()
    episode = trial.episode
    states = Q(snapshot=trial.snapshot_id) | Q(snapshot=episode.library_id)
    states |= Q(snapshot__in=episode.decisions.values("after")) | Q(snapshot__in=episode.decisions.values("before"))
    held = SnapshotFile.objects.filter(states).values_list("skill", flat=True).distinct().order_by("skill")
    families = Family.objects.filter(suite=trial.task.suite_id).values_list("slug", flat=True)
    return [*used.order_by("skill")[:MAX_SKILLS], *held[:MAX_SKILLS], *families[:MAX_SKILLS]]


def tell_apart(skills: Iterable[str], trial: Trial) -> list[str]:
    """Return the names that the task's own text does not contain: every condition reads that, so a tool it names
    gives nothing away."""
    blob = trial.task_revision.instruction_id if trial.task_revision else None
    text = Blob.objects.read_text(blob).lower() if blob else ""
    names = {skill: re.escape(skill.strip().lower()) for skill in skills if skill.strip()}
    return [skill for skill, name in names.items() if not re.search(rf"(?<![a-z0-9]){name}(?![a-z0-9])", text)]


def list_cues(item: QueueItem, hidden: Hidden) -> list[str]:
    """List what may still give it away, for the reviewer.
    It depends on the queue's unit and switches only, never on the item."""
    cues = []
    if item.trial_id:
        cues.append("the number of steps, the task and its role, and how it ended")
        if hidden.conditions:
            cues += [
                "how the agent describes its own instructions",
                "a hidden skill use at a step: the agent had a library",
            ]
        if hidden.models:
            cues.append("names and shapes of the tools, which depend on the harness, and the agent's style")
        cues.append("squares of a grid: task and outcome together can point to one. Do not search for it")
    else:
        cues.append("the family, and the text of the skills")
        if hidden.conditions:
            cues.append("whether the library already had skills: conditions start it differently")
            if item.decision_id:
                cues.append("which trials the author was shown: conditions differ in that too")
        if hidden.models:
            cues.append("the author's style")
    return cues
