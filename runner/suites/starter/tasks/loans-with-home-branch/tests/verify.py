"""Checks of E1-LS2-T4: loans with home branch."""

from verifier_lib import Verifier

verifier = Verifier("E1-LS2-T4")
verifier.rows("loans of members who never moved and whose number is written alike", "plain", public=True)
verifier.rows(
    "loans whose member number is written another way",
    "key-forms",
    because="The member is written differently in the two files: 'M-0042' is the same key as '42'",
)
verifier.rows(
    "loans of members who moved",
    "newest-entry",
    because="There is more than one entry for the member; the newest entry says where they are registered today",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
