"""Every rule of the authoring contract, by its stable id, with its weight in each profile.

The contract is that of the SkillEvolBench paper (appendix C.3 and C.4). Profiles:
paper        rejects what the prompts announce as required or rejected; advice is a warning.
as-released  rejects what the released code really rejects; what its prompts only announce is a warning.
strict       warnings of measurable rules reject too.

Rules that keep a patch inside its folder, its files storable and its family's own are errors in every profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "off"]

CONTRACT_VERSION = "contract/2"
PROFILES = ("paper", "as-released", "strict")

MAX_SLUG_CHARS = 64
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1_024
MAX_COMPATIBILITY_CHARS = 500
MAX_BODY_LINES = 500
MAX_FILE_BYTES = 256 * 1024
MAX_LIBRARY_BYTES = 8 * 1024 * 1024


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
