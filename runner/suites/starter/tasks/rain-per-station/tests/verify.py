"""Checks of E1-LS1-T1: average rain per station."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS1-T1")
verifier.rows("the first stations have the right count and average", "plain", public=True)
verifier.rows("all further lines", "rest")
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
