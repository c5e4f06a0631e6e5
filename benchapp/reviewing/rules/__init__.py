"""The pre-classifier: small pure functions over facts, each of which may propose one code for one item.

A proposal is a suggestion, never a label. `RULES_VERSION` is raised whenever a rule may speak differently about the
same facts; suggestions carry it.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchapp.reviewing.rules import checks, conduct, endings, patches, skills
from benchapp.reviewing.rules.finding import Finding, Rule

RULES_VERSION = "rules/2"

TRIAL_RULES: tuple[Rule, ...] = (
    Rule("silent-bypass", ("silent bypass", "missed invocation"), skills.silent_bypass),
    Rule("read-and-failed", ("loaded, misapplied",), skills.read_and_failed),
    Rule("skill-missing", ("not available",), skills.skill_missing),
    Rule("agent-timeout", ("agent timeout",), endings.agent_timeout),
    Rule("context-exhausted", ("context exhausted",), endings.context_exhausted),
    Rule("harness-failure", ("harness/infra",), endings.harness_failure),
    Rule("verifier-toolchain", ("verifier/toolchain mismatch",), endings.verifier_toolchain),
    Rule("missing-recalculation", ("missing recalculation",), checks.missing_recalculation),
    Rule("missing-artifact", ("asset/artifact",), checks.missing_artifact),
    Rule("interface-schema", ("interface/schema",), checks.interface_schema),
    Rule("runtime-dependency", ("runtime/dependency",), checks.runtime_dependency),
    Rule("numeric-mismatch", ("numeric/formula",), checks.numeric_mismatch),
    Rule("state-rule", ("state/rule",), checks.state_rule),
    Rule("repeated-error", ("repeated error",), conduct.repeated_error),
    Rule("incomplete-verification", ("incomplete verification",), conduct.incomplete_verification),
    Rule("premature-success", ("premature success",), conduct.premature_success),
)
PATCH_RULES: tuple[Rule, ...] = (
    Rule("over-specific", ("over-specific patch", "over-specific"), patches.over_specific),
    Rule("skill-inflation", ("skill inflation",), patches.skill_inflation),
    Rule("clutter", ("clutter/too long",), patches.clutter),
)
RULES: dict[str, Rule] = {rule.key: rule for rule in (*TRIAL_RULES, *PATCH_RULES)}


def examine(facts: object, rules: Iterable[Rule]) -> list[Finding]:
    """What these rules say of the facts, in the order of the rules; several may speak."""
    return [finding for rule in rules if (finding := rule.apply(facts))]
