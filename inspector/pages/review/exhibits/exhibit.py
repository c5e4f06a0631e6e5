"""What the coding screen shows of an item: a trial, an author's decision or a library, without what its queue hides.

Nothing here names a row of the record: no public id, no run, no address but the item's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.shortcuts import get_object_or_404
from django.urls import reverse

from benchapp.models import QueueItem, Run, Task, User
from benchapp.review.blinding import Hidden, hidden_in
from inspector.pages.review.exhibits.exhibited_library import (
    DecisionExhibit,
    LibraryExhibit,
    exhibit_decision,
    exhibit_library,
)
from inspector.pages.review.exhibits.exhibited_trial import TrialExhibit, exhibit_trial
from inspector.pages.review.exhibits.giveaways import cues_of
from inspector.web.text.visible import visible


@dataclass(frozen=True, slots=True)
class Fact:
    word: str
    value: str


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One of `trial`, `decision` and `library` is there. `facts`: what is known about the item and not hidden.

    `address` leads to the page of the record that shows all of it; empty while anything is hidden.
    """

    unit: str
    hidden: Hidden
    title: str
    key: str
    facts: tuple[Fact, ...]
    cues: tuple[str, ...]
    address: str
    piece_address: str  # answers with pieces of texts that were folded
    trial: TrialExhibit | None = None
    decision: DecisionExhibit | None = None
    library: LibraryExhibit | None = None

    @property
    def piece_at(self) -> str:
        """Answers with pieces of the steps' texts."""
        return f"{self.piece_address}?trajectory={self.trial.index}" if self.trial else ""

    @property
    def hides(self) -> str:
        """What is hidden of the evidence, in words; empty where all of it is shown."""
        condition = "the condition and its skills" if self.unit == "trial" else "the condition"
        words = {"conditions": condition, "models": "the models"}
        return ", ".join(word for name, word in words.items() if getattr(self.hidden, name))


def exhibit_of(item: QueueItem, user: User, query: Mapping[str, str]) -> Exhibit:
    """The item for this person and this query string (step, first, trajectory, file). Nonsense falls back.

    The number of queries depends on the unit and on the queue's switches, never on what they hide.
    """
    hidden = hidden_in(item, user)
    cues = tuple(cues_of(item, hidden)) if hidden.facts else ()
    pieces = reverse("review-field", args=[item.public_id])
    if item.trial is not None:
        trial = item.trial
        facts = (*_task_facts(trial.task), *_facts(trial.episode.run, hidden, phase=trial.phase))
        address = "" if hidden.facts else trial.get_absolute_url()
        shown = exhibit_trial(item, trial, hidden, query)
        title, key = visible(trial.task.title), visible(trial.task.key)
        return Exhibit("trial", hidden, title, key, facts, cues, address, pieces, trial=shown)
    if item.decision is not None:
        decision = item.decision
        title = f"Decision about {visible(decision.family.name or decision.family.key)}"
        facts = (Fact("family", visible(decision.family.key)), *_facts(decision.episode.run, hidden))
        address = "" if hidden.facts else decision.get_absolute_url()
        made = exhibit_decision(decision, hidden, query)
        return Exhibit("decision", hidden, title, decision.family.key, facts, cues, address, pieces, decision=made)
    snapshot, episode = item.library
    library = reverse("library", args=[episode.run.public_id])
    address = "" if hidden.facts else f"{library}?episode={episode.public_id}&to={snapshot.digest}"
    files = exhibit_library(snapshot, episode, hidden, query)
    title, key, facts = f"Library of {visible(episode.title)}", visible(episode.key), (*_facts(episode.run, hidden),)
    return Exhibit("snapshot", hidden, title, key, facts, cues, address, pieces, library=files)


def load_item(public_id: UUID) -> QueueItem:
    """The item with its codebook and all that an exhibit reads of its unit, in one query; 404 where there is none."""
    rows = QueueItem.objects.select_related(
        "queue__version__codebook",
        "trial__task__family__environment",
        "trial__task_revision",
        "trial__snapshot",
        "trial__episode__run__experiment",
        "decision__family",
        "decision__before",
        "decision__after",
        "decision__call",
        "decision__episode__run__experiment",
        "decision__after_trial__task",
        "snapshot",
        "episode__run__experiment",
    )
    return get_object_or_404(rows, public_id=public_id)


def _task_facts(task: Task) -> list[Fact]:
    family = task.family
    environment = family.environment if family else None
    pairs = [
        ("environment", environment.name if environment else ""),
        ("family", family.name if family else ""),
        ("role", task.role),
    ]
    return [Fact(word, visible(value)) for word, value in pairs if value]


def _facts(run: Run, hidden: Hidden, *, phase: str = "") -> list[Fact]:
    """A replay tells that its condition replays, so the phase is hidden with the condition; a harness mostly works with one maker's
    models, so it is hidden with the model. Only some conditions have an author, so it is hidden with either."""
    pairs = [] if hidden.conditions else [("condition", run.condition), ("phase", phase)]
    if not hidden.models:
        author = "" if hidden.conditions else run.author_model
        pairs += [("model", run.agent_model), ("author model", author), ("harness", run.harness)]
    return [Fact(word, visible(value)) for word, value in pairs if value]
