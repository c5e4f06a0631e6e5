"""Job and trial folders of Harbor and BenchFlow. Releases that contain such folders (SkillFlow, SkillEvolBench) read
them from here."""
