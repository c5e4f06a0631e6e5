"""Find the words of a query in a text, and choose the excerpt that a hit shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, starmap

from benchapp.search.query import SearchQuery
from benchapp.search.search_hits import fact_phrases, phrases_of
from benchapp.search.search_index import Phrase
from benchapp.search.sections import Section
from benchapp.search.tokens import Atom, atoms

EXCERPT_CHARS = 280
BEFORE_CHARS = 90  # of them before the first mark
MAX_EXCERPTS = 3


@dataclass(frozen=True, slots=True)
class HitMark:
    start: int
    end: int
    term: int  # which one of the query


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A piece of one text: (text, is it marked). `before`, `after`: does the text continue there?"""

    section: str
    pieces: tuple[tuple[str, bool], ...]
    before: bool
    after: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """What a hit shows: the step it opens at (None: no step), its number of terms, the excerpts, and the piece of their
    marked text that a browser should mark."""

    step: int | None
    terms: int
    excerpts: tuple[Excerpt, ...]
    quote: str


def show(sections: Sequence[Section], query: SearchQuery) -> Shown:
    """Choose the step with most of the query's terms, the first of several, with excerpts around them."""
    groups = [phrases_of(term) for term in query.terms if not term.negated]
    wanted = [phrase for part in query.filters if not part.negated for phrase in fact_phrases(part)]
    marked = []
    for section in sections:
        facts = {phrase.tokens[0] for phrase in wanted if section.fact and _begins(section.fact, phrase)}
        marked.append(_Marked(section, tuple(marks(section.text, groups)), frozenset(facts)))
    if not marked:
        return Shown(None, 0, (), "")
    steps: dict[int | None, set[object]] = {}
    for each in marked:
        steps.setdefault(each.section.step, set()).update([mark.term for mark in each.found], each.facts)
    best = max(steps, key=lambda step: len(steps[step]))  # the first of equals: dicts keep their order
    here = [each for each in marked if each.section.step == best]
    # Those with marks, most terms first. One that holds only a part of another's terms adds nothing.
    kept = [one for one in here if one.found and not any(one.terms < other.terms for other in here)]
    shown = sorted(kept, key=lambda each: -len(each.terms)) or [each for each in here if each.facts] or here[:1]
    there = [(each.section, each.found) for each in shown] + list(_find_elsewhere(marked, best, shown))
    excerpts = tuple(islice(chain.from_iterable(starmap(_excerpts, there)), MAX_EXCERPTS))
    quote = _longest_run(shown[0].section.text, _closest(shown[0].found))
    return Shown(best, len({mark.term for each in here for mark in each.found}), excerpts, quote)


@dataclass(frozen=True, slots=True)
class _Marked:
    """`facts`: the query's facts that the section is."""

    section: Section
    found: tuple[HitMark, ...]
    facts: frozenset[str]

    @property
    def terms(self) -> frozenset[int]:
        return frozenset(mark.term for mark in self.found)


def _find_elsewhere(
    marked: Sequence[_Marked], step: int | None, shown: Sequence[_Marked]
) -> Iterator[tuple[Section, Sequence[HitMark]]]:
    """Find the terms that the chosen step lacks, under the numbers of their steps."""
    missing = {term for each in marked for term in each.terms} - {term for each in shown for term in each.terms}
    for each in marked:
        if each.section.step not in (step, None) and each.terms & missing:
            found = [mark for mark in each.found if mark.term in missing]
            yield replace(each.section, name=f"step {each.section.step}"), found
            missing -= each.terms


def _closest(found: Sequence[HitMark]) -> Sequence[HitMark]:
    """Return the marks of the excerpt: the run with most terms within an excerpt's length, the first of several. So the
    sentence that was asked for is shown, and not the first "the" of the text."""
    best, most = (0, 0), 0
    inside: Counter[int] = Counter()
    end = 0
    for start, mark in enumerate(found):
        while end < len(found) and (end == start or found[end].end <= mark.start + EXCERPT_CHARS - BEFORE_CHARS):
            inside[found[end].term] += 1
            end += 1
        if len(inside) > most:
            best, most = (start, end), len(inside)
        inside -= Counter([mark.term])  # also drops a term with none left
    near = found[slice(*best)]
    while most > 1 and near[0].term in {mark.term for mark in near[1:]}:  # repeated later, nearer to the others
        near = near[1:]
    return near


def _longest_run(text: str, found: Sequence[HitMark]) -> str:
    """Return the marked piece of text with most terms and only spaces between its words: a browser marks it whole."""
    runs: list[list[HitMark]] = []
    for mark in found:
        if runs and not text[runs[-1][-1].end : mark.start].strip():
            runs[-1].append(mark)
        else:
            runs.append([mark])
    best = max(runs, key=lambda run: len({mark.term for mark in run}), default=None)
    return text[best[0].start : best[-1].end] if best else ""


def marks(text: str, groups: Sequence[Sequence[Phrase]]) -> Iterator[HitMark]:
    """Yield every place where a phrase of a group occurs, in order, without overlaps."""
    if not _may_hold(text, groups):
        return
    words = list(atoms(text))
    beginnings = {phrase.tokens[0] for group in groups for phrase in group}
    prefixes = tuple(phrase.tokens[0] for group in groups for phrase in group if phrase.prefix)
    end = 0
    for place, atom in enumerate(words):
        if not (atom.token in beginnings or atom.parts or atom.token.startswith(prefixes)):
            continue  # like nearly all words of a long text
        if atom.start < end:
            continue
        for term, group in enumerate(groups):
            stop = max((_match_phrase(words, place, phrase) for phrase in group), default=0)
            if stop:
                end = words[stop - 1].end
                yield HitMark(atom.start, end, term)
                break


def _may_hold(text: str, groups: Sequence[Sequence[Phrase]]) -> bool:
    """Return False where no phrase of the groups can occur. In plain ASCII every token is a piece of the lower-case
    text, so most texts of a hit need no tokenising."""
    if not text.isascii():
        return bool(groups)
    small = text.lower()
    return any(all(token in small for token in phrase.tokens) for group in groups for phrase in group)


def _match_phrase(words: Sequence[Atom], place: int, phrase: Phrase) -> int:
    """Return the atom after the phrase that begins at this place; 0 where it does not occur here."""
    size = len(phrase.tokens)
    if _begins(words[place].token, phrase) and (
        size == 1 or _stands([atom.token for atom in words[place : place + size]], phrase)
    ):
        return place + size
    parts = words[place].parts
    return place + 1 if parts and any(_stands(parts[at : at + size], phrase) for at in range(len(parts))) else 0


def _begins(token: str, phrase: Phrase) -> bool:
    first = phrase.tokens[0]
    return token == first or (phrase.prefix and len(phrase.tokens) == 1 and token.startswith(first))


def _stands(found: Sequence[str], phrase: Phrase) -> bool:
    if len(found) != len(phrase.tokens) or tuple(found[:-1]) != phrase.tokens[:-1]:
        return False
    return found[-1].startswith(phrase.tokens[-1]) if phrase.prefix else found[-1] == phrase.tokens[-1]


def _excerpts(section: Section, found: Sequence[HitMark]) -> Iterator[Excerpt]:
    """Yield an excerpt around most terms, then around each of the others that is too far away to be seen there."""
    left = found
    while True:
        near = _closest(left)
        yield _excerpt(section, found, near)
        seen = {mark.term for mark in near}
        left = [mark for mark in left if mark.term not in seen]
        if not left:
            return


def _excerpt(section: Section, found: Sequence[HitMark], near: Sequence[HitMark]) -> Excerpt:
    text = section.text
    start = _begin(text, near[0].start) if near else 0
    end = min(len(text), start + EXCERPT_CHARS)
    pieces: list[tuple[str, bool]] = []
    at = start
    for mark in found:
        if mark.start < start:
            continue
        if mark.start >= end:
            break
        stop = min(mark.end, end)
        pieces += [(text[at : mark.start], False), (text[mark.start : stop], True)]
        at = stop
    pieces.append((text[at:end], False))
    return Excerpt(section.name, tuple(piece for piece in pieces if piece[0]), start > 0, end < len(text))


def _begin(text: str, mark: int) -> int:
    """Return where the excerpt of a mark begins: in its line, which a page shows first, and not far before it."""
    line = text.rfind("\n", 0, mark) + 1
    return line if line >= mark - BEFORE_CHARS else _at_word(text, mark - BEFORE_CHARS)


def _at_word(text: str, place: int) -> int:
    """Move to the start of a word, if a space is near."""
    if place == 0:
        return 0
    near = [found for sign in (" ", "\n") if (found := text.find(sign, place, place + 24)) >= 0]
    return min(near) + 1 if near else place
