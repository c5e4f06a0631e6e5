"""Checks of E2-LS1-T4: free beds of the clinics."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS1-T4")
verifier.rows("wards without a change", "plain", public=True)
verifier.rows(
    "items that the pages list twice",
    "highest-version",
    because="It stands on two pages, as pages shift; one line with the highest version is expected",
)
verifier.rows(
    "items that changed while the pages were read",
    "one-moment",
    because="It was updated during the reading; all is shown as of the first answer, so `was` counts",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
