"""Checks of E1-LS2-T3: badge swipes with holders."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS2-T3")
verifier.rows("swipes with badges that never changed hands", "plain", public=True)
verifier.rows(
    "swipes with badges that changed hands",
    "newest-entry",
    because="There is more than one entry for the badge in staff.csv; the newest entry says who holds it now",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
