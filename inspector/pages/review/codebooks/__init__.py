"""Pages of codebooks and their versions."""
