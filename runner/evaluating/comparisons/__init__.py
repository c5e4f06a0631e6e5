"""How an answer is compared with what was expected, one module per kind. Prechecks and verdicts are beside this
folder."""
