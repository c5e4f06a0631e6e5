"""Checks of E1-LS1-T5: parking for several days."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS1-T5")
verifier.rows("short stays", "plain", public=True)
verifier.rows("stays of more than eight hours", "mended")
verifier.rows(
    "stays of more than a day",
    "suggested-patch",
    because="The patch fits the reported stay alone; by the tariff the limit holds within each 24 hours",
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
