"""Checks of E6-LS1-T2: meetings of the ward."""

from verifier_lib import Verifier

verifier = Verifier("E6-LS1-T2")
verifier.rows("meetings on easy days", "plain", public=True)
verifier.rows(
    "meetings that follow closely on something else",
    "ten-minutes",
    because="Nobody goes straight from one appointment into the next: ten minutes stay free on either side of a meeting",
)
verifier.rows(
    "meetings on days with holds",
    "holds-give-way",
    because="What is in the way is only a hold, and a hold gives way to a meeting",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
