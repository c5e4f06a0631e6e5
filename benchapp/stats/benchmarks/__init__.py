"""Metrics of the published benchmarks, as their papers define them. General metrics are in `metrics`; printed numbers
are in `papers`."""
