"""Proposals of rules and judging models for the items of a queue, compared with what people settled on. The rules
themselves are in `analysis/trial_rules`."""
