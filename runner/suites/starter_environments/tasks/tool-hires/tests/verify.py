"""Checks of E3-LS1-T2: tariffs of hired tools."""

from verifier_lib import Verifier

verifier = Verifier("E3-LS1-T2")
verifier.rows("hires between two changes", "plain", public=True)
verifier.rows(
    "hires on the very day of a change",
    "day-after",
    because="An entry takes effect the day after its date; on that day itself the one before still counts",
)
verifier.rows(
    "hires whose entry was corrected",
    "highest-revision",
    because="The list has several entries for one date; the one with the highest revision counts",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
