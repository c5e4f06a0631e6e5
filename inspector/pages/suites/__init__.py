"""Suites: what is in one, by group, and what was recorded of its tasks."""
