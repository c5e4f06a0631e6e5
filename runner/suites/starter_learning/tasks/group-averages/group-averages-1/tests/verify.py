"""Checks of group-averages-1: how warm is it at the reefs."""

from verifier_lib import Verifier

verifier = Verifier("group-averages-1")
verifier.rows("groups without anything unusual", "plain", public=True)
verifier.rows(
    "groups whose rows hold the code for a missing value",
    "missing-codes",
    because="That number is the code for a missing value (see the note beside the data) and belongs into no average",
)
verifier.rows(
    "groups without a single value",
    "empty-groups",
    because="A group without a single value had nothing to average: it keeps its line with an empty average",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
