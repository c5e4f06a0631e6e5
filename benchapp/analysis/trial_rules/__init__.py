"""The pre-classifier: small pure functions over facts, each of which may propose one code for one item.

A proposal is a suggestion, never a label. `RULES_VERSION` is raised whenever a rule may speak differently about the
same facts; suggestions carry it.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchapp.analysis.trial_rules import check_rules, conduct, ending_rules, patch_rules, skill_use_rules
from benchapp.analysis.trial_rules.rule_finding import Finding, Rule

RULES_VERSION = "rules/2"

TRIAL_RULES: tuple[Rule, ...] = (
    Rule("silent-bypass", ("silent bypass", "missed invocation"), skill_use_rules.silent_bypass),
    Rule("read-and-failed", ("loaded, misapplied",), skill_use_rules.read_and_failed),
    Rule("skill-missing", ("not available",), skill_use_rules.skill_missing),
    Rule("agent-timeout", ("agent timeout",), ending_rules.agent_timeout),
    Rule("context-exhausted", ("context exhausted",), ending_rules.context_exhausted),
    Rule("harness-failure", ("harness/infra",), ending_rules.harness_failure),
    Rule("verifier-toolchain", ("verifier/toolchain mismatch",), ending_rules.verifier_toolchain),
    Rule("missing-recalculation", ("missing recalculation",), check_rules.missing_recalculation),
    Rule("missing-artifact", ("asset/artifact",), check_rules.missing_artifact),
    Rule("interface-schema", ("interface/schema",), check_rules.interface_schema),
    Rule("runtime-dependency", ("runtime/dependency",), check_rules.runtime_dependency),
    Rule("numeric-mismatch", ("numeric/formula",), check_rules.numeric_mismatch),
    Rule("state-rule", ("state/rule",), check_rules.state_rule),
    Rule("repeated-error", ("repeated error",), conduct.repeated_error),
    Rule("incomplete-verification", ("incomplete verification",), conduct.incomplete_verification),
    Rule("premature-success", ("premature success",), conduct.premature_success),
)
PATCH_RULES: tuple[Rule, ...] = (
    Rule("over-specific", ("over-specific patch", "over-specific"), patch_rules.over_specific),
    Rule("skill-inflation", ("skill inflation",), patch_rules.skill_inflation),
    Rule("clutter", ("clutter/too long",), patch_rules.clutter),
)
RULES: dict[str, Rule] = {rule.key: rule for rule in (*TRIAL_RULES, *PATCH_RULES)}


def examine(facts: object, rules: Iterable[Rule]) -> list[Finding]:
    """What these rules say of the facts, in the order of the rules; several may speak."""
    return [finding for rule in rules if (finding := rule.apply(facts))]
