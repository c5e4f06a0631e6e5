"""Checks of spring-sprint: standings of the spring sprint."""

from verifier_lib import Verifier

verifier = Verifier("spring-sprint")
verifier.rows("boats without anything unusual", "plain", public=True)
verifier.rows(
    "boats without a place in some race",
    "unfinished-boats",
    because="A boat that did not finish scores too (rule 5)",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
