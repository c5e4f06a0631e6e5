"""Codebooks: versions, codes, examples, their file, and labels carried to a later version. What reviewers say with them
is in `coding`."""
