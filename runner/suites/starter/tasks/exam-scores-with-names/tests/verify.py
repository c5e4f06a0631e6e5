"""Checks of E1-LS2-T5: exam scores with names."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS2-T5")
verifier.rows("the first sheets", "plain", public=True)
verifier.rows(
    "the sheets further down",
    "never-by-position",
    because="The name belongs to the student number on the sheet, not to the position in the file",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
