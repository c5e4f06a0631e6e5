"""Checks of letters: what the letters cost."""

from verifier_lib import Verifier

verifier = Verifier("letters")
verifier.rows(
    "parcels between two steps",
    "weight-steps",
    because="Weight is billed in steps of 500 g, rounded up",
)
verifier.rows(
    "amounts in the currency",
    "minor-units",
    because="Freightline tells money in minor units",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
