"""Checks of E2-LS1-T5: copies of every book."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS1-T5")
verifier.rows("books on the first pages", "plain", public=True)
verifier.rows(
    "books on the last pages",
    "follow-next",
    because="The page count of the first answer is old; the pages go on as long as there is a next one",
)
verifier.rows(
    "items that changed while the pages were read",
    "one-moment",
    because="It was updated during the reading; all is shown as of the first answer, so `was` counts",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
