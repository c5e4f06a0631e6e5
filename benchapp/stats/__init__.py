"""How good runs were: metrics, differences and their intervals, comparisons, agreement. Pages are elsewhere; causes are
in `analysis`."""
