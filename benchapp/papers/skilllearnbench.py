"""Names in the tables of SkillLearnBench, in our words. Source: arXiv 2604.20087v1."""

from __future__ import annotations

PAPER = "skilllearnbench"
CLAUDE = ("Claude Haiku 4.5", "Claude Sonnet 4.6", "Claude Opus 4.6")  # smallest first
GEMINI = ("Gemini 3.1 Flash Lite", "Gemini 3 Flash", "Gemini 3.1 Pro")
MODELS = (*CLAUDE, *GEMINI)
METHODS = ("one-shot", "self-feedback", "teacher-feedback", "skill-creator")
REFERENCES = ("no-skill", "human-authored")
TASKS = 20
