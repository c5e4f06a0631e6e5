"""Comparing: tables, charts, saved comparisons, published results."""
