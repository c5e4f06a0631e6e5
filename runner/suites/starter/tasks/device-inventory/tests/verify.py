"""Checks of E2-LS2-T4: device inventory."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS2-T4")
verifier.rows("devices with one record", "plain", public=True)
verifier.rows(
    "devices whose serial number is written in several ways",
    "identity-forms",
    because="'SNA12K1001', 'sna12k1001' and 'SN-A12K-1001' all stand for the same device",
)
verifier.rows(
    "devices with several records",
    "field-by-field",
    because="Each field comes from the newest record in which it is filled (newest filled value)",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
