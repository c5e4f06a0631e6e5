"""Codebooks: their versions, codes and examples, and labels carried between versions."""
