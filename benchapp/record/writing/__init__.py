"""Write rows of the record for recorder, imports, forks and synthesis: one module for each family of rows."""
