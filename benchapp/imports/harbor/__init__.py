"""Job and trial folders of Harbor and BenchFlow. Releases that keep such folders inside (SkillFlow, SkillEvolBench)
read them from here."""
