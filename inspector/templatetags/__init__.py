"""Filters and tags of the templates. Each says how one kind of thing is written; none queries the record."""
