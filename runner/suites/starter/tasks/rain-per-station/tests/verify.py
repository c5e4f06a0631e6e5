"""Checks of E1-LS1-T1: average rain per station."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS1-T1")
verifier.rows("every station has the right count and average", "plain", public=True)
verifier.complete()
verifier.handed_over()
verifier.finish()
