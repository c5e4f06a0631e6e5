"""Checks of E1-LS1-T2: waiting times of clinics."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS1-T2")
verifier.rows("clinics whose waiting times are all plain numbers or empty", "plain", public=True)
verifier.rows(
    "clinics with unrecorded waiting times",
    "missing-codes",
    because="999 is the code for a missing value (see codebook.md), a code, not a measurement",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
