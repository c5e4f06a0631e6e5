"""Checks of E1-LS1-T3: humidity per greenhouse."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS1-T3")
verifier.rows("greenhouses that have readings", "plain", public=True)
verifier.rows(
    "greenhouses without readings",
    "empty-groups",
    because="A house without a single value had nothing to average: it keeps its line, with 0 readings and an empty average",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
