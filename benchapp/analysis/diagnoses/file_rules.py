"""Find files that nothing refers to, and skills that say the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations

from benchapp.analysis.diagnoses.hits import LibraryHit, LibraryRule, Sources
from benchapp.analysis.diagnoses.library_shelf import Shelf
from runner.authoring.copied import shingles_of, words_of

SHINGLE = 5
ALIKE = 0.5  # Jaccard over word shingles of whole skills; at least this much makes near-duplicates
COMMON = 40  # a shingle in more skills is boilerplate and left out of the count of pairs


def find_dead_files(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    """Yield files that neither SKILL.md nor any other text of the skill names, not even by the bare name."""
    for path in shelf.files:
        skill, _, inner = path.partition("/")
        name = inner.rpartition("/")[2]
        if inner == "SKILL.md" or skill not in shelf.skills or name.lower().startswith("license"):
            continue
        stem = name.rpartition(".")[0] or name
        wanted = (name, stem) if len(stem) > 3 and name.endswith(".py") else (name,)
        others = (text.text for text in shelf.of(skill) if text.path != path)
        if name == "__init__.py" or any(word in text for text in others for word in wanted):
            continue
        yield LibraryHit(
            path, 0, 0, "No other file of the skill names it, so an agent finds it only by listing the folder"
        )


def find_empty_files(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    for path, file in shelf.files.items():
        if not file.content.strip() and not path.endswith("__init__.py"):
            yield LibraryHit(path, 0, 0, "The file is empty")


def find_near_duplicates(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    sets = {
        skill: set(shingles_of([word.text for text in shelf.of(skill) for word in words_of(text.text)], SHINGLE))
        for skill in shelf.skills
    }
    holders: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for skill, shingles in sets.items():
        for shingle in shingles:
            holders[shingle].append(skill)
    shared: Counter[tuple[str, str]] = Counter()
    for skills in holders.values():
        if 1 < len(skills) <= COMMON:
            shared.update(combinations(sorted(skills), 2))
    for (first, second), both in sorted(shared.items()):
        either = len(sets[first]) + len(sets[second]) - both
        if both / either >= ALIKE:
            yield LibraryHit(
                shelf.head(second).path,
                0,
                0,
                f"Shares {both:,} of {either:,} runs of {SHINGLE} words with {first} (Jaccard {both / either:.2f})",
            )


FILES = (
    LibraryRule("dead-file", "files", "note", "No other file of its skill names it.", find_dead_files),
    LibraryRule("empty-file", "files", "note", "The file is empty.", find_empty_files, is_heuristic=False),
    LibraryRule(
        "near-duplicate",
        "duplicates",
        "warning",
        f"Two skills share at least {ALIKE:.0%} of their runs of {SHINGLE} words (exact Jaccard).",
        find_near_duplicates,
    ),
)
