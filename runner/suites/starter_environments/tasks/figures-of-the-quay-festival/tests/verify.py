"""Checks of E5-LS1-T1: figures of the quay festival."""

from verifier_lib import Verifier

verifier = Verifier("E5-LS1-T1")
verifier.rows("topics on which all sources agree", "plain", public=True)
verifier.rows(
    "topics on which the sources disagree",
    "lowest-figure",
    because="Our sources disagree here, and where they do we quote the most cautious figure, the lowest",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
