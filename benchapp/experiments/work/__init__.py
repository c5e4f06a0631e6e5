"""Work on launched experiments: jobs, workers, budgets, what operators do."""
