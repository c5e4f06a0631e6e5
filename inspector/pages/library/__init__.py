"""`/runs/<id>/library/`: time machine, blame, findings, author calls, probes; evidence capsules."""
