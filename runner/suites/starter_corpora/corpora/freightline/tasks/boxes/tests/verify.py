"""Checks of boxes: what weight the boxes are billed by."""

from verifier_lib import Verifier

verifier = Verifier("boxes")
verifier.rows("parcels without anything unusual", "plain", public=True)
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
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
