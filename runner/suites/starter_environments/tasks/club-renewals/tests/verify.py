"""Checks of E3-LS1-T5: fees of renewed memberships."""

from verifier_lib import Verifier

verifier = Verifier("E3-LS1-T5")
verifier.rows("renewals while a fee runs", "plain", public=True)
verifier.rows(
    "renewals on the very day of a change",
    "day-after",
    because="An entry takes effect the day after its date; on that day itself the one before still counts",
)
verifier.rows(
    "renewals after a fee has run out",
    "planned-end",
    because="The column until is the planned end; a fee holds until the next one begins",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
