"""Why finished work was refused: the five classes of SkillGenBench (section 4.4), by rules that show their evidence."""
