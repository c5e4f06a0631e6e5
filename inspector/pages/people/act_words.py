"""Acts of people as sentences: "ada submitted 3 reviews in Failures of November". One query per kind of target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from uuid import UUID

from django.db.models import Model

from benchapp.models import (
    Codebook,
    CodebookVersion,
    Comparison,
    Draft,
    Episode,
    Experiment,
    Queue,
    QueueItem,
    Review,
    Run,
    Suite,
    TaskWorkflow,
    Trial,
)

VERBS = {
    "account.added": "added",
    "account.invited": "invited",
    "account.joined": "joined by single sign-on as",
    "account.level": "changed the level of",
    "account.linked": "linked single sign-on to",
    "account.off": "switched off",
    "account.on": "switched on",
    "account.password": "set a new password for",
    "account.password_link": "made a password link for",
    "account.uninvited": "withdrew the invitation of",
    "agreement.completed": "finished the reviews of",
    "agreement.kept": "measured the agreement of",
    "agreement.opened": "opened the disagreements of",
    "cancel": "cancelled",
    "code.added": "added a code to",
    "code.merged": "merged codes in",
    "code.moved": "moved a code in",
    "code.redefined": "redefined a code in",
    "code.renamed": "renamed a code in",
    "code.retired": "retired a code in",
    "code.split": "split a code in",
    "codebook.cloned": "copied",
    "codebook.discarded": "discarded a draft of",
    "codebook.drafted": "drafted a version of",
    "codebook.frozen": "froze",
    "codebook.started": "started",
    "comment.retracted": "took back",
    "comment.written": "wrote",
    "delete": "deleted",
    "draft.admitted": "admitted tasks of",
    "draft.edited": "edited",
    "draft.resumed": "continued",
    "draft.started": "started",
    "draft.stopped": "stopped",
    "draft.tried": "tried as a suite",
    "edit": "edited",
    "example.added": "added an example to",
    "example.removed": "removed an example from",
    "experiment.judged": "had a model judge",
    "fork": "forked",
    "item.resolved": "settled",
    "join": "joined",
    "labels.seen": "read the labels of others on",
    "launch": "launched",
    "pause": "paused",
    "probe": "probed",
    "publication.deleted": "removed",
    "published": "published",
    "queue.assigned": "assigned a reviewer to",
    "queue.carried": "carried over the labels of",
    "queue.closed": "closed",
    "queue.created": "made",
    "queue.examined": "ran the rules on",
    "queue.raised": "asked for more reviews in",
    "queue.withdrawn": "took a reviewer out of",
    "raise budget": "raised the budget of",
    "resume": "resumed",
    "retry": "tried again",
    "review.skipped": "skipped",
    "review.submitted": "submitted",
    "skip": "skipped",
    "split": "split",
    "suite.joined": "joined imported tasks with",
    "suite.loaded": "loaded",
    "suite.regrouped": "chose the families of",
    "suite.separated": "separated imported tasks from",
    "supersede": "imported again",
    "token.made": "issued",
    "token.revoked": "revoked",
    "workflow.handed_in": "drew",
    "workflow.screened": "screened",
    "workflow.settled": "settled",
    "workflows.imported": "imported workflows of",
}


@dataclass(frozen=True, slots=True)
class ActThing:
    """How to name a target."""

    noun: str
    of: str = ""  # the preposition before its parent's name ("run of X"); empty if it has a name of its own
    model: type[Model] | None = None
    name: str = ""  # lookup of the name
    parent: tuple[str, str] | None = None  # kind of that parent, and the lookup of it


THINGS = {
    "experiment": ActThing("experiment", "", Experiment, "name"),
    "draft": ActThing("draft", "", Draft, "name"),
    "suite": ActThing("suite", "", Suite, "name"),
    "run": ActThing("run", "of", Run, "experiment__name", ("experiment", "experiment")),
    "episode": ActThing("episode", "of", Episode, "run__experiment__name", ("experiment", "run__experiment")),
    "trial": ActThing(
        "trial", "of", Trial, "episode__run__experiment__name", ("experiment", "episode__run__experiment")
    ),
    "comparison": ActThing("comparison", "", Comparison, "name"),
    "codebook": ActThing("codebook", "", Codebook, "name"),
    "codebookversion": ActThing("version", "of", CodebookVersion, "codebook__name", ("codebook", "codebook")),
    "publication": ActThing("file"),
    "queue": ActThing("queue", "", Queue, "name"),
    "queueitem": ActThing("item", "of", QueueItem, "queue__name", ("queue", "queue")),
    "review": ActThing("review", "in", Review, "item__queue__name", ("queue", "item__queue")),
    "taskworkflow": ActThing("workflow", "of", TaskWorkflow, "task__title"),
    "comment": ActThing("comment", "on"),
    "user": ActThing("account"),
    "invitation": ActThing("invitation"),
    "apitoken": ActThing("token"),
    "judgecall": ActThing("judge’s answer"),
}


def say_verb(verb: str) -> str:
    """Return the act in words; an unknown verb as it is recorded, with spaces for dots."""
    return VERBS.get(verb, verb.replace(".", " "))


def say_act(verb: str, detail: Mapping[str, object]) -> str:
    """Return the verb of an act, with the reviewer by name if the details name one."""
    reviewer = detail.get("reviewer")
    return say_verb(verb).replace("a reviewer", str(reviewer)) if reviewer else say_verb(verb)


def name_kind(kind: str) -> str:
    return THINGS[kind].noun if kind in THINGS else kind


def say_thing(kind: str, *, is_named: bool, count: int = 1) -> str:
    """Return the target without its name: "the queue", "3 reviews in", "a run"."""
    thing = THINGS.get(kind) or ActThing(kind)
    if is_named and not thing.of:
        return f"the {thing.noun}"
    article = "an" if thing.noun[0] in "aeiou" else "a"
    named = f"{count} {thing.noun}s" if count > 1 else f"{article} {thing.noun}"
    return f"{named} {thing.of}" if is_named else named


def read_names(targets: Iterable[tuple[str, UUID | None]]) -> Mapping[tuple[str, UUID], tuple[str, UUID | None]]:
    """Return (kind, id) -> name and the parent's id, for those still in the record."""
    found: dict[tuple[str, UUID], tuple[str, UUID | None]] = {}
    known = sorted({(kind, each) for kind, each in targets if each and kind in THINGS}, key=str)
    for kind, group in groupby(known, key=lambda target: target[0]):
        thing = THINGS[kind]
        if thing.model is None:
            continue
        rows = thing.model._default_manager.filter(public_id__in=[each for _, each in group])
        parent = f"{thing.parent[1]}__public_id" if thing.parent else "public_id"
        for public_id, name, above in rows.values_list("public_id", thing.name, parent):
            found[kind, public_id] = str(name), above if thing.parent else None
    return found
