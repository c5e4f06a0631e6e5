"""Checks of club-league: standings of the club league."""

from verifier_lib import Verifier

verifier = Verifier("club-league")
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
verifier.rows(
    "boats of a long series",
    "worst-race",
    because="The worst race of a long series is left out (rule 7)",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
