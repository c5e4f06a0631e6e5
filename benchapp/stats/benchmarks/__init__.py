"""The metrics of the published benchmarks, as their papers define them."""
