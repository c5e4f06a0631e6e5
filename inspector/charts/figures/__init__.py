"""The charts, one module each: rows, their table, the figure, and `CHART`. What two charts share belongs to
`drawing`."""
