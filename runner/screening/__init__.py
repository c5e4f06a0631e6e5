"""Screens a suite as a whole before anybody trusts what it measures: leaks, near-duplicates, roles that do not hold."""
