"""Runs beside each other: which, in what groups, against what, and what the numbers can carry."""
