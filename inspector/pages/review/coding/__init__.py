"""The screen where a reviewer codes an item, and the one where an adjudicator resolves it. The evidence on both is
drawn in `exhibits`."""
