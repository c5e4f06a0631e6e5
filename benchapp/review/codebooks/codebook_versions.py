"""Codebooks and their versions: started, drafted, frozen. Changes to single codes of a draft are in `codes`.

A draft may change; a frozen version never does (`benchapp.models.reviews` refuses it). The next draft copies every
code of the newest frozen version together with its origin, so that labels can be carried over later.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from benchapp.models import Code, Codebook, CodebookVersion, CodeExample, CodeOrigin, Decision, Mark, Trial, User
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.codebooks.codebook_file import WORDING, CodebookText, CodeText, ExampleText, starters
from benchapp.review.codebooks.hierarchy import in_order
from runner.base.digests import digest_json

DIGEST_FORMAT = "codebook/1"
MAX_NAME = 200
MAX_NOTE = 4_000


class CodebookRefused(ValueError):
    """A codebook cannot be changed in this way; the message is a sentence for the person who tried."""


# --- beginning ------------------------------------------------------------------------------------------------------


def start(name: str, user: User | None, *, about: str = "") -> Codebook:
    """Create a codebook with an empty draft."""
    with transaction.atomic():
        codebook = _begin(name, user, about=about)
        note_activity(user, "codebook.started", codebook, detail={"name": codebook.name})
    return codebook


def clone_starter(key: str, user: User | None, *, name: str = "") -> Codebook:
    """Create a codebook with the starter's content as draft. CodebookRefused where there is no such starter."""
    if (starter := starters().get(key)) is None:
        raise CodebookRefused(f"There is no starter “{key}”; there are {', '.join(starters())}.")
    return start_from(starter.text, user, name=name, cloned_from=f"starter {key}")


def freeze_starter(key: str, user: User | None) -> CodebookVersion:
    """Freeze a copy of the starter, for people who code before they write causes of their own."""
    return freeze(clone_starter(key, user).versions.get(), user, note="Frozen with its first queue.")


def clone(version: CodebookVersion, user: User | None, *, name: str = "") -> Codebook:
    """Create a codebook that begins with the codes of this version, draft or frozen."""
    name = name or f"{version.codebook.name} (copy)"
    return start_from(text_of(version), user, name=name, cloned_from=str(version.public_id))


def start_from(text: CodebookText, user: User | None, *, name: str = "", cloned_from: str = "") -> Codebook:
    """Create a codebook with a draft of `text`; `name` replaces the one in the text."""
    about = "\n\n".join(part for part in (text.about, text.source and f"Source: {text.source}") if part)
    with transaction.atomic():
        codebook = _begin(name or text.name, user, about=about, cloned_from=cloned_from)
        unknown = _write_codes(codebook.versions.get(), text, user)
        detail = {"name": codebook.name, "from": cloned_from or "file", "codes": sum(1 for _ in text.flat())}
        note_activity(user, "codebook.cloned", codebook, detail={**detail, "anchors_unknown": unknown})
    return codebook


def _begin(name: str, user: User | None, *, about: str, cloned_from: str = "") -> Codebook:
    name = " ".join(name.replace("\x00", "").split())
    if not 1 <= len(name) <= MAX_NAME:
        raise CodebookRefused(f"A codebook needs a name of at most {MAX_NAME} characters.")
    if Codebook.objects.filter(name__iexact=name).exists():
        raise CodebookRefused(f"There is a codebook “{name}” already.")
    about = about.replace("\x00", "").strip()
    try:
        with transaction.atomic():
            codebook = Codebook.objects.create(name=name, about=about, created_by=user, cloned_from=cloned_from)
    except IntegrityError as error:  # somebody took the name at this very moment
        raise CodebookRefused(f"There is a codebook “{name}” already.") from error
    CodebookVersion.objects.create(codebook=codebook, number=1, created_by=user)
    return codebook


def _write_codes(version: CodebookVersion, text: CodebookText, user: User | None) -> int:
    """Write the codes. Return how many examples name a missing trial or decision; their words are kept."""
    made: dict[int, Code] = {}
    examples: list[tuple[Code, ExampleText]] = []
    for ordinal, (code, parent, _) in enumerate(text.flat()):
        made[id(code)] = Code.objects.create(
            version=version,
            parent=made[id(parent)] if parent else None,
            ordinal=ordinal,
            **{name: getattr(code, name) for name in WORDING},
        )
        examples += [(made[id(code)], example) for example in code.examples]
    trials = _keys(Trial.objects.all(), (example.trial for _, example in examples))
    decisions = _keys(Decision.objects.all(), (example.decision for _, example in examples))
    rows = [
        CodeExample(
            code=code,
            trial_id=trials.get(example.trial),
            decision_id=decisions.get(example.decision),
            note=example.note,
            is_counter=example.counter,
            added_by=user,
            **{name: getattr(example, name) for name in Mark.ANCHOR},
        )
        for code, example in examples
    ]
    CodeExample.objects.bulk_create(rows)
    asked = [example.trial or example.decision for _, example in examples]
    found = [row.trial_id or row.decision_id for row in rows]
    return sum(wanted is not None and got is None for wanted, got in zip(asked, found, strict=True))


def _keys(rows: QuerySet[Trial] | QuerySet[Decision], public_ids: Iterable[object]) -> dict[object, int]:
    wanted = {public_id for public_id in public_ids if public_id}
    return dict(rows.filter(public_id__in=wanted).values_list("public_id", "pk")) if wanted else {}


# --- drafts ---------------------------------------------------------------------------------------------------------


def draft_of(codebook: Codebook, user: User | None) -> CodebookVersion:
    """Return the current draft, else a new one with every code of the newest frozen version."""
    if draft := codebook.versions.drafts().first():
        return draft
    try:
        with transaction.atomic():
            return _begin_draft(codebook, user)
    except IntegrityError:  # somebody created one at this very moment
        return codebook.versions.drafts().get()


def _begin_draft(codebook: Codebook, user: User | None) -> CodebookVersion:
    last = codebook.versions.order_by("-number").first()
    number = last.number + 1 if last else 1
    draft = CodebookVersion.objects.create(codebook=codebook, number=number, previous=last, created_by=user)
    copies: dict[int, Code] = {}
    for ordinal, (old, _) in enumerate(in_order(last.codes.all()) if last else []):
        copies[old.pk] = Code.objects.create(
            version=draft,
            parent=copies.get(old.parent_id) if old.parent_id else None,
            ordinal=ordinal,
            **{name: getattr(old, name) for name in WORDING},
        )
        kept = ("trial_id", "decision_id", *Mark.ANCHOR, "note", "is_counter", "added_by_id")
        for example in old.examples.all():
            CodeExample.objects.create(code=copies[old.pk], **{name: getattr(example, name) for name in kept})
    CodeOrigin.objects.bulk_create(
        CodeOrigin(code=code, before_id=before, kind=CodeOrigin.Kind.KEPT) for before, code in copies.items()
    )
    note_activity(user, "codebook.drafted", codebook, detail={"version": number, "codes": len(copies)})
    return draft


def hold(draft: CodebookVersion) -> None:
    """Call it first in the transaction of every change: until it ends nobody else changes or freezes this draft."""
    if not CodebookVersion.objects.drafts().filter(pk=draft.pk).update(note=F("note")):
        raise CodebookRefused(
            f"Version {draft.number} of “{draft.codebook.name}” is no longer a draft: it was frozen or discarded."
        )


def discard(draft: CodebookVersion, user: User | None) -> None:
    """Revert everything done in the draft. Discarding the first draft removes the whole codebook."""
    codebook = draft.codebook
    with transaction.atomic():
        hold(draft)
        detail = {"version": draft.number, "codes": draft.codes.count()}
        draft.codes.update(parent=None)
        draft.codes.all().delete()
        CodebookVersion.objects.drafts().filter(pk=draft.pk).delete()
        note_activity(user, "codebook.discarded", codebook, detail={"name": codebook.name, **detail})
        if not codebook.versions.exists():
            codebook.delete()


def freeze(draft: CodebookVersion, user: User | None, note: str = "") -> CodebookVersion:
    """Freeze the draft: labels can then use it and it never changes. `note` says why this version was made."""
    note = note.replace("\x00", "").strip()
    if len(note) > MAX_NOTE:
        raise CodebookRefused(f"The note may have {MAX_NOTE:,} characters; this one has {len(note):,}.")
    with transaction.atomic():
        hold(draft)
        codes = draft.codes.count()
        if not codes:
            raise CodebookRefused("A version without a code cannot be frozen.")
        digest = digest_of(draft)
        if draft.previous and draft.previous.digest == digest:
            raise CodebookRefused(f"Nothing differs from version {draft.previous.number}.")
        CodebookVersion.objects.drafts().filter(pk=draft.pk).update(
            note=note, digest=digest, frozen_at=timezone.now(), frozen_by=user
        )
        detail = {"version": draft.number, "codes": codes, "digest": digest}
        note_activity(user, "codebook.frozen", draft.codebook, detail=detail, reason=note)
    draft.refresh_from_db()
    return draft


# --- what a version says --------------------------------------------------------------------------------------------


def digest_of(version: CodebookVersion) -> str:
    """Return the digest of the codes and their examples in canonical JSON. The codebook's name is not in it."""
    codes = [code.model_dump(mode="json") for code in text_of(version).codes]
    return digest_json([DIGEST_FORMAT, codes])


def text_of(version: CodebookVersion, *, without: frozenset[int] = frozenset()) -> CodebookText:
    """Return the version as a file's content. `without`: keys of examples to leave out."""
    rows = in_order(version.codes.prefetch_related("examples__trial", "examples__decision"))
    below: dict[int | None, list[Code]] = {}
    for code, _ in rows:
        below.setdefault(code.parent_id, []).append(code)
    codebook = version.codebook
    return CodebookText.model_construct(
        format="skillglass-codebook 1",
        name=codebook.name,
        about=codebook.about,
        source="",
        codes=tuple(_text_of(code, below, without) for code in below.get(None, [])),
    )


def _text_of(code: Code, below: dict[int | None, list[Code]], without: frozenset[int]) -> CodeText:
    examples = [example for example in code.examples.all() if example.pk not in without]
    return CodeText.model_construct(
        **{name: getattr(code, name) for name in WORDING},
        examples=tuple(map(_example_text, examples)),
        children=tuple(_text_of(child, below, without) for child in below.get(code.pk, [])),
    )


def _example_text(example: CodeExample) -> ExampleText:
    return ExampleText.model_construct(
        trial=example.trial.public_id if example.trial else None,
        decision=example.decision.public_id if example.decision else None,
        note=example.note,
        counter=example.is_counter,
        **{name: getattr(example, name) for name in Mark.ANCHOR},
    )
