"""Checks of E1-LS1-T1: late fees with days of grace."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS1-T1")
verifier.rows("fees that the days of grace do not change", "plain", public=True)
verifier.rows("fees of loans with days of grace", "mended")
verifier.rows(
    "figures that went out already",
    "issued-stays",
    because="This one was issued already; a figure that went out stays as it is, whatever the program gives now",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
