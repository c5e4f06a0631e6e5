"""Rules about the text of a skill's files. Only skills that the patch changes are checked, so that returning a skill
unchanged stays a no-op in any state."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.authoring.contract.contract_rules import (
    MAX_BODY_LINES,
    MAX_COMPATIBILITY_CHARS,
    MAX_DESCRIPTION_CHARS,
    MAX_NAME_CHARS,
    MAX_SLUG_CHARS,
)
from runner.authoring.contract.skill_file import SKILL_FILE, SkillFile, SkillFileError, cites, parse_skill
from runner.authoring.proposal import BrokenRule, Proposal, is_tier3

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
# Stems without meaning, alone or next to a number or "old", "new", "copy".
_VAGUE = re.compile(
    r"(helpers?|utils?|common|misc|notes?|more|stuff|things?|temp|tmp|test|old|new|copy|backup|untitled|doc|docs|file"
    r"|data|template|script|main|all|info|readme)([-_ ]?(\d|old|new|copy|final))*",
    re.IGNORECASE,
)


def slug_problem(slug: str) -> str | None:
    """Explain what is wrong with a slug, or return None."""
    if len(slug) > MAX_SLUG_CHARS:
        return f"{len(slug)} characters"
    if not _SLUG.fullmatch(slug):
        return "other characters, or a hyphen at an end or beside another"
    return None


def broken_skill_rules(proposal: Proposal) -> Iterator[BrokenRule]:
    for path in proposal.upserts:
        if is_tier3(path) and proposal.has_changed(path):
            yield from _file_name(path)
    for slug in proposal.changed_slugs:
        text = proposal.skill_text(slug)
        if text is None:
            continue
        try:
            skill = parse_skill(text)
        except SkillFileError as error:
            yield BrokenRule("frontmatter", f"{slug}/{SKILL_FILE}", str(error))
            yield from _citations(proposal, slug, text)
            continue
        if proposal.has_changed(f"{slug}/{SKILL_FILE}"):
            yield from _frontmatter(slug, skill)
        yield from _citations(proposal, slug, skill.body)


def _frontmatter(slug: str, skill: SkillFile) -> Iterator[BrokenRule]:
    path = f"{slug}/{SKILL_FILE}"
    for key in ("name", "description"):
        if not skill.text(key):
            yield BrokenRule("frontmatter", path, f"{key} is {_kind(skill.frontmatter.get(key))}, expected text")
    name, description = skill.text("name"), skill.text("description")
    if name and name != slug:
        yield BrokenRule("name-is-folder", path, f"name is {name[:80]!r}, expected {slug!r}")
    yield from _length("name-length", path, "name", name, MAX_NAME_CHARS)
    yield from _length("description-length", path, "description", description, MAX_DESCRIPTION_CHARS)
    compatibility = skill.frontmatter.get("compatibility")
    if compatibility is not None and not isinstance(compatibility, str):
        yield BrokenRule("frontmatter", path, f"compatibility is {_kind(compatibility)}, expected text")
    yield from _length(
        "compatibility-length", path, "compatibility", skill.text("compatibility"), MAX_COMPATIBILITY_CHARS
    )
    if skill.body_lines > MAX_BODY_LINES:
        yield BrokenRule(
            "body-length", path, f"the body has {skill.body_lines:,} lines, expected at most {MAX_BODY_LINES}"
        )


def _length(rule: str, path: str, key: str, value: str | None, limit: int) -> Iterator[BrokenRule]:
    if value is not None and len(value) > limit:
        yield BrokenRule(rule, path, f"{key} has {len(value):,} characters, expected at most {limit:,}")


def _kind(value: object) -> str:
    if value is None:
        return "missing"
    return "empty" if isinstance(value, str) else type(value).__name__


def _citations(proposal: Proposal, slug: str, body: str) -> Iterator[BrokenRule]:
    """Uncited files are this patch's fault if it wrote them or removed their citation. Older ones are not."""
    before = _body(proposal.skill_text(slug, before=True))
    for path in proposal.tier3_paths(slug):
        inner = path.partition("/")[2]
        if cites(body, inner):
            continue
        theirs = path in proposal.upserts or (before is not None and cites(before, inner))
        yield BrokenRule(
            "tier3-uncited" if theirs else "tier3-uncited-before",
            path,
            f"{SKILL_FILE} does not name {inner!r} in its body",
        )


def _body(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return parse_skill(text).body
    except SkillFileError:
        return text


def _file_name(path: str) -> Iterator[BrokenRule]:
    stem = path.rpartition("/")[2].partition(".")[0]
    if _VAGUE.fullmatch(stem):
        yield BrokenRule("vague-file-name", path, f"{stem!r} does not say what is in the file")
