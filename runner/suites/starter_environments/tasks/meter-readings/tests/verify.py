"""Checks of E2-LS1-T3: readings of all meters."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS1-T3")
verifier.rows("meters that stood still", "plain", public=True)
verifier.rows(
    "items that changed while the pages were read",
    "one-moment",
    because="It was updated during the reading; all is shown as of the first answer, so `was` counts",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
