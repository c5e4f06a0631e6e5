"""Checks of E3-LS1-T4: pay for shifts."""

from verifier_lib import Verifier

verifier = Verifier("E3-LS1-T4")
verifier.rows("shifts between two agreements", "plain", public=True)
verifier.rows(
    "shifts on the very day of a change",
    "day-after",
    because="An entry takes effect the day after its date; on that day itself the one before still counts",
)
verifier.rows(
    "shifts whose entry was corrected",
    "highest-revision",
    because="The list has several entries for one date; the one with the highest revision counts",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
