"""Uncertainty of a difference between two conditions. numpy and scipy only: no Django, no rows, no pages.

`sides` aligns two conditions on the tasks they share, `model` is the rule, `difference` applies it to two sides and to
a family of them, `sentences` writes it in one sentence. Sources and measured levels: docs/explanation/statistics.md.
"""
