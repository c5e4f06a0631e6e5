"""Checks of joined-tables-2: where was the meter read."""

from verifier_lib import Verifier

verifier = Verifier("joined-tables-2")
verifier.rows("rows without anything unusual", "plain", public=True)
verifier.rows(
    "rows whose key is written in another form",
    "key-forms",
    because="The key is written differently in the two files",
)
verifier.rows(
    "rows whose key stands more than once in the lookup",
    "newest-entry",
    because="The lookup has more than one entry for this key; the newest entry says what holds",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
