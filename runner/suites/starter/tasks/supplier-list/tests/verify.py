"""Checks of E2-LS2-T3: the supplier list."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS2-T3")
verifier.rows("suppliers with one record", "plain", public=True)
verifier.rows(
    "suppliers with several records",
    "field-by-field",
    because="Each field comes from the newest record in which it is filled (newest filled value); the older record still counts for fields the newer one lacks",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
