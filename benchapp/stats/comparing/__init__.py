"""Compare runs: which, in what groups, with what, and what the numbers can carry."""
