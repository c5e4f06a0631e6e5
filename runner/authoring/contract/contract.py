"""Check a patch against the contract: rules about paths, slugs, operations and deletions, rules about the text of a
skill's files, and advice that no program can decide reliably. Every rule has a stable id and a weight in each profile.

The contract is that of the SkillEvolBench paper (appendix C.3 and C.4). Profiles:
paper        rejects what the prompts announce as required or rejected; advice is a warning.
as-released  rejects what the released code really rejects; what its prompts only announce is a warning.
strict       warnings of measurable rules reject too.

Rules that keep a patch inside its folder, its files storable and its family's own are errors in every profile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from runner.authoring.contract.skill_file import SKILL_FILE, SkillFile, SkillFileError, cites, parse_skill
from runner.authoring.occasion import (
    OPERATIONS,
    TIER3_FOLDERS,
    BrokenRule,
    Occasion,
    Proposal,
    apply_patch,
    confinement_problem,
    is_tier3,
    same_place,
    slug_of,
)
from runner.base.types import AuthorMode, Files, Finding, Patch

Severity = Literal["error", "warning", "off"]

CONTRACT_VERSION = "contract/2"

MAX_SLUG_CHARS = 64
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1_024
MAX_COMPATIBILITY_CHARS = 500
MAX_BODY_LINES = 500
MAX_FILE_BYTES = 256 * 1024
MAX_LIBRARY_BYTES = 8 * 1024 * 1024
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
# Stems without meaning, alone or next to a number or "old", "new", "copy".
_VAGUE = re.compile(
    r"(helpers?|utils?|common|misc|notes?|more|stuff|things?|temp|tmp|test|old|new|copy|backup|untitled|doc|docs|file"
    r"|data|template|script|main|all|info|readme)([-_ ]?(\d|old|new|copy|final))*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ContractRule:
    """One rule, and how severe a breach is in each profile."""

    id: str
    says: str  # one sentence, for documents and pages
    paper: Severity
    as_released: Severity
    strict: Severity

    def severity(self, profile: str) -> Severity:
        """Raises KeyError for a profile that does not exist."""
        return {"paper": self.paper, "as-released": self.as_released, "strict": self.strict}[profile]


def _always(id: str, sentence: str) -> ContractRule:
    return ContractRule(id, sentence, "error", "error", "error")


def _warn(id: str, sentence: str) -> ContractRule:
    """A rule about how the answer was produced, which is not a fault of the patch."""
    return ContractRule(id, sentence, "warning", "warning", "warning")


def _announce(id: str, sentence: str) -> ContractRule:
    """A rejection that the paper's prompts announce and the released code does not make."""
    return ContractRule(id, sentence, "error", "warning", "error")


def _advice(id: str, sentence: str, strict: Severity = "warning") -> ContractRule:
    return ContractRule(id, sentence, "warning", "off", strict)


_RULES = (
    _always(
        "path-confinement",
        "A path is relative, uses '/', and has no '..', '.', empty, hidden, device or control parts.",
    ),
    _announce("path-layout", "A file is <slug>/SKILL.md or lies in <slug>/scripts, references or assets."),
    _always("path-collision", "No two files of the library differ only in case, and no file is another's folder."),
    _always("text-encoding", "File contents are text that UTF-8 can hold, without NUL."),
    _always("file-size", f"A file has at most {MAX_FILE_BYTES:,} bytes, the library {MAX_LIBRARY_BYTES:,}."),
    _always(
        "slug-format", f"A slug has lower-case letters, digits and single inner hyphens, at most {MAX_SLUG_CHARS}."
    ),
    _always("skill-file", "Every skill has a SKILL.md."),
    _always("family-scope", "Only skills of the task's own family are touched; a new slug is new everywhere."),
    _announce("slug-given", "A first skill takes the slug that the request names, and nothing else is created."),
    _announce("frontmatter", "SKILL.md starts with YAML frontmatter that has a name and a description."),
    _announce("name-is-folder", "The frontmatter's name is the name of the folder."),
    _announce("name-length", f"A name has at most {MAX_NAME_CHARS} characters."),
    _announce("description-length", f"A description has at most {MAX_DESCRIPTION_CHARS:,} characters."),
    _announce("compatibility-length", f"A compatibility note has at most {MAX_COMPATIBILITY_CHARS} characters."),
    ContractRule("body-length", f"A body has at most {MAX_BODY_LINES} lines.", "warning", "off", "error"),
    _always("operation-type", "operation_type is revise, narrow, replace or create."),
    _announce("slug-operation-pairing", "create exactly when a new slug appears; otherwise revise, narrow or replace."),
    _always("tier3-on-new-slug", "A new skill has only its SKILL.md, except at induction from experience."),
    _announce("tier3-uncited", "Every file in scripts, references and assets is cited by path in SKILL.md."),
    _advice("tier3-uncited-before", "A file that was uncited before this patch still is."),
    _always("tier3-required", "Where it is asked for, a revision adds or updates a Tier-3 file of an existing skill."),
    _announce("delete-conflict", "A path is not written and deleted at once; a SKILL.md goes only with its skill."),
    _announce("frontmatter-two-keys", "Under SkillFlow, frontmatter has a name and a description and nothing else."),
    _announce("process-note", "Under SkillFlow, no README, changelog, installation guide or quick reference."),
    _announce("empty-file", "Under SkillFlow, no file is empty."),
    _always("generation-budget", "What an outside program or an agent wrote under a token budget is within it."),
    _warn("teacher-leak", "A teacher's advice shares no passage with the human skills."),
    _warn("model-gateway", "An outside program asked its gateway for nothing that it may not have."),
    _warn("context-window", "The whole evidence fits the author's context window."),
    _warn("author-session", "An agent that works as author ends by itself and leaves texts only."),
    _advice("delete-target", "A deleted path exists.", strict="error"),
    _announce("vague-file-name", "A Tier-3 file's name says what is in it."),
    _advice("description-quality", "A description says what, on what, and when, in words of its domain."),
    _advice("frontmatter-key", "Frontmatter keys are those of the format."),
    _advice("citation-dangling", "A file that SKILL.md cites exists."),
    _advice("resource-depth", "Tier-3 files lie directly in their folder."),
    _advice("script-interaction", "A script asks no questions and installs nothing."),
)

RULES: Mapping[str, ContractRule] = {rule.id: rule for rule in _RULES}


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
            stem = path.rpartition("/")[2].partition(".")[0]
            if _VAGUE.fullmatch(stem):
                yield BrokenRule("vague-file-name", path, f"{stem!r} does not say what is in the file")
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
    """Check citations. Uncited files are this patch's fault if it wrote them or removed their citation.
    Older ones are not."""
    before = proposal.skill_text(slug, before=True)
    with suppress(SkillFileError):  # its whole text then
        before = None if before is None else parse_skill(before).body
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


_TWO_KEYS = frozenset({"name", "description"})
_PROCESS_NOTE = re.compile(r"(readme|changelog|installation[-_ ]?guide|quick[-_ ]?reference)", re.IGNORECASE)


def broken_evolution_rules(proposal: Proposal) -> Iterator[BrokenRule]:
    """Check only files that the patch changes, as everywhere in the contract."""
    if proposal.occasion.mode is not AuthorMode.EVOLVE:
        return
    for path, text in proposal.upserts.items():
        if not proposal.has_changed(path):
            continue
        name = path.rpartition("/")[2]
        if name == SKILL_FILE:
            yield from _more_than_two_keys(path, text)
        elif _PROCESS_NOTE.fullmatch(name.partition(".")[0]):
            yield BrokenRule(
                "process-note", path, "tells of the library itself, expected what an agent needs for its task"
            )
        if not text.strip():
            yield BrokenRule("empty-file", path, "empty, expected content or no file")


def _more_than_two_keys(path: str, text: str) -> Iterator[BrokenRule]:
    try:
        keys = parse_skill(text).frontmatter.keys()
    except SkillFileError:
        return  # another rule reports this
    more = sorted(keys - _TWO_KEYS)
    if more:
        names = ", ".join(repr(key[:40]) for key in more[:5])
        yield BrokenRule("frontmatter-two-keys", path, f"also has {names}, expected name and description only")


def with_folders(patch: Patch, library: Files) -> Patch:
    """Expand deleted folders, as released: such a path means every file below it. Other paths stay unchanged."""
    deletes: list[str] = []
    for path in patch.delete_paths:
        below = [file for file in library if path.strip("/") and file.startswith(path.rstrip("/") + "/")]
        deletes += below or [path]
    return replace(patch, delete_paths=tuple(dict.fromkeys(deletes)))


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
    """Return advice on the skills and files that the patch changes."""
    for slug in proposal.changed_slugs:
        path, text = f"{slug}/{SKILL_FILE}", proposal.skill_text(slug)
        if text is None or not proposal.has_changed(path):
            continue
        try:
            skill = parse_skill(text)
        except SkillFileError:
            continue  # another rule reports this
        yield from _description(slug, skill)
        for key in sorted(skill.frontmatter.keys() - FRONTMATTER_KEYS):
            message = f"unknown key {key[:40]!r}, expected one of {', '.join(sorted(FRONTMATTER_KEYS))}"
            yield BrokenRule("frontmatter-key", path, message)
        for inner in sorted(set(_CITED.findall(skill.body))):
            if f"{slug}/{inner}" not in proposal.after:
                yield BrokenRule("citation-dangling", path, f"names {inner}, which does not exist")
    for path, text in proposal.upserts.items():
        if is_tier3(path) and proposal.has_changed(path):
            if path.count("/") > 2:
                yield BrokenRule("resource-depth", path, f"expected directly in {slug_of(path)}/{path.split('/')[1]}/")
            found = _INTERACTIVE.search(text) if path.split("/")[1] == "scripts" else None
            if found:
                yield BrokenRule("script-interaction", path, f"uses {found.group(1)!r}")


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


__all__ = ["apply_patch", "check_patch", "operation_of"]


def check_patch(patch: Patch, occasion: Occasion) -> tuple[Finding, ...]:
    """Return every rule the patch breaks or bends under the occasion's profile, errors first."""
    proposal = Proposal(patch, occasion)
    broken = [item for check in _CHECKS for item in check(proposal)]
    findings = [
        Finding(item.rule, _shorten_path(item.path), item.message, severity)
        for item in dict.fromkeys(broken)
        if (severity := RULES[item.rule].severity(occasion.profile)) != "off"
    ]
    return tuple(sorted(findings, key=lambda finding: finding.severity != "error"))


def operation_of(patch: Patch, occasion: Occasion) -> str:
    """Return the operation as recorded. As released, a new slug makes any operation a create, and without one a
    create is a revise; the other profiles accept the author's word and reject it if it does not fit."""
    if occasion.mode.names_skills or occasion.profile != "as-released":
        return patch.operation_type
    if Proposal(patch, occasion).new_slugs:
        return "create"
    return "revise" if patch.operation_type in ("create", "") else patch.operation_type


def _confinement(proposal: Proposal) -> Iterator[BrokenRule]:
    for path in (*proposal.patch.upsert_files, *proposal.patch.delete_paths):
        problem = confinement_problem(path)
        if problem:
            yield BrokenRule("path-confinement", path, problem)


def _layout(proposal: Proposal) -> Iterator[BrokenRule]:
    for path in (*proposal.upserts, *proposal.deletes):
        if path != f"{slug_of(path)}/{SKILL_FILE}" and not is_tier3(path):
            expected = f"<slug>/{SKILL_FILE} or a file below <slug>/{{{','.join(TIER3_FOLDERS)}}}/"
            yield BrokenRule("path-layout", path, f"expected {expected}")


def _collisions(proposal: Proposal) -> Iterator[BrokenRule]:
    places: dict[str, str] = {}
    for path in proposal.after:
        first = places.setdefault(same_place(path), path)
        if first != path:
            yield BrokenRule("path-collision", path, f"differs from {first} only in the case or form of its letters")
    for path in proposal.after:
        parts = path.split("/")
        for length in range(1, len(parts)):
            above = places.get(same_place("/".join(parts[:length])))
            if above is not None:
                yield BrokenRule("path-collision", path, f"{above} is a file and cannot be its folder")


def _contents(proposal: Proposal) -> Iterator[BrokenRule]:
    for path, text in proposal.upserts.items():
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            yield BrokenRule("text-encoding", path, "contains NUL or half of a surrogate pair, expected UTF-8 text")
        size = len(text.encode("utf-8", "replace"))
        if size > MAX_FILE_BYTES:
            yield BrokenRule("file-size", path, f"{size:,} bytes, expected at most {MAX_FILE_BYTES:,}")
    total = sum(len(file.content) for file in proposal.after.values())
    if proposal.upserts and total > MAX_LIBRARY_BYTES:
        yield BrokenRule(
            "file-size", "", f"the library would have {total:,} bytes, expected at most {MAX_LIBRARY_BYTES:,}"
        )


def _slugs(proposal: Proposal) -> Iterator[BrokenRule]:
    for slug in proposal.new_slugs:
        problem = slug_problem(slug)
        if problem:
            yield BrokenRule("slug-format", slug, f"{problem}; expected [a-z0-9-], at most {MAX_SLUG_CHARS} characters")


def _skill_files(proposal: Proposal) -> Iterator[BrokenRule]:
    for slug in proposal.changed_slugs:
        if proposal.skill_text(slug) is None:
            yield BrokenRule("skill-file", slug, f"would be left without its {SKILL_FILE}")


def _scope(proposal: Proposal) -> Iterator[BrokenRule]:
    occasion = proposal.occasion
    own = set(occasion.family_slugs)
    reserved = set(occasion.reserved_slugs) - own - {occasion.family.slug}
    for path in (*proposal.upserts, *proposal.deletes):
        slug = slug_of(path)
        if slug in own:
            continue
        if slug in proposal.library_slugs:
            yield BrokenRule("family-scope", path, f"{slug} is a skill of another family than {occasion.family.key}")
        elif slug in reserved:
            yield BrokenRule("family-scope", path, f"{slug} is the name of another family's first skill")


def _slug_given(proposal: Proposal) -> Iterator[BrokenRule]:
    occasion = proposal.occasion
    if occasion.mode is AuthorMode.REVISE or occasion.mode.names_skills:
        return
    for slug in proposal.new_slugs:
        if slug != occasion.family.slug:
            yield BrokenRule("slug-given", slug, f"expected the slug of the request, {occasion.family.slug}")


def _operation(proposal: Proposal) -> Iterator[BrokenRule]:
    patch, occasion = proposal.patch, proposal.occasion
    if occasion.mode.names_skills or occasion.in_folder:  # a folder names no operation; it follows from what changed
        return
    allowed = (*OPERATIONS, "retire", "quarantine", "") if occasion.profile == "as-released" else OPERATIONS
    operation = patch.operation_type
    if operation not in allowed:
        yield BrokenRule("operation-type", "", f"{operation[:40]!r}, expected one of {', '.join(OPERATIONS)}")
    elif operation == "create" and not proposal.new_slugs:
        yield BrokenRule("slug-operation-pairing", "", "create without a new slug, expected revise, narrow or replace")
    elif operation != "create" and proposal.new_slugs:
        names = ", ".join(proposal.new_slugs)
        yield BrokenRule(
            "slug-operation-pairing", "", f"{operation or 'no operation'} with the new slug {names}, expected create"
        )


def _tier3_on_new(proposal: Proposal) -> Iterator[BrokenRule]:
    if proposal.occasion.mode is AuthorMode.INDUCE or proposal.occasion.mode.names_skills:
        return
    for path in proposal.upserts:
        if slug_of(path) in proposal.new_slugs and path != f"{slug_of(path)}/{SKILL_FILE}":
            message = f"a new skill has only its {SKILL_FILE} in mode {proposal.occasion.mode}"
            yield BrokenRule("tier3-on-new-slug", path, message)


def _check_tier3(proposal: Proposal) -> Iterator[BrokenRule]:
    occasion = proposal.occasion
    if not occasion.tier3_required or occasion.mode is not AuthorMode.REVISE:
        return
    own = set(occasion.family_slugs) & proposal.library_slugs
    found = [path for path in proposal.upserts if is_tier3(path) and slug_of(path) in own]
    if occasion.profile != "as-released":  # as released, it is enough that the file exists
        found = [path for path in found if proposal.has_changed(path)]
    if not found:
        where = ", ".join(f"<slug>/{folder}/" for folder in TIER3_FOLDERS)
        yield BrokenRule("tier3-required", "", f"no new or updated file below {where} of an existing skill")


def _deletions(proposal: Proposal) -> Iterator[BrokenRule]:
    written = {slug_of(path) for path in proposal.upserts}
    for path in proposal.deletes:
        if path in proposal.upserts:
            yield BrokenRule("delete-conflict", path, "both written and deleted")
        elif path == f"{slug_of(path)}/{SKILL_FILE}" and slug_of(path) in written:
            yield BrokenRule("delete-conflict", path, "deletes the skill while other files of it are written")
        if path not in proposal.occasion.library:
            yield BrokenRule("delete-target", path, "not in the library")


def _budget(proposal: Proposal) -> Iterator[BrokenRule]:
    """An author in a sandbox, such as a program or an agent, is limited by the size of its result. A single model
    call is limited by its output tokens, which are shorter or longer than these. Tokens are ceil(characters / 4)."""
    hands_in = proposal.occasion.mode is AuthorMode.OUTSIDE or proposal.occasion.in_folder
    limit = proposal.occasion.budget_tokens if hands_in else None
    size = sum(-(-len(file.content.decode("utf-8", "replace")) // 4) for file in proposal.after.values())
    if limit is not None and proposal.upserts and size > limit:
        yield BrokenRule("generation-budget", "", f"the library would have {size:,} tokens, expected at most {limit:,}")


_CHECKS: tuple[Callable[[Proposal], Iterable[BrokenRule]], ...] = (
    _confinement,
    _layout,
    _collisions,
    _contents,
    _slugs,
    _scope,
    _slug_given,
    _skill_files,
    _operation,
    _tier3_on_new,
    _check_tier3,
    _deletions,
    _budget,
    broken_skill_rules,
    broken_evolution_rules,
    lint,
)


def _shorten_path(path: str) -> str:
    """Turn a hostile path into a line that can be stored and shown."""
    clean = "".join(character if character.isprintable() else "\ufffd" for character in path[:200])
    return clean if len(path) <= 200 else clean + "..."
