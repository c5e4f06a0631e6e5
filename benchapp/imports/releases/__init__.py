"""What the benchmarks released: run folders, libraries, replay records."""
