"""Checks of E1-LS2-T1: orders with customer names."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS2-T1")
verifier.rows("the first orders have the right name", "plain", public=True)
verifier.rows("all further lines", "rest")
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
