"""Pages of results and agreement."""
