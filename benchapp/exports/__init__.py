"""Numbers for other programs: trials, aggregates and differences as CSV, JSON and Parquet,
with one dictionary of columns."""
