"""Checks of jetty-means: mean levels at the jetties."""

from verifier_lib import Verifier

verifier = Verifier("jetty-means")
verifier.rows("groups without anything unusual", "plain", public=True)
verifier.rows(
    "groups with a suspect reading",
    "suspect-readings",
    because="A suspect reading (flag S) does not count in gaugekit",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
