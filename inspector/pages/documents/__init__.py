"""The documents that come with the project."""
