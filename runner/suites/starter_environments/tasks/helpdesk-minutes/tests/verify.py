"""Checks of E2-LS1-T6: minutes of the helpdesk, with names."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS1-T6")
verifier.rows("tickets that rest", "plain", public=True)
verifier.rows(
    "tickets and people that the pages list twice",
    "highest-version",
    because="It, or its agent, stands on two pages; one line with the highest version of both is expected",
)
verifier.rows(
    "items that changed while the pages were read",
    "one-moment",
    because="It was updated during the reading; all is shown as of the first answer, so `was` counts",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
