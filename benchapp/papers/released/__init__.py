"""Libraries and logs of a release, read from its folder without a database and held against the paper's numbers.
Importing a release is in `imports/releases`."""
