"""Checks of E2-LS1-T3: door and camera."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS1-T3")
verifier.rows("events of the camera have the right time", "plain", public=True)
verifier.rows(
    "events of the door have the right time",
    "clock-error",
    because="The clock was wrong: that source's times are too late by clock_ahead_seconds (sources.json)",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
