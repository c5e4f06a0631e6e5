"""Checks of joined-tables-3: who sits where."""

from verifier_lib import Verifier

verifier = Verifier("joined-tables-3")
verifier.rows("rows without anything unusual", "plain", public=True)
verifier.rows(
    "rows whose key is written in another form",
    "key-forms",
    because="The key is written differently in the two files",
)
verifier.rows(
    "rows whose entry stands at another place",
    "never-by-position",
    because="Only the key says what belongs together, not the position in the file",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
