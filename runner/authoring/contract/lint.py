"""Advice that no program can decide reliably: always warnings in the profile of the paper."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.authoring.contract.skill_file import SKILL_FILE, SkillFile, SkillFileError, parse_skill
from runner.authoring.proposal import BrokenRule, Proposal, is_tier3, slug_of

FRONTMATTER_KEYS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
MIN_DOMAIN_WORDS = 5

_CATCH_ALL_TEXT = (
    "a an and any are as at be bug bugs by code coding debug fix for from general generic help helper how if in into is"
    " issue it its improve of on or problem problems skill solve something task tasks that the this to use used user"
    " using various want when where with work you your assist handle thing things do not"
)
_CATCH_ALL = frozenset(_CATCH_ALL_TEXT.split())
_ABOUT_ITSELF = re.compile(
    r"\bthis skill (helps|provides|records|teaches|contains|saves)\b|structured workflow|\bpast experience\b"
    r"|\bwhat we learned\b|\bin (this|the last|trial) (trial|run|\d+)\b",
    re.IGNORECASE,
)
_WHEN = re.compile(r"\b(when|whenever|if|before|after|for tasks|upon)\b", re.IGNORECASE)
_FIRST_PERSON = re.compile(r"\b(I|I'm|I'll|my)\b")
_CITED = re.compile(r"(?<![A-Za-z0-9_./-])(?:scripts|references|assets)/[A-Za-z0-9_./-]*[A-Za-z0-9_-]\.[A-Za-z0-9]+")
_INTERACTIVE = re.compile(r"^[^#\n]*\b(input\(|read -p\b|pip install\b|npm install\b|apt-get install\b)", re.MULTILINE)


def lint(proposal: Proposal) -> Iterator[BrokenRule]:
    """Advice on the skills and files that the patch changes."""
    for slug in proposal.changed_slugs:
        skill = _try_parse(proposal.skill_text(slug))
        if skill is not None and proposal.has_changed(f"{slug}/{SKILL_FILE}"):
            yield from _description(slug, skill)
            yield from _keys(slug, skill)
            yield from _find_dangling(proposal, slug, skill)
    for path, text in proposal.upserts.items():
        if is_tier3(path) and proposal.has_changed(path):
            yield from _resource(path, text)


def _try_parse(text: str | None) -> SkillFile | None:
    try:
        return None if text is None else parse_skill(text)
    except SkillFileError:
        return None  # another rule reports this


def _description(slug: str, skill: SkillFile) -> Iterator[BrokenRule]:
    text, path = skill.text("description"), f"{slug}/{SKILL_FILE}"
    if not text:
        return
    words = {word for word in re.findall(r"[a-z0-9][a-z0-9_.+-]*", text.lower()) if word not in _CATCH_ALL}
    if len(words) < MIN_DOMAIN_WORDS:
        message = f"{len(words)} words of its domain, expected at least {MIN_DOMAIN_WORDS}"
        yield BrokenRule("description-quality", path, message)
    if not _WHEN.search(text):
        yield BrokenRule("description-quality", path, "does not say when to use the skill")
    if _FIRST_PERSON.search(text):
        yield BrokenRule("description-quality", path, "speaks in the first person")
    about = _ABOUT_ITSELF.search(text)
    if about:
        yield BrokenRule("description-quality", path, f"talks about itself ({about.group(0)!r}) instead of its tasks")


def _keys(slug: str, skill: SkillFile) -> Iterator[BrokenRule]:
    for key in sorted(skill.frontmatter.keys() - FRONTMATTER_KEYS):
        message = f"unknown key {key[:40]!r}, expected one of {', '.join(sorted(FRONTMATTER_KEYS))}"
        yield BrokenRule("frontmatter-key", f"{slug}/{SKILL_FILE}", message)


def _find_dangling(proposal: Proposal, slug: str, skill: SkillFile) -> Iterator[BrokenRule]:
    for inner in sorted(set(_CITED.findall(skill.body))):
        if f"{slug}/{inner}" not in proposal.after:
            yield BrokenRule("citation-dangling", f"{slug}/{SKILL_FILE}", f"names {inner}, which does not exist")


def _resource(path: str, text: str) -> Iterator[BrokenRule]:
    if path.count("/") > 2:
        yield BrokenRule("resource-depth", path, f"expected directly in {slug_of(path)}/{path.split('/')[1]}/")
    found = _INTERACTIVE.search(text) if path.split("/")[1] == "scripts" else None
    if found:
        yield BrokenRule("script-interaction", path, f"uses {found.group(1)!r}")
