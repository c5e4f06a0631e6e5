"""Checks of merged-timeline-2: an evening in the restaurant."""

from verifier_lib import Verifier

verifier = Verifier("merged-timeline-2")
verifier.rows("events of the other sources have the right time", "plain", public=True)
verifier.rows(
    "events of the source without offsets have the right time",
    "naive-times",
    because="A time that carries no offset is local time of its source (utc_offset in sources.json)",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
