"""Checks of E2-LS2-T1: newsletter sign-ups."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS2-T1")
verifier.rows("the first addresses have their line", "plain", public=True)
verifier.rows("all further lines", "rest")
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
