"""Checks of E4-LS1-T5: extract of the building society."""

from verifier_lib import Verifier

verifier = Verifier("E4-LS1-T5")
verifier.rows("entries of the first two weeks of a month", "plain", public=True)
verifier.rows(
    "entries of the last days of a month",
    "books-close",
    because="Our books close on the 25th: what is posted after that day belongs to the period of the next month",
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
