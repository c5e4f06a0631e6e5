"""Numbers that the four papers of the field print, as reference data, and what in them does not add up. Numbers of runs
are in `stats`."""
