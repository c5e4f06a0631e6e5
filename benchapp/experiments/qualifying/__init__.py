"""Qualifications of suites: the experiment that tries tasks, and its verdict on each of them."""
