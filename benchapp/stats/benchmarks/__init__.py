"""Metrics of the published benchmarks, as their papers define them. What no paper owns is in `metrics`; numbers that
papers print are in `papers`."""
