"""Checks of E5-LS1-T5: turnout by ward."""

from verifier_lib import Verifier

verifier = Verifier("E5-LS1-T5")
verifier.rows("wards on which all sources agree", "plain", public=True)
verifier.rows(
    "wards on which the sources disagree",
    "lowest-figure",
    because="Our sources disagree here, and where they do we quote the most cautious figure, the lowest",
)
verifier.rows(
    "wards with figures of a part",
    "partial-counts",
    because="A figure taken while the count was still going on is about a part, so it is neither counted nor quoted",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
