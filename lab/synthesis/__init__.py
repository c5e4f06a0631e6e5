"""Synthetic records and runs of any size, seeded, for measuring speed and memory. Their numbers mean nothing. Small
worlds for tests are in `tests/worlds`."""
