"""Checks of E1-LS2-T1: orders with customer names."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS2-T1")
verifier.rows("every order has the right name", "plain", public=True)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
