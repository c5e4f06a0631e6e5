"""Qualifications of suites: the experiment that tries tasks, and what it says of each of them."""
