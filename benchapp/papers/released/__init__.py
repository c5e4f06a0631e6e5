"""Libraries and logs of a release, read from its folder without a database and compared with the paper's numbers.
Importing a release is in `imports/releases`."""
