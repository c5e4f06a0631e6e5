"""The page of suggestions."""
