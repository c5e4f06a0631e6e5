"""Checks of E2-LS1-T4: mountain relay."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS1-T4")
verifier.rows("crossings at the finish have the right time", "plain", public=True)
verifier.rows(
    "crossings at the start have the right time",
    "naive-times",
    because="A time that carries no offset is local time of its source (utc_offset in sources.json)",
)
verifier.rows(
    "crossings at the summit have the right time",
    "clock-error",
    because="The clock was wrong: that mat's times are too late by clock_ahead_seconds (sources.json)",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
