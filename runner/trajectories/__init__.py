"""Trajectories: readers into ATIF, compaction, and the detection of skill use."""
