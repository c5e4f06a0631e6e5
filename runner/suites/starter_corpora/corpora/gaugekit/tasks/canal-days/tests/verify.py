"""Checks of canal-days: highest levels of the canal, day by day."""

from verifier_lib import Verifier

verifier = Verifier("canal-days")
verifier.rows(
    "groups with a suspect reading",
    "suspect-readings",
    because="A suspect reading (flag S) does not count in gaugekit",
)
verifier.rows(
    "levels of stations whose gauge zero is not 0",
    "gauge-zero",
    because="gaugekit tells levels above the common zero: reading plus gauge zero",
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
