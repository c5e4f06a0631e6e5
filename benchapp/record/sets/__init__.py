"""Suites as the record knows them: from folders on disk to rows."""
