"""`/docs/`: the documents that come with the project."""
