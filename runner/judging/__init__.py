"""Judging skills and trajectories with a language model, as SkillLearnBench's levels 1 and 2 do. Pure: no record, no network.

`metrics` says what is scored and on which scale, `judge_prompts` puts the questions, `judge_reply` reads an answer and repairs
none, `trying` asks again where one could not be read.
Prompts are our own; the metrics are those of the paper (docs/explanation/judges.md).
"""
