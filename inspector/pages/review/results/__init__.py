"""Pages of what a queue found and how far its people agreed, with their figures and files."""
