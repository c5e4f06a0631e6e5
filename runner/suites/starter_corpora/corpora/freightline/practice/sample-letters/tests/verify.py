"""Checks of sample-letters: what a few letters are billed."""

from verifier_lib import Verifier

verifier = Verifier("sample-letters")
verifier.rows("parcels without anything unusual", "plain", public=True)
verifier.rows(
    "parcels between two steps",
    "weight-steps",
    because="Weight is billed in steps of 500 g, rounded up",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
