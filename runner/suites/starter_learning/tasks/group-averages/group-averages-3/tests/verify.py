"""Checks of group-averages-3: how busy are the lifts."""

from verifier_lib import Verifier

verifier = Verifier("group-averages-3")
verifier.rows("groups without anything unusual", "plain", public=True)
verifier.rows(
    "groups whose rows hold the code for a missing value",
    "missing-codes",
    because="That number is the code for a missing value (see the note beside the data) and belongs into no average",
)
verifier.rows(
    "groups whose rows have gaps",
    "ready-made-figures",
    because="The ready-made figure counts an empty day as zero; the single values say otherwise",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
