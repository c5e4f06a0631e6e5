"""Checks of E6-LS1-T6: visits of the architects."""

from verifier_lib import Verifier

verifier = Verifier("E6-LS1-T6")
verifier.rows("visits on easy days", "plain", public=True)
verifier.rows(
    "visits that follow closely on something else",
    "ten-minutes",
    because="Nobody goes straight from one appointment into the next: ten minutes stay free on either side of a meeting",
)
verifier.rows(
    "visits on days with holds",
    "holds-give-way",
    because="What is in the way is only a hold, and a hold gives way to a meeting",
)
verifier.rows(
    "visits of people with entries from the telephone",
    "shown-as-free",
    because="The app has drawn as free whatever came from a telephone: these people are not free then",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
