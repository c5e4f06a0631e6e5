"""Codebooks: versions, codes, examples, their file, and labels carried to a later version. Reviewers' answers with them
are in `coding`."""
