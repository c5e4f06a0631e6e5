"""Checks of E2-LS1-T1: all orders of the shop."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS1-T1")
verifier.rows("orders that rest", "plain", public=True)
verifier.rows(
    "items that changed while the pages were read",
    "one-moment",
    because="It was updated during the reading; all is shown as of the first answer, so `was` counts",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
