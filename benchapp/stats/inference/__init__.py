"""Uncertainty of a difference between two conditions. numpy and scipy only: no Django, no rows, no pages.

`sides` lines two conditions up on the tasks they share, `difference` picks the one primary test and adds what only
describes, `sentences` says it in one sentence. Definitions, sources and measured coverage:
docs/explanation/statistics.md.
"""
