"""Checks of E2-LS2-T6: tickets of three offices."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS2-T6")
verifier.rows("tickets with one record", "plain", public=True)
verifier.rows(
    "tickets that changed",
    "field-by-field",
    because="Each field comes from the newest record in which it is filled (newest filled value)",
)
verifier.rows(
    "tickets that changed in more than one office",
    "naive-times",
    because="changed carries no offset: it is local time of the office (utc_offset in sources.json)",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
