"""Checks of E2-LS2-T2: a phone book without repeats."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS2-T2")
verifier.rows("numbers that are written in one way only", "plain", public=True)
verifier.rows(
    "numbers that are written in several ways",
    "identity-forms",
    because="'+442079460011', '0044-20-7946-0011' and '(+44) 2079460011' all stand for the same number",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
