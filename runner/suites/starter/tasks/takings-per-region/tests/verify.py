"""Checks of E1-LS1-T6: takings per region."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS1-T6")
verifier.rows("regions whose branches are written alike and were always open", "plain", public=True)
verifier.rows(
    "regions with closed branches",
    "missing-codes",
    because="-1 is the code for a missing value (see codebook.md), a code, not a measurement",
)
verifier.rows(
    "regions whose branches are written in two ways",
    "key-forms",
    because="The branch is written differently in the two files: BR-007 is the same key as 7",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
