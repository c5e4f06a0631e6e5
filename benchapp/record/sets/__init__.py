"""Suites: finding their folders on this machine, and writing them as rows. Reading a suite's format is in
`runner/suites`."""
