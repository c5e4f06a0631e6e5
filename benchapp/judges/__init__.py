"""Judging recorded runs: which questions a run raises, asking them so that nothing is asked twice, and what came of it."""
