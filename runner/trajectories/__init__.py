"""Trajectories as values: ATIF, outlines, compaction, problems of a source. Reading a format, and seeing which skills
were used, is in `readers`."""
