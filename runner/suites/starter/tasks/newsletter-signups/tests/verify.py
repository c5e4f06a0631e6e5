"""Checks of E2-LS2-T1: newsletter sign-ups."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS2-T1")
verifier.rows("every address has its line", "plain", public=True)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
