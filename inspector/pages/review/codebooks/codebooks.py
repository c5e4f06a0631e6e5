"""What the pages of codebooks draw: codes with where they came from, differences as lines, acts as sentences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from django.db.models import Count
from django.urls import reverse

from benchapp.models import Activity, Code, CodebookVersion, CodeExample, CodeOrigin, Label, Review, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.codebooks.code_keys import keys_of
from benchapp.review.codebooks.examples import hidden_examples
from benchapp.review.codebooks.hierarchy import in_order
from benchapp.review.codebooks.skill_codes import judging_skills
from benchapp.review.codebooks.version_changes import Change, VersionDiff
from benchapp.review.review_access import answered_unseen, asked_elsewhere
from inspector.web.text.diff import FileDiff, diff_file

Detail = dict[str, Any]  # of an act in the log, as JSON
KIND_WORDS = {
    CodeOrigin.Kind.RENAMED: "renamed from",
    CodeOrigin.Kind.REDEFINED: "redefined from",
    CodeOrigin.Kind.MERGED: "merged from",
    CodeOrigin.Kind.SPLIT: "split from",
}
FIELD_TITLES = {"definition": "Definition", "include": "Label it when", "exclude": "Not when"}
CHANGE_TITLES = {
    "split": "Split",
    "merged": "Merged",
    "redefined": "Redefined",
    "renamed": "Renamed",
    "added": "Added",
    "retired": "Retired",
    "kept": "Kept",
}
CHANGE_SAYS = {
    "split": "Check every label again: only a reader knows which part it belongs to.",
    "merged": "Labels follow by themselves.",
    "redefined": "Check every label again: it was made under the old wording.",
    "renamed": "Labels follow by themselves.",
    "added": "No label yet.",
    "retired": "Check every label again: no code replaced this one.",
    "kept": "Labels follow by themselves.",
}

ORIGIN = JsonShape("kind", "before=before.name")


@dataclass(frozen=True, slots=True)
class ExampleView(Shaped):
    """An example and the address of what it shows; "" where that is not in this record."""

    example: CodeExample
    url: str
    place: str

    json_shape = JsonShape(
        *("id=example.public_id", "trial=example.trial", "decision=example.decision", "step=example.step"),
        *("field=example.field", "quote=example.quote", "note=example.note", "is_counter=example.is_counter"),
    )


@dataclass(frozen=True, slots=True)
class CodeRow(Shaped):
    """A code as the tree shows it. `labels` is None for a draft, which nothing can be labelled with."""

    code: Code
    parent: str | None  # name of the code above it
    depth: int
    origins: tuple[tuple[str, str], ...]  # (how, name in the version before), only what differs
    is_new: bool  # the version before had nothing it follows from
    labels: int | None
    examples: tuple[ExampleView, ...]
    examples_hidden: int
    key: str  # what one presses for it, "" where the signs ran out
    judges_skills: bool  # so nobody can judge it while a queue hides skills

    json_shape = JsonShape(
        *("id=code.public_id", "name=code.name", "parent", *(f"{text}=code.{text}" for text in FIELD_TITLES)),
        ("origins", lambda row: ORIGIN.read_all(row.code.origins.all())),
        *("labels", "examples", "examples_hidden", "keys=key", "judges_skills"),
    )

    @property
    def keys(self) -> list[str]:
        return list(self.key)


def code_rows(version: CodebookVersion, user: User, counted: Collection[int]) -> list[CodeRow]:
    """Every code in reading order, with its labels in these queues. The same number of queries however many there are."""
    codes = version.codes.prefetch_related(
        "origins__before", "examples__trial__task", "examples__decision__episode__run"
    )
    ordered = in_order(codes)
    hidden = hidden_examples(user, [example for code, _ in ordered for example in code.examples.all()])
    labels = label_counts(version, counted) if version.is_frozen else None
    names = {code.pk: code.name for code, _ in ordered}
    keys, judging = keys_of(version), judging_skills(codes)
    rows = []
    for code, depth in ordered:
        examples = list(code.examples.all())
        shown = tuple(_locate_example(example) for example in examples if example.pk not in hidden)
        origins = tuple(
            (KIND_WORDS[CodeOrigin.Kind(origin.kind)], origin.before.name)
            for origin in code.origins.all()
            if origin.kind in KIND_WORDS
        )
        is_new = version.previous_id is not None and not code.origins.all()
        total = None if labels is None else labels.get(code.pk, 0)
        parent = names.get(code.parent_id or 0)
        told = (code, parent, depth, origins, is_new, total, shown, len(examples) - len(shown))
        rows.append(CodeRow(*told, keys[code.pk], code.pk in judging))
    return rows


def counted_queues(version: CodebookVersion, user: User) -> set[int]:
    """Keys of the queues whose labels may be counted. None where somebody still answers unseen by others, for nobody: whoever
    watched the number grow could tell who said what. Nor one that another queue hides from this person."""
    queues = list(version.queues.exclude(pk__in=answered_unseen(version.queues.all())))
    return {queue.pk for queue in queues} - asked_elsewhere(queues, user)


def label_counts(version: CodebookVersion, queues: Collection[int]) -> dict[int, int]:
    """Labels of submitted reviews of these queues by the code's key."""
    labels = Label.objects.filter(code__version=version, mark__review__state=Review.State.SUBMITTED)
    labels = labels.filter(mark__review__item__queue__in=queues)
    return dict(labels.order_by().values_list("code").annotate(Count("pk")))


def _locate_example(example: CodeExample) -> ExampleView:
    if example.trial:
        step = f"?step={example.step}#step-{example.step}" if example.step else ""
        place = example.trial.task.key + (f", step {example.step}" if example.step else "")
        return ExampleView(example, reverse("trial", args=[example.trial.public_id]) + step, place)
    if example.decision:
        return ExampleView(example, example.decision.get_absolute_url(), f"decision {example.decision.number}")
    return ExampleView(example, "", "not in this record" + (f", step {example.step}" if example.step else ""))


# --- differences -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CodeDiff:
    """Two codes and their texts that differ: (number on the page, difference)."""

    before: Code
    after: Code
    diffs: tuple[tuple[int, FileDiff], ...]


@dataclass(frozen=True, slots=True)
class ChangeView(Shaped):
    change: Change
    comparisons: tuple[CodeDiff, ...]

    json_shape = JsonShape(
        "kind=change.kind",
        *(("before", lambda row: _list_names(row.change.before)), ("after", lambda row: _list_names(row.change.after))),
    )


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    kind: str
    title: str
    says: str
    changes: tuple[ChangeView, ...]


def change_groups(diff: VersionDiff) -> list[ChangeGroup]:
    groups = []
    numbers = count(1)
    for kind, title in CHANGE_TITLES.items():
        found = [change for change in diff.changes if change.kind == kind]
        if found:
            shown = tuple(ChangeView(change, tuple(_compare_codes(change, numbers))) for change in found)
            groups.append(ChangeGroup(kind, title, CHANGE_SAYS[kind], shown))
    return groups


def _list_names(codes: Iterable[Code]) -> list[str]:
    return [code.name for code in codes]


def _compare_codes(change: Change, numbers: Iterator[int]) -> Iterator[CodeDiff]:
    """Every old code beside every new one it became, where they say something different."""
    for before in change.before:
        for after in change.after:
            if diffs := _field_diffs(before, after):
                yield CodeDiff(before, after, tuple((next(numbers), each) for each in diffs))


def _field_diffs(before: Code, after: Code) -> list[FileDiff]:
    """One difference per text that says something else; the names stand above them."""
    return [
        diff_file(title, _as_lines(getattr(before, name)), _as_lines(getattr(after, name)))
        for name, title in FIELD_TITLES.items()
        if getattr(before, name) != getattr(after, name)
    ]


def _as_lines(text: str) -> bytes:
    return f"{text}\n".encode() if text else b""


# --- who did what ------------------------------------------------------------------------------------------------------


def describe_acts(acts: Iterable[Activity]) -> list[tuple[Activity, str]]:
    """Acts on a codebook as sentences without their actor: "renamed “a” to “b” in v2"."""
    return [(act, _sentence(act.verb, act.detail)) for act in acts]


def _sentence(verb: str, detail: Detail) -> str:
    say = SENTENCES.get(verb)
    found = say(detail) if say else verb
    if "version" not in detail or verb in WITH_VERSION:
        return found
    return f"{found} in v{detail['version']}"


SENTENCES: dict[str, Callable[[Detail], str]] = {
    "codebook.started": lambda detail: "began the codebook",
    "codebook.cloned": lambda detail: f"began the codebook with {detail.get('codes', 0)} codes of a {_source(detail)}",
    "codebook.drafted": lambda detail: f"began the draft of {_version(detail)}",
    "codebook.discarded": lambda detail: f"discarded the draft of {_version(detail)}",
    "codebook.frozen": lambda detail: f"froze {_version(detail)} with {detail.get('codes', 0)} codes",
    "code.added": lambda detail: f"added {_code(detail)}",
    "code.renamed": lambda detail: f"renamed {_code(detail)} to “{detail.get('to', '')}”",
    "code.redefined": lambda detail: f"changed the {', '.join(detail.get('texts', {}))} of {_code(detail)}",
    "code.moved": lambda detail: f"moved {_code(detail)} {_below(detail.get('parent', ''))}",
    "code.split": lambda detail: f"split {_code(detail)} into {_names(detail.get('into', []))}",
    "code.merged": lambda detail: f"merged {_names(detail.get('codes', []))} into “{detail.get('into', '')}”",
    "code.retired": lambda detail: f"retired {_code(detail)}",
    "example.added": lambda detail: f"added an example of {_code(detail)}",
    "example.removed": lambda detail: f"removed an example of {_code(detail)}",
}


WITH_VERSION = frozenset({"codebook.drafted", "codebook.discarded", "codebook.frozen"})


def _version(detail: Detail) -> str:
    return f"v{detail.get('version', '?')}"


def _code(detail: Detail) -> str:
    return f"“{detail.get('code', '')}”"


def _source(detail: Detail) -> str:
    """ "starter skillflow", "file", or "version of another codebook"."""
    source = str(detail.get("from", "file"))
    return source if source == "file" or source.startswith("starter ") else "version of another codebook"


def _below(parent: str) -> str:
    return f"below “{parent}”" if parent else "to another place"


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"“{name}”" for name in names)
