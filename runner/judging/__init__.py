"""Judging skills and trajectories with a language model, like SkillLearnBench's levels 1 and 2. No record, no network.

`metrics` defines what is scored, the scales and the forms. `judge_prompts` builds the questions. `judge_reply` reads an
answer, repairs nothing, and asks again if it is unreadable.
Prompts are our own; the metrics are those of the paper (docs/explanation/judges.md).
"""
