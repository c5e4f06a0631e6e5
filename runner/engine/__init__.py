"""Carries an episode forward: takes the protocol's next step, runs the attempt or asks the author, records it. The
package `protocols` decides what comes next; `benchapp/record` records in a database."""
