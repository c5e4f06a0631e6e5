"""How good runs were: metrics, differences and their intervals, comparisons, agreement. No page is drawn here; why it
went so is in `analysis`."""
