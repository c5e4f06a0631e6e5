"""`/search/`: the query, hits with their marks, facets, completion."""
