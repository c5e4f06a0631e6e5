"""What rules and judging models propose for the items of a queue, and how that compares with what people settled on.
The rules themselves are in `analysis/trial_rules`."""
