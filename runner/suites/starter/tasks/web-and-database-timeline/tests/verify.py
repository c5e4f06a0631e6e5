"""Checks of E2-LS1-T1: web and database timeline."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS1-T1")
verifier.rows("the first events have the right time", "plain", public=True)
verifier.rows("all further lines", "rest")
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
