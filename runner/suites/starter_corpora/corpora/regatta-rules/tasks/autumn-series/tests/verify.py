"""Checks of autumn-series: standings of the autumn series."""

from verifier_lib import Verifier

verifier = Verifier("autumn-series")
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
