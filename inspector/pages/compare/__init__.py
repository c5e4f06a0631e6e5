"""`/compare/`, `/comparisons/` and `/published/`: groups of runs beside each other, and the charts, lists, files and
reports of them."""
