"""Checks of E4-LS1-T6: two accounts of the rowing club."""

from verifier_lib import Verifier

verifier = Verifier("E4-LS1-T6")
verifier.rows("entries of the first two weeks of a month", "plain", public=True)
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
verifier.rows(
    "entries in the middle of a month",
    "printed-period",
    because="The period printed in the document is the bank's own, which begins on the 15th; ours comes from the day of posting",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
