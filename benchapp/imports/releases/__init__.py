"""Folders that the benchmarks' own programs write or release: runs, libraries, replay records, rounds. One format
claims a folder as a whole."""
