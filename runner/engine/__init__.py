"""Carries an episode forward: takes the protocol's next step, runs the attempt or asks the author, records it. What
comes next is decided in `protocols`; recording in a database is in `benchapp/record`."""
