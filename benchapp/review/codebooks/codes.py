"""Change the codes of a draft, and keep their origins true.

The origins of a code (`CodeOrigin`) are not a log of acts. After every act they record how the code in its current form
follows from the version before: renaming it and naming it back leaves it "kept". Only a split always stays one, because
nobody but a reader can say which part a label belongs to.

How a code changed between two versions of one codebook follows from the origins, chained over the versions between
them. A split anywhere on the way stays a split. A code that was redefined and then merged counts as redefined,
because its labels were made under another meaning. Otherwise the two ends count, so that a name changed and changed
back was kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from django.db import transaction

from benchapp.models import Code, CodebookVersion, CodeOrigin, User
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.codebooks.codebook_file import MAX_CODES, MAX_DEPTH, MAX_NAME, MAX_TEXT
from benchapp.review.codebooks.codebook_versions import CodebookRefused, hold
from benchapp.review.codebooks.hierarchy import above, in_order
from runner.base.digests import digest_json

TEXTS = ("definition", "include", "exclude")


@dataclass(frozen=True, slots=True)
class Wording:
    """A code's name and texts."""

    name: str
    definition: str = ""
    include: str = ""
    exclude: str = ""

    @classmethod
    def of(cls, code: Code) -> Wording:
        return cls(code.name, code.definition, code.include, code.exclude)

    def check_wording(self) -> Wording:
        """Return it without invisible characters. Raises CodebookRefused where it is too long or has no name."""
        texts = {name: getattr(self, name).replace("\x00", "").replace("\r\n", "\n").strip() for name in TEXTS}
        name = " ".join(self.name.replace("\x00", "").split())
        if not 1 <= len(name) <= MAX_NAME:
            raise CodebookRefused(f"A code needs a name of at most {MAX_NAME} characters.")
        for key, text in texts.items():
            if len(text) > MAX_TEXT:
                raise CodebookRefused(f"{name}: {key} may have {MAX_TEXT:,} characters; this has {len(text):,}.")
        return replace(self, name=name, **texts)

    @property
    def fingerprint(self) -> str:
        """Identify the wording, to see whether somebody changed the code since a form was drawn."""
        return digest_json([self.name, self.definition, self.include, self.exclude])[:16]


def add(draft: CodebookVersion, wording: Wording, user: User | None, *, parent: Code | None = None) -> Code:
    """Add a code that the version before did not have, last among those below `parent`."""
    wording = wording.check_wording()
    with transaction.atomic():
        hold(draft)
        _check_names(draft, [wording.name])
        if draft.codes.count() >= MAX_CODES:
            raise CodebookRefused(f"A version has at most {MAX_CODES} codes.")
        code = _write(Code(version=draft, ordinal=draft.codes.count()), wording)
        _place(code, parent, None)
        detail = {"code": code.name, "parent": parent.name if parent else ""}
        _note(draft, "code.added", user, **detail)
    return code


def reword(code: Code, wording: Wording, user: User | None, *, seen: str = "") -> Code:
    """Rename and redefine at once. `seen`: the fingerprint of what the person saw, if there was a form."""
    wording = wording.check_wording()
    with transaction.atomic():
        hold(code.version)
        code.refresh_from_db()
        before = Wording.of(code)
        if seen and seen != before.fingerprint:
            raise CodebookRefused(f"Somebody else changed “{before.name}”. Nothing was saved. Check it again.")
        if before == wording:
            return code
        _check_names(code.version, [wording.name], besides=[code])
        _write(code, wording)
        _settle(code)
        if wording.name != before.name:
            _note(code.version, "code.renamed", user, code=before.name, to=wording.name)
        changed = [text for text in TEXTS if getattr(before, text) != getattr(wording, text)]
        if changed:
            texts = {text: {"before": getattr(before, text), "now": getattr(wording, text)} for text in changed}
            _note(code.version, "code.redefined", user, code=wording.name, texts=texts)
    return code


def move(code: Code, user: User | None, *, parent: Code | None, before: Code | None = None) -> Code:
    """Move the code below `parent` (None: to the top), in front of its child `before`, else last."""
    with transaction.atomic():
        hold(code.version)
        code.refresh_from_db()
        _place(code, parent, before)
        _note(code.version, "code.moved", user, code=code.name, parent=parent.name if parent else "")
    return code


def split_code(code: Code, parts: Sequence[Wording], user: User | None) -> list[Code]:
    """Split the code. The first part takes its place, its examples and what is below it."""
    parts = [part.check_wording() for part in parts]
    if len(parts) < 2:
        raise CodebookRefused("A split needs at least two parts.")
    with transaction.atomic():
        hold(code.version)
        code.refresh_from_db()
        was = code.name
        _check_names(code.version, [part.name for part in parts], besides=[code])
        if code.version.codes.count() + len(parts) - 1 > MAX_CODES:
            raise CodebookRefused(f"A version has at most {MAX_CODES} codes.")
        code.origins.update(kind=CodeOrigin.Kind.SPLIT)
        made = [_write(code, parts[0])]
        for part in parts[1:]:
            # The key breaks ties of ordinals, so that the new ones come right behind.
            made.append(_write(Code(version=code.version, parent=code.parent, ordinal=code.ordinal), part))
        CodeOrigin.objects.bulk_create(
            CodeOrigin(code=new, before_id=origin.before_id, kind=CodeOrigin.Kind.SPLIT)
            for new in made[1:]
            for origin in code.origins.all()
        )
        _renumber(code.version)
        _note(code.version, "code.split", user, code=was, into=[part.name for part in parts])
    return made


def merge(codes: Sequence[Code], into: Wording, user: User | None) -> Code:
    """Merge several codes into one, in the place of the first, with all examples and everything below them."""
    into = into.check_wording()
    keys = list(dict.fromkeys(code.pk for code in codes))
    if len(keys) < 2:
        raise CodebookRefused("A merge needs at least two codes.")
    draft = codes[0].version
    with transaction.atomic():
        hold(draft)
        rows = {code.pk: code for code in draft.codes.all()}
        if not set(keys) <= set(rows):
            raise CodebookRefused("Only codes of one draft can be merged.")
        kept, gone = rows[keys[0]], [rows[key] for key in keys[1:]]
        names = [rows[key].name for key in keys]
        _check_names(draft, [into.name], besides=[kept, *gone])
        _gather_below(kept, gone, rows)
        _gather_origins(kept, gone)
        for code in gone:
            code.examples.update(code=kept)
            code.delete()
        _write(kept, into)
        _settle(kept)
        _renumber(draft)
        _note(draft, "code.merged", user, codes=names, into=into.name)
    return kept


def retire(code: Code, user: User | None, *, reason: str = "") -> None:
    """Remove the code from the draft. Its children move to its parent."""
    with transaction.atomic():
        hold(code.version)
        code.refresh_from_db()
        version, was = code.version, Wording.of(code)
        code.children.update(parent=code.parent)
        code.delete()
        _renumber(version)
        texts = {text: getattr(was, text) for text in TEXTS}
        _note(version, "code.retired", user, reason=reason[:MAX_TEXT], code=was.name, texts=texts)


# --- origins --------------------------------------------------------------------------------------------------------


def kind_of(before: Code, after: Code, *, is_split: bool, origins: int) -> CodeOrigin.Kind:
    """Return how `after`, which follows from `origins` codes, follows from one of them."""
    if is_split:
        return CodeOrigin.Kind.SPLIT
    if origins > 1:
        return CodeOrigin.Kind.MERGED
    if any(getattr(before, text) != getattr(after, text) for text in TEXTS):
        return CodeOrigin.Kind.REDEFINED
    return CodeOrigin.Kind.RENAMED if before.name != after.name else CodeOrigin.Kind.KEPT


def _settle(code: Code) -> None:
    """Update the origins to the code's current state."""
    origins = list(code.origins.select_related("before"))
    for origin in origins:
        is_split = origin.kind == CodeOrigin.Kind.SPLIT
        kind = kind_of(origin.before, code, is_split=is_split, origins=len(origins))
        if kind != origin.kind:
            CodeOrigin.objects.filter(pk=origin.pk).update(kind=kind)


def _gather_origins(kept: Code, gone: Sequence[Code]) -> None:
    """Add the origins of the merged codes to `kept`. Parts of one split that meet again stay parts."""
    known = set(kept.origins.values_list("before_id", flat=True))
    for code in gone:
        for origin in code.origins.all():
            if origin.before_id not in known:
                CodeOrigin.objects.create(code=kept, before_id=origin.before_id, kind=origin.kind)
                known.add(origin.before_id)


# --- the tree -------------------------------------------------------------------------------------------------------


def _place(code: Code, parent: Code | None, before: Code | None) -> None:
    version = code.version
    parents = dict(version.codes.values_list("pk", "parent_id"))
    if parent is not None:
        if parent.pk not in parents:
            raise CodebookRefused(f"“{parent.name}” is not a code of this draft.")
        if code.pk in [parent.pk, *above(parent.pk, parents)]:
            raise CodebookRefused(f"“{code.name}” cannot be below itself.")
    if before is not None and (before.pk == code.pk or parents.get(before.pk, -1) != (parent.pk if parent else None)):
        raise CodebookRefused(f"“{before.name}” is not another code at that place.")
    code.parent = parent
    code.save()
    siblings = [each for each in version.codes.filter(parent=parent) if each.pk != code.pk]
    at = next((place for place, each in enumerate(siblings) if before and each.pk == before.pk), len(siblings))
    siblings.insert(at, code)
    _renumber(version, siblings)


def _renumber(version: CodebookVersion, siblings: Sequence[Code] = ()) -> None:
    """Number the whole tree in reading order, with `siblings` in this order among each other.

    Raises CodebookRefused where the tree has become too deep.
    """
    rows = list(version.codes.all())
    places = sorted(row.ordinal for row in rows if row in siblings)
    given = {code.pk: (place, number) for number, (code, place) in enumerate(zip(siblings, places, strict=True))}
    ordered = sorted(rows, key=lambda row: given.get(row.pk, (row.ordinal, row.pk)))
    for place, row in enumerate(ordered):
        row.ordinal = place
    for place, (row, depth) in enumerate(in_order(ordered)):
        row.ordinal = place
        if depth >= MAX_DEPTH:
            raise CodebookRefused(f"Codes have at most {MAX_DEPTH} levels; “{row.name}” would be deeper.")
    Code.objects.bulk_update(rows, ["ordinal"])


def _gather_below(kept: Code, gone: Sequence[Code], rows: dict[int, Code]) -> None:
    """Move the children of the merged codes below `kept`, and `kept` above the highest of them it was below."""
    parents = {key: row.parent_id for key, row in rows.items()}
    keys = {code.pk for code in gone}
    over = [key for key in above(kept.pk, parents) if key in keys]
    if over:
        kept.parent = rows[over[-1]].parent
        kept.save()
    Code.objects.filter(version=kept.version, parent__in=keys).exclude(pk__in={kept.pk, *keys}).update(parent=kept)
    Code.objects.filter(pk__in=keys).update(parent=None)


# --- rows -----------------------------------------------------------------------------------------------------------


def _write(code: Code, wording: Wording) -> Code:
    code.name = wording.name
    code.definition, code.include, code.exclude = wording.definition, wording.include, wording.exclude
    code.save()
    return code


def _check_names(draft: CodebookVersion, names: Sequence[str], *, besides: Sequence[Code] = ()) -> None:
    """Refuse names that differ only in capitals from another code of the version."""
    others = draft.codes.exclude(pk__in=[code.pk for code in besides]).values_list("name", flat=True)
    taken = {name.casefold() for name in others}
    for name in names:
        if name.casefold() in taken:
            raise CodebookRefused(f"There is a code “{name}” already.")
        taken.add(name.casefold())


def _note(draft: CodebookVersion, verb: str, user: User | None, *, reason: str = "", **detail: object) -> None:
    note_activity(user, verb, draft.codebook, detail={"version": draft.number, **detail}, reason=reason)


Kind = CodeOrigin.Kind
ADDED, RETIRED = "added", "retired"
MUST_LOOK = frozenset({Kind.SPLIT, Kind.REDEFINED})


@dataclass(frozen=True, slots=True)
class Link:
    """`after` continues `before`."""

    before: Code
    after: Code
    kind: str

    @property
    def must_look(self) -> bool:
        """Must somebody look at a label of `before` before it is carried over?"""
        return self.kind in MUST_LOOK


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a diff: which codes became which. Added ones have no `before`, retired ones no `after`."""

    kind: str
    before: tuple[Code, ...]
    after: tuple[Code, ...]


class VersionDiff:
    """Both versions' codes and the links between them. Two queries and one more per version between them.

    Raises CodebookRefused unless `old` is an earlier version of the same codebook.
    """

    def __init__(self, old: CodebookVersion, new: CodebookVersion) -> None:
        if old.codebook_id != new.codebook_id or old.number >= new.number:
            raise CodebookRefused("A diff takes an earlier and a later version of one codebook.")
        self.old, self.new = old, new
        self.old_codes = [code for code, _ in in_order(old.codes.all())]
        self.new_codes = [code for code, _ in in_order(new.codes.all())]

    @cached_property
    def links(self) -> list[Link]:
        """Return the links in the order of the new version."""
        # New code -> old code -> every kind met on the ways between them
        chains: dict[int, dict[int, set[str]]] = {code.pk: {code.pk: set()} for code in self.new_codes}
        for version in self._steps():
            steps: dict[int, list[CodeOrigin]] = {}
            for origin in CodeOrigin.objects.filter(code__version=version):
                steps.setdefault(origin.code_id, []).append(origin)
            chains = {code: _one_step_back(reached, steps) for code, reached in chains.items()}
        before = {code.pk: code for code in self.old_codes}
        found = []
        for code in self.new_codes:
            ends = chains[code.pk]
            for key in sorted(ends, key=list(before).index):
                kind = _chain_kinds(ends[key], before[key], code, origins=len(ends))
                found.append(Link(before[key], code, kind))
        return found

    def links_of(self, code: Code) -> list[Link]:
        """Return the links of an old code, in the order of the new version; nothing for a retired one."""
        return self._by_old.get(code.pk, [])

    @cached_property
    def _by_old(self) -> dict[int, list[Link]]:
        found: dict[int, list[Link]] = {}
        for link in self.links:
            found.setdefault(link.before.pk, []).append(link)
        return found

    @cached_property
    def changes(self) -> list[Change]:
        """Splits, merges, redefined, renamed, added, retired and kept codes, each in the order of its version."""
        found = [*self._link_changes(), *self._alone()]
        order = [Kind.SPLIT, Kind.MERGED, Kind.REDEFINED, Kind.RENAMED, ADDED, RETIRED, Kind.KEPT]
        return sorted(found, key=lambda change: order.index(change.kind))

    @property
    def is_empty(self) -> bool:
        return all(change.kind == Kind.KEPT for change in self.changes)

    def _link_changes(self) -> Iterator[Change]:
        """Yield one change for each split or merge, with any number of parts."""
        split = {link.before.pk for link in self.links if link.kind == Kind.SPLIT}
        for code in self.old_codes:
            if code.pk in split:
                yield Change(Kind.SPLIT, (code,), tuple(link.after for link in self.links_of(code)))
        for after in self.new_codes:
            links = [link for link in self.links if link.after.pk == after.pk and link.kind != Kind.SPLIT]
            if not links:
                continue
            if len({link.before.pk for link in self.links if link.after.pk == after.pk}) > 1:
                yield Change(Kind.MERGED, tuple(link.before for link in links), (after,))
                links = [link for link in links if link.kind == Kind.REDEFINED]
            for link in links:
                yield Change(link.kind, (link.before,), (after,))

    def _alone(self) -> Iterator[Change]:
        linked = {link.after.pk for link in self.links}
        for code in self.new_codes:
            if code.pk not in linked:
                yield Change(ADDED, (), (code,))
        for code in self.old_codes:
            if code.pk not in self._by_old:
                yield Change(RETIRED, (code,), ())

    def _steps(self) -> Iterator[CodebookVersion]:
        """Yield the new version and those between, newest first: the ones whose origins are followed."""
        between = self.new.codebook.versions.filter(number__gt=self.old.number, number__lte=self.new.number)
        at: int | None = self.new.pk
        versions = {version.pk: version for version in between}
        while at is not None and at in versions:
            yield versions[at]
            at = versions[at].previous_id


def _one_step_back(reached: dict[int, set[str]], steps: dict[int, list[CodeOrigin]]) -> dict[int, set[str]]:
    further: dict[int, set[str]] = {}
    for code, kinds in reached.items():
        for origin in steps.get(code, []):
            further.setdefault(origin.before_id, set()).update(kinds, {origin.kind})
    return further


def _chain_kinds(kinds: set[str], before: Code, after: Code, *, origins: int) -> str:
    ends = kind_of(before, after, is_split=Kind.SPLIT in kinds, origins=origins)
    if ends == Kind.MERGED or Kind.MERGED in kinds and ends != Kind.SPLIT:
        # A single step that merged gives "merged" for any texts: its author saw both.
        return Kind.REDEFINED if Kind.REDEFINED in kinds else Kind.MERGED
    return ends
