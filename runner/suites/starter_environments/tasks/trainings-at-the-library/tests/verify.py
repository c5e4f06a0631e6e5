"""Checks of E6-LS1-T4: trainings at the library."""

from verifier_lib import Verifier

verifier = Verifier("E6-LS1-T4")
verifier.rows("trainings on easy days", "plain", public=True)
verifier.rows(
    "trainings that follow closely on something else",
    "ten-minutes",
    because="Nobody goes straight from one appointment into the next: ten minutes stay free on either side of a meeting",
)
verifier.rows(
    "trainings on days with holds",
    "holds-give-way",
    because="What is in the way is only a hold, and a hold gives way to a meeting",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
