"""Trajectories as values: ATIF, outlines, compaction, problems of a source. `readers` has the reading of formats and
the detection of used skills."""
