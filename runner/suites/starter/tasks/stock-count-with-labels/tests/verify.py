"""Checks of E1-LS2-T2: stock count with labels."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS2-T2")
verifier.rows("counts whose article is written as in the catalogue", "plain", public=True)
verifier.rows(
    "counts whose article is written another way",
    "key-forms",
    because="The article is written differently in the two files: 'ART-00417' is the same key as '417'",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
