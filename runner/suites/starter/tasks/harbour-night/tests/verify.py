"""Checks of E2-LS1-T2: a night in the harbour."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS1-T2")
verifier.rows("events of the ferry and the radar have the right time", "plain", public=True)
verifier.rows(
    "events of the harbour have the right time",
    "naive-times",
    because="A time that carries no offset is local time of its source (utc_offset in sources.json)",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
