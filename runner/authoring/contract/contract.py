"""Check a patch against the contract. Rules about paths, slugs, operations and deletions are here. Rules about the text
of a SKILL.md are in `skill_rules`, advice is in `lint`, and the rules' weights are in `contract_rules`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from runner.authoring.contract.contract_rules import MAX_FILE_BYTES, MAX_LIBRARY_BYTES, MAX_SLUG_CHARS, RULES
from runner.authoring.contract.evolution_rules import broken_evolution_rules
from runner.authoring.contract.lint import lint
from runner.authoring.contract.skill_file import SKILL_FILE
from runner.authoring.contract.skill_rules import broken_skill_rules, slug_problem
from runner.authoring.occasion import Occasion
from runner.authoring.proposal import (
    OPERATIONS,
    TIER3_FOLDERS,
    BrokenRule,
    Proposal,
    apply_patch,
    confinement_problem,
    is_tier3,
    same_place,
    slug_of,
)
from runner.base.types import AuthorMode, Finding, Patch

__all__ = ["apply_patch", "check_patch", "operation_of"]


def check_patch(patch: Patch, occasion: Occasion) -> tuple[Finding, ...]:
    """Every rule the patch breaks or bends under the occasion's profile, errors first."""
    proposal = Proposal(patch, occasion)
    broken = [item for check in _CHECKS for item in check(proposal)]
    findings = [
        Finding(item.rule, _shorten_path(item.path), item.message, severity)
        for item in dict.fromkeys(broken)
        if (severity := RULES[item.rule].severity(occasion.profile)) != "off"
    ]
    return tuple(sorted(findings, key=lambda finding: finding.severity != "error"))


def operation_of(patch: Patch, occasion: Occasion) -> str:
    """The operation as recorded. As released, a new slug makes any operation a create, and without one a create is a
    revise; the other profiles take the author's word and reject it if it does not fit."""
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
