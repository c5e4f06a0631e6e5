"""Checks of E1-LS1-T5: energy use of buildings."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS1-T5")
verifier.rows("buildings that were read every day", "plain", public=True)
verifier.rows(
    "buildings with days that were not read",
    "ready-made-figures",
    because="The ready-made week_mean counts a day without reading as zero; the average has to come from the single days",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
