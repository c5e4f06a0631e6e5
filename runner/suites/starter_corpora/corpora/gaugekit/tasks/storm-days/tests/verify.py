"""Checks of storm-days: peaks of the stormy days."""

from verifier_lib import Verifier

verifier = Verifier("storm-days")
verifier.rows("groups without anything unusual", "plain", public=True)
verifier.rows(
    "groups with a suspect reading",
    "suspect-readings",
    because="A suspect reading (flag S) does not count in gaugekit",
)
verifier.rows(
    "days with readings of the night",
    "water-day",
    because="A day of gaugekit begins at 06:00",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
