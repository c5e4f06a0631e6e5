"""Checks of E2-LS1-T1: web and database timeline."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS1-T1")
verifier.rows("every event has the right time", "plain", public=True)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
