"""Why it went as it did: failures, diagnoses, lineage of lines, aligned trials."""
