"""Formats of single files: logs of agent programs and evaluation tools. A format reads names, verdicts and settings;
steps are read in `runner/trajectories/readers`."""
