"""Judging skills and trajectories with a language model, as SkillLearnBench's levels 1 and 2 do. Pure: no record, no network.

`metrics` says what is scored, on which scale and in what form, `judge_prompts` puts the questions, `judge_reply` reads an
answer, repairs none, and asks again where one could not be read.
Prompts are our own; the metrics are those of the paper (docs/explanation/judges.md).
"""
