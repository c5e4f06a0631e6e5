"""`/imports/`: what came in, what could not be read, and runs that wait for a condition."""
