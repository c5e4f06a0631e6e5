"""Running a verifier and reading what it leaves behind."""
