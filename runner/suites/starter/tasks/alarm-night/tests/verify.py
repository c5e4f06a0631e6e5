"""Checks of E2-LS1-T6: one line per alarm."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS1-T6")
verifier.rows("alarms reported by one box only", "plain", public=True)
verifier.rows(
    "alarms that the gate reported",
    "naive-times",
    because="A time that carries no offset is local time of its source (utc_offset in sources.json)",
)
verifier.rows(
    "alarms reported by several boxes",
    "identity-forms",
    because="al27, AL0027 and AL-0027 all stand for the same alarm",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
