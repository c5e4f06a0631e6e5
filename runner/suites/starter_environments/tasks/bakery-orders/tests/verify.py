"""Checks of E3-LS1-T1: what the orders cost."""

from verifier_lib import Verifier

verifier = Verifier("E3-LS1-T1")
verifier.rows("orders between two changes", "plain", public=True)
verifier.rows(
    "orders on the very day of a change",
    "day-after",
    because="An entry takes effect the day after its date; on that day itself the one before still counts",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
