"""`/search/`: the query, hits with their marks, facets, and the palette."""
