"""Checks of E4-LS1-T1: statement of the joinery."""

from verifier_lib import Verifier

verifier = Verifier("E4-LS1-T1")
verifier.rows("entries of the first weeks of a month", "plain", public=True)
verifier.rows(
    "entries of the last days of a month",
    "books-close",
    because="Our books close on the 25th: what is posted after that day belongs to the period of the next month",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
