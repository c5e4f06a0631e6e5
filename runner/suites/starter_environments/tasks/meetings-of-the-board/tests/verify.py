"""Checks of E6-LS1-T5: meetings of the board."""

from verifier_lib import Verifier

verifier = Verifier("E6-LS1-T5")
verifier.rows("meetings on easy days", "plain", public=True)
verifier.rows(
    "meetings that follow closely on something else",
    "ten-minutes",
    because="Nobody goes straight from one appointment into the next: ten minutes stay free on either side of a meeting",
)
verifier.rows(
    "meetings of people with entries from the telephone",
    "shown-as-free",
    because="The app has drawn as free whatever came from a telephone: these people are not free then",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
