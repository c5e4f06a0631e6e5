"""Checks of E2-LS1-T5: van telemetry."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS1-T5")
verifier.rows("events of the vans that are always connected", "plain", public=True)
verifier.rows(
    "events of the vans without connection",
    "event-not-arrival",
    because="received is the time of arrival at our server; the event happened at `at`",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
