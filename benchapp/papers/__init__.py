"""Printed numbers of the field's four papers, as reference data, and their contradictions. Numbers of runs are in
`stats`."""
