"""How each code changed between two versions of one codebook, also over versions between them.

From version to version the origins record it (`benchapp.review.codebooks.codes`). Over several steps they are chained.
A split anywhere on the way stays a split. A code that was redefined and then merged counts as redefined, because its
labels were made under another meaning. Otherwise the two ends count, so that a name changed and changed back was kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from benchapp.models import Code, CodebookVersion, CodeOrigin
from benchapp.review.codebooks.codebook_versions import CodebookRefused
from benchapp.review.codebooks.codes import kind_of
from benchapp.review.codebooks.hierarchy import in_order

Kind = CodeOrigin.Kind
ADDED, RETIRED = "added", "retired"
MUST_LOOK = frozenset({Kind.SPLIT, Kind.REDEFINED})


@dataclass(frozen=True, slots=True)
class Link:
    """`after` follows from `before`."""

    before: Code
    after: Code
    kind: str

    @property
    def must_look(self) -> bool:
        """True where a label of `before` cannot be carried over without a look."""
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
        """The links in the order of the new version."""
        chains = self._chains()
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

    def _chains(self) -> dict[int, dict[int, set[str]]]:
        """Return new code -> old code -> every kind met on the ways between them."""
        ends: dict[int, dict[int, set[str]]] = {code.pk: {code.pk: set()} for code in self.new_codes}
        for version in self._steps():
            steps: dict[int, list[CodeOrigin]] = {}
            for origin in CodeOrigin.objects.filter(code__version=version):
                steps.setdefault(origin.code_id, []).append(origin)
            ends = {code: _one_step_back(reached, steps) for code, reached in ends.items()}
        return ends

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
