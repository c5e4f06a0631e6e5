"""Checks of E1-LS2-T6: fees per delivery zone."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS2-T6")
verifier.rows("zones whose areas never moved", "plain", public=True)
verifier.rows(
    "zones whose areas moved",
    "newest-entry",
    because="There is more than one entry for some areas; the newest entry says the zone of today",
)
verifier.rows(
    "zones without parcels",
    "empty-groups",
    because="A zone without a single value had nothing to average: it keeps its line, with 0 parcels and an empty average",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
