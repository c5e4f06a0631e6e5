"""The page of what rules and judging models propose for a queue."""
