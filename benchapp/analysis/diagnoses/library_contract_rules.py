"""Check a whole library against the authoring contract, as if one patch had written it (profile of the paper)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from benchapp.analysis.diagnoses.hits import Group, LibraryHit, LibraryRule, Sources
from benchapp.analysis.diagnoses.library_shelf import Shelf, ShelfText
from runner.authoring.contract.contract_rules import RULES
from runner.authoring.contract.lint import lint
from runner.authoring.contract.skill_file import SKILL_FILE
from runner.authoring.contract.skill_rules import broken_skill_rules, slug_problem
from runner.authoring.occasion import Occasion
from runner.authoring.proposal import BrokenRule, Proposal, confinement_problem
from runner.base.types import AuthorMode, Family, Patch

# rule of the contract -> the group that shows it. Rules about one patch (operations, scope) do not apply here.
_GROUPS: dict[str, Group] = {
    "path-layout": "contract",
    "slug-format": "contract",
    "skill-file": "contract",
    "frontmatter": "contract",
    "name-is-folder": "contract",
    "name-length": "contract",
    "description-length": "contract",
    "compatibility-length": "contract",
    "body-length": "safety",
    "frontmatter-key": "contract",
    "description-quality": "description",
    "tier3-uncited": "files",
    "citation-dangling": "files",
    "resource-depth": "files",
    "vague-file-name": "files",
    "script-interaction": "environment",
}
_KEY = {"name-is-folder": "name", "name-length": "name", "description-quality": "description"}


def find_broken_rules(shelf: Shelf) -> Iterator[BrokenRule]:
    """Yield every broken rule of the contract in these files; one call for all rules of one library."""
    upserts = {text.path: text.text for text in shelf.texts.values() if not confinement_problem(text.path)}
    family = Family("", "", "", "", "", ())
    occasion = Occasion(AuthorMode.INDUCE, family, False, None, "none", "paper", {}, (), ())
    proposal = Proposal(Patch("", "create", upserts, ()), occasion)
    yield from broken_skill_rules(proposal)
    yield from lint(proposal)
    yield from _check_layout(shelf)


def _check_layout(shelf: Shelf) -> Iterator[BrokenRule]:
    headless = {path.partition("/")[0] for path in shelf.files} - set(shelf.skills)
    for skill in sorted(headless):
        path = next(path for path in shelf.files if path.partition("/")[0] == skill)
        yield BrokenRule("skill-file", path, f"the folder {skill!r} has no {SKILL_FILE}, so no harness loads it")
    for skill in shelf.skills:
        if problem := slug_problem(skill):
            yield BrokenRule("slug-format", f"{skill}/{SKILL_FILE}", f"the folder is named {skill[:80]!r}: {problem}")


def _find_rule(rule: str) -> Callable[[Shelf, Sources], Iterator[LibraryHit]]:
    def find(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
        for broken in _list_broken(shelf):
            if broken.rule == rule:
                yield _locate(shelf, broken)

    return find


def _list_broken(shelf: Shelf) -> tuple[BrokenRule, ...]:
    """Return the result, cached for a shelf: sixteen rules ask."""
    if "contract" not in shelf.__dict__:
        broken = dict.fromkeys(each for each in find_broken_rules(shelf) if not _is_of_omitted(shelf, each))
        shelf.__dict__["contract"] = tuple(broken)
    found: tuple[BrokenRule, ...] = shelf.__dict__["contract"]
    return found


def _is_of_omitted(shelf: Shelf, broken: BrokenRule) -> bool:
    """Does it name a file that existed but was not imported?"""
    skill = broken.path.partition("/")[0]
    return broken.rule == "citation-dangling" and any(
        path.startswith(f"{skill}/") and path.partition("/")[2] in broken.message for path in shelf.omitted
    )


def _locate(shelf: Shelf, broken: BrokenRule) -> LibraryHit:
    text = shelf.texts.get(broken.path)
    start, end = _find_place(text, broken) if text else (0, 0)
    return LibraryHit(broken.path, start, end, broken.message[:1].upper() + broken.message[1:])


def _find_place(text: ShelfText, broken: BrokenRule) -> tuple[int, int]:
    """Return the span of the line, key or words that the message names; (0, 0) if the text has none of them."""
    if at_line := re.match(r"line (\d+):", broken.message):
        return text.line_span(int(at_line[1]))
    key = _KEY.get(broken.rule)
    quoted = re.search(r"'([^']+)'|names (\S+),", broken.message)
    wanted = rf"^{key}:.*$" if key else re.escape(next(filter(None, quoted.groups()), "")) if quoted else ""
    place = re.search(wanted, text.text, re.MULTILINE) if wanted else None
    return place.span() if place else (0, 0)


CONTRACT = tuple(
    LibraryRule(
        rule,
        group,
        "warning" if RULES[rule].paper == "error" else "note",
        RULES[rule].says,
        _find_rule(rule),
        is_heuristic=rule in ("description-quality", "vague-file-name", "script-interaction", "citation-dangling"),
    )
    for rule, group in _GROUPS.items()
)
