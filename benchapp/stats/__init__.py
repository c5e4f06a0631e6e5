"""Numbers: metrics, differences and their intervals, comparisons, agreement."""
