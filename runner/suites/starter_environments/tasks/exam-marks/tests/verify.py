"""Checks of E1-LS1-T4: marks below zero points."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS1-T4")
verifier.rows("papers with points above zero", "plain", public=True)
verifier.rows("papers below zero in writing", "mended")
verifier.rows(
    "papers below zero in the oral part",
    "every-branch",
    because="Oral points can be below zero as well: the same slip stands in the next line",
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
