"""Checks of E1-LS1-T2: fares at the limit of a length class."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS1-T2")
verifier.rows("crossings away from the limits", "plain", public=True)
verifier.rows("cars at the limit", "mended")
verifier.rows(
    "trucks at the limit",
    "every-branch",
    because="Trucks have a limit too: the same slip stands in the branch below",
)
verifier.rows(
    "figures that went out already",
    "issued-stays",
    because="This one was issued already; a figure that went out stays as it is, whatever the program gives now",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
