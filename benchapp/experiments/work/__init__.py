"""Working on launched experiments: jobs and workers, budgets, progress, acts of operators, sweeping up. What one step
does is in `runner/engine`."""
