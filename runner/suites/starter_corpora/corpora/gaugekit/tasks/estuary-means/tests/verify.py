"""Checks of estuary-means: mean levels in the estuary."""

from verifier_lib import Verifier

verifier = Verifier("estuary-means")
verifier.rows("groups without anything unusual", "plain", public=True)
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
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
