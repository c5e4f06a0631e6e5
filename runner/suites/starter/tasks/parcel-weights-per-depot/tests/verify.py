"""Checks of E1-LS1-T4: parcel weights per depot."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS1-T4")
verifier.rows("depots whose scale always worked", "plain", public=True)
verifier.rows(
    "depots whose scale was offline at times",
    "missing-codes",
    because="-1 is the code for a missing value (see format.md), a code, not a measurement",
)
verifier.rows(
    "depots without any weight",
    "empty-groups",
    because="A depot without a single value had nothing to average: it keeps its line, with 0 parcels and an empty average",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
