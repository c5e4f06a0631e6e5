"""`/compare/`, `/comparisons/` and `/published/`: groups of runs side by side, with their charts, lists, files and
reports."""
