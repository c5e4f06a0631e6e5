"""Checks of harbour-cup: standings of the harbour cup."""

from verifier_lib import Verifier

verifier = Verifier("harbour-cup")
verifier.rows("boats without anything unusual", "plain", public=True)
verifier.rows(
    "boats that were tied",
    "tied-places",
    because="Points of tied boats are shared (rule 4)",
)
verifier.rows(
    "boats without a place in some race",
    "unfinished-boats",
    because="A boat that did not finish scores too (rule 5)",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
