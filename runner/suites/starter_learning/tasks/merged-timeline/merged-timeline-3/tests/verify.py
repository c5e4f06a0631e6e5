"""Checks of merged-timeline-3: the relay from north to south."""

from verifier_lib import Verifier

verifier = Verifier("merged-timeline-3")
verifier.rows("events of the other sources have the right time", "plain", public=True)
verifier.rows(
    "events of the source without offsets have the right time",
    "naive-times",
    because="A time that carries no offset is local time of its source (utc_offset in sources.json)",
)
verifier.rows(
    "events of the source with a wrong clock have the right time",
    "clock-error",
    because="That clock was ahead (clock_ahead_seconds in sources.json), whatever its offset says",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
