"""Checks of E5-LS1-T3: clippings on the strike."""

from verifier_lib import Verifier

verifier = Verifier("E5-LS1-T3")
verifier.rows("topics on which all outlets agree", "plain", public=True)
verifier.rows(
    "topics on which the sources disagree",
    "lowest-figure",
    because="Our sources disagree here, and where they do we quote the most cautious figure, the lowest",
)
verifier.rows(
    "topics on which one source repeats another",
    "copied-figures",
    because="What is copied from another source comes from no source of its own, so it is not counted",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
