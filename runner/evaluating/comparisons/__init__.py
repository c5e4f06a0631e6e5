"""How an answer is compared with the expectation, one module per kind. The parent folder has prechecks and verdicts."""
