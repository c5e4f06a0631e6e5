"""Checks of E1-LS1-T3: base price for every month."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS1-T3")
verifier.rows("bills of a single month", "plain", public=True)
verifier.rows("bills over several months", "mended")
verifier.rows(
    "figures that went out already",
    "issued-stays",
    because="This one was issued already; a figure that went out stays as it is, whatever the program gives now",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
