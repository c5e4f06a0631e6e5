"""Checks of E4-LS1-T4: vouchers of the museum."""

from verifier_lib import Verifier

verifier = Verifier("E4-LS1-T4")
verifier.rows("vouchers of the first weeks of a month", "plain", public=True)
verifier.rows(
    "entries of the last days of a month",
    "books-close",
    because="Our books close on the 25th: what is posted after that day belongs to the period of the next month",
)
verifier.rows(
    "entries that a later line takes back",
    "taken-back",
    because="A later line takes this entry back, and what is taken back stays in the ledger with 0.00",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
