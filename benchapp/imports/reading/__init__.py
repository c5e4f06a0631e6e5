"""Reading folders that somebody else filled: bounded, lenient, with a report of what was left."""
