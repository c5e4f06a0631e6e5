"""Passes of a judging model over recorded runs: which questions a run raises, asking none twice, and the scores. The
questions themselves are in `runner/judging`; judges of review items are in `review/suggestions`."""
