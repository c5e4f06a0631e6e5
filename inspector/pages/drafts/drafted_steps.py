"""The steps of a draft as its page shows them: who did what, what changed,
and for each file the step that wrote it last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchapp.models import Draft, DraftStep
from benchapp.record.json_shape import JsonShape, Shaped
from inspector.pages.library.changes import FileChange, Version, Versions, compare_versions, read_versions
from inspector.web.responses import PageLink

KINDS = {
    DraftStep.Kind.GIVEN: "Started with files",
    DraftStep.Kind.EDIT: "Edited by hand",
    DraftStep.Kind.TRIAL: "Tried as a suite",
    DraftStep.Kind.ADMISSION: "Admitted",
}
FEW_PATHS = 3
FOLDERS = {"tasks": 2, "skills": 2}  # parts of a path that name the group it is in; of others the first


class DraftedStep(Shaped):
    """`changes`: files that differ between its two states. `title`: the role that answered, or what a person did.
    `is_verdict`: it is a critic's, whose words say more than the summary made of them. `places`: where its changes are:
    a few paths, else their groups. `by_status`: ("added", its files), then changed and removed ones, without empty
    lists."""

    json_shape = JsonShape(
        "number=row.number kind=row.kind status=row.status key=row.key? role=row.role? by model?",
        "scripted=row.scripted summary=row.summary accepts=row.accepts words=row.words? findings=row.findings",
        "error=row.error? input_tokens=row.input_tokens output_tokens=row.output_tokens cost_usd=row.cost_usd",
        "started_at=row.started_at finished_at=row.finished_at before=row.before.digest after=row.after.digest",
        ("files", lambda step: {word: [each.path for each in found] for word, found in step.by_status}),
        ("url", lambda step: PageLink("draft-step-json", step.row.draft.public_id, step.row.number)),
    )

    def __init__(self, row: DraftStep, changes: Sequence[FileChange]) -> None:
        self.row, self.changes, self.model, self.stand_ins = row, changes, row.model, row.stand_ins
        is_answer = row.kind == DraftStep.Kind.ANSWER
        role = row.role.replace("-", " ").capitalize() or "Answer"
        self.title = role if is_answer else KINDS[DraftStep.Kind(row.kind)]
        self.by = row.by.get_username() if row.by else None
        self.is_edit, self.has_call = row.kind == DraftStep.Kind.EDIT, row.request_id is not None
        self.is_verdict = row.accepts is not None and bool(row.words)
        self.places = [change.path for change in changes]
        if len(self.places) > FEW_PATHS:
            self.places = list(dict.fromkeys(_group_of(path) or path for path in self.places))
        words = {"A": "added", "M": "changed", "R": "renamed", "D": "removed"}
        found = [(word, [each for each in changes if each.status == status]) for status, word in words.items()]
        self.by_status = [each for each in found if each[1]]


class DraftedFile(Shaped):
    """A file of the head. `step`: the one that wrote it last. `name`: its path below its group."""

    json_shape = JsonShape("path digest=version.digest bytes=version.size step=step.row.number")

    def __init__(self, path: str, version: Version, step: DraftedStep) -> None:
        self.path, self.version, self.step = path, version, step
        self.name = path.removeprefix(f"{_group_of(path)}/")


def read_steps(draft: Draft) -> list[DraftedStep]:
    """Read the steps in order, in two queries, however many there are. No content is read."""
    rows = list(draft.steps.select_related("by", "before", "after", "draft"))
    snapshots = [each for row in rows for each in (row.before, row.after)]
    states = dict(zip((each.pk for each in snapshots), read_versions(*snapshots), strict=True))
    return [DraftedStep(row, _compare(states[row.before_id], states[row.after_id])) for row in rows]


def _compare(before: Versions, after: Versions) -> list[FileChange]:
    """Return the files that differ. Most stay as they are in every step, so only the others are sorted."""
    gone = {path: version for path, version in before.items() if after.get(path) != version}
    come = {path: version for path, version in after.items() if before.get(path) != version}
    return compare_versions(gone, come)


def order_by_effect(steps: Iterable[DraftedStep]) -> list[DraftedStep]:
    """Sort steps as they changed the files: an edit during a call has the later number but came first."""
    over = [step for step in steps if step.row.finished_at is not None]
    return sorted(over, key=lambda step: (step.row.finished_at, step.row.number))


def list_files(steps: Iterable[DraftedStep]) -> list[DraftedFile]:
    """List the files that the steps left, in reading order.
    A draft's first step is what it was given, so nothing is older."""
    found: dict[str, DraftedFile] = {}
    for step in order_by_effect(steps):
        for change in step.changes:
            if change.new is None:
                found.pop(change.path, None)
            else:
                found[change.path] = DraftedFile(change.path, change.new, step)
    order = compare_versions({}, {path: file.version for path, file in found.items()})
    return [found[change.path] for change in order]


def group_files(files: Sequence[DraftedFile]) -> Mapping[str, list[DraftedFile]]:
    """Group files by the folder that a reader thinks in: corpus, notes, each task, each skill; "" for the others."""
    grouped: dict[str, list[DraftedFile]] = {}
    for file in files:
        grouped.setdefault(_group_of(file.path), []).append(file)
    return dict(sorted(grouped.items()))


def _group_of(path: str) -> str:
    *folders, _ = path.split("/")
    return "/".join(folders[: FOLDERS.get(folders[0], 1)]) if folders else ""
