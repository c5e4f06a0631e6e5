"""`/runs/<id>/`: a run's grid, its skills and its judgements. Its library has a folder of its own."""
