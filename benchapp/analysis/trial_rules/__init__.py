"""The pre-classifier: small pure functions over facts. Each may propose one code for one item.

A proposal is a suggestion, never a label. `RULES_VERSION` is raised when a rule may judge the same facts differently;
suggestions carry it.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchapp.analysis.trial_rules import patch_rules, rules
from benchapp.analysis.trial_rules.rules import TrialFinding, TrialRule

RULES_VERSION = "rules/3"

TRIAL_RULES: tuple[TrialRule, ...] = (
    TrialRule("silent-bypass", ("silent bypass", "missed invocation"), rules.silent_bypass),
    TrialRule("read-and-failed", ("loaded, misapplied",), rules.read_and_failed),
    TrialRule("skill-missing", ("not available",), rules.skill_missing),
    TrialRule("agent-timeout", ("agent timeout",), rules.agent_timeout),
    TrialRule("context-exhausted", ("context exhausted",), rules.context_exhausted),
    TrialRule("harness-failure", ("harness/infra",), rules.harness_failure),
    TrialRule("verifier-toolchain", ("verifier/toolchain mismatch",), rules.verifier_toolchain),
    TrialRule("missing-recalculation", ("missing recalculation",), rules.missing_recalculation),
    TrialRule("missing-artifact", ("asset/artifact",), rules.missing_artifact),
    TrialRule("interface-schema", ("interface/schema",), rules.interface_schema),
    TrialRule("runtime-dependency", ("runtime/dependency",), rules.runtime_dependency),
    TrialRule("numeric-mismatch", ("numeric/formula",), rules.numeric_mismatch),
    TrialRule("state-rule", ("state/rule",), rules.state_rule),
    TrialRule("repeated-error", ("repeated error",), rules.repeated_error),
    TrialRule("incomplete-verification", ("incomplete verification",), rules.incomplete_verification),
    TrialRule("premature-success", ("premature success",), rules.premature_success),
)
PATCH_RULES: tuple[TrialRule, ...] = (
    TrialRule("over-specific", ("over-specific patch", "over-specific"), patch_rules.over_specific),
    TrialRule("skill-inflation", ("skill inflation",), patch_rules.skill_inflation),
    TrialRule("clutter", ("clutter/too long",), patch_rules.clutter),
)
RULES: dict[str, TrialRule] = {rule.key: rule for rule in (*TRIAL_RULES, *PATCH_RULES)}


def examine(facts: object, rules: Iterable[TrialRule]) -> list[tuple[TrialRule, TrialFinding]]:
    """Return the rules that match with their findings, in order; several may."""
    return [(rule, finding) for rule in rules if (finding := rule.judge(facts))]
