"""Checks of E1-LS1-T6: started hours on invoices."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS1-T6")
verifier.rows("jobs of full hours", "plain", public=True)
verifier.rows("jobs like the reported one", "mended")
verifier.rows(
    "started hours of travel",
    "every-branch",
    because="Travel is billed by started hours too: the same slip stands in its line",
)
verifier.rows(
    "labour a little over a full hour",
    "suggested-patch",
    because="The patch fits the reported job alone; a quarter of an hour starts an hour too",
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
