"""Every rule of patches, libraries and trials has a name in words, and no rule that is gone keeps one."""

from __future__ import annotations

from benchapp.analysis.diagnoses.diagnosis import RULES as LIBRARY_RULES
from benchapp.analysis.rule_names import RULE_NAMES, name_rule
from benchapp.analysis.trial_rules import RULES as TRIAL_RULES
from runner.authoring.contract.contract import RULES as CONTRACT_RULES


def test_every_rule_has_a_name_and_every_name_a_rule() -> None:
    assert set(RULE_NAMES) == {*CONTRACT_RULES, *LIBRARY_RULES, *TRIAL_RULES}


def test_no_two_rules_have_one_name() -> None:
    assert len({name.casefold() for name in RULE_NAMES.values()}) == len(RULE_NAMES)


def test_a_name_is_short_and_holds_no_key() -> None:
    for key, name in RULE_NAMES.items():
        assert len(name.split()) <= 7, name
        assert name[0].isupper(), name
        assert not name.endswith("."), name
        assert "-" not in key or key not in name


def test_a_rule_that_is_gone_goes_by_its_key() -> None:
    assert name_rule("an-old-rule") == "an-old-rule"
