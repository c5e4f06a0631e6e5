"""Checks of E2-LS2-T5: the patient list."""

from verifier_lib import Verifier

verifier = Verifier("E2-LS2-T5")
verifier.rows("patients whose name nobody shares", "plain", public=True)
verifier.rows(
    "namesakes and patients with two names",
    "names-are-not-identities",
    because="A namesake is another patient, and a patient who married is still the same: the patient number decides",
)
verifier.complete()
verifier.ordered()
verifier.handed_over()
verifier.finish()
