"""Checks of pallets: what the pallets cost."""

from verifier_lib import Verifier

verifier = Verifier("pallets")
verifier.rows(
    "parcels that are larger than heavy",
    "volume-weight",
    because="The larger of weight and volume weight is billed",
)
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
